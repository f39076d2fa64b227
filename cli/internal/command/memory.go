package command

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/machine"
)

// CollectEarly tells the garbage collector how much memory there is, unless the user has
// (GOMEMLIMIT): by itself it lets garbage grow to the size of what is in use, and where
// memory is short that ends the process.
func CollectEarly() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(max(machine.Memory().Left/10*9, leastHeap)))
	}
}

// leastHeap is a heap in which a small graph runs without the collector always at work.
const leastHeap = 256 << 20

// NoteLimit says so where a run needs more than GOMEMLIMIT. That is a hint to the garbage
// collector, no limit: the run goes on, and the collector goes round and round.
func NoteLimit(cmd *cobra.Command, p *graphrun.Program) {
	limit := debug.SetMemoryLimit(-1)
	if os.Getenv("GOMEMLIMIT") == "" || limit == math.MaxInt64 {
		return
	}
	if need := p.Need().Total(); int64(need) > limit {
		term.Note(cmd, "a run needs %s of memory, more than GOMEMLIMIT (%s): garbage collection will slow it down",
			format.Bytes(need), format.Bytes(int(limit)))
	}
}
