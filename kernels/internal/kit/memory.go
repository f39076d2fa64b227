package kit

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// ElementsOf returns the n elements of a row-major value at an address.
func ElementsOf[T any](address unsafe.Pointer, n int) []T {
	if address == nil {
		return nil
	}
	return unsafe.Slice((*T)(address), n)
}

// PlaneOf returns elements [i*n, (i+1)*n) of a row-major value at an address.
func PlaneOf[T any](address unsafe.Pointer, i, n int) []T {
	return unsafe.Slice((*T)(AddressOf[T](address, i*n)), n)
}

// AddressOf returns the address of element i of a row-major value at an address. unsafe.Sizeof does not read the nil
// pointer: it uses only the type.
func AddressOf[T any](address unsafe.Pointer, i int) unsafe.Pointer {
	return unsafe.Add(address, i*int(unsafe.Sizeof(*(*T)(nil))))
}

// SliceOf returns the n elements that start at the given byte offset of memory.
func SliceOf[T any](memory []byte, offset, n int) []T {
	if n == 0 {
		return nil
	}
	size := int(unsafe.Sizeof(*(*T)(nil)))
	memory = memory[offset : offset+n*size]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n)
}

// NewInts returns n zeros. If n is too large, it panics as [tensor.NewStorage] does; the built-in function make would
// end the process.
func NewInts[T int | int64](n int) []T {
	return SliceOf[T](tensor.NewStorage(n*int(unsafe.Sizeof(T(0)))).Bytes(), 0, n)
}

// DivUp returns a/b rounded up, for a >= 0.
func DivUp(a, b int) int { return (a + b - 1) / b }

// AlignUp returns n rounded up to a multiple of a cache line, 64 bytes.
func AlignUp(n int) int { return (n + 63) &^ 63 }

// CopyElement copies one element. size is the size of its dtype in bytes.
func CopyElement(dst, src unsafe.Pointer, size int) {
	switch size {
	case 1:
		*(*uint8)(dst) = *(*uint8)(src)
	case 2:
		*(*uint16)(dst) = *(*uint16)(src)
	case 4:
		*(*uint32)(dst) = *(*uint32)(src)
	case 8:
		*(*uint64)(dst) = *(*uint64)(src)
	default: // 16
		*(*[2]uint64)(dst) = *(*[2]uint64)(src)
	}
}

// ByteStrides returns a value's strides in bytes.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func ByteStrides(m tensor.Meta) []int {
	out := make([]int, len(m.Strides))
	for dim, stride := range m.Strides {
		out[dim] = stride * m.DType.Size()
	}
	return out
}
