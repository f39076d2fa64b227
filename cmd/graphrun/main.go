// Command graphrun infers, plans and runs dataflow graphs over strided tensors.
//
// Results go to standard output, messages and progress to standard error. It exits with 0
// when all is done, 1 when something failed, and 2 when the call or a file is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd() // it remembers where to print
	refuseUnknown(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var e *exitError
	if !errors.As(err, &e) {
		// Cobra's own: unknown commands and flags, wrong numbers of arguments.
		e = &exitError{exitWrong, err}
	}
	if e.err != nil {
		report(stderr, e.err)
	}
	return e.code
}

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitWrong  = 2
)

// exitError carries an exit code. A nil err has been reported already.
type exitError struct {
	code int
	err  error
}

// Error returns the cause's message.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

// wrong marks an error as the caller's or the file's.
func wrong(err error) error { return &exitError{exitWrong, err} }

// wrongf is wrong for a message made here.
func wrongf(format string, args ...any) error { return wrong(fmt.Errorf(format, args...)) }

// failed marks an error as a failure of what was asked for.
func failed(err error) error { return &exitError{exitFailed, err} }

// action makes errors without a code of their own failures.
func action(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		defer func() {
			var short *tensor.MemoryError
			if errors.As(err, &short) {
				err = failed(err) // wherever it comes from, neither call nor file is wrong
			}
		}()
		defer tensor.CatchMemory(&err)
		err = f(cmd, args)
		var e *exitError
		if err == nil || errors.As(err, &e) {
			return err
		}
		return failed(err)
	}
}

// report prints an error. Those that start with a place in a file stand alone, so that
// editors find them; others are preceded by the program's name.
func report(w io.Writer, err error) {
	var one *graph.Error
	if errors.As(err, &one) && one.File != "" {
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintf(w, "graphrun: %s\n", strings.TrimSuffix(err.Error(), "\n"))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "graphrun",
		Short: "Infer, plan and run dataflow graphs over strided tensors",
		Long: `graphrun runs dataflow graphs over strided tensors, with the layout rules of PyTorch.

A graph is a JSON file: inputs, constants, nodes named after PyTorch's ops, outputs. Wherever
a graph file is named, an .onnx model serves too.
Results go to standard output, messages and progress to standard error.
Exit codes: 0 done, 1 it failed, 2 the call or the file is wrong.`,
		Example: `  graphrun run examples/models/residual.json
  graphrun plan examples/models/residual.json
  graphrun run model.onnx --inputs in.npz --outputs out.npz
  graphrun infer model.json --json | jq '.values[] | select(.flags | index("contiguous") | not)'`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong(errors.New(unknownCommand(cmd, args[0])))
			}
			return cmd.Help()
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return wrong(errors.New(unknownFlag(cmd, err)))
	})
	root.AddCommand(runCommand(), inferCommand(), planCommand(), benchCommand(), compareCommand(), viewCommand(), convertCommand(),
		opsCommand(), schemaCommand(), versionCommand())
	return root
}

// unknownCommand says what the name may have been meant for.
func unknownCommand(root *cobra.Command, name string) string {
	msg := fmt.Sprintf("unknown command %q", name)
	if near := root.SuggestionsFor(name); len(near) > 0 {
		msg += fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return msg + "\nSee graphrun --help."
}

// refuseUnknown makes Cobra's own commands fail on names that there are not, instead of
// printing help as if it had been asked for.
func refuseUnknown(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return wrongf("completion: unknown shell %q: want bash, zsh, fish or powershell", args[0])
				}
				return cmd.Help()
			}
		case "help":
			c.Run, c.RunE = nil, func(cmd *cobra.Command, args []string) error {
				topic, rest, err := root.Find(args)
				if err != nil || topic == root && len(rest) > 0 {
					return wrong(errors.New(unknownCommand(root, rest[0])))
				}
				topic.InitDefaultHelpFlag()
				return topic.Help()
			}
		}
	}
}
