package symbolic

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file infers the shapes of results for sizes that are expressions over symbols (sym.Int). Inference compares
// sizes, so that it has several paths. For example, the broadcast of two dimensions of sizes N and M has the size M on
// the paths N = 1 and N = M, and the size N on the path M = 1. ResultShapes merges them to the expression where(N = 1,
// M, where(M = 1, N, M)).

// maxSize bounds the length of size expressions (sym.Int.Size). The broadcast of two unknown sizes contains both
// expressions, so that expressions would otherwise grow with the number of nodes. The number of pixels of an image that
// was halved five times, as in detectors, has the length 33.
const maxSize = 64

// maxPaths is the maximum number of paths through a node's inference that are explored. A path is the outcomes of the
// comparisons of sizes, such as N = 1 and H > 8. sym.Fork runs the inference once for each path.
const maxPaths = 16

// ResultShapes infers the symbolic shapes of values, the results of a node. types are the types of its operands. The
// shapes are valid for all sizes that the op accepts. If inference branches on sizes, a size is an expression with a
// case for each branch. A size whose expression is unknown or too long becomes a new symbol.
func (s *Symbols) ResultShapes(node *graph.Node, types []tensor.Type, values []*graph.Value) (shapes [][]sym.Int) {
	distinct := make(distinctSizes, 0, 8)
	cases, err := sym.Fork(s.env, maxPaths, func() ([]sym.Int, error) {
		results, err := node.InferFor(types, s.inputs)
		if err != nil {
			return nil, err
		}
		return distinct.sizesOf(values, results)
	})
	// If a path for realistic sizes needs a size as a number, all sizes become unknown. A path for unrealistic sizes is
	// instead excluded: excludeUnrealistic bounds the symbols.
	needsNumber := func(path inferencePath) bool {
		return errors.Is(path.Err, sym.ErrNumber) && !s.excludeUnrealistic(path.If)
	}
	if slices.ContainsFunc(cases, needsNumber) {
		err = sym.ErrNumber
	}
	isRejected := func(path inferencePath) bool { return path.Err != nil } // at these sizes, the op is invalid
	cases = slices.DeleteFunc(cases, isRejected)
	sizeIndex := 0 // all sizes of all results are numbered in order
	shapes = make([][]sym.Int, len(values))
	for i, value := range values {
		shapes[i] = make([]sym.Int, value.Meta.Rank())
		for axis := range shapes[i] {
			size := sym.Of(-1) // without expression
			if err == nil && len(cases) > 0 {
				size = mergedSize(cases, sizeIndex)
			}
			if size.Same(sym.Of(-1)) {
				size = s.NewUnknown(0)
			}
			shapes[i][axis] = size
			sizeIndex++
		}
	}
	return shapes
}

// inferencePath is one path through inference. Its value lists the sizes of all results.
type inferencePath = sym.Case[[]sym.Int]

// distinctSizes has, for each size of the results, its different expressions on the paths so far. In the example, it is
// [[M, N]].
type distinctSizes [][]sym.Int

var errRank = errors.New("the number of dimensions depends on sizes")

// sizesOf returns the sizes of the results on the current path. A size that equals the size of an earlier path, under
// the conditions of the current path, is replaced by the earlier expression. For example, 1 is replaced by N on a path
// on which N is 1.
func (distinct *distinctSizes) sizesOf(values []*graph.Value, results []graph.Result) (sizes []sym.Int, err error) {
	for i, value := range values {
		if len(results) != len(values) || len(results[i].Type.Shape) != value.Meta.Rank() {
			return nil, errRank
		}
		for _, size := range results[i].Type.Shape {
			if len(sizes) == len(*distinct) {
				*distinct = append(*distinct, nil)
			}
			earlier := &(*distinct)[len(sizes)] // the expressions of this size
			k := slices.IndexFunc(*earlier, func(expression sym.Int) bool {
				same, known := expression.Eq(size).Known()
				return same && known
			})
			if k >= 0 {
				size = (*earlier)[k]
			} else {
				*earlier = append(*earlier, size)
			}
			sizes = append(sizes, size)
		}
	}
	return sizes, nil
}

// mergedSize merges the expressions of one size on all paths into one expression: where(path 1, size 1, where(path 2,
// size 2, ... size of the last path)). It returns -1 if the result would be too long: more than maxSize, or more than
// two changes of the size from one path to the next.
func mergedSize(cases []inferencePath, sizeIndex int) sym.Int {
	last := cases[len(cases)-1].Value[sizeIndex]
	size, changes := last, 0
	for _, path := range slices.Backward(cases[:len(cases)-1]) {
		if path.Value[sizeIndex].Same(last) {
			continue
		}
		last = path.Value[sizeIndex]
		if changes++; changes > 2 {
			return sym.Of(-1)
		}
		size = sym.Where(path.If, last, size)
	}
	if size.Size() > maxSize {
		return sym.Of(-1)
	}
	return size
}
