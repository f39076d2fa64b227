package convert

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes symbolic shapes. Sizes that are unknown during the import are symbols: the symbols of the model's
// inputs, and new symbols for sizes that depend on data. The graph is built at hints, which are example sizes of the
// inputs' symbols. Converters use symbolic shapes, so that no decision depends on the hints. If inference branches on
// sizes, a size of the result is an expression with a case for each branch, or a new symbol. For example, a pooling of
// an image [N, 3, H, W] with stride 2 gives [N, 3, H // 2, W // 2]. At the hints N=2, H=2 and W=2, its shape in the
// graph is [2, 3, 1, 1].
//
// The outline of a value has the dtype and the sizes that do not depend on symbols or data. In the example, the sizes
// are [-1, 3, -1, -1].
//
// SymShape returns a shape as expressions. Sizes returns it as numbers, with -1 for symbolic sizes. Shape returns it as
// numbers, and fails if a size is symbolic. The three methods fail if the rank is unknown. TrySymShape and TrySizes do
// not fail.

// addSymbol adds a symbol of the model's inputs with its hint, if the importer does not have the symbol yet.
func (im *importer) addSymbol(symbol string, hint int) error {
	if _, ok := im.hints[symbol]; ok {
		return nil
	}
	im.graph.Symbols[symbol], im.hints[symbol] = im.model.unlimited(symbol), hint
	return im.symbols.AddInput(symbol, hint)
}

// TrySizeAttr returns an integer in the form of an attribute: a number, or the text of an expression over the symbols
// of the graph. ok is false if the integer depends on data.
func (im *importer) TrySizeAttr(size sym.Int) (attr any, ok bool) {
	attr = im.symbols.Attr(size)
	text, isText := attr.(string)
	return attr, !isText || im.useSymbols(text)
}

// useSymbols adds the symbols in the text of an expression or condition to im.usedSymbols. It returns false if a symbol
// depends on data.
func (im *importer) useSymbols(text string) bool {
	names, ok := im.symbols.NamesIn(text)
	for _, name := range names {
		im.usedSymbols[name] = true
	}
	return ok
}

// TrySymShape returns the symbolic shape of x, or nil if its rank is unknown.
func (im *importer) TrySymShape(x *Value) []sym.Int {
	if x.graphValue == nil || x.data != nil || x.elements != nil { // a constant, or computed from sizes
		return sym.Ints(x.Meta().Shape...)
	}
	if sizes := im.shapes[x.graphValue]; sizes != nil {
		return sizes
	}
	if !x.IsDynamic() { // all sizes are numbers
		return sym.Ints(x.Meta().Shape...)
	}
	if x.outline.Sizes == nil {
		return nil // the rank is unknown
	}
	sizes := make([]sym.Int, len(x.outline.Sizes))
	for i, n := range x.outline.Sizes {
		if sizes[i] = sym.Of(n); n < 0 {
			const leastSize = 0
			sizes[i] = im.symbols.NewUnknown(leastSize)
		}
	}
	im.shapes[x.graphValue] = sizes // the next call returns the same symbols
	return sizes
}

// SymShape returns the symbolic shape of x. Sizes that depend on data are symbols.
func (n *Node) SymShape(x *Value) []sym.Int {
	n.Rank(x) // fails if the rank is unknown
	return n.TrySymShape(x)
}

// Sizes returns the shape of x, with -1 for symbolic sizes.
func (n *Node) Sizes(x *Value) []int {
	n.Rank(x) // fails if the rank is unknown
	return sym.KnownOrMinusOne(n.TrySymShape(x))
}

// TrySizes returns the shape of x, with -1 for sizes that depend on symbols or data. ok is false if the rank is
// unknown.
func (n *Node) TrySizes(x *Value) (sizes []int, ok bool) {
	sizes = n.outlineOf(x).Sizes
	return sizes, sizes != nil
}

// LengthOf returns the number of elements of x, or -1 if the number is unknown.
func (n *Node) LengthOf(x *Value) int {
	sizes, ok := n.TrySizes(x)
	if !ok || slices.Contains(sizes, -1) {
		return -1
	}
	return tensor.Numel(sizes)
}

// Element returns one element of a vector as a 0-dim value.
func (n *Node) Element(x *Value, i int) *Value {
	if n.IsStatic(x) && x.Meta().Rank() == 0 {
		return x
	}
	return n.Op("select", graph.Attrs{"dim": 0, "index": i}, x).WithRank(0)
}

// Shape returns the shape of x as numbers. It fails if a size is symbolic.
func (n *Node) Shape(x *Value) []int {
	sizes := n.Sizes(x)
	if slices.Contains(sizes, -1) {
		n.Failf("the shape of %q must be known before the graph runs: give the model's symbolic sizes (%s)", x.name,
			n.symbolNames())
	}
	return sizes
}

// symbolNames lists the symbols of the graph for errors.
func (n *Node) symbolNames() string { return strings.Join(sorted.Keys(n.graph.Symbols), ", ") }

// knownSize returns one size of x as a number. It fails if the size is symbolic.
func (n *Node) knownSize(x *Value, i int) int {
	sizes := n.Sizes(x)
	if i >= len(sizes) || sizes[i] < 0 {
		n.Failf("size %d of %q must be known before the graph runs: give the model's symbolic sizes (%s)", i, x.name,
			n.symbolNames())
	}
	return sizes[i]
}

// IsStatic reports whether all sizes of x are numbers, independent of symbols and data.
func (im *importer) IsStatic(x *Value) bool {
	isSymbolic := func(s sym.Int) bool { _, known := s.Known(); return !known }
	return !x.IsDynamic() && !slices.ContainsFunc(im.TrySymShape(x), isSymbolic)
}

// ShapeVector returns the shape of x as a vector of int64. If the rank is known, the elements of the vector are known
// as expressions. The graph then computes the vector only if another op needs it there.
func (n *Node) ShapeVector(x *Value) *Value {
	computed := func() *Value { return n.Emit("_shape_as_tensor", nil, x)[0].WithType(tensor.Int64, 1) }
	sizes := n.TrySymShape(x)
	if sizes == nil {
		return computed()
	}
	return computedValue(symbolic.Ints([]int{len(sizes)}, sizes...), computed)
}

// inferShapes records the symbolic shapes of a node's results.
func (im *importer) inferShapes(values []*graph.Value, attrs graph.Attrs) {
	node := values[0].Node
	if node == nil || values[0].Dynamic {
		return
	}
	types := make([]tensor.Type, len(node.In))
	isSymbolic := im.symbols.HasExpressions(attrs)
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
	for i, shape := range im.symbols.ResultShapes(node, types, values) {
		if !slices.Equal(sym.KnownOrMinusOne(shape), values[i].Meta.Shape) { // not all sizes are numbers
			im.shapes[values[i]] = shape
		}
	}
}

// recordOutlines records the outlines of an op's results whose shapes depend on data.
func (n *Node) recordOutlines(out []*Value, op *graph.Op, attrs graph.Attrs, operands []any) {
	outlines := n.outlines(op, attrs, operands)
	for i, x := range out {
		if len(outlines) == len(out) {
			x.outline = outlines[i]
		} else {
			x.outline.DType = n.fallbackDType(attrs, operands)
		}
	}
}

// outlines infers the outlines of an op's results. It returns nil if the op rejects the operands.
func (n *Node) outlines(op *graph.Op, attrs graph.Attrs, operands []any) []graph.PartialType {
	args := make([]graph.OutlinedArg, len(operands))
	for i, operand := range operands {
		if x, isValue := operand.(*Value); !isValue { // a number, or nil for an omitted operand
			args[i].Arg, _, _ = inferenceArg(operand)
		} else if x != nil {
			args[i] = n.outlinedOperand(x)
		}
	}
	return op.Outline(args, attrs, n.refElements, n.symbols.Inputs())
}

// outlinedOperand returns the properties of an operand that are known for all sizes of the symbols. These are the data
// of a constant, the layout if all sizes are numbers, and the outline otherwise.
func (n *Node) outlinedOperand(x *Value) graph.OutlinedArg {
	if x.data != nil || x.elements == nil && n.IsStatic(x) {
		arg := graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: x.name, Meta: x.Meta(), Const: x.data}}
		return graph.OutlinedArg{Arg: arg}
	}
	return graph.OutlinedArg{Arg: graph.Arg{Kind: graph.TensorArg}, Outline: n.outlineOf(x)}
}

// outlineOf returns the dtype and the sizes of a tensor. Sizes that depend on symbols or data are -1.
func (n *Node) outlineOf(x *Value) graph.PartialType {
	if x.IsDynamic() {
		return graph.PartialType{DType: x.DType(), Sizes: x.outline.Sizes}
	}
	sizes := append([]int{}, sym.KnownOrMinusOne(n.TrySymShape(x))...) // not nil, because nil means an unknown rank
	return graph.PartialType{DType: x.DType(), Sizes: sizes}
}

// Reference returns an attribute that refers to x. The value of the attribute is known when the graph runs.
func (n *Node) Reference(x *Value) graph.ValueRef {
	v := n.value(x)
	n.valuesInAttrs[v] = x
	return graph.ValueRef{Value: v}
}

// refElements returns the shape and the elements of a value to which an attribute refers. An unknown element is nil. ok
// is false if the shape is unknown or the value is large.
func (n *Node) refElements(v *graph.Value) (shape []int, elements []any, ok bool) {
	x := n.valuesInAttrs[v]
	if x == nil {
		return nil, nil, false
	}
	shape = n.outlineOf(x).Sizes
	if shape == nil || slices.Contains(shape, -1) || tensor.Numel(shape) > FoldLimit {
		return nil, nil, false
	}
	elements = make([]any, tensor.Numel(shape))
	const newSymbols = false // for elements that depend on data
	symbolicElements := n.elementsOf(x, newSymbols)
	if symbolicElements != nil && symbolicElements.DType == tensor.Int64 {
		for i, integer := range symbolicElements.Integers() {
			if number, known := integer.Known(); known {
				elements[i] = int64(number)
			}
		}
	}
	return shape, elements, true
}

// fallbackDType returns the dtype of a result without an outline. This is the attribute dtype if it is given. Otherwise
// it is the dtype of the first operand if an attribute is computed, and [tensor.Invalid] if no attribute is computed.
func (n *Node) fallbackDType(attrs graph.Attrs, operands []any) tensor.DType {
	if dtype, ok := attrs["dtype"].(tensor.DType); ok {
		return dtype
	}
	for _, attr := range attrs {
		if _, isComputed := attr.(graph.ValueRef); !isComputed || len(operands) == 0 {
			continue
		}
		if x, _ := operands[0].(*Value); x != nil {
			return x.DType()
		}
	}
	return tensor.Invalid
}
