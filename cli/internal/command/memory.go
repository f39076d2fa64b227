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

// LimitGarbage sets the memory limit of the garbage collector unless GOMEMLIMIT is set. Without a limit, garbage may
// grow to the size of the live heap, and the operating system may then kill the process.
func LimitGarbage() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(max(machine.Memory().Available/10*9, minHeapBytes)))
	}
}

// minHeapBytes is the least memory limit: enough for a small graph to run without frequent garbage collection.
const minHeapBytes = 256 << 20

// NoteMemoryLimit warns if a run needs more memory than GOMEMLIMIT. GOMEMLIMIT is a soft limit: the run continues, but
// spends much time in garbage collection.
func NoteMemoryLimit(cmd *cobra.Command, compiled *graphrun.Program) {
	limitBytes := debug.SetMemoryLimit(-1) // a negative limit only queries
	if os.Getenv("GOMEMLIMIT") == "" || limitBytes == math.MaxInt64 {
		return
	}
	if neededBytes := compiled.Need().Total(); int64(neededBytes) > limitBytes {
		term.PrintNote(cmd, "a run needs %s of memory, more than GOMEMLIMIT (%s): garbage collection will slow it down",
			format.Bytes(neededBytes), format.Bytes(int(limitBytes)))
	}
}
