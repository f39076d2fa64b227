// Package command has code that several commands share: extensions of the program, flags, and the loading of graphs.
package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
)

// Extensions has the strategies, ops, converters of ONNX operators and commands that a program adds by the options of
// cli.Main. All commands use them.
type Extensions struct {
	AddedStrategies []graphrun.Strategy
	AddedOps        []*graph.Op
	Operators       onnx.Operators
	AddedPasses     []passes.Pass
	AddedCommands   []*cobra.Command
	lookup          graph.Lookup  // set by Complete
	passes          []passes.Pass // set by Complete; nil if no pass is added
	shapes          []string      // the values of --shape
	constants       []string      // the values of --constant
}

// Complete checks the extensions and prepares [Extensions.Lookup]. It rejects strategies without a name or with the
// name of a group of strategies, duplicate names of strategies, ops or passes, and passes behind unknown
// passes. It also rejects nil converters, converters of built-in operators, and commands that cannot be run.
func (e *Extensions) Complete() (err error) {
	for i, c := range e.AddedCommands {
		if c == nil || c.Name() == "" || c.RunE == nil {
			return fmt.Errorf("command %d of cli.WithCommand is nil, or has no name or no RunE", i)
		}
	}
	for i, strategy := range e.AddedStrategies {
		switch {
		case strategy == nil || strategy.Name() == "":
			return fmt.Errorf("strategy %d of cli.WithStrategy is nil or has no name", i)
		case strategy.Name() == groupAll || strategy.Name() == groupPublished:
			return fmt.Errorf("a strategy is named %q, the name of a group of strategies", strategy.Name())
		case slices.ContainsFunc(slices.Concat(graphrun.Strategies(), e.AddedStrategies[:i]),
			func(other graphrun.Strategy) bool { return other.Name() == strategy.Name() }):
			return fmt.Errorf("two strategies are named %q", strategy.Name())
		}
	}
	for _, added := range e.AddedPasses {
		if added.Run == nil {
			return fmt.Errorf("cli.WithPasses: pass %q has no Run", added.Name)
		}
	}
	if len(e.AddedPasses) > 0 {
		if e.passes, err = passes.Add(e.AddedPasses...); err != nil {
			return fmt.Errorf("cli.WithPasses: %w", err)
		}
	}
	if e.lookup, err = graphrun.Lookup(e.AddedOps...); err != nil || e.Operators == nil {
		return err
	}
	if _, err := onnx.SupportedOperators(onnx.Options{Lookup: e.lookup, Operators: e.Operators}); err != nil {
		return fmt.Errorf("cli.WithOperators: %w", err)
	}
	return nil
}

// Strategies lists the built-in strategies and then the added strategies.
func (e *Extensions) Strategies() []graphrun.Strategy {
	return slices.Concat(graphrun.Strategies(), e.AddedStrategies)
}

// Ops lists the built-in ops, extended ones in place of those that they extend, and then the new ops.
func (e *Extensions) Ops() []*graph.Op {
	list := slices.Clone(kernels.All())
	for i, op := range list {
		list[i] = e.lookup(op.Name)
	}
	for _, op := range e.AddedOps {
		if kernels.Lookup(op.Name) == nil {
			list = append(list, op)
		}
	}
	return list
}

// Lookup returns the op with a name, or nil if there is no such op.
func (e *Extensions) Lookup(name string) *graph.Op { return e.lookup(name) }

// Passes returns graphrun.Options.Passes: the list with the added passes, or nil if no pass is added.
func (e *Extensions) Passes() []passes.Pass { return e.passes }

// Compile is [graphrun.Compile] with the passes of e as Options.Passes.
func (e *Extensions) Compile(ctx context.Context, g *graph.Graph, o graphrun.Options) (*graphrun.Program, error) {
	o.Passes = e.passes
	p, err := graphrun.Compile(ctx, g, o)
	if err == nil {
		err = p.Internal().CheckDevice()
	}
	return p, err
}
