package cli

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphrun/graphrun/cli/internal/bench"
	"github.com/graphrun/graphrun/cli/internal/catalogue"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/compare"
	"github.com/graphrun/graphrun/cli/internal/diff"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/explain"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/infer"
	"github.com/graphrun/graphrun/cli/internal/plan"
	"github.com/graphrun/graphrun/cli/internal/prove"
	"github.com/graphrun/graphrun/cli/internal/run"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/cli/internal/view"
)

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, ext *command.Extensions, args []string, stdout, stderr io.Writer) int {
	root := newRoot(ext)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd() // it remembers where to print
	refuseUnknown(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exit.CodeDone
	}
	var e *exit.Error
	if !errors.As(err, &e) {
		// Cobra's own: unknown commands and flags, wrong numbers of arguments.
		e = &exit.Error{Code: exit.CodeWrong, Err: err}
	}
	if e.Err != nil {
		term.PrintError(root, e.Err)
	}
	return e.Code
}

func init() { cobra.EnableCommandSorting = false } // what is used most is first

func newRoot(ext *command.Extensions) *cobra.Command {
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
	root.SetFlagErrorFunc(command.FlagError)
	colorFlag(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return errors.Join(checkEmpty(cmd), checkColor(cmd))
	}
	root.AddCommand(run.Command(ext), infer.Command(ext), plan.Command(ext), verifyCommand(ext), explain.Command(ext),
		bench.Command(ext), compare.Command(ext), diff.Command(ext), calibrateCommand(), prove.Command(),
		view.Command(ext), convertCommand(ext), catalogue.Command(ext), schemaCommand(ext), versionCommand())
	return root
}

// checkEmpty refuses flags that are given and empty, as by a shell's variable that is not set:
// a run without --inputs would make its inputs up.
func checkEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = exit.Wrongf("--%s is empty", f.Name)
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
	return exit.Wrongf("unknown command %q%s\nSee graphrun --help.", name, format.DidYouMean(name, names))
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
					return exit.Wrongf("completion: unknown shell %q: %s", args[0],
						format.WantOneOf(args[0], []string{"bash", "zsh", "fish", "powershell"}))
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
					return command.Misused(cmd, "help wants one command, got %q too", rest[0])
				}
				topic.InitDefaultHelpFlag()
				return topic.Help()
			}
		}
	}
}

func colorFlag(root *cobra.Command) {
	root.PersistentFlags().String("color", term.ColorModes[0],
		"use colours `WHEN`: auto (on terminals), always, never; with NO_COLOR set there are none")
	command.CompleteFrom(root, "color", term.ColorModes)
}

func checkColor(cmd *cobra.Command) error {
	if mode := term.ColorMode(cmd); !slices.Contains(term.ColorModes, mode) {
		return exit.Wrongf("--color %s: want auto, always or never", mode)
	}
	return nil
}
