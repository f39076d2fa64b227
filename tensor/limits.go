package tensor

import (
	"fmt"
	"sync/atomic"

	"github.com/graphrun/graphrun/internal/machine"
)

// MemoryError is the error of an allocation beyond the memory limits of the process. The limits are checked before the
// allocation, because a Go program cannot recover from running out of memory.
type MemoryError struct {
	Bytes int    // bytes requested
	Left  int    // bytes still available to the process
	Limit int    // the limit that is exceeded, in bytes
	From  string // the source of the limit, as in "the address space of the process (ulimit -v)"
}

// Error names the requested bytes, the available bytes and the limit.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%s of memory are needed: %s", machine.Bytes(e.Bytes),
		machine.Limit{Available: e.Left, Total: e.Limit, Name: e.From})
}

// CheckMemory returns a [*MemoryError] if the process may not allocate the given number of further bytes. On Linux, it
// reads the limits of the process and of its control groups, and the free memory of the machine.
func CheckMemory(bytes int) error {
	if limit, ok := machine.Fits(bytes); !ok {
		return &MemoryError{bytes, limit.Available, limit.Total, limit.Name}
	}
	return nil
}

// CatchMemory recovers a [*MemoryError] panic of [NewStorage] and stores it in err. Other panics continue. Only a
// deferred call has an effect.
func CatchMemory(err *error) {
	switch panicked := recover().(type) {
	case nil:
	case *MemoryError:
		*err = panicked
	default:
		panic(panicked)
	}
}

// checkInterval is the number of allocated bytes after which [NewStorage] checks the available memory again. The check
// takes less than 1% of the time to fill these bytes.
const checkInterval = 64 << 20

// uncheckedBytes counts the bytes allocated since the last check.
var uncheckedBytes atomic.Int64

// tensorOverhead is the approximate size, in bytes, of the structs of a tensor, without its elements.
const tensorOverhead = 256

// checkAllocation returns an error if an allocation of n bytes is not possible: n is negative, or a check of the
// available memory fails. Allocations of checkInterval bytes or more are always checked; smaller ones are checked once
// for every checkInterval bytes.
func checkAllocation(n int) error {
	switch {
	case n < 0:
		return fmt.Errorf("storage of %d bytes: the size is negative", n)
	case n >= checkInterval:
		if limit, ok := machine.FitsBlock(n); !ok {
			return &MemoryError{n, limit.Available, limit.Total, limit.Name}
		}
	case uncheckedBytes.Add(int64(n+tensorOverhead)) >= checkInterval:
		uncheckedBytes.Store(0)
		return CheckMemory(checkInterval)
	}
	return nil
}
