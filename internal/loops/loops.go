// Package loops runs loops of expressions in the way that is fastest here.
package loops

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// Loop is an [expr.Loop] that was made ready. It is immutable and may run on any number of goroutines.
type Loop struct {
	folds int
	go_   *expr.Interp
}

// State is what a worker keeps for the loops that it runs. The zero value is ready. It is for one goroutine at a time.
type State struct {
	accs [expr.MaxOperands]unsafe.Pointer
}

// New makes a loop ready.
func New(l *expr.Loop) (*Loop, error) {
	p, err := l.Prepare()
	if err != nil {
		return nil, err
	}
	return &Loop{folds: len(l.Folds), go_: p}, nil
}

// Run computes n1 rows of n0 elements. ptrs are the addresses of the first row: outputs, then operands, then the
// [expr.Lanes] accumulators of each fold, which the row is added to; strides are the bytes from a row to the next in the
// same order, 0 for what rows share. An output that is stored nowhere needs neither. Addresses are trusted.
func (l *Loop) Run(s *State, ptrs []unsafe.Pointer, strides []int, n0, n1 int) {
	ops := len(ptrs) - l.folds
	if l.folds == 0 {
		l.go_.Run(nil, ptrs, strides, nil, n0, n1)
		return
	}
	// Accumulators of the interpreter stay where they are from row to row.
	accs := s.accs[:l.folds]
	copy(accs, ptrs[ops:])
	for j := range n1 {
		l.go_.Run(nil, ptrs[:ops], strides[:ops], accs, n0, 1)
		if j+1 == n1 {
			break
		}
		for k := range ptrs {
			if ptrs[k] != nil {
				ptrs[k] = unsafe.Add(ptrs[k], strides[k])
			}
		}
		copy(accs, ptrs[ops:])
	}
	clear(accs)
}
