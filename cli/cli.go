// Package cli is the command line of graphrun as a library. A program can add its own strategies, ops, ONNX operators
// and passes to all commands:
package cli

import (
	"fmt"
	"os"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
)

// Main runs the command line of the process, os.Args, and exits with its code: 0 done, 1 it failed, 2 the call or a
// file is wrong, 130 interrupted.
func Main(options ...Option) {
	ext, err := extended(options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "graphrun:", err)
		os.Exit(exit.CodeWrong)
	}
	os.Exit(execute(exit.UntilSignal(), ext, os.Args[1:], os.Stdout, os.Stderr))
}

// Option adds to the commands: see [Main].
type Option func(*command.Extensions)

// WithStrategy adds a strategy. It is an error if a strategy has its name already.
func WithStrategy(s graphrun.Strategy) Option {
	return func(e *command.Extensions) { e.AddedStrategies = append(e.AddedStrategies, s) }
}

// WithOps adds ops, which [graph.Define] made, to those of package kernels: see [graphrun.Lookup].
func WithOps(ops ...*graph.Op) Option {
	return func(e *command.Extensions) { e.AddedOps = append(e.AddedOps, ops...) }
}

// WithOperators adds converters of ONNX operators: see [graphrun.Loader].
func WithOperators(operators onnx.Operators) Option {
	return func(e *command.Extensions) { e.Operators = operators }
}

// WithPasses sets the list of passes that plan graphs, as graphrun.Options.Passes does: [passes.After] and
// [passes.Before] add a pass to the built-in list.
func WithPasses(list ...passes.Pass) Option {
	return func(e *command.Extensions) { e.Passes = list }
}

// extended returns the extensions that options add.
func extended(options []Option) (*command.Extensions, error) {
	e := &command.Extensions{}
	for _, o := range options {
		o(e)
	}
	return e, e.Complete()
}
