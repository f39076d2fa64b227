package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
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
func noteLimit(cmd *cobra.Command, p *graphrun.Program) {
	limit := debug.SetMemoryLimit(-1)
	if os.Getenv("GOMEMLIMIT") == "" || limit == math.MaxInt64 {
		return
	}
	if need := p.Need().Total(); int64(need) > limit {
		note(cmd, "a run needs %s of memory, more than GOMEMLIMIT (%s): garbage collection will slow it down",
			byteSize(need), byteSize(int(limit)))
	}
}

// writeMemory prints what a run needs, and whether it could run here.
func writeMemory(w io.Writer, show display, n graphrun.Need) {
	fmt.Fprintln(w, "\n"+show.paint(strong, "Memory of a run"))
	t := newTable(nameCol("for"), wholeCol("bytes"))
	for _, c := range n.Categories() {
		t.add(c.Name, byteSize(c.Bytes))
	}
	t.add("all", byteSize(n.Total()))
	t.write(w, show)
	var short *graphrun.MemoryError
	if errors.As(n.Check(0, n.Held()), &short) {
		fmt.Fprintf(w, "That is more than it may have here: %s is %s, of which %s is left.\n",
			short.From, byteSize(short.Limit), byteSize(short.Left))
	}
}
