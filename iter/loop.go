package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// exprLoop runs an expression over rows: ptrs are the addresses of the first elements, outputs first, strides their
// steps in bytes from row to row.
type exprLoop interface {
	rows(c *Cursor, ptrs []unsafe.Pointer, strides []int, n0, n1 int) error
	block(ptrs []unsafe.Pointer, n int) error
}

// newLoop makes a loop ready: of machine code where that can be had, else one that goes block by block in Go.
func newLoop(l *expr.Loop) (exprLoop, error) {
	return nil, nil
}
