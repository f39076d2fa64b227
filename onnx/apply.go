package onnx

import (
	"slices"
	"strconv"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// foldLimit is the maximum number of elements of operands and results together for which an op on constants is
// evaluated during the import. For views of constants there is no limit, unless they repeat elements.
const foldLimit = 1 << 16

// op adds an op with one result. An operand is a *val, a number, or nil.
//
//go:noinline
func (n *node) op(name string, attrs graph.Attrs, operands ...any) *val {
	return n.ops(name, attrs, operands...)[0]
}

// ops adds an op with any number of results. If all operands are constant, the results are constants too.
func (n *node) ops(name string, attrs graph.Attrs, operands ...any) []*val {
	op := n.opts.Lookup(name)
	if op == nil {
		n.failf("the op %q is not in the catalogue", name)
	}
	if out := n.foldConstants(op, attrs, operands); out != nil {
		return out
	}
	if out := n.applySymbolic(op, attrs, operands); out != nil {
		return out
	}
	return n.emit(name, attrs, operands...)
}

// emit adds an op to the graph, without constant folding.
func (n *node) emit(name string, attrs graph.Attrs, operands ...any) []*val {
	count := 0
	if op := n.opts.Lookup(name); op != nil && op.Many {
		count = len(n.proto.Output)
	}
	return n.emitN(name, count, attrs, operands...)
}

// emitN is [node.emit] with the number of results, for an op whose schema does not determine it.
func (n *node) emitN(name string, count int, attrs graph.Attrs, operands ...any) []*val {
	args := make([]any, len(operands))
	for i, o := range operands {
		x, ok := o.(*val)
		switch {
		case !ok:
			args[i] = o
		case x == nil:
		default:
			if args[i] = n.asNumber(name, i, x, operands); args[i] == nil {
				args[i] = n.value(x)
			}
		}
	}
	vals := n.graph.ApplyN(name, count, attrs, args...)
	if err := n.graph.Err(); err != nil {
		n.failf("%w", err)
	}
	out := make([]*val, len(vals))
	for i, v := range vals {
		out[i] = &val{graphValue: v}
	}
	if slices.ContainsFunc(vals, func(v *graph.Value) bool { return v.Dynamic }) {
		n.outline(out, vals[0].Node.Op, attrs, operands)
	}
	n.inferShapes(vals, attrs)
	return out
}

// asNumber returns x, a constant operand of one element, as a number, because numbers make graphs readable. It returns
// nil if the op does not accept a number, or if the number could change the dtype or rank of the result. The number
// changes neither if another operand has the same dtype as x and at least its rank.
func (n *node) asNumber(op string, i int, x *val, operands []any) any {
	o := n.opts.Lookup(op)
	dtype := x.dtype()
	if o == nil || x.data == nil || x.graphValue != nil || x.data.Numel() != 1 || i >= len(o.Params) ||
		!o.Params[i].Number || dtype == tensor.Bool || dtype.IsComplex() || dtype.IsBareUnsigned() {
		return nil
	}
	for k, other := range operands {
		y, ok := other.(*val)
		if k == i || !ok || y == nil || y.data != nil || y.dtype() != dtype || y.isDynamic() ||
			y.meta().Rank() < x.data.Rank() {
			continue
		}
		number, _ := scalarOf(x.data) // x has one element
		switch {
		case !dtype.IsFloat():
			return number.Int()
		case dtype == tensor.Float32:
			return shortestDecimal(float32(number.Float()))
		}
		return number.Float()
	}
	return nil
}

// foldConstants evaluates an op on constant operands. It returns nil if an operand is not constant, or the op is too
// large.
func (n *node) foldConstants(op *graph.Op, attrs graph.Attrs, operands []any) []*val {
	var args []graph.Arg
	var in []*tensor.Tensor
	size := 0
	for _, operand := range operands {
		arg, t, ok := inferenceArg(operand)
		if !ok {
			return nil
		}
		args, in = append(args, arg), append(in, t)
		if t != nil {
			size += t.Numel()
		}
	}
	call, res := n.inferCall(op, attrs, args)
	if res == nil {
		return nil
	}
	return n.compute(op, call, in[:len(call.In)], res, size)
}

// inferCall returns a call of an op and its inferred results. It returns nil if an attribute refers to a value or
// depends on symbols. It also returns nil if the call is invalid; the graph's builder reports that error.
func (n *node) inferCall(op *graph.Op, attrs graph.Attrs, args []graph.Arg) (*graph.Call, []graph.Result) {
	for len(args) > 0 && args[len(args)-1].Kind == graph.Null {
		args = args[:len(args)-1]
	}
	for _, a := range attrs {
		if _, ok := a.(graph.Ref); ok {
			return nil, nil
		}
	}
	if n.hasExpressions(attrs) || len(args) < minOperands(op) {
		return nil, nil
	}
	decoded, err := op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, nil
	}
	call := &graph.Call{In: args, Attrs: decoded}
	res, err := op.Infer(call)
	if err != nil {
		n.failf("%s: %w", op.Name, err)
	}
	return call, res
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

// inferenceArg returns an operand as an argument of inference, and its data. Both are empty for an omitted operand. It
// returns false if the data are unknown.
func inferenceArg(operand any) (graph.Arg, *tensor.Tensor, bool) {
	x, isVal := operand.(*val)
	switch {
	case operand == nil || isVal && x == nil:
		return graph.Arg{}, nil, true
	case isVal:
		if x.kind != tensorKind || x.data == nil {
			return graph.Arg{}, nil, false
		}
		return graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: x.name, Meta: x.data.Meta, Const: x.data}},
			x.data, true
	}
	s, ok := tensor.ScalarOf(operand)
	return graph.Arg{Kind: graph.NumberArg, Number: s}, s.Tensor(s.DType()), ok
}

// compute returns the results of a folded op as constants: views of the operands, or new data from the op's reference.
// It returns nil if there are too many elements to fold (foldLimit). size is the number of elements of the operands.
func (n *node) compute(op *graph.Op, call *graph.Call, operands []*tensor.Tensor, results []graph.Result,
	size int) []*val {
	out := make([]*val, len(results))
	views := 0
	for i, inferred := range results {
		if inferred.Dynamic {
			return nil
		}
		call.Out = append(call.Out, inferred.Meta())
		if inferred.Alias >= 0 && operands[inferred.Alias].DType == inferred.Meta().DType {
			view, err := operands[inferred.Alias].View(inferred.Meta())
			if err != nil || view.Numel() > max(foldLimit, operands[inferred.Alias].Numel()) {
				return nil
			}
			out[i] = constValue(view)
			views++
		}
		size += inferred.Meta().Numel()
	}
	if views == len(results) {
		return out
	}
	if size > foldLimit || op.Ref == nil {
		return nil
	}
	cost := float64(size)
	if op.Flops != nil {
		cost += op.Flops(call)
	}
	if n.evaluated += cost; n.evaluated > maxWork {
		return nil
	}
	ts, err := op.Ref(call, operands)
	if err != nil {
		n.failf("%s: %w", op.Name, err)
	}
	for i, view := range ts {
		out[i] = constValue(view)
	}
	return out
}

// shortestDecimal returns a float64 with the decimal form of a float32, such as 0.1 in place of 0.10000000149011612.
// The result makes graphs readable, and converts to the same float32.
func shortestDecimal(f float32) float64 {
	x, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	if err != nil {
		return float64(f)
	}
	return x
}

// number returns the only element of a constant.
func (n *node) number(x *val) tensor.Scalar {
	if x.data == nil {
		n.failf("%q must be known before the graph runs", x.name)
	}
	s, ok := scalarOf(x.data)
	if !ok {
		n.failf("%q must have one element, it has shape %s", x.name, tensor.ListString(x.data.Shape))
	}
	return s
}

// vectorAttr returns a vector of integers as an attribute: a list of numbers and expressions, or a reference to the
// value.
func (n *node) vectorAttr(x *val) any {
	if x.data != nil {
		return ints(x.data)
	}
	if list := n.expressions(x); list != nil {
		return list
	}
	return n.reference(x)
}

// expressions returns integers in the form of attributes: numbers and expressions. It returns nil if an integer depends
// on data.
func (n *node) expressions(x *val) []any {
	if x.elements == nil || !x.elements.dtype.IsIntegral(false) {
		return nil
	}
	list := make([]any, len(x.elements.list))
	for i, e := range x.elements.list {
		var ok bool
		if list[i], ok = n.intAttr(e.numerator); !ok {
			return nil
		}
	}
	return list
}

// scalarAttr returns a single integer as an attribute: a number, an expression, or a reference to the value.
func (n *node) scalarAttr(x *val) any {
	if x.data != nil {
		return int(n.number(x).Int())
	}
	if list := n.expressions(x); len(list) == 1 {
		return list[0]
	}
	return n.reference(x)
}

// numberAttr returns a single number of any dtype as an attribute: a number, an expression, or a reference to the
// value.
func (n *node) numberAttr(x *val) any {
	if x.data != nil && x.dtype().IsFloat() {
		return n.number(x).Float()
	}
	return n.scalarAttr(x)
}

// list returns the integers of operand i, which must be constant.
func (n *node) list(i int) []int {
	x := n.operand(i)
	if x.data == nil {
		n.failf("operand %d (%q) must be known before the graph runs", i, x.name)
	}
	if !x.dtype().IsIntegral(true) {
		n.failf("operand %d (%q) holds %v, want integers", i, x.name, x.dtype())
	}
	if x.data.Numel() > foldLimit {
		n.failf("operand %d (%q) has %d elements", i, x.name, x.data.Numel())
	}
	return ints(x.data)
}

func (n *node) cast(x *val, dtype tensor.DType) *val {
	if x.dtype() == dtype {
		return x
	}
	return n.op("to", graph.Attrs{"dtype": dtype}, x)
}

func (n *node) reshape(x *val, shape ...int) *val {
	if len(shape) > maxRank {
		n.failf("%d dimensions are not supported", len(shape))
	}
	return n.op("reshape", graph.Attrs{"shape": shape}, x).withRank(len(shape))
}

// reshapeBy reshapes x. Each size is a number or the text of an expression.
func (n *node) reshapeBy(x *val, sizes []any) *val {
	if len(sizes) > maxRank {
		n.failf("%d dimensions are not supported", len(sizes))
	}
	return n.op("reshape", graph.Attrs{"shape": sizes}, x).withRank(len(sizes))
}

// one returns the list of outputs of a node with a single output.
func one(x *val) []*val { return []*val{x} }
