package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/passes/layout"
)

func FusionFlag(cmd *cobra.Command, p *bool) {
	cmd.Flags().BoolVar(p, "no-fusion", false, "make a step of each node, to see what fusing nodes does")
}

func ExactFlag(cmd *cobra.Command, p *bool) {
	cmd.Flags().BoolVar(p, "exact", false, "compute every node by its definition's formula: without implementations "+
		"that are faster by another and round otherwise")
}

// SolveLimit is --solver-time-limit.
type SolveLimit struct{ span time.Duration }

func (l *SolveLimit) AddFlag(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&l.span, "solver-time-limit", layout.SolveLimit, "search `TIME` at most, such as 500ms, "+
		"for the cheapest plan where it is not found at once; 0s: not at all. What is not settled by then is told as a gap")
}

func (l *SolveLimit) Check() error {
	if l.span < 0 {
		return exit.Wrongf("--solver-time-limit %v: want 0s or more", l.span)
	}
	return nil
}

// Option is what [graphrun.Options] want, where 0 is the usual time.
func (l *SolveLimit) Option() time.Duration {
	if l.span == 0 {
		return -1
	}
	return l.span
}

func ThreadsFlag(cmd *cobra.Command, p *int) {
	cmd.Flags().IntVar(p, "threads", 0, "run on `N` workers; 0 is GOMAXPROCS")
}

func CheckThreads(n int) error {
	if n < 0 {
		return exit.Wrongf("--threads %d: want a positive number, or 0, which stands for GOMAXPROCS", n)
	}
	return nil
}
