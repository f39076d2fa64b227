package onnx

import (
	"math"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file represents small tensors that the model computes from sizes. Exporters compute sizes with the same
// operators as data. For such a tensor, the importer computes an expression for each element, which may become the
// value of an attribute. The graph computes only tensors that depend on data or have an element without an expression.

// symElements is a small tensor computed from sizes, with its elements in row-major order.
type symElements struct {
	dtype      tensor.DType
	shape      []int
	list       []symElement
	addToGraph func() *val // adds the value to the graph
}

// symElement is one element of a [symElements]. Its value is numerator for an integer dtype, condition for bool, and
// the fraction numerator/denominator for a floating-point dtype.
type symElement struct {
	numerator   sym.Int
	condition   sym.Bool
	denominator int // for a fraction, at least 1; not used for other dtypes
	// rounded means that floating-point arithmetic rounds the fraction. The result of rounding is unknown, but it is
	// between the integers around the fraction.
	rounded bool
	exact   []exactInt // the conditions under which a fraction is correct: see applyLimits
}

// maxElements bounds the number of elements computed as expressions.
const maxElements = 256

// valueOf returns a value with the given elements. It is a constant if all elements are numbers.
func valueOf(elements *symElements) *val {
	data := tensor.Zeros(elements.dtype, elements.shape...)
	for i, x := range elements.list {
		s, ok := x.number(elements.dtype)
		if !ok {
			return &val{elements: elements}
		}
		data.SetFlat(i, s)
	}
	return constValue(data)
}

// number returns the element as a number of the given dtype. It returns false if the element is symbolic.
func (x symElement) number(dtype tensor.DType) (tensor.Scalar, bool) {
	if dtype == tensor.Bool {
		v, ok := x.condition.Known()
		return tensor.BoolScalar(v), ok
	}
	n, ok := x.numerator.Known()
	if dtype.IsFloat() {
		return tensor.FloatScalar(float64(n) / float64(max(x.denominator, 1))), ok && !x.rounded
	}
	return tensor.IntScalar(int64(n)), ok
}

// indexAt returns the index of the i-th element in row-major order.
func indexAt(shape []int, i int) []int {
	index := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d], i = i%shape[d], i/shape[d]
	}
	return index
}

// elementsOf returns the elements of a tensor as expressions, or nil if an element has no expression. If newSymbols is
// true, each integer that depends on data becomes a new symbol.
func (n *node) elementsOf(x *val, newSymbols bool) *symElements {
	switch {
	case x.elements != nil:
		return x.elements
	case x.kind != tensorKind || !x.dtype().IsIntegral(true) && x.dtype() != tensor.Float32 && x.dtype() != tensor.Float64:
		return nil
	case x.data != nil:
		return elementsOfData(x.data)
	case !newSymbols || x.dtype() != tensor.Int64 || !n.isStatic(x) || x.meta().Numel() > maxElements:
		return nil
	}
	elements := &symElements{dtype: x.dtype(), shape: x.meta().Shape, list: make([]symElement, x.meta().Numel())}
	for i := range elements.list {
		elements.list[i].numerator = n.newUnknown(math.MinInt)
	}
	elements.addToGraph = func() *val { return x }
	x.elements = elements
	return elements
}

func elementsOfData(t *tensor.Tensor) *symElements {
	if t.Numel() > maxElements {
		return nil
	}
	elements := &symElements{dtype: t.DType, shape: t.Shape, list: make([]symElement, t.Numel())}
	for i := range elements.list {
		scalar := t.At(indexAt(t.Shape, i)...)
		switch {
		case t.DType == tensor.Bool:
			elements.list[i].condition = sym.Truth(scalar.Int() != 0)
		case t.DType.IsFloat():
			var ok bool
			if elements.list[i], ok = fraction(scalar.Float()); !ok {
				return nil
			}
		default:
			elements.list[i].numerator = sym.Of(int(scalar.Int()))
		}
	}
	return elements
}
