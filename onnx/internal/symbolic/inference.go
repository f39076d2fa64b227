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
// expressions, so that expressions would otherwise grow with the number of nodes.
const maxSize = 24

// maxPaths is the maximum number of paths through a node's inference that are explored. A path is the outcomes of the
// comparisons of sizes, such as N = 1 and H > 8. sym.Fork runs the inference once for each path.
const maxPaths = 16

// ResultShapes infers the symbolic shapes of values, the results of a node. types are the types of its operands. The
// shapes are valid for all sizes that the op accepts. If inference branches on sizes, a size is an expression with a
// case for each branch. A size whose expression is unknown or too long becomes a new symbol.
func (s *Symbols) ResultShapes(node *graph.Node, types []tensor.Type, values []*graph.Value) (shapes [][]sym.Int) {
	paths := &pathSizes{sizes: make([][]sym.Int, 0, 8)}
	cases, err := sym.Fork(s.env, maxPaths, func() ([]int, error) {
		results, err := node.InferFor(types, s.inputs)
		if err != nil {
			return nil, err
		}
		return paths.addPath(values, results)
	})
	// If a path for realistic sizes needs a size as a number, all sizes become unknown.
	needsNumber := func(path inferencePath) bool {
		return errors.Is(path.Err, sym.ErrNumber) && !s.excludeUnrealistic(path.If)
	}
	if slices.ContainsFunc(cases, needsNumber) {
		err = sym.ErrNumber
	}
	isRejected := func(path inferencePath) bool { return path.Err != nil } // at these sizes, the op is invalid
	cases = slices.DeleteFunc(cases, isRejected)
	sizeIndex := 0
	shapes = make([][]sym.Int, len(values))
	for i, value := range values {
		shapes[i] = make([]sym.Int, value.Meta.Rank())
		for axis := range shapes[i] {
			size := sym.Of(-1) // without expression
			if err == nil && len(cases) > 0 {
				size = paths.mergedSize(cases, sizeIndex)
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

// pathSizes holds, for each size of a node's results, the different expressions of the inference paths. All sizes of
// all results are numbered in order. In the example, sizes is [[M, N]].
type pathSizes struct{ sizes [][]sym.Int }

// inferencePath is one path through inference. For each size, it has the index of its expression in pathSizes.sizes.
type inferencePath = sym.Case[[]int]

var errRank = errors.New("the number of dimensions depends on sizes")

// addPath adds the sizes of the results on the current path to paths.sizes, and returns the index of each size there.
// Sizes that are equal under the conditions of the path share an index. For example, N and 1 share an index on a path
// on which N is 1.
func (paths *pathSizes) addPath(values []*graph.Value, results []graph.Result) ([]int, error) {
	var indices []int
	for i, value := range values {
		if len(results) != len(values) || len(results[i].Type.Shape) != value.Meta.Rank() {
			return nil, errRank
		}
		for _, size := range results[i].Type.Shape {
			sizeIndex := len(indices)
			if sizeIndex == len(paths.sizes) {
				paths.sizes = append(paths.sizes, nil)
			}
			pathIndex := slices.IndexFunc(paths.sizes[sizeIndex], func(earlier sym.Int) bool {
				same, known := earlier.Eq(size).Known()
				return same && known
			})
			if pathIndex < 0 {
				pathIndex = len(paths.sizes[sizeIndex])
				paths.sizes[sizeIndex] = append(paths.sizes[sizeIndex], size)
			}
			indices = append(indices, pathIndex)
		}
	}
	return indices, nil
}

// mergedSize merges the expressions paths.sizes[sizeIndex] of one size on all paths into one expression:
// where(path 1, size 1, where(path 2, size 2, ... size of the last path)). It returns -1 if the result would be too
// long: more than maxSize, or more than two changes of the size from one path to the next.
func (paths *pathSizes) mergedSize(cases []inferencePath, sizeIndex int) sym.Int {
	last := cases[len(cases)-1].Value[sizeIndex]
	size, changes := paths.sizes[sizeIndex][last], 0
	for _, path := range slices.Backward(cases[:len(cases)-1]) {
		if path.Value[sizeIndex] == last {
			continue
		}
		last = path.Value[sizeIndex]
		if changes++; changes > 2 {
			return sym.Of(-1)
		}
		size = sym.Where(path.If, paths.sizes[sizeIndex][last], size)
	}
	if size.Size() > maxSize {
		return sym.Of(-1)
	}
	return size
}
