package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
)

const defaultStrategy = "propagate"

// strategyFlag adds --strategy with its completion.
func strategyFlag(cmd *cobra.Command, p *string) {
	cmd.Flags().StringVar(p, "strategy", defaultStrategy, "how layouts are chosen: "+strings.Join(passes.Strategies(), ", "))
	// The flag exists, so this cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("strategy", cobra.FixedCompletions(passes.Strategies(), cobra.ShellCompDirectiveNoFileComp))
}

func threadsFlag(cmd *cobra.Command, p *int) {
	cmd.Flags().IntVar(p, "threads", 0, "number of workers (default GOMAXPROCS)")
}

// checkStrategy reports a strategy that does not exist.
func checkStrategy(name string) error {
	if slices.Contains(passes.Strategies(), name) {
		return nil
	}
	return wrongf("unknown strategy %q: want one of %s", name, strings.Join(passes.Strategies(), ", "))
}

func checkThreads(n int) error {
	if n < 0 {
		return wrongf("--threads %d: want a positive number", n)
	}
	return nil
}

// planned is a graph made ready under a strategy.
type planned struct {
	plan    *passes.Plan
	program *exec.Program
	took    time.Duration // passes and compilation
}

// prepare applies a strategy and compiles.
func prepare(g *graph.Graph, o passes.Options, run exec.Options) (*planned, error) {
	start := time.Now()
	plan, err := passes.Run(g, o)
	if err != nil {
		return nil, fmt.Errorf("strategy %s: %w", o.Strategy, err)
	}
	program, err := exec.Compile(plan.Graph, run)
	if err != nil {
		return nil, err
	}
	return &planned{plan, program, time.Since(start)}, nil
}

// planner is how a runner plans under a strategy. Where it keeps going, it returns what it
// had to leave out beside the rest of the graph.
func planner(strategy string, keepGoing bool) exec.Planner {
	return func(g *graph.Graph) (*graph.Graph, error) {
		p, err := passes.Run(g, passes.Options{Strategy: strategy, KeepGoing: keepGoing})
		if err != nil {
			return nil, fmt.Errorf("strategy %s: %w", strategy, err)
		}
		if len(p.Failed) > 0 {
			return p.Graph, p.Failed
		}
		return p.Graph, nil
	}
}

// copyBytes is the total size of the copies that the passes inserted.
func (p *planned) copyBytes() int {
	n := 0
	for _, c := range p.plan.Copies {
		n += c.Bytes
	}
	return n
}

// dumpTo returns where --dump prints: nil without it, messages beside JSON.
func dumpTo(cmd *cobra.Command, dump, asJSON bool) io.Writer {
	switch {
	case !dump:
		return nil
	case asJSON:
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}
