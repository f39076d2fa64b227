package target

import (
	"errors"
	"fmt"
)

// ErrUnsupported is wrapped by the error for a loop that cannot be compiled. The error states the reason. Package
// interp can run such a loop.
var ErrUnsupported = errors.New("no machine code")

// Unsupported returns an error that wraps [ErrUnsupported].
func Unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// LoopOptions affect the speed of a loop of expressions, and never its results. Such a loop computes the elements of
// its outputs row by row, from the elements of its operands.
type LoopOptions struct {
	// CachedOutputs is a bit set of outputs. These outputs have ordinary stores and stay in the caches.
	CachedOutputs uint32
	// NonTemporal selects non-temporal stores, which bypass the caches, for outputs that are not in CachedOutputs, if
	// the processor has such stores for the dtype. A row is stored this way only if it starts at a multiple of 64 bytes
	// in each of these outputs.
	NonTemporal bool
	// Unfenced omits the fence after non-temporal stores. The caller must then call Fence of package jit after its last
	// run, before another goroutine reads the outputs.
	Unfenced bool
	// Prefetch requests prefetching of operands.
	Prefetch Prefetch
	// Registers is the number of vector registers that the code uses, for tests; 0 for all.
	Registers int
}

// Prefetch describes the prefetching of operands that advance along the row. The prefetched addresses need not be
// mapped.
type Prefetch struct {
	Operands uint32 // bit set of the operands
	Bytes    int32  // distance from the elements of an iteration to the prefetched address; 0: no prefetching
	IntoL1   bool   // true: into the cache of level 1; false: level 2
}
