package quantised

import (
	"fmt"
	"math"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/pointwise"
	"github.com/graphrun/graphrun/kernels/view"
	"github.com/graphrun/graphrun/tensor"
)

// quotient is v = x / scale of float32 by the reciprocal of the scale, which takes a fraction of a division. A quotient
// is off by less than two units in the last place after the product, by less than one after a correction, and rounded
// as a division is after another (Markstein 1990).
const quotient = "q = x * reciprocal; p = fma(fma(-q, scale, x), reciprocal, q); " +
	"v = fma(fma(-p, scale, x), reciprocal, p)"

// farLevels bounds levels before they saturate, so that int32 has room for them.
const farLevels = 1 << 29

// elements restates what quantises finite numbers element by element. Rounded, they are integers, and bounds are those
// of levels: the greater a number, the greater its level.
func (q *restating) elements() (r graph.Restatement, err error) {
	v, least, most := q.unbounded()
	of := graph.Of(v)
	if !(reach(of, reachDepth)/first(q.to.scale) < farLevels) {
		return r, nil
	}
	r.Of = v.Node
	if r.Results, err = q.pair(v.Node, least, most); r.Results != nil || err != nil {
		r.Why = fmt.Sprintf("%s is computed from levels", v.Node.Name)
		return r, err
	}
	scale := q.To(tensor.Float32, q.Along(q.to.scaleOf, 0, 0))
	r.Why = "by the reciprocal of the scale"
	r.Results, err = q.rounded(quotient, "x, reciprocal, scale", first(q.to.zero), least, most,
		of, q.Add(pointwise.Reciprocal, nil, scale), scale)
	return r, err
}

// pair restates a sum or a product of two dequantised numbers, unless plans are exact. Its terms are levels, which are
// scaled to those wanted at once.
func (q *restating) pair(n *graph.Node, least, most float64) ([]*graph.Value, error) {
	if q.Exact || n.Op != pointwise.Mul && !pointwise.Adds(n) {
		return nil, nil
	}
	var of [2]levels
	for i := range of {
		var ok bool
		if of[i], ok = dequantised(n.In[i]); !ok || of[i].scale.Numel() != 1 || !isByte(of[i].bytes.Type().DType) {
			return nil, nil
		}
	}
	a, b, to := of[0], of[1], first(q.to.scale)
	if n.Op == pointwise.Mul {
		return q.rounded("v = fma((float32(x) - xzero) * (float32(y) - yzero), scale, zero)",
			"x, y, xzero, yzero, scale, zero", 0, least, most, a.bytes, b.bytes, q.number(first(a.zero)),
			q.number(first(b.zero)), q.number(first(a.scale)*first(b.scale)/to), q.number(first(q.to.zero)))
	}
	by := [2]float64{first(a.scale) / to, first(b.scale) / to}
	return q.rounded("v = fma(float32(x), xscale, fma(float32(y), yscale, zero))", "x, y, xscale, yscale, zero", 0,
		least, most, a.bytes, b.bytes, q.number(by[0]), q.number(by[1]),
		q.number(first(q.to.zero)-by[0]*first(a.zero)-by[1]*first(b.zero)))
}

// number is a constant of float32.
func (q *restating) number(v float64) graph.Arg {
	return q.Add(view.Full, graph.Attrs{"size": []int{}, "fill_value": v, "dtype": tensor.Float32})
}

// rounded computes v, as text says, of operands whose names are listed, rounds it to even, adds the zero point, and
// bounds the level by those of two numbers.
func (q *restating) rounded(text, names string, zero, least, most float64, in ...graph.Arg) ([]*graph.Value, error) {
	d := q.C.Out[0].DType
	level := "int32(rint(v))"
	if zero != 0 {
		level += fmt.Sprintf(" + %v", zero)
	}
	text = fmt.Sprintf("%s; minimum(maximum(%s, %d), %d)", text, level, q.to.level(d, least), q.to.level(d, most))
	y := q.Add(pointwise.Pointwise, graph.Attrs{"expr": text, "params": strings.Split(names, ", ")}, in...)
	return q.Result(q.To(d, y))
}

// reachDepth bounds how far back is looked for where numbers come from.
const reachDepth = 8

// reach is a bound on the size of the numbers of a value that cannot be NaN: it is dequantised, or made of such by
// sums, products and bounds. It is infinite for others.
func reach(a graph.Arg, depth int) float64 {
	none := math.Inf(1)
	if a.Kind != graph.TensorArg || a.Value.Node == nil || depth == 0 {
		return none
	}
	if l, ok := dequantised(a); ok {
		least, most := bounds(l.bytes.Type().DType)
		far := 0.0
		kit.EachIndex(l.scale.Shape, func(at []int) { far = max(far, l.scale.At(at...).Float()*(most-least)) })
		return far
	}
	n := a.Value.Node
	if least, most, ok := pointwise.Bounds(n); ok {
		far := reach(n.In[0], depth-1)
		for _, bound := range []float64{least, most} {
			if !math.IsInf(bound, 0) {
				far = max(far, math.Abs(bound))
			}
		}
		return far
	}
	if n.Op != pointwise.Mul && !pointwise.Adds(n) {
		return none
	}
	x, y := reach(n.In[0], depth-1), reach(n.In[1], depth-1)
	if n.Op == pointwise.Mul {
		x, y = x*y, 0
	}
	if x += y; x > math.MaxFloat32/2 { // some of it might be infinite
		return none
	}
	return x
}
