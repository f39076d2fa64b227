// Package symbolic computes with sizes that are unknown during the import: expressions over the symbols of a model.
//
// Exporters compute sizes with the same operators as data. A [Tensor] is a small tensor that a model computes from
// sizes, with an expression for each element. [Symbols.Evaluate] applies ops to such tensors. [Symbols.ResultShapes]
// infers the symbolic shapes of an op's results.
package symbolic

import (
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Tensor is a small tensor computed from sizes, with its elements in row-major order.
type Tensor struct {
	DType    tensor.DType
	Shape    []int
	Elements []Element
}

// Element is one element of a [Tensor]. Its value is Numerator for an integer dtype, Condition for bool, and the
// fraction Numerator/denominator for a floating-point dtype.
type Element struct {
	Numerator   sym.Int
	Condition   sym.Bool
	denominator int // for a fraction, at least 1; not used for other dtypes
	// rounded means that floating-point arithmetic rounds the fraction. The result of rounding is unknown, but it is
	// between the integers around the fraction.
	rounded         bool
	exactConditions []exactInt // the conditions under which a fraction is correct: see applyLimits
}

// MaxElements bounds the number of elements computed as expressions.
const MaxElements = 256

// Ints returns a tensor of int64.
func Ints(shape []int, list ...sym.Int) *Tensor {
	t := &Tensor{DType: tensor.Int64, Shape: shape, Elements: make([]Element, len(list))}
	for i, x := range list {
		t.Elements[i].Numerator = x
	}
	return t
}

// FromData returns the elements of a constant. It returns nil if there are too many elements, or if an element has no
// symbolic form.
func FromData(data *tensor.Tensor) *Tensor {
	if data.Numel() > MaxElements {
		return nil
	}
	t := &Tensor{DType: data.DType, Shape: data.Shape, Elements: make([]Element, data.Numel())}
	for i := range t.Elements {
		scalar := data.At(IndexAt(data.Shape, i)...)
		switch {
		case data.DType == tensor.Bool:
			t.Elements[i].Condition = sym.BoolOf(scalar.Int() != 0)
		case data.DType.IsFloat():
			var ok bool
			if t.Elements[i], ok = fractionOf(scalar.Float()); !ok {
				return nil
			}
		default:
			number := int(scalar.Int())
			if int64(number) != scalar.Int() { // ints have 32 bits
				return nil
			}
			t.Elements[i].Numerator = sym.Of(number)
		}
	}
	return t
}

// Data returns the elements as a constant. It returns nil if an element is symbolic.
func (t *Tensor) Data() *tensor.Tensor {
	data := tensor.Zeros(t.DType, t.Shape...)
	for i, x := range t.Elements {
		s, ok := x.number(t.DType)
		if !ok {
			return nil
		}
		data.SetFlat(i, s)
	}
	return data
}

// number returns the element as a number of the given dtype. It returns false if the element is symbolic.
func (x Element) number(dtype tensor.DType) (tensor.Scalar, bool) {
	if dtype == tensor.Bool {
		v, ok := x.Condition.Known()
		return tensor.BoolScalar(v), ok
	}
	n, ok := x.Numerator.Known()
	if dtype.IsFloat() {
		return tensor.FloatScalar(float64(n) / float64(max(x.denominator, 1))), ok && !x.rounded
	}
	return tensor.IntScalar(int64(n)), ok
}

// Int returns the element of a tensor with one element of an integer dtype. ok is false for other tensors, and for nil.
func (t *Tensor) Int() (x sym.Int, ok bool) {
	if t == nil || len(t.Elements) != 1 || t.DType.IsFloat() {
		return x, false
	}
	return t.Elements[0].Numerator, true
}

// Bool returns the element of a tensor with one element as a condition. An integer other than 0 is true. ok is false
// for other tensors, for a floating-point dtype and for nil.
func (t *Tensor) Bool() (condition sym.Bool, ok bool) {
	if t == nil || len(t.Elements) != 1 || t.DType.IsFloat() {
		return condition, false
	}
	if t.DType == tensor.Bool {
		return t.Elements[0].Condition, true
	}
	return t.Elements[0].Numerator.Ne(sym.Int{}), true
}

// Integers returns the elements of a tensor of an integer dtype. It returns nil for another dtype and for nil.
func (t *Tensor) Integers() []sym.Int {
	if t == nil || !t.DType.IsIntegral(false) {
		return nil
	}
	list := make([]sym.Int, len(t.Elements))
	for i, x := range t.Elements {
		list[i] = x.Numerator
	}
	return list
}

// IndexAt returns the index of the i-th element in row-major order.
func IndexAt(shape []int, i int) []int {
	index := make([]int, len(shape))
	for axis := len(shape) - 1; axis >= 0; axis-- {
		index[axis], i = i%shape[axis], i/shape[axis]
	}
	return index
}
