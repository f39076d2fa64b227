package onnx

import (
	"math"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Exporters compute sizes from sizes by the operators that compute everything else. What such operators make of
// expressions is an expression again, so that attributes say what a size is; the graph computes only what no
// expression says, and what data are computed from.

// entries is a small tensor that is computed from sizes, its elements in row-major order.
type entries struct {
	dtype tensor.DType
	shape []int
	list  []entry
	make  func() *val // adds the value to the graph
}

// entry is an integer, a truth or, of a floating-point dtype, the fraction n/over.
type entry struct {
	n    sym.Int
	b    sym.Bool
	over int // at least 1
	// rounded says that the fraction has been rounded to the nearest number of its dtype: only whole numbers
	// around it are known.
	rounded bool
	held    []held // what the expression takes for granted
}

// maxElements bounds the elements of what is computed as expressions.
const maxElements = 256

// settled returns the value of elements: known data if they are all numbers.
func settled(e *entries) *val {
	data := tensor.Zeros(e.dtype, e.shape...)
	for i, x := range e.list {
		s, ok := x.number(e.dtype)
		if !ok {
			return &val{elements: e}
		}
		data.SetFlat(i, s)
	}
	return known(data)
}

// number returns the element as a number, if it is one.
func (x entry) number(d tensor.DType) (tensor.Scalar, bool) {
	if d == tensor.Bool {
		v, ok := x.b.Known()
		return tensor.BoolScalar(v), ok
	}
	n, ok := x.n.Known()
	if d.IsFloat() {
		return tensor.FloatScalar(float64(n) / float64(max(x.over, 1))), ok && !x.rounded
	}
	return tensor.IntScalar(int64(n)), ok
}

// indexAt returns the index of the i-th element in row-major order.
func indexAt(shape []int, i int) []int {
	at := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d], i = i%shape[d], i/shape[d]
	}
	return at
}

// elementsOf returns the elements of an operand as expressions; nil where it cannot have such. Integers of the
// graph that data decide are symbols of their own, if open is set.
func (n *node) elementsOf(x *val, open bool) *entries {
	switch {
	case x.elements != nil:
		return x.elements
	case x.kind != isTensor || !x.dtype().IsIntegral(true) && x.dtype() != tensor.Float32 && x.dtype() != tensor.Float64:
		return nil
	case x.data != nil:
		return elementsOfData(x.data)
	case !open || x.dtype() != tensor.Int64 || !n.static(x) || x.meta().Numel() > maxElements:
		return nil
	}
	e := &entries{dtype: x.dtype(), shape: x.meta().Shape, list: make([]entry, x.meta().Numel())}
	for i := range e.list {
		e.list[i].n = n.unknown(math.MinInt)
	}
	e.make = func() *val { return x }
	x.elements = e
	return e
}

func elementsOfData(t *tensor.Tensor) *entries {
	if t.Numel() > maxElements {
		return nil
	}
	e := &entries{dtype: t.DType, shape: t.Shape, list: make([]entry, t.Numel())}
	for i := range e.list {
		s := t.At(indexAt(t.Shape, i)...)
		switch {
		case t.DType == tensor.Bool:
			e.list[i].b = sym.Truth(s.Int() != 0)
		case t.DType.IsFloat():
			var ok bool
			if e.list[i], ok = fraction(s.Float()); !ok {
				return nil
			}
		default:
			e.list[i].n = sym.Of(int(s.Int()))
		}
	}
	return e
}
