package tensor

import (
	"fmt"
	"sync/atomic"

	"github.com/graphrun/graphrun/internal/machine"
)

// MemoryError says that the process may not have the memory that something takes. To run
// out of it ends a Go program without a word, or the system ends it; so it is refused
// before it is taken.
type MemoryError struct {
	Bytes int    // what was asked for
	Left  int    // what the process may still take
	Limit int    // the bound that says so, in bytes
	From  string // whose bound it is, as in "the address space of the process (ulimit -v)"
}

// Error tells what was asked for, what there is, and what bounds it.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%s of memory are needed: %s", machine.Bytes(e.Bytes),
		machine.Limit{Left: e.Left, Total: e.Limit, Name: e.From})
}

// CheckMemory returns a [*MemoryError] if the process may not take so many bytes more: its
// limits, those of its control groups, and what the machine has left are looked up where
// the system tells them (Linux).
func CheckMemory(bytes int) error {
	if l, ok := machine.Fits(bytes); !ok {
		return &MemoryError{bytes, l.Left, l.Total, l.Name}
	}
	return nil
}

// CatchMemory turns, where it is deferred, the panic of [NewStorage] into an error of the function
// that defers it. Other panics go on.
func CatchMemory(err *error) {
	switch x := recover().(type) {
	case nil:
	case *MemoryError:
		*err = x
	default:
		panic(x)
	}
}

// checkedStorage is the number of bytes, in one allocation or in several, after which [NewStorage] checks the available
// memory: the check takes less time than filling a hundredth of them.
const checkedStorage = 64 << 20

// unchecked counts the bytes that were allocated since the last check.
var unchecked atomic.Int64

// smallest is the approximate overhead of an allocation in bytes: the tensor's description.
const smallest = 256

// allocatable reports a number of bytes that no allocation can give: negative ones, and
// more than the process may have.
func allocatable(n int) error {
	switch {
	case n < 0:
		return fmt.Errorf("storage of %d bytes", n)
	case n >= checkedStorage:
		if l, ok := machine.FitsBlock(n); !ok {
			return &MemoryError{n, l.Left, l.Total, l.Name}
		}
	case unchecked.Add(int64(n+smallest)) >= checkedStorage:
		unchecked.Store(0)
		return CheckMemory(checkedStorage)
	}
	return nil
}
