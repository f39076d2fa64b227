package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Each function of this file makes a [Kernel] of f, a function over slices. For example, this kernel multiplies:
//
//	Slice2(func(dst, a, b []float32) {
//		for i := range dst {
//			dst[i] = a[i] * b[i]
//		}
//	})
//
// SliceN is for N operands and one result, and SliceNOutM for M results, with the type parameters of the Map functions
// (map.go). The iterator passes the addresses p of the blocks of all results, then of all operands. newKernel gets the
// number of results, whether f is missing, the function over addresses, and the dtypes of all results and operands.
//
// f gets slices of equal length n, one for each result and operand. It must write every element of its results, and
// must not retain the slices. The slice of a result may be the slice of an operand with the same element size. The
// result for an element must not depend on other elements or on n, because the iterator chooses the lengths of blocks.

// Slice0 makes a Kernel of a function over slices with no operand: a fill.
func Slice0[D tensor.Element](f func(dst []D)) Kernel {
	return newKernel(1, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n))
		return nil
	}, tensor.DTypeOf[D]())
}

// Slice1 makes a Kernel of a function over slices with one operand.
func Slice1[D, A tensor.Element](f func(dst []D, a []A)) Kernel {
	return newKernel(1, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*A)(p[1]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[A]())
}

// Slice2 makes a Kernel of a function over slices with two operands.
func Slice2[D, A, B tensor.Element](f func(dst []D, a []A, b []B)) Kernel {
	return newKernel(1, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*A)(p[1]), n), unsafe.Slice((*B)(p[2]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[A](), tensor.DTypeOf[B]())
}

// Slice3 makes a Kernel of a function over slices with three operands.
func Slice3[D, A, B, C tensor.Element](f func(dst []D, a []A, b []B, c []C)) Kernel {
	return newKernel(1, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n),
			unsafe.Slice((*A)(p[1]), n), unsafe.Slice((*B)(p[2]), n), unsafe.Slice((*C)(p[3]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[A](), tensor.DTypeOf[B](), tensor.DTypeOf[C]())
}

// Slice4 makes a Kernel of a function over slices with four operands.
func Slice4[D, A, B, C, E tensor.Element](f func(dst []D, a []A, b []B, c []C, e []E)) Kernel {
	return newKernel(1, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n),
			unsafe.Slice((*A)(p[1]), n), unsafe.Slice((*B)(p[2]), n),
			unsafe.Slice((*C)(p[3]), n), unsafe.Slice((*E)(p[4]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[A](), tensor.DTypeOf[B](), tensor.DTypeOf[C](), tensor.DTypeOf[E]())
}

// Slice0Out2 makes a Kernel of a function over slices with two results and no operand.
func Slice0Out2[D, R tensor.Element](f func(d0 []D, d1 []R)) Kernel {
	return newKernel(2, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R]())
}

// Slice1Out2 makes a Kernel of a function over slices with two results and one operand.
func Slice1Out2[D, R, A tensor.Element](f func(d0 []D, d1 []R, a []A)) Kernel {
	return newKernel(2, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n), unsafe.Slice((*A)(p[2]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R](), tensor.DTypeOf[A]())
}

// Slice2Out2 makes a Kernel of a function over slices with two results and two operands.
func Slice2Out2[D, R, A, B tensor.Element](f func(d0 []D, d1 []R, a []A, b []B)) Kernel {
	return newKernel(2, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n),
			unsafe.Slice((*A)(p[2]), n), unsafe.Slice((*B)(p[3]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R](), tensor.DTypeOf[A](), tensor.DTypeOf[B]())
}

// Slice3Out2 makes a Kernel of a function over slices with two results and three operands.
func Slice3Out2[D, R, A, B, C tensor.Element](f func(d0 []D, d1 []R, a []A, b []B, c []C)) Kernel {
	return newKernel(2, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n),
			unsafe.Slice((*A)(p[2]), n), unsafe.Slice((*B)(p[3]), n), unsafe.Slice((*C)(p[4]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R](), tensor.DTypeOf[A](), tensor.DTypeOf[B](), tensor.DTypeOf[C]())
}

// Slice4Out2 makes a Kernel of a function over slices with two results and four operands.
func Slice4Out2[D, R, A, B, C, E tensor.Element](f func(d0 []D, d1 []R, a []A, b []B, c []C, e []E)) Kernel {
	return newKernel(2, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n),
			unsafe.Slice((*A)(p[2]), n), unsafe.Slice((*B)(p[3]), n),
			unsafe.Slice((*C)(p[4]), n), unsafe.Slice((*E)(p[5]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R](),
		tensor.DTypeOf[A](), tensor.DTypeOf[B](), tensor.DTypeOf[C](), tensor.DTypeOf[E]())
}

// Slice0Out3 makes a Kernel of a function over slices with three results and no operand.
func Slice0Out3[D, R, S tensor.Element](f func(d0 []D, d1 []R, d2 []S)) Kernel {
	return newKernel(3, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n), unsafe.Slice((*S)(p[2]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R](), tensor.DTypeOf[S]())
}

// Slice1Out3 makes a Kernel of a function over slices with three results and one operand.
func Slice1Out3[D, R, S, A tensor.Element](f func(d0 []D, d1 []R, d2 []S, a []A)) Kernel {
	return newKernel(3, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n), unsafe.Slice((*S)(p[2]), n),
			unsafe.Slice((*A)(p[3]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R](), tensor.DTypeOf[S](), tensor.DTypeOf[A]())
}

// Slice2Out3 makes a Kernel of a function over slices with three results and two operands.
func Slice2Out3[D, R, S, A, B tensor.Element](f func(d0 []D, d1 []R, d2 []S, a []A, b []B)) Kernel {
	return newKernel(3, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n), unsafe.Slice((*S)(p[2]), n),
			unsafe.Slice((*A)(p[3]), n), unsafe.Slice((*B)(p[4]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R](), tensor.DTypeOf[S](), tensor.DTypeOf[A](), tensor.DTypeOf[B]())
}

// Slice3Out3 makes a Kernel of a function over slices with three results and three operands.
func Slice3Out3[D, R, S, A, B, C tensor.Element](f func(d0 []D, d1 []R, d2 []S, a []A, b []B, c []C)) Kernel {
	return newKernel(3, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n), unsafe.Slice((*S)(p[2]), n),
			unsafe.Slice((*A)(p[3]), n), unsafe.Slice((*B)(p[4]), n), unsafe.Slice((*C)(p[5]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R](), tensor.DTypeOf[S](),
		tensor.DTypeOf[A](), tensor.DTypeOf[B](), tensor.DTypeOf[C]())
}

// Slice4Out3 makes a Kernel of a function over slices with three results and four operands.
func Slice4Out3[D, R, S, A, B, C, E tensor.Element](f func(d0 []D, d1 []R, d2 []S, a []A, b []B, c []C, e []E)) Kernel {
	return newKernel(3, f == nil, func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*R)(p[1]), n), unsafe.Slice((*S)(p[2]), n),
			unsafe.Slice((*A)(p[3]), n), unsafe.Slice((*B)(p[4]), n),
			unsafe.Slice((*C)(p[5]), n), unsafe.Slice((*E)(p[6]), n))
		return nil
	}, tensor.DTypeOf[D](), tensor.DTypeOf[R](), tensor.DTypeOf[S](),
		tensor.DTypeOf[A](), tensor.DTypeOf[B](), tensor.DTypeOf[C](), tensor.DTypeOf[E]())
}
