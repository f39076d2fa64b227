package iter

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Each function of this file makes a [Kernel] from a function f. f computes one element of each result from one element
// of each operand. For example, this kernel multiplies:
//
//	Map2(func(a, b float32) float32 { return a * b })
//
// MapN is for N operands and one result, and MapNOutM for M results. A, B, C and E are the types of the operands; D
// (destination), R and S are the types of the results.
//
// Workers (see [Workers]) call f concurrently and in no particular order, so its results must depend only on its
// arguments. If f is cheap, the matching Slice function (Slice2 for Map2) is several times faster.

// Map0 makes a Kernel of a function of no operand: a fill.
func Map0[D tensor.Element](f func() D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice0(func(dst []D) {
		for i := range dst {
			dst[i] = f()
		}
	})
}

// Map1 makes a Kernel of a function of one operand.
func Map1[D, A tensor.Element](f func(a A) D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice1(func(dst []D, a []A) {
		for i := range dst {
			dst[i] = f(a[i])
		}
	})
}

// Map2 makes a Kernel of a function of two operands, as PyTorch's cpu_kernel does.
func Map2[D, A, B tensor.Element](f func(a A, b B) D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice2(func(dst []D, a []A, b []B) {
		for i := range dst {
			dst[i] = f(a[i], b[i])
		}
	})
}

// Map3 makes a Kernel of a function of three operands.
func Map3[D, A, B, C tensor.Element](f func(a A, b B, c C) D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice3(func(dst []D, a []A, b []B, c []C) {
		for i := range dst {
			dst[i] = f(a[i], b[i], c[i])
		}
	})
}

// Map4 makes a Kernel of a function of four operands.
func Map4[D, A, B, C, E tensor.Element](f func(a A, b B, c C, e E) D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice4(func(dst []D, a []A, b []B, c []C, e []E) {
		for i := range dst {
			dst[i] = f(a[i], b[i], c[i], e[i])
		}
	})
}

// Map0Out2 makes a Kernel of a function of no operand with two results.
func Map0Out2[D, R tensor.Element](f func() (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice0Out2(func(d0 []D, d1 []R) {
		for i := range d0 {
			d0[i], d1[i] = f()
		}
	})
}

// Map1Out2 makes a Kernel of a function of one operand with two results, as PyTorch's
// cpu_kernel_multiple_outputs does.
func Map1Out2[D, R, A tensor.Element](f func(a A) (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice1Out2(func(d0 []D, d1 []R, a []A) {
		for i := range d0 {
			d0[i], d1[i] = f(a[i])
		}
	})
}

// Map2Out2 makes a Kernel of a function of two operands with two results.
func Map2Out2[D, R, A, B tensor.Element](f func(a A, b B) (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice2Out2(func(d0 []D, d1 []R, a []A, b []B) {
		for i := range d0 {
			d0[i], d1[i] = f(a[i], b[i])
		}
	})
}

// Map3Out2 makes a Kernel of a function of three operands with two results.
func Map3Out2[D, R, A, B, C tensor.Element](f func(a A, b B, c C) (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice3Out2(func(d0 []D, d1 []R, a []A, b []B, c []C) {
		for i := range d0 {
			d0[i], d1[i] = f(a[i], b[i], c[i])
		}
	})
}

// Map4Out2 makes a Kernel of a function of four operands with two results.
func Map4Out2[D, R, A, B, C, E tensor.Element](f func(a A, b B, c C, e E) (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice4Out2(func(d0 []D, d1 []R, a []A, b []B, c []C, e []E) {
		for i := range d0 {
			d0[i], d1[i] = f(a[i], b[i], c[i], e[i])
		}
	})
}

// Map0Out3 makes a Kernel of a function of no operand with three results.
func Map0Out3[D, R, S tensor.Element](f func() (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice0Out3(func(d0 []D, d1 []R, d2 []S) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f()
		}
	})
}

// Map1Out3 makes a Kernel of a function of one operand with three results.
func Map1Out3[D, R, S, A tensor.Element](f func(a A) (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice1Out3(func(d0 []D, d1 []R, d2 []S, a []A) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f(a[i])
		}
	})
}

// Map2Out3 makes a Kernel of a function of two operands with three results.
func Map2Out3[D, R, S, A, B tensor.Element](f func(a A, b B) (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice2Out3(func(d0 []D, d1 []R, d2 []S, a []A, b []B) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f(a[i], b[i])
		}
	})
}

// Map3Out3 makes a Kernel of a function of three operands with three results.
func Map3Out3[D, R, S, A, B, C tensor.Element](f func(a A, b B, c C) (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice3Out3(func(d0 []D, d1 []R, d2 []S, a []A, b []B, c []C) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f(a[i], b[i], c[i])
		}
	})
}

// Map4Out3 makes a Kernel of a function of four operands with three results.
func Map4Out3[D, R, S, A, B, C, E tensor.Element](f func(a A, b B, c C, e E) (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice4Out3(func(d0 []D, d1 []R, d2 []S, a []A, b []B, c []C, e []E) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f(a[i], b[i], c[i], e[i])
		}
	})
}

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

// nilFunctionKernel is a kernel of a nil function. Every use of it fails.
var nilFunctionKernel = rule.NewKernel(0, nil)

// newKernel makes a Kernel with the given number of results. types are the dtypes of the results, then of the operands.
// functionIsNil is set if the caller's function, which body calls, is nil.
func newKernel(results int, functionIsNil bool, body rule.Block, types ...tensor.DType) Kernel {
	if functionIsNil {
		return nilFunctionKernel
	}
	return rule.NewKernel(results, body, types...)
}

// WithCheck returns the kernel with a check of one operand. operand is its index among the operands, from 0; results do
// not count. Before a block is computed, check is called with the block's elements of the operand. If check returns an
// error, such as for a division by zero, the run ends with this error. The results of other blocks may have been
// written by then. T must be the element type of the operand.
func WithCheck[T tensor.Element](kernel Kernel, operand int, check func(v []T) error) Kernel {
	return withCheck(kernel, operand, tensor.DTypeOf[T](), check == nil, func(address unsafe.Pointer, count int) error {
		return check(unsafe.Slice((*T)(address), count))
	})
}

// withCheck is [WithCheck] for operands of a dtype. checkIsNil is set if the caller's function, which check calls, is
// nil.
func withCheck(kernel Kernel, operand int, dtype tensor.DType, checkIsNil bool,
	check func(address unsafe.Pointer, count int) error) Kernel {
	switch {
	case kernel.Err() != nil || kernel.IsZero():
		return kernel
	case checkIsNil:
		return nilFunctionKernel
	case operand < 0 || operand >= len(kernel.Operands()):
		return rule.Invalid(fmt.Errorf("iter: WithCheck: operand %d does not exist: the kernel has %d operands", operand,
			len(kernel.Operands())))
	case kernel.Operands()[operand] != dtype:
		return rule.Invalid(fmt.Errorf("iter: WithCheck: the check wants %v for operand %d, but the kernel takes %v", dtype,
			operand, kernel.Operands()[operand]))
	}
	ptrIndex, computeBlock := operand+len(kernel.Results()), withBlockFunction(kernel).Block()
	return kernel.WithBlock(func(addrs []unsafe.Pointer, count int) error {
		if err := check(addrs[ptrIndex], count); err != nil {
			return err
		}
		return computeBlock(addrs, count)
	})
}

// withBlockFunction replaces the expression of a kernel by a function over blocks ([Kernel.Block]). A block has
// contiguous elements of each operand. The function compiles the expression at its first call.
func withBlockFunction(kernel Kernel) Kernel {
	if kernel.Err() != nil || kernel.IsZero() || kernel.Block() != nil {
		return kernel
	}
	compile := sync.OnceValues(func() (*loops.Loop, error) {
		code, err := kernel.Code()
		if err != nil {
			return nil, err
		}
		return contiguousLoop(code)
	})
	rowStrides := make([]int, len(kernel.Results())+len(kernel.Operands())) // 0, because a block is one row
	return kernel.WithBlock(func(addrs []unsafe.Pointer, count int) error {
		loop, err := compile()
		if err != nil {
			return err
		}
		state := blockState.Get().(*loops.State)
		loop.Run(state, addrs, rowStrides, count, 1)
		state.Release()
		blockState.Put(state)
		return nil
	})
}

// blockState holds loop states for kernels that are called as functions, without a [Cursor].
var blockState = sync.Pool{New: func() any { return new(loops.State) }}

// contiguousLoop compiles a loop over contiguous elements of all operands.
func contiguousLoop(code *expr.Code) (*loops.Loop, error) {
	return loops.New(&expr.Loop{Code: code, Uniform: make([]bool, len(code.In))}, loops.Options{})
}

// This part converts the elements of operands between the dtype in memory (Meta.DType) and the dtype in which a loop
// computes (TargetDType). If an operand has a Cast, its elements are rounded to this dtype on the way.

// roundBlock rounds n results in a block to operand.Cast. PyTorch computes such results in a temporary of this dtype,
// and then copies them to an output of another dtype.
func roundBlock(operand *rule.Resolved, block unsafe.Pointer, n int) {
	size := operand.TargetDType.Size()
	roundingConverters[[2]tensor.DType{operand.Cast, operand.TargetDType}](block, block, size, size, n)
}

// inputConversion returns the conversion of an input for the loop. If PyTorch promotes the input to a 16-bit float, the
// conversion rounds to that dtype first, although loops compute in a wider dtype.
func inputConversion(operand *rule.Resolved) strided.Elem {
	if operand.Cast == tensor.Invalid {
		return conversion(operand.TargetDType, operand.Meta.DType)
	}
	round := roundingConverters[[2]tensor.DType{operand.Cast, operand.Meta.DType}]
	return strided.ConverterOf(operand.TargetDType.Size(), operand.Meta.DType.Size(), round)
}

// conversion returns the conversion between two dtypes. Between equal dtypes it is a move, because the converter from
// bool to bool would normalize every byte.
func conversion(dst, src tensor.DType) strided.Elem {
	if dst == src {
		return strided.MoverOf(dst.Size())
	}
	return strided.ConverterOf(dst.Size(), src.Size(), tensor.Converter(dst, src))
}

// roundingConverters maps {half, from} to the conversion from dtype `from` to float32 that first rounds to the 16-bit
// float `half`. The second step of the conversion works in place, so both steps use the strides of the result.
var roundingConverters = func() map[[2]tensor.DType]tensor.ConvertFunc {
	converters := map[[2]tensor.DType]tensor.ConvertFunc{}
	for _, half := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		widen := tensor.Converter(half.OpMath(), half)
		for _, from := range tensor.DTypes() {
			narrow := tensor.Converter(half, from)
			converters[[2]tensor.DType{half, from}] = func(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
				narrow(dst, src, dstStride, srcStride, n)
				widen(dst, dst, dstStride, dstStride, n)
			}
		}
	}
	return converters
}()
