package onnx

import (
	"math"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Exporters compute sizes with the same operators as data. The importer represents a small tensor that is computed from
// sizes by a symbolic expression for each element, so that attributes can state a size as an expression. The graph
// computes only values that no expression describes, and values that depend on data.

// symElements is a small tensor computed from sizes, with its elements in row-major order.
type symElements struct {
	dtype tensor.DType
	shape []int
	list  []symElement
	make  func() *val // adds the value to the graph
}

// symElement is one element of a [symElements]. By dtype, it is the integer n, the bool b, or the fraction
// n/denominator.
type symElement struct {
	n           sym.Int
	b           sym.Bool
	denominator int // at least 1
	// rounded means that the fraction was rounded to the nearest number of its dtype. Its exact value is then unknown,
	// but both integers around it are known.
	rounded bool
	exact   []exactInt // conditions under which the expression is exact
}

// maxElements bounds the number of elements computed as expressions.
const maxElements = 256

// valueOf returns a value with the given elements. It is a constant if all elements are numbers.
func valueOf(e *symElements) *val {
	data := tensor.Zeros(e.dtype, e.shape...)
	for i, x := range e.list {
		s, ok := x.number(e.dtype)
		if !ok {
			return &val{elements: e}
		}
		data.SetFlat(i, s)
	}
	return constValue(data)
}

// number returns the element as a number. It returns false if the element is symbolic.
func (x symElement) number(d tensor.DType) (tensor.Scalar, bool) {
	if d == tensor.Bool {
		v, ok := x.b.Known()
		return tensor.BoolScalar(v), ok
	}
	n, ok := x.n.Known()
	if d.IsFloat() {
		return tensor.FloatScalar(float64(n) / float64(max(x.denominator, 1))), ok && !x.rounded
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

// elementsOf returns the elements of an operand as expressions, or nil if no expressions describe the elements. If open
// is set, each integer that depends on data becomes a new symbol.
func (n *node) elementsOf(x *val, open bool) *symElements {
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
	e := &symElements{dtype: x.dtype(), shape: x.meta().Shape, list: make([]symElement, x.meta().Numel())}
	for i := range e.list {
		e.list[i].n = n.unknown(math.MinInt)
	}
	e.make = func() *val { return x }
	x.elements = e
	return e
}

func elementsOfData(t *tensor.Tensor) *symElements {
	if t.Numel() > maxElements {
		return nil
	}
	e := &symElements{dtype: t.DType, shape: t.Shape, list: make([]symElement, t.Numel())}
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
