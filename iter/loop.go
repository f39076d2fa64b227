package iter

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// newLoop makes a loop ready, which writes outputs of so many bytes: past the caches where they would not stay
// there.
func newLoop(l *expr.Loop, bytes int) (*loops.Loop, error) {
	return loops.New(l, loops.Options{NonTemporal: bytes >= machine.FarBytes})
}

// aheadLine is how many bytes ahead of it a loop that computes much asks for what it reads in order: while it
// computes, the processor's own looking ahead is too short. exp of 64 MiB takes 2.3 ms instead of 3.1 with it, tanh
// 2.5 instead of 3.2, and a sum of bfloat16 of as many elements 1.5 instead of 1.9 (Zen 5); the sum of float32 3.6
// instead of 3.4.
const aheadLine = 8192

// computes reports whether an element takes long beside the memory that it has: by elementary functions, or by
// rounding to bfloat16, for which there is no single instruction.
func computes(c *expr.Code) bool {
	return slices.ContainsFunc(c.Insts, func(i expr.Inst) bool {
		return i.Op.Elementary() || i.Op == expr.Convert && i.DType == tensor.BFloat16
	})
}

// aheadInLine asks for operands that are read in order for long and do not fit the caches.
func (it *Iterator) aheadInLine() (a loops.Ahead) {
	for i := it.noutputs; i < len(it.ops) && len(it.walkShape) > 0; i++ {
		size := it.walkStrides[i]
		if size == it.ops[i].held.Size() && size*it.walkShape[0] >= 8*aheadLine {
			a.Operands |= 1 << (i - it.noutputs)
		}
	}
	if a.Operands != 0 {
		a.Bytes, a.Near = aheadLine, true
	}
	return a
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
