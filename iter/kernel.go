package iter

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// noFunction is a kernel of a nil function. Every use of it fails.
var noFunction = rule.NewKernel(0, nil)

// kernel makes a Kernel with the given number of results.
func kernel(results int, isNil bool, body rule.Block, types ...tensor.DType) Kernel {
	if isNil {
		return noFunction
	}
	return rule.NewKernel(results, body, types...)
}

// Refusing returns the kernel with a check. Before a block is computed, f checks the block's elements of operand i;
// results are not counted. If f returns an error, such as for a division by zero, the run ends with this error, but the
// results of other blocks may have been written. T must be the element type of the operand.
func Refusing[T tensor.Element](k Kernel, i int, f func(v []T) error) Kernel {
	switch d := tensor.DTypeOf[T](); {
	case k.Err() != nil || k.IsZero():
		return k
	case f == nil:
		return noFunction
	case i < 0 || i >= len(k.Operands()):
		return rule.Invalid(fmt.Errorf("iter: a check of operand %d of a kernel with %d operands", i, len(k.Operands())))
	case k.Operands()[i] != d:
		return rule.Invalid(fmt.Errorf("iter: a check of operand %d as %v of the kernel %v", i, d, k))
	}
	at, inner := i+len(k.Results()), inBlocks(k).Block()
	return k.WithBlock(func(p []unsafe.Pointer, n int) error {
		if err := f(unsafe.Slice((*T)(p[at]), n)); err != nil {
			return err
		}
		return inner(p, n)
	})
}
