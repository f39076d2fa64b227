package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// exprLoop runs an expression over n1 rows of n0 elements: ptrs are the addresses of the first elements, outputs first,
// strides their steps in bytes from row to row.
type exprLoop interface {
	run(ptrs []unsafe.Pointer, strides []int, n0, n1 int)
}

// newLoop makes a loop ready: of machine code where that can be had, else one that goes block by block in Go.
func newLoop(l *expr.Loop) (exprLoop, error) {
	p, err := l.Prepare()
	if err != nil {
		return nil, err
	}
	return goLoop{p}, nil
}

// goLoop is a loop in Go. The memory that it needs comes from a pool of its own.
type goLoop struct{ p *expr.Interp }

func (l goLoop) run(ptrs []unsafe.Pointer, strides []int, n0, n1 int) {
	l.p.Run(nil, ptrs, strides, nil, n0, n1)
}
