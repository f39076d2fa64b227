package tensor

import (
	"fmt"
	"unsafe"
)

// Check returns an error if the tensor is nil or released, if its meta does not pass [Meta.Check], or if its elements
// reach outside its storage. Tensors made by this package pass, unless their meta was changed or they were released.
func (t *Tensor) Check() error {
	if t == nil {
		return fmt.Errorf("the tensor is nil")
	}
	if err := t.Meta.Check(); err != nil {
		return err
	}
	return checkExtent(t.Meta, t.storage)
}

func (t *Tensor) mustCheck() {
	if err := t.Check(); err != nil {
		panic("tensor: " + err.Error())
	}
}

// element returns the address of an element. It panics if the index is out of range.
func (t *Tensor) element(index []int) unsafe.Pointer {
	if len(index) != len(t.Shape) || len(index) != len(t.Strides) {
		panic(fmt.Sprintf("tensor: index %s has %d dimensions, shape %s has %d",
			ListString(index), len(index), ListString(t.Shape), len(t.Shape)))
	}
	at := t.Offset
	for d, i := range index {
		if i < 0 || i >= t.Shape[d] {
			panic(fmt.Sprintf("tensor: index %s is out of range with shape %s", ListString(index), ListString(t.Shape)))
		}
		at += i * t.Strides[d]
	}
	size, length := t.DType.Size(), t.storage.Len()
	if size == 0 || at < 0 || at >= length || (at+1)*size > length { // at*size cannot overflow
		panic(fmt.Sprintf("tensor: index %s of %v is outside the storage of %d bytes", ListString(index), t.Meta,
			t.storage.Len()))
	}
	return unsafe.Pointer(&t.storage.data[at*size])
}

// At returns the element at a logical index as a Scalar, for any dtype. The index has one number for each dimension,
// from 0 to size - 1. For a 0-dim tensor it is empty. At panics for any other index, with a message that states the
// index and the shape.
func (t *Tensor) At(index ...int) Scalar {
	p := t.element(index)
	switch {
	case t.DType == Uint64:
		return Scalar{intScalar, *(*int64)(p), complex(float64(*(*uint64)(p)), 0)}
	case t.DType == Float32: // a fast path: a call of a Converter allocates the operands
		return FloatScalar(float64(*(*float32)(p)))
	case t.DType == Float64:
		return FloatScalar(*(*float64)(p))
	case t.DType.IsFloat():
		var f float64
		Converter(Float64, t.DType)(unsafe.Pointer(&f), p, 0, 0, 1)
		return FloatScalar(f)
	case t.DType.IsComplex():
		var c complex128
		Converter(Complex128, t.DType)(unsafe.Pointer(&c), p, 0, 0, 1)
		return ComplexScalar(c)
	}
	var i int64
	Converter(Int64, t.DType)(unsafe.Pointer(&i), p, 0, 0, 1)
	if t.DType == Bool {
		return BoolScalar(i != 0)
	}
	return IntScalar(i)
}

// Set writes the element at a logical index, converted to the tensor's dtype. It panics where [Tensor.At]
// does, and if s holds no number.
func (t *Tensor) Set(s Scalar, index ...int) {
	s.Store(t.DType, t.element(index))
}

// SetFlat writes element i in logical (row-major) order, whatever the layout. The number is converted to the tensor's
// dtype. It panics if i is out of range, and where [Tensor.Set] does.
func (t *Tensor) SetFlat(i int, s Scalar) {
	if i < 0 || i >= t.Numel() {
		panic(fmt.Sprintf("tensor: index [%d] is out of range with %d elements of shape %s", i, t.Numel(),
			ListString(t.Shape)))
	}
	var buf [8]int
	index := append(buf[:0], t.Shape...)
	for d := len(index) - 1; d >= 0; d-- {
		index[d], i = i%t.Shape[d], i/t.Shape[d]
	}
	s.Store(t.DType, t.element(index))
}
