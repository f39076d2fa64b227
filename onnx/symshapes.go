package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes symbolic shapes. Sizes that are unknown during the import are symbols: the symbols of the model's
// inputs, and new symbols for sizes that depend on data. The graph is built at hints, which are example sizes of the
// inputs' symbols. Converters use symbolic shapes, so that no decision depends on the hints. If inference branches on
// sizes, a size of the result is an expression with a case for each branch, or a new symbol.

// hints are sets of example sizes. [Model.tryHints] tries them in order until a conversion succeeds. Several sets are
// needed, because networks may require large images, short texts, or equal symbols. In a set, the i-th symbol has the
// size first+i*step.
var hints = []struct{ first, step int }{{2, 0}, {16, 0}, {224, 0}, {16, 1}, {224, 32}}

// bindHints adds the symbols of the model's inputs to the graph and to im.env, and binds them to hints.
func (im *importer) bindHints(first, step int) error {
	im.graph.Symbols = map[string]graph.Bounds{}
	im.hints = map[string]int{}
	for _, declared := range im.model.proto.Graph.Input {
		shape := declared.Shape()
		if shape == nil {
			continue
		}
		dims, err := im.dims(declared.Name, shape)
		if err != nil {
			return fmt.Errorf("input %q: %w", declared.Name, err)
		}
		for _, d := range dims {
			for _, symbol := range symbolsOf(d) {
				if _, ok := im.hints[symbol]; ok {
					continue
				}
				n := first + len(im.hints)*step
				im.graph.Symbols[symbol], im.hints[symbol] = im.model.bounds(symbol), n
				s, err := im.env.Symbol(symbol, 0, math.MaxInt, n)
				if err != nil {
					return fmt.Errorf("input %q: %w", declared.Name, err)
				}
				im.symbols[symbol] = s
			}
		}
	}
	return im.graph.BindOnly(im.hints)
}

// newUnknown returns a new symbol for an integer that depends on data. least is the minimum of the integer.
func (im *importer) newUnknown(least int) sym.Int {
	for {
		*im.unknownCount++
		name := fmt.Sprint(dataPrefix, *im.unknownCount)
		if _, taken := im.symbols[name]; !taken {
			s, _ := im.env.Symbol(name, least, math.MaxInt, 2) // the name is new
			return s
		}
	}
}

// intAttr returns an integer in the form of an attribute: a number, or the text of an expression over the symbols of
// the graph. ok is false if the integer depends on data.
func (im *importer) intAttr(a sym.Int) (attr any, ok bool) {
	if n, known := a.Known(); known {
		return n, true
	}
	text := a.String()
	im.expressionTexts[text] = true
	return text, im.useSymbols(text)
}

// useSymbols adds the symbols in the text of an expression or condition to im.usedSymbols. It returns false if a symbol
// depends on data.
func (im *importer) useSymbols(text string) bool {
	names := strings.FieldsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if slices.ContainsFunc(names, im.isDataSymbol) {
		return false
	}
	for _, name := range names {
		if _, ok := im.symbols[name]; ok {
			im.usedSymbols[name] = true
		}
	}
	return true
}

// isDataSymbol reports whether a symbol depends on data.
func (im *importer) isDataSymbol(name string) bool {
	_, ofModel := im.symbols[name]
	return !ofModel && strings.HasPrefix(name, dataPrefix)
}

// dataPrefix is the prefix of the names of symbols that depend on data.
const dataPrefix = "_u"

// hasExpressions reports whether attributes contain expressions.
func (im *importer) hasExpressions(attrs graph.Attrs) bool {
	isExpression := func(x any) bool { text, ok := x.(string); return ok && im.expressionTexts[text] }
	for _, a := range attrs {
		if list, ok := a.([]any); isExpression(a) || ok && slices.ContainsFunc(list, isExpression) {
			return true
		}
	}
	return false
}

// shapeOf returns the symbolic shape of x, or nil if its rank is unknown.
func (im *importer) shapeOf(x *val) []sym.Int {
	if x.graphValue == nil || x.data != nil || x.elements != nil {
		return sym.Ints(x.meta().Shape...)
	}
	if sizes := im.shapes[x.graphValue]; sizes != nil {
		return sizes
	}
	if !x.isDynamic() {
		return sym.Ints(x.meta().Shape...)
	}
	if x.outline.Sizes == nil {
		return nil
	}
	sizes := make([]sym.Int, len(x.outline.Sizes))
	for i, n := range x.outline.Sizes {
		if sizes[i] = sym.Of(n); n < 0 {
			sizes[i] = im.newUnknown(0)
		}
	}
	im.shapes[x.graphValue] = sizes
	return sizes
}

// sizes returns the shape of x, with -1 for symbolic sizes.
func (n *node) sizes(x *val) []int {
	n.rank(x)
	return numericSizes(n.shapeOf(x))
}

// numericSizes returns sizes as numbers. Symbolic sizes are -1.
func numericSizes(shape []sym.Int) []int {
	list := make([]int, len(shape))
	for i, s := range shape {
		var ok bool
		if list[i], ok = s.Known(); !ok {
			list[i] = -1
		}
	}
	return list
}

// shape returns the shape of x as numbers. It fails if a size is symbolic.
func (n *node) shape(x *val) []int {
	sizes := n.sizes(x)
	if slices.Contains(sizes, -1) {
		n.failf("the shape of %q must be known before the graph runs: give the model's symbolic sizes (%s)", x.name,
			n.symbolNames())
	}
	return sizes
}

// symbolNames lists the symbols of the graph for errors.
func (n *node) symbolNames() string { return strings.Join(sorted.Keys(n.graph.Symbols), ", ") }

// knownSize returns one size of x as a number. It fails if the size is symbolic.
func (n *node) knownSize(x *val, i int) int {
	sizes := n.sizes(x)
	if i >= len(sizes) || sizes[i] < 0 {
		n.failf("size %d of %q must be known before the graph runs: give the model's symbolic sizes (%s)", i, x.name,
			n.symbolNames())
	}
	return sizes[i]
}

// isStatic reports whether all sizes of x are numbers, independent of symbols and data.
func (im *importer) isStatic(x *val) bool {
	return !x.isDynamic() && !slices.ContainsFunc(im.shapeOf(x), func(s sym.Int) bool { _, ok := s.Known(); return !ok })
}

// shapeVector returns the shape of x as a vector of int64.
func (n *node) shapeVector(x *val) *val {
	computed := func() *val { return n.emit("_shape_as_tensor", nil, x)[0].withType(tensor.Int64, 1) }
	sizes := n.shapeOf(x)
	if sizes == nil {
		return computed()
	}
	list := make([]symElement, len(sizes))
	for i := range sizes {
		list[i] = symElement{numerator: sizes[i]}
	}
	return valueOf(&symElements{dtype: tensor.Int64, shape: []int{len(sizes)}, list: list, addToGraph: computed})
}

// maxSize bounds the length of size expressions (sym.Int.Size). The broadcast of two unknown sizes contains both
// expressions, so that expressions would otherwise grow with the number of nodes.
const maxSize = 24

// maxPaths is the maximum number of paths through a node's inference that are explored.
const maxPaths = 16

// inferShapes records the symbolic shapes of a node's results. The shapes are valid for all sizes that the op accepts.
// A size whose expression is unknown or too long becomes a new symbol.
func (im *importer) inferShapes(vals []*graph.Value, attrs graph.Attrs) {
	node := vals[0].Node
	if node == nil || vals[0].Dynamic {
		return
	}
	types := make([]tensor.Type, len(node.In))
	isSymbolic := im.hasExpressions(attrs)
	for i, arg := range node.In {
		types[i] = arg.Type()
		if shape := im.shapes[arg.Value]; arg.Kind == graph.TensorArg && shape != nil {
			// Inference of shapes does not depend on strides, so strides may be row-major.
			isSymbolic, types[i] = true, tensor.NewType(types[i].DType, shape...)
		}
	}
	if !isSymbolic {
		return
	}
	paths := &pathSizes{sizes: make([][]sym.Int, 0, 8)}
	cases, err := sym.Fork(im.env, maxPaths, func() ([]int, error) {
		res, err := node.InferFor(types, im.symbols)
		if err != nil {
			return nil, err
		}
		return paths.addPath(vals, res)
	})
	needsNumber := func(path inferencePath) bool {
		return errors.Is(path.Err, sym.ErrNumber) && !im.excludeUnrealistic(path.If)
	}
	if slices.ContainsFunc(cases, needsNumber) {
		err = sym.ErrNumber
	}
	isRejected := func(path inferencePath) bool { return path.Err != nil } // at these sizes, the op is invalid
	cases = slices.DeleteFunc(cases, isRejected)
	sizeIndex := 0
	for _, value := range vals {
		shape := make([]sym.Int, value.Meta.Rank())
		for k := range shape {
			if shape[k] = sym.Of(-1); err == nil && len(cases) > 0 {
				shape[k] = paths.mergedSize(cases, sizeIndex)
			}
			if shape[k].Same(sym.Of(-1)) {
				shape[k] = im.newUnknown(0)
			}
			sizeIndex++
		}
		if !slices.Equal(numericSizes(shape), value.Meta.Shape) {
			im.shapes[value] = shape
		}
	}
}

// pathSizes holds, for each size of a node's results, the expressions of the different inference paths.
type pathSizes struct{ sizes [][]sym.Int }

// inferencePath is one path through inference. For each size, it has the index of its expression in pathSizes.sizes.
type inferencePath = sym.Case[[]int]

var errRank = errors.New("the number of dimensions depends on sizes")

// addPath adds the sizes of the results on the current path to paths.sizes, and returns the index of each size there.
// Sizes that are equal under the conditions of the path share an index. For example, N and 1 share an index on a path
// on which N is 1.
func (paths *pathSizes) addPath(vals []*graph.Value, res []graph.Result) ([]int, error) {
	var indices []int
	for i, v := range vals {
		if len(res) != len(vals) || len(res[i].Type.Shape) != v.Meta.Rank() {
			return nil, errRank
		}
		for _, size := range res[i].Type.Shape {
			sizeIndex := len(indices)
			if sizeIndex == len(paths.sizes) {
				paths.sizes = append(paths.sizes, nil)
			}
			pathIndex := slices.IndexFunc(paths.sizes[sizeIndex], func(o sym.Int) bool {
				same, known := o.Eq(size).Known()
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

// mergedSize merges the expressions paths.sizes[sizeIndex] of one size on all paths into one expression. It returns -1
// if the result would be too long.
func (paths *pathSizes) mergedSize(cases []inferencePath, sizeIndex int) sym.Int {
	last := cases[len(cases)-1].Value[sizeIndex]
	size, distinct := paths.sizes[sizeIndex][last], 0
	for _, path := range slices.Backward(cases[:len(cases)-1]) {
		if path.Value[sizeIndex] == last {
			continue
		}
		last = path.Value[sizeIndex]
		if distinct++; distinct > 2 {
			return sym.Of(-1)
		}
		size = sym.Where(path.If, paths.sizes[sizeIndex][last], size)
	}
	if size.Size() > maxSize {
		return sym.Of(-1)
	}
	return size
}

// outline records the outlines of an op's results whose shapes depend on data. The outline of a value has its dtype and
// known sizes.
func (n *node) outline(out []*val, op *graph.Op, attrs graph.Attrs, operands []any) {
	found := n.outlines(op, attrs, operands)
	for i, x := range out {
		if len(found) == len(out) {
			x.outline = found[i]
		} else {
			x.outline.DType = n.fallbackDType(attrs, operands)
		}
	}
}

func (n *node) outlines(op *graph.Op, attrs graph.Attrs, operands []any) []graph.Outline {
	args := make([]graph.OutlinedArg, len(operands))
	for i, operand := range operands {
		x, ok := operand.(*val)
		switch {
		case !ok && operand == nil || ok && x == nil:
		case !ok:
			args[i].Arg, _, _ = inferenceArg(operand)
		default:
			args[i] = n.outlined(x)
		}
	}
	return op.Outline(args, attrs, n.refElements, n.symbols)
}

// outlined returns the properties of an operand that are known for all sizes.
func (n *node) outlined(x *val) graph.OutlinedArg {
	if x.data != nil || x.elements == nil && n.isStatic(x) {
		arg := graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: x.name, Meta: x.meta(), Const: x.data}}
		return graph.OutlinedArg{Arg: arg}
	}
	return graph.OutlinedArg{Arg: graph.Arg{Kind: graph.TensorArg}, Outline: n.outlineOf(x)}
}

// outlineOf returns the dtype and the sizes of a tensor. Sizes that depend on symbols or data are -1.
func (n *node) outlineOf(x *val) graph.Outline {
	if x.isDynamic() {
		return graph.Outline{DType: x.dtype(), Sizes: x.outline.Sizes}
	}
	return graph.Outline{DType: x.dtype(), Sizes: append([]int{}, numericSizes(n.shapeOf(x))...)}
}

// reference returns an attribute that refers to x. Its value is known when the graph runs.
func (n *node) reference(x *val) graph.Ref {
	v := n.value(x)
	n.referenced[v] = x
	return graph.Ref{Value: v}
}

// refElements returns the shape and the elements of a value to which an attribute refers. An unknown element is nil. ok
// is false if the shape is unknown or the value is large.
func (n *node) refElements(v *graph.Value) (shape []int, elements []any, ok bool) {
	x := n.referenced[v]
	if x == nil {
		return nil, nil, false
	}
	shape = n.outlineOf(x).Sizes
	if shape == nil || slices.Contains(shape, -1) || tensor.Numel(shape) > foldLimit {
		return nil, nil, false
	}
	elements = make([]any, tensor.Numel(shape))
	if e := n.elementsOf(x, false); e != nil && e.dtype == tensor.Int64 {
		for i := range e.list {
			if k, known := e.list[i].numerator.Known(); known {
				elements[i] = int64(k)
			}
		}
	}
	return shape, elements, true
}

// fallbackDType returns the dtype of a result without an outline: the attribute dtype if it is given, otherwise the
// dtype of the first operand if an attribute is computed, otherwise [tensor.Invalid].
func (n *node) fallbackDType(attrs graph.Attrs, operands []any) tensor.DType {
	if dtype, ok := attrs["dtype"].(tensor.DType); ok {
		return dtype
	}
	for _, a := range attrs {
		if _, ok := a.(graph.Ref); ok && len(operands) > 0 {
			if x, ok := operands[0].(*val); ok && x != nil {
				return x.dtype()
			}
		}
	}
	return tensor.Invalid
}
