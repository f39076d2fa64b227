package kernels

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// elementsOf is the n elements of a row-major value at p.
func elementsOf[T any](p unsafe.Pointer, n int) []T {
	if p == nil {
		return nil
	}
	return unsafe.Slice((*T)(p), n)
}

// planeOf returns the n elements of plane i of a row-major value.
func planeOf[T any](p unsafe.Pointer, i, n int) []T {
	return unsafe.Slice((*T)(elem[T](p, i*n)), n)
}

// elem returns the address of element i.
func elem[T any](p unsafe.Pointer, i int) unsafe.Pointer {
	return unsafe.Add(p, i*int(unsafe.Sizeof(*(*T)(nil))))
}

// sliceOf returns n elements of scratch memory from byte at on.
func sliceOf[T any](b []byte, at, n int) []T {
	if n == 0 {
		return nil
	}
	size := int(unsafe.Sizeof(*(*T)(nil)))
	b = b[at : at+n*size]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// alignedSlice allocates n elements at a cache line, for panels packed at compile time.
func alignedSlice[T any](n int) []T {
	return sliceOf[T](tensor.NewStorage(n*int(unsafe.Sizeof(*(*T)(nil)))).Bytes(), 0, n)
}

func divUp(a, b int) int { return (a + b - 1) / b }

func alignUp(n int) int { return (n + 63) &^ 63 }

func copyElement(dst, src unsafe.Pointer, size int) {
	switch size {
	case 1:
		*(*uint8)(dst) = *(*uint8)(src)
	case 2:
		*(*uint16)(dst) = *(*uint16)(src)
	case 4:
		*(*uint32)(dst) = *(*uint32)(src)
	case 8:
		*(*uint64)(dst) = *(*uint64)(src)
	default:
		*(*[2]uint64)(dst) = *(*[2]uint64)(src)
	}
}

func byteStrides(m tensor.Meta) []int {
	out := make([]int, len(m.Strides))
	for d, s := range m.Strides {
		out[d] = s * m.DType.Size()
	}
	return out
}
