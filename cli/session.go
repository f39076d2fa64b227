package cli

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/passes/layout"
)

const defaultStrategy = "optimal"

// strategyFlag adds --strategy with its completion.
func strategyFlag(cmd *cobra.Command, p *string) {
	cmd.Flags().StringVar(p, "strategy", defaultStrategy,
		"choose layouts as `NAME` does: "+strings.Join(strategyNames(), ", "))
	completeFrom(cmd, "strategy", strategyNames())
}

func fusionFlag(cmd *cobra.Command, p *bool) {
	cmd.Flags().BoolVar(p, "no-fusion", false, "make a step of each node, to see what fusing nodes does")
}

func exactFlag(cmd *cobra.Command, p *bool) {
	cmd.Flags().BoolVar(p, "exact", false, "compute every node by its definition's formula: without implementations "+
		"that are faster by another and round otherwise")
}

// solveLimit is --solver-time-limit.
type solveLimit struct{ span time.Duration }

func (l *solveLimit) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&l.span, "solver-time-limit", layout.SolveLimit, "search `TIME` at most, such as 500ms, "+
		"for the cheapest plan where it is not found at once; 0s: not at all. What is not settled by then is told as a gap")
}

func (l *solveLimit) check() error {
	if l.span < 0 {
		return wrongf("--solver-time-limit %v: want 0s or more", l.span)
	}
	return nil
}

// option is what [graphrun.Options] want, where 0 is the usual time.
func (l *solveLimit) option() time.Duration {
	if l.span == 0 {
		return -1
	}
	return l.span
}

func threadsFlag(cmd *cobra.Command, p *int) {
	cmd.Flags().IntVar(p, "threads", 0, "run on `N` workers; 0 is GOMAXPROCS")
}

// strategyNames lists the strategies.
func strategyNames() []string {
	var names []string
	for _, s := range own.strategies() {
		names = append(names, s.Name())
	}
	return names
}

// strategyOf returns a strategy that [checkStrategy] let pass.
func strategyOf(name string) graphrun.Strategy {
	for _, s := range own.strategies() {
		if s.Name() == name {
			return s
		}
	}
	return graphrun.Optimal
}

// checkStrategy reports a strategy that does not exist.
func checkStrategy(name string) error {
	if slices.Contains(strategyNames(), name) {
		return nil
	}
	return wrongf("unknown strategy %q: %s", name, wantOneOf(name, strategyNames()))
}

func checkThreads(n int) error {
	if n < 0 {
		return wrongf("--threads %d: want a positive number, or 0, which stands for GOMAXPROCS", n)
	}
	return nil
}

// dumpTo returns where --dump prints: messages are beside JSON.
func dumpTo(cmd *cobra.Command, asJSON bool) io.Writer {
	if asJSON {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}
