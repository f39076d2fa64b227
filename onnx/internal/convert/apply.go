package convert

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file applies ops of the catalogue. [Node.Ops] tries three ways, in this order:
//
//  1. If all operands are constants, the op is evaluated now: the results are constants (foldConstants).
//  2. If operands are computed from sizes, the results become expressions over the sizes (applySymbolic, symbolic.go).
//     For example, with the shape [N, 3] of x as an operand, mul by 2 gives [2*N, 6].
//  3. Otherwise the op is added to the graph ([Node.Emit]).

// FoldLimit is the maximum number of elements of operands and results together for which an op on constants is
// evaluated during the import. Views of constants have no limit if they do not repeat elements.
const FoldLimit = 1 << 16

// Op adds an op, and returns its first result. An operand is a *Value, a number, or nil. Op has many callers, so it is
// not inlined, which saves compile time.
//
//go:noinline
func (n *Node) Op(name string, attrs graph.Attrs, operands ...any) *Value {
	return n.Ops(name, attrs, operands...)[0]
}

// Ops adds an op with any number of results, in one of the three ways that the top of this file describes.
func (n *Node) Ops(name string, attrs graph.Attrs, operands ...any) []*Value {
	return n.opsN(name, n.resultCount(name), attrs, operands...)
}

// resultCount returns the number of results of an op that stands for the node: 0 if the op's schema determines it.
func (n *Node) resultCount(name string) int {
	if op := n.opts.Lookup(name); op != nil && op.VariadicResults {
		return len(n.proto.Output)
	}
	return 0
}

// opsN is [Node.Ops] with the number of results, for an op whose schema does not determine it.
func (n *Node) opsN(name string, count int, attrs graph.Attrs, operands ...any) []*Value {
	op := n.opts.Lookup(name)
	if op == nil {
		n.Failf("the op %q is not in the catalogue", name)
	}
	return n.inFloat32(op, attrs, operands, func(operands []any) []*Value {
		if out := n.foldConstants(op, attrs, operands); out != nil {
			return out
		}
		if out := n.applySymbolic(op, attrs, operands); out != nil {
			return out
		}
		return n.emitN(name, count, attrs, operands...)
	})
}

// castOp is the op that converts dtypes.
const castOp = "to"

// Emit adds an op to the graph, without constant folding.
func (n *Node) Emit(name string, attrs graph.Attrs, operands ...any) []*Value {
	return n.inFloat32(n.opts.Lookup(name), attrs, operands,
		func(operands []any) []*Value { return n.emitN(name, n.resultCount(name), attrs, operands...) })
}

// emitN is [Node.Emit] with the number of results, for an op whose schema does not determine it.
func (n *Node) emitN(name string, count int, attrs graph.Attrs, operands ...any) []*Value {
	args := make([]any, len(operands)) // nil for an omitted operand
	for i, operand := range operands {
		switch x, isValue := operand.(*Value); {
		case !isValue:
			args[i] = operand
		case x != nil:
			if args[i] = n.asNumber(name, i, x, operands); args[i] == nil {
				args[i] = n.value(x)
			}
		}
	}
	values := n.graph.ApplyN(name, count, attrs, args...)
	if err := n.graph.Err(); err != nil {
		n.Failf("%w", err)
	}
	out := make([]*Value, len(values))
	for i, v := range values {
		out[i] = &Value{graphValue: v}
	}
	isGraph := func(attr any) bool { _, ok := attr.(*graph.Graph); return ok }
	isDynamic := func(v *graph.Value) bool { return v.Dynamic }
	// For an op that runs graphs, the converter records the outlines.
	hasBody := slices.ContainsFunc(slices.Collect(maps.Values(attrs)), isGraph)
	if !hasBody && slices.ContainsFunc(values, isDynamic) { // the shape depends on data
		n.recordOutlines(out, values[0].Node.Op, attrs, operands)
	}
	n.inferShapes(values, attrs)
	return out
}

// asNumber returns x, a constant operand of one element, as a number, because numbers make graphs readable. It returns
// nil if the op does not accept a number, or if the number could change the dtype or rank of the result. Dtype and rank
// do not change if another operand has the dtype of x and at least the rank of x.
func (n *Node) asNumber(op string, i int, x *Value, operands []any) any {
	isNewScalar := x.data != nil && x.graphValue == nil && x.data.Numel() == 1 // not in the graph yet
	if !isNewScalar || !acceptsNumber(n.opts.Lookup(op), i, x.DType()) {
		return nil
	}
	fixesType := func(operand any) bool {
		other, ok := operand.(*Value)
		return ok && other != nil && other.data == nil && other.DType() == x.DType() && !other.IsDynamic() &&
			other.Meta().Rank() >= x.data.Rank()
	}
	if !slices.ContainsFunc(operands[:i], fixesType) && !slices.ContainsFunc(operands[i+1:], fixesType) {
		return nil
	}
	number, _ := scalarOf(x.data) // x has one element
	switch dtype := x.DType(); {
	case !dtype.IsFloat():
		return number.Int()
	case dtype == tensor.Float32:
		return ShortestDecimal(float32(number.Float()))
	}
	return number.Float()
}

// acceptsNumber reports whether operand i of an op may be a number in place of a tensor of the given dtype.
func acceptsNumber(op *graph.Op, i int, dtype tensor.DType) bool {
	return op != nil && i < len(op.Params) && op.Params[i].AcceptsNumber &&
		dtype != tensor.Bool && !dtype.IsComplex() && !dtype.IsBareUnsigned()
}

// foldConstants evaluates an op on constant operands. It returns nil if an operand is not constant, or if the op cannot
// be evaluated (inferCall, evaluate).
func (n *Node) foldConstants(op *graph.Op, attrs graph.Attrs, operands []any) []*Value {
	var args []graph.Arg
	var in []*tensor.Tensor
	for _, operand := range operands {
		arg, t, ok := inferenceArg(operand)
		if !ok {
			return nil
		}
		args, in = append(args, arg), append(in, t)
	}
	call, results := n.inferCall(op, attrs, args)
	if results == nil {
		return nil
	}
	return n.evaluate(op, call, in[:len(call.In)], results) // call.In lacks omitted operands at the end
}

// inferCall returns a call of an op and its inferred results. It returns nil if an attribute refers to a value or
// depends on symbols. It also returns nil if operands are missing or an attribute is invalid. The graph's builder
// reports such an error. An error of inference ends the converter.
func (n *Node) inferCall(op *graph.Op, attrs graph.Attrs, args []graph.Arg) (*graph.Call, []graph.Result) {
	for len(args) > 0 && args[len(args)-1].Kind == graph.Null { // omitted operands at the end
		args = args[:len(args)-1]
	}
	for _, a := range attrs {
		if _, ok := a.(graph.ValueRef); ok {
			return nil, nil
		}
	}
	if n.symbols.HasExpressions(attrs) || len(args) < minOperands(op) {
		return nil, nil
	}
	decoded, err := op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, nil
	}
	call := &graph.Call{In: args, Attrs: decoded}
	results, err := op.Infer(call)
	if err != nil {
		n.Failf("%s: %w", op.Name, err)
	}
	return call, results
}

// minOperands returns the minimum number of operands of an op.
func minOperands(op *graph.Op) int {
	count := 0
	for i, p := range op.Params {
		if !p.Optional {
			count = i + 1
		}
	}
	return count
}

// inferenceArg returns an operand as an argument of inference, and the data of the operand. Both are empty for an
// omitted operand. isKnown is false if the data are unknown.
func inferenceArg(operand any) (arg graph.Arg, data *tensor.Tensor, isKnown bool) {
	x, isValue := operand.(*Value)
	switch {
	case operand == nil || isValue && x == nil:
		return graph.Arg{}, nil, true
	case isValue:
		if x.kind != tensorKind || x.data == nil {
			return graph.Arg{}, nil, false
		}
		return graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: x.name, Meta: x.data.Meta, Const: x.data}},
			x.data, true
	}
	s, ok := tensor.ScalarOf(operand)
	return graph.Arg{Kind: graph.NumberArg, Number: s}, s.Tensor(s.DType()), ok
}

// evaluate returns the results of an op on constants. Results are views of the operands, or new data from the op's
// reference. evaluate returns nil if there are too many elements to fold (FoldLimit, maxWork), if a shape depends on
// data, or if the op has no reference.
func (n *Node) evaluate(op *graph.Op, call *graph.Call, operands []*tensor.Tensor, results []graph.Result) []*Value {
	elements := 0 // of operands and results
	for _, operand := range operands {
		if operand != nil {
			elements += operand.Numel()
		}
	}
	for _, inferred := range results {
		if inferred.Dynamic {
			return nil
		}
		call.Out = append(call.Out, inferred.Meta())
		elements += inferred.Meta().Numel()
	}
	out, ok := viewsOf(operands, results)
	if !ok {
		return nil
	}
	if !slices.Contains(out, nil) { // all results are views
		return out
	}
	if elements > FoldLimit || op.Ref == nil {
		return nil
	}
	work := float64(elements)
	if op.Flops != nil {
		work += op.Flops(call)
	}
	if n.evaluatedWork += work; n.evaluatedWork > maxWork { // the limit for all ops of one graph together
		return nil
	}
	computed, err := op.Ref(call, operands)
	if err != nil {
		n.Failf("%s: %w", op.Name, err)
	}
	for i, result := range computed {
		out[i] = Constant(result)
	}
	return out
}

// viewsOf returns a list with a constant for each result that is a view of an operand, and nil for each other result.
// It returns false if a view cannot be made, or repeats elements too often.
func viewsOf(operands []*tensor.Tensor, results []graph.Result) (views []*Value, ok bool) {
	views = make([]*Value, len(results))
	for i, inferred := range results {
		if inferred.Alias < 0 || operands[inferred.Alias].DType != inferred.Meta().DType {
			continue
		}
		operand := operands[inferred.Alias]
		view, err := operand.View(inferred.Meta())
		if err != nil || view.Numel() > max(FoldLimit, operand.Numel()) {
			return nil, false
		}
		views[i] = Constant(view)
	}
	return views, true
}

// ShortestDecimal returns a float64 with the decimal form of a float32, such as 0.1 in place of 0.10000000149011612.
// The result makes graphs readable, and converts to the same float32.
func ShortestDecimal(f float32) float64 {
	x, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	if err != nil || math.Abs(x) > math.MaxFloat32 { // 3.4028235e+38 is greater than the greatest float32
		return float64(f)
	}
	return x
}

// Cast converts x to a dtype.
func (n *Node) Cast(x *Value, dtype tensor.DType) *Value {
	switch dtype {
	case x.DType():
		return x
	case tensor.Invalid: // the op would return x
		n.Failf("the element type to which %q is converted must be known before the graph runs", x.name)
	}
	if n.widened != nil {
		isWide := x.rounded != tensor.Invalid || !x.DType().IsReducedFloat()
		if x = x.unrounded(); x.DType() == dtype {
			return x
		}
		if isWide && dtype.IsReducedFloat() { // rounded at the end
			return n.Cast(x, tensor.Float32).standingFor(dtype)
		}
	}
	return n.Op(castOp, graph.Attrs{"dtype": dtype}, x)
}

// Reshape reshapes x to sizes that are numbers. One size may be -1, which is computed from the other sizes.
func (n *Node) Reshape(x *Value, shape ...int) *Value {
	if len(shape) > modelfile.MaxRank {
		n.Failf("%d dimensions are not supported", len(shape))
	}
	return n.Op("reshape", graph.Attrs{"shape": shape}, x).WithRank(len(shape))
}

// ReshapeBy reshapes x. Each size is a number or the text of an expression.
func (n *Node) ReshapeBy(x *Value, sizes []any) *Value {
	if len(sizes) > modelfile.MaxRank {
		n.Failf("%d dimensions are not supported", len(sizes))
	}
	return n.Op("reshape", graph.Attrs{"shape": sizes}, x).WithRank(len(sizes))
}

// ReshapeSym reshapes x to symbolic sizes.
func (n *Node) ReshapeSym(x *Value, sizes ...sym.Int) *Value {
	if numbers, ok := symbolic.Known(sizes); ok {
		return n.Reshape(x, numbers...)
	}
	if attr := n.ShapeAttr(sizes); attr != nil {
		return n.ReshapeBy(x, attr)
	}
	reshaped := n.Op("reshape", graph.Attrs{"shape": n.SizesAttr(sizes...)}, x).WithRank(len(sizes))
	if reshaped.graphValue != nil {
		n.shapes[reshaped.graphValue] = sizes
	}
	return reshaped
}

// ReshapeLike returns y in the shape of x.
func (n *Node) ReshapeLike(y, x *Value) *Value {
	return n.Op("reshape", graph.Attrs{"shape": n.IntsAttr(n.ShapeVector(x))}, y).WithRank(n.Rank(x))
}

// IndexVector returns the vector 0, 1 ... size-1.
func (n *Node) IndexVector(size sym.Int) *Value {
	return n.Op("arange", graph.Attrs{"end": n.SizeAttr(size), "dtype": tensor.Int64}).WithType(tensor.Int64, 1)
}

// single returns the list of outputs of a node with a single output.
func single(x *Value) []*Value { return []*Value{x} }
