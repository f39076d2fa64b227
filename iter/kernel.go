package iter

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

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

// WithCheck returns the kernel with a check of operand i, where results are not counted. Before a block is computed, f
// checks the block's elements of the operand. If f returns an error, such as for a division by zero, the run ends
// with this error. The results of other blocks may have been written by then. T must be the element type of the
// operand.
func WithCheck[T tensor.Element](k Kernel, i int, f func(v []T) error) Kernel {
	switch d := tensor.DTypeOf[T](); {
	case k.Err() != nil || k.IsZero():
		return k
	case f == nil:
		return nilFunctionKernel
	case i < 0 || i >= len(k.Operands()):
		return rule.Invalid(fmt.Errorf("iter: WithCheck: operand %d does not exist: the kernel has %d operands", i,
			len(k.Operands())))
	case k.Operands()[i] != d:
		return rule.Invalid(fmt.Errorf("iter: WithCheck: the check takes operand %d as %v, but the kernel is %v", i, d, k))
	}
	ptrIndex, computeBlock := i+len(k.Results()), withBlockFunction(k).Block()
	return k.WithBlock(func(p []unsafe.Pointer, n int) error {
		if err := f(unsafe.Slice((*T)(p[ptrIndex]), n)); err != nil {
			return err
		}
		return computeBlock(p, n)
	})
}
