package tensor

import (
	"fmt"
	"sync"
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

// checkInterval is the number of bytes of small allocations after which [NewStorage] checks the available memory again.
// The check takes less than 1% of the time to fill these bytes.
const checkInterval = 64 << 20

// uncheckedBytes counts the bytes of small allocations since the last check.
var uncheckedBytes atomic.Int64

// tensorOverhead is the approximate size, in bytes, of the structs of a tensor, without its elements.
const tensorOverhead = 256

// blockBytes is the size, in bytes, from which allocations are checked one by one.
const blockBytes = 8 << 20

// blockLock is held from the check of a block until its allocation, unless memory is plentiful: two goroutines must not
// take the same memory.
var blockLock sync.Mutex

// beginAllocation checks that an allocation of n bytes is possible: n is not negative, and a check of the available
// memory succeeds. The caller must call end after the allocation. Smaller allocations than blockBytes are checked
// once for every checkInterval bytes.
func beginAllocation(n int) (end func(), err error) {
	switch {
	case n < 0:
		return nil, fmt.Errorf("storage of %d bytes: the size is negative", n)
	case n >= blockBytes && !machine.FitsEasily(n):
		blockLock.Lock()
		if limit, ok := machine.FitsBlock(n); !ok {
			blockLock.Unlock()
			return nil, &MemoryError{n, limit.Available, limit.Total, limit.Name}
		}
		return blockLock.Unlock, nil
	case n < blockBytes && uncheckedBytes.Add(int64(n+tensorOverhead)) >= checkInterval:
		uncheckedBytes.Store(0)
		if err := CheckMemory(checkInterval); err != nil {
			return nil, err
		}
	}
	return func() {}, nil
}
