// Package cli is the command line of graphrun as a library: a program with a strategy, ops or passes of its own has
// every command for them.
//
//	func main() {
//		cli.Main(cli.WithStrategy(mine), cli.WithOps(swish))
//	}
//
// A strategy is then selected by --strategy NAME, compared by default, and listed in help and completions. Ops are
// found in graph files and listed by the command ops.
package cli

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
)

// Main runs the command line of the process, os.Args, and exits with its code: 0 done, 1 it failed, 2 the call or a
// file is wrong, 130 interrupted.
func Main(options ...Option) {
	if err := configure(options); err != nil {
		fmt.Fprintln(os.Stderr, "graphrun:", err)
		os.Exit(exitWrong)
	}
	os.Exit(execute(untilSignal(), os.Args[1:], os.Stdout, os.Stderr))
}

// Option adds to the commands: see [Main].
type Option func(*extensions)

// WithStrategy adds a strategy. It is an error if a strategy has its name already.
func WithStrategy(s graphrun.Strategy) Option {
	return func(e *extensions) { e.added = append(e.added, s) }
}

// WithOps adds ops, which [graph.Define] made, to those of package kernels: see [graphrun.Lookup].
func WithOps(ops ...*graph.Op) Option {
	return func(e *extensions) { e.addedOps = append(e.addedOps, ops...) }
}

// WithOperators adds converters of ONNX operators: see [graphrun.Loader].
func WithOperators(operators onnx.Operators) Option {
	return func(e *extensions) { e.operators = operators }
}

// WithPasses sets the list of passes that plan graphs, as graphrun.Options.Passes does: [passes.After] and
// [passes.Before] add a pass to the built-in list.
func WithPasses(list ...passes.Pass) Option {
	return func(e *extensions) { e.passes = list }
}

// extensions are what a program adds to the commands. The zero value adds nothing.
type extensions struct {
	added     []graphrun.Strategy
	addedOps  []*graph.Op
	operators onnx.Operators
	passes    []passes.Pass
	find      graph.Lookup // nil: package kernels
}

// own has the extensions of the process, which [Main] sets.
var own extensions

// configure sets the extensions.
func configure(options []Option) (err error) {
	var e extensions
	for _, o := range options {
		o(&e)
	}
	for i, s := range e.added {
		switch {
		case s == nil || s.Name() == "":
			return fmt.Errorf("strategy %d of cli.WithStrategy is nil or has no name", i)
		case slices.ContainsFunc(slices.Concat(graphrun.Strategies(), e.added[:i]),
			func(other graphrun.Strategy) bool { return other.Name() == s.Name() }):
			return fmt.Errorf("two strategies are named %q", s.Name())
		}
	}
	if e.find, err = graphrun.Lookup(e.addedOps...); err != nil {
		return err
	}
	own = e
	return nil
}

// strategies lists the built-in strategies, then those that were added.
func (e *extensions) strategies() []graphrun.Strategy {
	return slices.Concat(graphrun.Strategies(), e.added)
}

// ops lists the ops of package kernels, then those that were added.
func (e *extensions) ops() []*graph.Op { return slices.Concat(kernels.All(), e.addedOps) }

// lookup finds an op by its name; nil if there is none.
func (e *extensions) lookup(name string) *graph.Op {
	if e.find == nil {
		return kernels.Lookup(name)
	}
	return e.find(name)
}

// compile is [graphrun.CompileContext] with the passes that were added.
func compile(ctx context.Context, g *graph.Graph, o graphrun.Options) (*graphrun.Program, error) {
	o.Passes = own.passes
	return graphrun.CompileContext(ctx, g, o)
}
