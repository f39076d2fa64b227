// Package cli is the command line of graphrun as a library. A short program can extend all commands with its own
// strategies, ops, implementations and prices of existing ops, ONNX operators and passes, and can add commands:
//
//	func main() {
//		cli.Main(cli.WithStrategy(mine), cli.WithOps(swish, conv))
//	}
//
// [Main] without options is the command graphrun. An added strategy is selected by --strategy NAME, included in the
// command compare by default, and listed in help and completions. Added ops are available to graph files and listed by
// the command ops; an op that [graph.Extend] made has further implementations or other prices, which all commands use.
// Package inspect explains programs from Go, and package experiment compares them. examples/research has each of these.
//
// Authors of extensions implement [graphrun.Strategy] (package passes/layout has the contract), define ops with
// fusion.Define, convert operators with package onnx, and write passes with package passes.
package cli

import (
	"fmt"
	"maps"
	"os"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
)

// Main runs the command line of the process, os.Args, and exits. The exit code is 0 for success, 1 for a failure, 2 for
// invalid arguments or an invalid file, and 128 plus the number of the signal after an interruption: 130 after Ctrl-C.
func Main(options ...Option) {
	ext, err := extensionsOf(options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "graphrun:", err)
		os.Exit(exit.CodeUsage)
	}
	os.Exit(execute(exit.UntilSignal(), ext, os.Args[1:], os.Stdout, os.Stderr))
}

// Option is an extension of the commands: see [Main].
type Option struct{ add func(*command.Extensions) }

// WithStrategy adds a strategy. Its name must differ from the names of the existing strategies.
func WithStrategy(s graphrun.Strategy) Option {
	return Option{func(e *command.Extensions) { e.AddedStrategies = append(e.AddedStrategies, s) }}
}

// WithOps adds ops to the ops of package kernels, and replaces ops of package kernels by extended ones: see
// [graphrun.Lookup]. fusion.Define makes a new op; [graph.Extend] adds implementations and prices to an existing op.
func WithOps(ops ...*graph.Op) Option {
	return Option{func(e *command.Extensions) { e.AddedOps = append(e.AddedOps, ops...) }}
}

// WithOperators adds converters of ONNX operators: see [graphrun.Loader]. If an operator has several converters, the
// last one is used.
func WithOperators(operators onnx.Operators) Option {
	return Option{func(e *command.Extensions) {
		if e.Operators == nil {
			e.Operators = onnx.Operators{}
		}
		for domain, converters := range operators {
			if e.Operators[domain] == nil {
				e.Operators[domain] = map[string]onnx.Converter{}
			}
			maps.Copy(e.Operators[domain], converters)
		}
	}}
}

// WithPasses adds passes to the built-in list that plans graphs, each behind the pass that its field After names, as
// [passes.Add] does. To remove or replace built-in passes, call [graphrun.Compile] with graphrun.Options.Passes.
func WithPasses(added ...passes.Pass) Option {
	return Option{func(e *command.Extensions) { e.AddedPasses = append(e.AddedPasses, added...) }}
}

// WithCommand adds a command. If its RunE returns an error, the exit code is 1. The name of the command must differ
// from the names of the existing commands. Its outputs, such as cmd.OutOrStdout, are for text: they escape control
// characters, except line breaks and tabs.
func WithCommand(c *cobra.Command) Option {
	return Option{func(e *command.Extensions) { e.AddedCommands = append(e.AddedCommands, c) }}
}

// extensionsOf returns the extensions of all options. Complete checks the extensions, and makes the added ops available
// by name. Two commands of one name are an error.
func extensionsOf(options []Option) (*command.Extensions, error) {
	e := &command.Extensions{}
	for _, o := range options {
		o.add(e)
	}
	if err := e.Complete(); err != nil {
		return nil, err
	}
	if len(e.AddedCommands) == 0 {
		return e, nil
	}
	names := map[string]bool{}
	for _, c := range newRoot(e).Commands() {
		if names[c.Name()] {
			return nil, fmt.Errorf("two commands are named %q", c.Name())
		}
		names[c.Name()] = true
	}
	return e, nil
}
