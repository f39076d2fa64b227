// Package command has the flags that several commands share, and loads graphs as these flags demand.
package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
)

// Extensions are the strategies, ops, converters of ONNX operators and passes that a program adds to the commands.
type Extensions struct {
	AddedStrategies []graphrun.Strategy
	AddedOps        []*graph.Op
	Operators       onnx.Operators
	Passes          []passes.Pass
	find            graph.Lookup
}

// Complete makes the ops known by their names. It rejects a strategy without a name, and names that two strategies or
// two ops share.
func (e *Extensions) Complete() (err error) {
	for i, s := range e.AddedStrategies {
		switch {
		case s == nil || s.Name() == "":
			return fmt.Errorf("strategy %d of cli.WithStrategy is nil or has no name", i)
		case slices.ContainsFunc(slices.Concat(graphrun.Strategies(), e.AddedStrategies[:i]),
			func(other graphrun.Strategy) bool { return other.Name() == s.Name() }):
			return fmt.Errorf("two strategies are named %q", s.Name())
		}
	}
	e.find, err = graphrun.Lookup(e.AddedOps...)
	return err
}

// Strategies lists the built-in strategies, then those that were added.
func (e *Extensions) Strategies() []graphrun.Strategy {
	return slices.Concat(graphrun.Strategies(), e.AddedStrategies)
}

// Ops lists the ops of package kernels, then those that were added.
func (e *Extensions) Ops() []*graph.Op { return slices.Concat(kernels.All(), e.AddedOps) }

// Lookup finds an op by its name; nil if there is none.
func (e *Extensions) Lookup(name string) *graph.Op { return e.find(name) }

// Compile is [graphrun.CompileContext] with the passes that were added.
func (e *Extensions) Compile(ctx context.Context, g *graph.Graph, o graphrun.Options) (*graphrun.Program, error) {
	o.Passes = e.Passes
	return graphrun.CompileContext(ctx, g, o)
}
