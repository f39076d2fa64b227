package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
)

const defaultStrategy = "propagate"

// strategyFlag adds --strategy with its completion.
func strategyFlag(cmd *cobra.Command, p *string) {
	cmd.Flags().StringVar(p, "strategy", defaultStrategy,
		"choose layouts as `NAME` does: "+strings.Join(passes.Strategies(), ", "))
	completeFrom(cmd, "strategy", passes.Strategies())
}

func threadsFlag(cmd *cobra.Command, p *int) {
	cmd.Flags().IntVar(p, "threads", 0, "run on `N` workers (default GOMAXPROCS)")
}

// strategyOf returns a strategy that [checkStrategy] let pass.
func strategyOf(name string) layout.Strategy {
	s, err := layout.Named(name)
	if err != nil {
		return layout.Propagate
	}
	return s
}

// checkStrategy reports a strategy that does not exist.
func checkStrategy(name string) error {
	if slices.Contains(passes.Strategies(), name) {
		return nil
	}
	return wrongf("unknown strategy %q: %s", name, wantOneOf(name, passes.Strategies()))
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

// prepare applies a strategy and compiles, and says what it is at.
func prepare(g *graph.Graph, o passes.Options, run exec.Options, enter func(phase string)) (*planned, error) {
	start := time.Now()
	enter(planning)
	o.MemoryLimit = run.MemoryLimit
	plan, err := passes.Run(g, o)
	if err != nil {
		return nil, under(o.Strategy.Name(), err)
	}
	enter(compiling)
	program, err := exec.Compile(plan.Graph, run)
	if err != nil {
		return nil, err
	}
	return &planned{plan, program, time.Since(start)}, nil
}

// planner is how a runner plans under a strategy. It says what is at hand. Where it keeps
// going, it returns what it had to leave out beside the rest of the graph.
func planner(strategy string, keepGoing bool, enter func(phase string)) exec.Planner {
	return func(g *graph.Graph) (*graph.Graph, error) {
		enter(planning)
		defer enter(compiling)
		p, err := passes.Run(g, passes.Options{Strategy: strategyOf(strategy), KeepGoing: keepGoing})
		if err != nil {
			return nil, under(strategy, err)
		}
		if len(p.Failed) > 0 {
			return p.Graph, p.Failed
		}
		return p.Graph, nil
	}
}

// under says under what strategy something failed: after the error if that starts with a
// place in a file, as errors with a place do, before it if not.
func under(strategy string, err error) error {
	var one *graph.Error
	if errors.As(err, &one) && one.File != "" {
		return fmt.Errorf("%w (strategy %s)", err, strategy)
	}
	return fmt.Errorf("strategy %s: %w", strategy, err)
}

// copyBytes is the total size of the copies that the passes inserted.
func (p *planned) copyBytes() int {
	n := 0
	for _, c := range p.plan.Copies {
		n += c.Bytes
	}
	return n
}

// dumpTo returns where --dump prints: messages stand beside JSON.
func dumpTo(cmd *cobra.Command, asJSON bool) io.Writer {
	if asJSON {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}
