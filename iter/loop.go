package iter

import (
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
)

// newLoop makes a loop ready, which writes outputs of so many bytes: past the caches where they would not stay there.
func newLoop(l *expr.Loop, bytes int) (*loops.Loop, error) {
	return loops.New(l, bytes >= machine.DefaultProfile().Far)
}

// blockState is what loops of kernels that are wrapped in functions need, which know no cursor.
var blockState = sync.Pool{New: func() any { return new(loops.State) }}

// blocksOf returns a function over blocks that runs a loop, which is made in the first run.
func blocksOf(operands int, state func() (*loops.Loop, error)) block {
	still, loop := make([]int, operands), sync.OnceValues(state)
	return func(p []unsafe.Pointer, n int) error {
		l, err := loop()
		if err != nil {
			return err
		}
		s := blockState.Get().(*loops.State)
		l.Run(s, p, still, n, 1)
		s.Release()
		blockState.Put(s)
		return nil
	}
}
