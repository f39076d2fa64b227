package main

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/internal/machine"
)

// collectEarly tells the garbage collector how much memory there is, unless the user has
// (GOMEMLIMIT): by itself it lets garbage grow to the size of what is in use, and where
// memory is short that ends the process.
func collectEarly() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(max(machine.Memory().Left/10*9, leastHeap)))
	}
}

// leastHeap is a heap in which a small graph runs without the collector always at work.
const leastHeap = 256 << 20

// noteLimit says so where a run needs more than GOMEMLIMIT. That is a hint to the garbage
// collector, no limit: the run goes on, and the collector goes round and round.
func noteLimit(note func(format string, args ...any), p *exec.Program) {
	limit := debug.SetMemoryLimit(-1)
	if p == nil || os.Getenv("GOMEMLIMIT") == "" || limit == math.MaxInt64 {
		return
	}
	if need := p.Need().Total(); int64(need) > limit {
		note("a run needs %s of memory, more than GOMEMLIMIT (%s): garbage collection will slow it down", byteSize(need), byteSize(int(limit)))
	}
}
