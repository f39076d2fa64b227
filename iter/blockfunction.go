package iter

import (
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
)

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
