package tensor

import (
	"fmt"
	"unsafe"
)

// Check returns an error if the tensor is nil or released, if its meta does not pass [Meta.Check], or if its elements
// reach outside its storage. A tensor made by this package fails only if its meta was changed or it was released.
func (t *Tensor) Check() error {
	if t == nil {
		return fmt.Errorf("the tensor is nil")
	}
	if err := t.Meta.Check(); err != nil {
		return err
	}
	return checkExtent(t.Meta, t.storage)
}

// mustCheck panics if Check returns an error.
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
	offset := t.Offset
	for dim, i := range index {
		if i < 0 || i >= t.Shape[dim] {
			panic(fmt.Sprintf("tensor: index %s is out of range with shape %s", ListString(index), ListString(t.Shape)))
		}
		offset += i * t.Strides[dim]
	}
	size, length := t.DType.Size(), t.storage.Len()
	if size == 0 || offset < 0 || offset >= length || (offset+1)*size > length { // offset*size cannot overflow
		panic(fmt.Sprintf("tensor: index %s of %v is outside the storage of %d bytes", ListString(index), t.Meta,
			t.storage.Len()))
	}
	return unsafe.Pointer(&t.storage.Bytes()[offset*size])
}

// At returns the element at a logical index as a Scalar, for any dtype. The index has one number for each dimension,
// from 0 to size - 1. For a 0-dim tensor it is empty. At panics for any other index, with a message that states the
// index and the shape.
func (t *Tensor) At(index ...int) Scalar {
	return scalarAt(t.DType, t.element(index))
}

// scalarAt returns the number of the given dtype at an address. It does not use a Converter, because the operands of a
// Converter escape to the heap.
func scalarAt(dtype DType, address unsafe.Pointer) Scalar {
	switch dtype {
	case Bool:
		return BoolScalar(*(*uint8)(address) != 0)
	case Uint8:
		return IntScalar(int64(*(*uint8)(address)))
	case Int8:
		return IntScalar(int64(*(*int8)(address)))
	case Int16:
		return IntScalar(int64(*(*int16)(address)))
	case Int32:
		return IntScalar(int64(*(*int32)(address)))
	case Int64:
		return IntScalar(*(*int64)(address))
	case Uint16:
		return IntScalar(int64(*(*uint16)(address)))
	case Uint32:
		return IntScalar(int64(*(*uint32)(address)))
	case Uint64: // the integer field has the 64 bits, which may be negative; the complex field has the number
		return Scalar{intScalar, *(*int64)(address), complex(float64(*(*uint64)(address)), 0)}
	case Float16:
		return FloatScalar(float64((*(*Half)(address)).Float32()))
	case BFloat16:
		return FloatScalar(float64((*(*BF16)(address)).Float32()))
	case Float32:
		return FloatScalar(float64(*(*float32)(address)))
	case Float64:
		return FloatScalar(*(*float64)(address))
	case Complex64:
		return ComplexScalar(complex128(*(*complex64)(address)))
	}
	return ComplexScalar(*(*complex128)(address))
}

// Set writes the element at a logical index, converted to the tensor's dtype. It panics where [Tensor.At] does, and if
// s has no number.
func (t *Tensor) Set(s Scalar, index ...int) {
	s.Store(t.DType, t.element(index))
}

// SetFlat writes element i in logical (row-major) order, for any layout. The number is converted to the tensor's dtype.
// It panics if i is out of range, and where [Tensor.Set] does.
func (t *Tensor) SetFlat(i int, s Scalar) {
	if i < 0 || i >= t.Numel() {
		panic(fmt.Sprintf("tensor: index [%d] is out of range with %d elements of shape %s", i, t.Numel(),
			ListString(t.Shape)))
	}
	var buffer [8]int // avoids an allocation
	index := append(buffer[:0], t.Shape...)
	for dim := len(index) - 1; dim >= 0; dim-- {
		index[dim], i = i%t.Shape[dim], i/t.Shape[dim]
	}
	s.Store(t.DType, t.element(index))
}
