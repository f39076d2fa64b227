package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// moveOps are ops whose results only rearrange elements of their operands.
var moveOps = []string{"select", "slice", "narrow", "index_select", "index", "gather", "cat", "stack", "reshape",
	"unsqueeze", "squeeze", "flatten", "permute", "transpose", "t", "flip", "expand", "alias", "split_with_sizes",
	"constant_pad_nd"}

// formula computes the elements of an op's results from those of its operands.
type formula func(c *computation) [][]symElement

// computation is one application of an op to elements.
type computation struct {
	n     *node
	attrs graph.Attrs
	in    []*symElements // nil for omitted operands
	out   []tensor.Meta
	call  *graph.Call
	op    *graph.Op
}

// computed evaluates an op on elements. It returns nil if the results cannot be expressed.
func (n *node) computed(o *graph.Op, attrs graph.Attrs, operands []any) []*val {
	from := formulas[o.Name]
	if slices.Contains(moveOps, o.Name) {
		from = moveFormula
	}
	if from == nil || n.bySymbols(attrs) || !slices.ContainsFunc(operands, isComputed) {
		return nil
	}
	c := &computation{n: n, attrs: attrs, in: make([]*symElements, len(operands)), op: o,
		call: &graph.Call{In: make([]graph.Arg, len(operands))}}
	for i, a := range operands {
		if x, ok := a.(*val); a == nil || ok && x == nil {
			continue
		}
		if c.in[i] = n.operandElements(o, i, a); c.in[i] == nil {
			return nil
		}
		m := tensor.New(c.in[i].dtype, c.in[i].shape...)
		c.call.In[i] = graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: "operand", Meta: m, Type: m.Type()}}
		if s, ok := tensor.ScalarOf(a); ok {
			c.call.In[i] = graph.Arg{Kind: graph.NumberArg, Number: s}
		}
	}
	if !c.infer() {
		return nil
	}
	lists := from(c)
	if len(lists) != len(c.out) {
		return nil
	}
	return c.results(lists, func() []*val { return n.emit(o.Name, attrs, operands...) })
}

// isComputed reports whether an operand has symbolic elements.
func isComputed(a any) bool {
	x, ok := a.(*val)
	return ok && x != nil && x.elements != nil
}

// operandElements returns the elements of an operand; nil if they are unknown. An index operand of a mover
// must be constant.
func (n *node) operandElements(o *graph.Op, i int, a any) *symElements {
	x, ok := a.(*val)
	switch {
	case !ok:
		s, number := tensor.ScalarOf(a)
		if !number {
			return nil
		}
		return elementsOfData(s.Tensor(s.DType()))
	case !slices.Contains(moveOps, o.Name):
		return n.elementsOf(x, false)
	case i > 0 && !o.Params[min(i, len(o.Params)-1)].Variadic || i > 0 && o.Name == "index":
		if x.data == nil {
			return nil // an unknown index
		}
	}
	return n.elementsOf(x, true)
}

// infer finds the metas of the results. Shapes are numbers: only elements are symbolic.
func (c *computation) infer() bool {
	call := c.call
	for len(call.In) > 0 && call.In[len(call.In)-1].Kind == graph.Null {
		call.In = call.In[:len(call.In)-1]
	}
	for _, a := range c.attrs {
		if _, ok := a.(graph.Ref); ok {
			return false
		}
	}
	decoded, err := c.op.Schema.Decode(c.attrs, nil)
	if err != nil || len(call.In) < required(c.op) {
		return false // the graph's builder reports the error
	}
	call.Attrs = decoded
	res, err := c.op.Infer(call)
	if err != nil {
		c.n.failf("%s: %w", c.op.Name, err)
	}
	for _, r := range res {
		m := r.Meta()
		if r.Dynamic || m.Numel() > maxElements {
			return false
		}
		c.out = append(c.out, tensor.New(m.DType, m.Shape...))
	}
	return true
}

// results makes values from lists of elements. If the graph needs one of them, emit adds the op to it.
func (c *computation) results(lists [][]symElement, emit func() []*val) []*val {
	var made []*val
	out := make([]*val, len(lists))
	for i, list := range lists {
		m := c.out[i]
		out[i] = valueOf(&symElements{dtype: m.DType, shape: m.Shape, list: list, make: func() *val {
			if made == nil {
				made = emit()
			}
			return made[i].sized(m.DType, m.Shape...)
		}})
	}
	return out
}

// moveFormula is the formula of movers: the op is evaluated on the positions of the elements.
func moveFormula(c *computation) [][]symElement {
	var all []symElement
	places := make([]*tensor.Tensor, len(c.in))
	for i, e := range c.in {
		if e == nil {
			continue
		}
		index := i > 0 && !c.op.Params[min(i, len(c.op.Params)-1)].Variadic || i > 0 && c.op.Name == "index"
		t := tensor.Zeros(tensor.Int64, e.shape...)
		for k, x := range e.list {
			at := int64(len(all) + k)
			if index {
				n, _ := x.n.Known()
				at = int64(n)
			}
			t.SetFlat(k, tensor.IntScalar(at))
		}
		if !index {
			all = append(all, e.list...)
			if e.dtype != c.in[0].dtype {
				return nil
			}
		}
		places[i] = t
		c.call.In[i].Value = &graph.Value{Name: "operand", Meta: t.Meta, Type: t.Meta.Type(), Const: t}
	}
	attrs := c.attrs
	if c.op.Name == "constant_pad_nd" {
		fill, ok := tensor.ScalarOf(attrs["value"])
		if !ok && attrs["value"] != nil || c.in[0].dtype != tensor.Int64 {
			return nil
		}
		attrs = graph.Attrs{"pad": attrs["pad"], "value": len(all)}
		all = append(all, symElement{n: sym.Of(int(fill.Int()))})
	}
	var operands []any
	for _, t := range places {
		if t == nil {
			operands = append(operands, nil)
			continue
		}
		operands = append(operands, known(t))
	}
	var lists [][]symElement
	for _, x := range c.n.foldKnown(c.op, attrs, operands) {
		list := []symElement{}
		for _, at := range ints(x.data) {
			list = append(list, all[at])
		}
		lists = append(lists, list)
	}
	return lists
}

// pointwise is the formula of a pointwise op with broadcasting.
func pointwise(f func(c *computation, x []symElement) (symElement, bool)) formula {
	return func(c *computation) [][]symElement {
		out := make([]symElement, c.out[0].Numel())
		x := make([]symElement, len(c.in))
		for i := range out {
			at := indexAt(c.out[0].Shape, i)
			for k, e := range c.in {
				if e == nil {
					return nil
				}
				x[k] = e.list[broadcastAt(e.shape, at)]
			}
			var ok bool
			if out[i], ok = f(c, x); !ok {
				return nil
			}
		}
		return [][]symElement{out}
	}
}

// broadcastAt returns the row-major position of an operand's element for an index of the result.
func broadcastAt(shape, at []int) int {
	place := 0
	at = at[len(at)-len(shape):]
	for d, size := range shape {
		i := at[d]
		if size == 1 {
			i = 0
		}
		place = place*size + i
	}
	return place
}

// intFormula is [pointwise] for integer operands and results.
func intFormula(f func(c *computation, x []sym.Int) (sym.Int, bool)) formula {
	return pointwise(func(c *computation, x []symElement) (symElement, bool) {
		list := make([]sym.Int, len(x))
		for i, e := range c.in {
			if !e.dtype.IsIntegral(false) {
				return symElement{}, false
			}
			list[i] = x[i].n
		}
		n, ok := f(c, list)
		return symElement{n: n}, ok && c.out[0].DType.IsIntegral(false)
	})
}

// boolFormula is [pointwise] for bool operands and results.
func boolFormula(f func(x []sym.Bool) sym.Bool) formula {
	return pointwise(func(c *computation, x []symElement) (symElement, bool) {
		list := make([]sym.Bool, len(x))
		for i, e := range c.in {
			if e.dtype != tensor.Bool {
				return symElement{}, false
			}
			list[i] = x[i].b
		}
		return symElement{b: f(list)}, true
	})
}

// comparison is [pointwise] for a comparison.
func comparison(f func(a, b sym.Int) sym.Bool) formula {
	return pointwise(func(c *computation, x []symElement) (symElement, bool) {
		a, b := x[0], x[1]
		if c.in[0].dtype == tensor.Bool || c.in[1].dtype == tensor.Bool {
			return symElement{}, false
		}
		if !c.in[0].dtype.IsFloat() && !c.in[1].dtype.IsFloat() {
			return symElement{b: f(a.n, b.n)}, true
		}
		a, okA := c.fractionOf(0, a)
		b, okB := c.fractionOf(1, b)
		if !okA || !okB || a.rounded || b.rounded {
			return symElement{}, false
		}
		c.n.bound(a)
		c.n.bound(b)
		return symElement{b: f(a.n.Mul(sym.Of(b.denominator)), b.n.Mul(sym.Of(a.denominator)))}, true
	})
}

// reduceAll reduces all elements of the only operand; empty is the result without elements, if defined.
func reduceAll(f func(a, b sym.Int) sym.Int, empty ...int) formula {
	return func(c *computation) [][]symElement {
		e := c.in[0]
		if len(c.in) != 1 || len(c.out) != 1 || !e.dtype.IsIntegral(false) || c.out[0].Numel() != 1 ||
			c.out[0].DType != tensor.Int64 || len(e.list) == 0 && len(empty) == 0 {
			return nil
		}
		if len(e.list) == 0 {
			return [][]symElement{{{n: sym.Of(empty[0])}}}
		}
		all := e.list[0].n
		for _, x := range e.list[1:] {
			all = f(all, x.n)
		}
		return [][]symElement{{{n: all}}}
	}
}

func cumsum(c *computation) [][]symElement {
	e := c.in[0]
	if len(e.shape) != 1 || !e.dtype.IsIntegral(false) || c.out[0].DType != tensor.Int64 {
		return nil
	}
	var sum sym.Int
	out := make([]symElement, len(e.list))
	for i, x := range e.list {
		sum = sum.Add(x.n)
		out[i].n = sum
	}
	return [][]symElement{out}
}

// fillFormula is the formula of ops that depend on the shape of their operand alone.
func fillFormula(c *computation) [][]symElement {
	t := tensor.Zeros(c.in[0].dtype, c.in[0].shape...)
	x := c.n.foldKnown(c.op, c.attrs, []any{known(t)})
	if len(x) != 1 || x[0].data == nil {
		return nil
	}
	e := elementsOfData(x[0].data.Contiguous())
	if e == nil {
		return nil
	}
	return [][]symElement{e.list}
}

// positive reports whether a is at least 1 for all sizes. notNegative reports whether it is at least 0.
func positive(a sym.Int) bool    { lo, _ := a.Bounds(); return lo >= 1 }
func notNegative(a sym.Int) bool { lo, _ := a.Bounds(); return lo >= 0 }

// truncated divides with truncation toward zero, as C does.
func truncated(a, b sym.Int) (sym.Int, bool) {
	switch {
	case !positive(b):
		return sym.Int{}, false
	case notNegative(a):
		return a.Div(b), true
	}
	return sym.Where(a.Ge(sym.Int{}), a.Div(b), a.Neg().Div(b).Neg()), true
}

func (c *computation) text(attr string) string {
	s, _ := c.attrs[attr].(string)
	return s
}

var formulas map[string]formula

func init() {
	least := func(_ *computation, x []sym.Int) (sym.Int, bool) { return x[0].Min(x[1]), true }
	greatest := func(_ *computation, x []sym.Int) (sym.Int, bool) { return x[0].Max(x[1]), true }
	formulas = map[string]formula{
		"add": pointwise(sum(1)), "sub": pointwise(sum(-1)), "mul": pointwise(product), "div": pointwise(quotient),
		"floor_divide": intFormula(func(_ *computation, x []sym.Int) (sym.Int, bool) {
			if !positive(x[1]) {
				return sym.Int{}, false
			}
			return x[0].Div(x[1]), true
		}),
		"remainder": intFormula(func(_ *computation, x []sym.Int) (sym.Int, bool) {
			if !positive(x[1]) {
				return sym.Int{}, false
			}
			return x[0].Mod(x[1]), true
		}),
		"fmod": intFormula(func(_ *computation, x []sym.Int) (sym.Int, bool) {
			q, ok := truncated(x[0], x[1])
			return x[0].Sub(q.Mul(x[1])), ok
		}),
		"maximum": intFormula(greatest), "minimum": intFormula(least),
		"neg":   intFormula(func(_ *computation, x []sym.Int) (sym.Int, bool) { return x[0].Neg(), true }),
		"abs":   intFormula(func(_ *computation, x []sym.Int) (sym.Int, bool) { return x[0].Max(x[0].Neg()), true }),
		"clamp": intFormula(func(c *computation, x []sym.Int) (sym.Int, bool) { return c.clamped(x[0]) }),
		"eq":    comparison(sym.Int.Eq), "ne": comparison(sym.Int.Ne), "lt": comparison(sym.Int.Lt),
		"le": comparison(sym.Int.Le),
		"gt": comparison(sym.Int.Gt), "ge": comparison(sym.Int.Ge),
		"logical_and": boolFormula(both), "bitwise_and": boolFormula(both), "logical_or": boolFormula(either),
		"bitwise_or":  boolFormula(either),
		"logical_xor": boolFormula(oneOf), "bitwise_xor": boolFormula(oneOf), "logical_not": boolFormula(not),
		"bitwise_not": boolFormula(not),
		"where":       pointwise(selected), "to": pointwise(converted), "floor": pointwise(rounded),
		"ceil": pointwise(rounded), "trunc": pointwise(rounded),
		"sum": reduceAll(sym.Int.Add, 0), "prod": reduceAll(sym.Int.Mul, 1), "amax": reduceAll(sym.Int.Max),
		"amin": reduceAll(sym.Int.Min),
		"max":  reduceAll(sym.Int.Max), "min": reduceAll(sym.Int.Min), "cumsum": cumsum, "zeros_like": fillFormula,
		"ones_like": fillFormula,
		"full_like": fillFormula,
	}
}

func both(x []sym.Bool) sym.Bool   { return x[0].And(x[1]) }
func either(x []sym.Bool) sym.Bool { return x[0].Or(x[1]) }
func not(x []sym.Bool) sym.Bool    { return x[0].Not() }
func oneOf(x []sym.Bool) sym.Bool {
	return x[0].And(x[1].Not()).Or(x[0].Not().And(x[1]))
}

// clamped clamps an integer to the attributes min and max.
func (c *computation) clamped(x sym.Int) (sym.Int, bool) {
	at := func(name string) (n sym.Int, given, ok bool) {
		v, given := c.attrs[name]
		if !given || v == nil {
			return n, false, true
		}
		i, isInt := v.(int)
		return sym.Of(i), true, isInt
	}
	low, isLow, okLow := at("min")
	high, isHigh, okHigh := at("max")
	if isLow {
		x = x.Max(low)
	}
	if isHigh {
		x = x.Min(high)
	}
	return x, okLow && okHigh
}
