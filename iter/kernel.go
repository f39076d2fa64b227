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
