package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/tensor"
)

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetVersionTemplate("{{.Version}}\n")
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
		printError(root, e.err)
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

// printError prints an error. Those that start with a place in a file stand alone, so that
// editors find them; others are preceded by the program's name.
func printError(cmd *cobra.Command, err error) {
	w := cmd.ErrOrStderr()
	d := displayOf(cmd, w)
	text := strings.TrimSuffix(plain(err), "\n")
	var one *graph.Error
	if !errors.As(err, &one) || one.File == "" || placeLength(text, one.File) == 0 {
		fmt.Fprintln(w, d.paint(alarm, "graphrun:")+" "+text)
		return
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := placeLength(line, one.File); n > 0 {
			line = d.paint(alarm, line[:n]) + line[n:]
		}
		fmt.Fprintln(w, line)
	}
}

// placeLength is the length of the place FILE:LINE:COL: that a line starts with.
func placeLength(line, file string) int {
	rest, ok := strings.CutPrefix(line, file+":")
	if !ok {
		return 0
	}
	rest = strings.TrimLeft(rest, "0123456789:")
	return len(line) - len(rest)
}

// plain is an error in words for those who do not read Go: the system's refusal of a file
// without the name of the call, a number that is none without the name of its parser.
func plain(err error) string {
	text := err.Error()
	var file *fs.PathError
	if errors.As(err, &file) {
		text = strings.ReplaceAll(text, file.Error(), files.OfFile("", file).Error())
	}
	var number *strconv.NumError
	if errors.As(err, &number) {
		text = strings.ReplaceAll(text, number.Error(), fmt.Sprintf("%q is not a number that fits here", number.Num))
	}
	return text
}

func init() { cobra.EnableCommandSorting = false } // what is used most is first

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "graphrun",
		Short: "Infer, plan and run dataflow graphs over strided tensors",
		Long: `graphrun runs dataflow graphs over strided tensors, with the layout rules of PyTorch.

A graph is a JSON file: inputs, constants, nodes named after PyTorch's ops, outputs. Wherever
a graph file is named, an .onnx model is taken too.

Results go to standard output, messages and progress to standard error. On a terminal, tables
are cut to its width (or COLUMNS); into a pipe or a file everything is written out.
Ctrl-C ends a command: bench and compare print what they have measured. A second one kills.

Exit codes: 0 done, 1 it failed, 2 the call or the file is wrong, 130 interrupted.`,
		Example: `  graphrun run examples/models/residual.json
  graphrun plan examples/models/residual.json
  graphrun run model.onnx --inputs in.npz --outputs out.npz
  graphrun infer model.json --json | jq '.values[] | select(.flags | index("contiguous") | not)'`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionText(),
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(flagError)
	colorFlag(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return errors.Join(checkEmpty(cmd), checkColor(cmd))
	}
	root.AddCommand(runCommand(), inferCommand(), planCommand(), verifyCommand(), explainCommand(), benchCommand(),
		compareCommand(), diffCommand(), calibrateCommand(), proveCommand(), viewCommand(), convertCommand(), opsCommand(),
		schemaCommand(), versionCommand())
	return root
}

// checkEmpty refuses flags that are given and empty, as by a shell's variable that is not set:
// a run without --inputs would make its inputs up.
func checkEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = wrongf("--%s is empty", f.Name)
		}
	})
	return err
}

// unknownCommand says what the name may have been meant for.
func unknownCommand(root *cobra.Command, name string) error {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return wrongf("unknown command %q%s\nSee graphrun --help.", name, didYouMean(name, names))
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
					return wrongf("completion: unknown shell %q: %s", args[0],
						wantOneOf(args[0], []string{"bash", "zsh", "fish", "powershell"}))
				}
				return cmd.Help()
			}
		case "help":
			c.Run, c.RunE = nil, func(cmd *cobra.Command, args []string) error {
				topic, rest, err := root.Find(args)
				if err != nil || topic == root && len(rest) > 0 {
					return unknownCommand(root, rest[0])
				}
				if len(rest) > 0 && !topic.HasSubCommands() {
					return misused(cmd, "help wants one command, got %q too", rest[0])
				}
				topic.InitDefaultHelpFlag()
				return topic.Help()
			}
		}
	}
}
