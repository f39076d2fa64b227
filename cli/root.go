package cli

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphrun/graphrun/cli/internal/batch"
	"github.com/graphrun/graphrun/cli/internal/bench"
	"github.com/graphrun/graphrun/cli/internal/catalogue"
	"github.com/graphrun/graphrun/cli/internal/check"
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
	"github.com/graphrun/graphrun/cli/internal/serve"
	"github.com/graphrun/graphrun/cli/internal/study"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/cli/internal/tune"
	"github.com/graphrun/graphrun/cli/internal/view"
)

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, ext *command.Extensions, args []string, stdout, stderr io.Writer) int {
	root := newRoot(ext)
	root.SetArgs(args)
	out, errs := term.NewOutput(stdout), term.NewOutput(stderr)
	defer out.End()
	defer errs.End()
	root.SetOut(out)
	root.SetErr(errs)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd() // after SetOut and SetErr, because the command keeps the output streams
	rejectUnknown(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exit.CodeDone
	}
	var withCode *exit.Error
	if !errors.As(err, &withCode) {
		// Cobra's own errors: an unknown command or flag, or a wrong number of arguments.
		withCode = &exit.Error{Code: exit.CodeUsage, Err: err}
	}
	if withCode.Err != nil {
		term.PrintError(root, withCode.Err)
	}
	return withCode.Code
}

func init() { cobra.EnableCommandSorting = false } // the most common commands come first

// newRoot returns the command graphrun with all its subcommands.
func newRoot(ext *command.Extensions) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "graphrun",
		Short: "Infer, plan and run dataflow graphs over strided tensors",
		Long: `graphrun runs dataflow graphs over strided tensors, with the layout rules of PyTorch.

A graph is a JSON file with inputs, constants, nodes and outputs; ops have the names of PyTorch. All
commands accept ONNX models (.onnx) and graphs as text (.txt), too.

Results go to standard output, messages and progress to standard error. On a terminal, tables
are cut to the width of the terminal or to COLUMNS; output to pipes and files is complete.
Ctrl-C ends a command: bench and compare print the measurements so far. A second Ctrl-C kills the
process.

Exit codes: 0 success, 1 failure, 2 wrong call or file, 130 interrupted.`,
		Example: `  graphrun run examples/models/residual.json
  graphrun plan examples/models/residual.json
  graphrun run model.onnx --inputs in.npz --outputs out.npz
  graphrun infer model.json --json | jq '.values[] | select(.flags | index("contiguous") | not)'`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			if version {
				return printVersion(cmd, args)
			}
			return cmd.Help()
		},
	}
	// Command.Version is not used, because it links text/template: the linker then keeps every exported method, and the
	// program grows by megabytes.
	root.Flags().BoolVarP(&version, "version", "v", false, "version for graphrun")
	root.SetFlagErrorFunc(command.FlagError)
	command.GroupFlags(root)
	addColorFlag(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return errors.Join(checkEmpty(cmd), checkColor(cmd))
	}
	root.AddCommand(run.Command(ext), infer.Command(ext), plan.Command(ext), verifyCommand(ext), explain.Command(ext),
		bench.Command(ext), compare.Command(ext), diff.Command(ext),
		study.Command(ext, versionText()), tune.Command(ext), serve.Command(ext), batch.Command(ext),
		calibrateCommand(), prove.Command(),
		view.Command(ext), convertCommand(ext), catalogue.Command(ext), check.Command(ext),
		schemaCommand(ext), versionCommand())
	for _, c := range root.Commands() {
		if c.Flags().Lookup("dim") != nil || c.Name() == "serve" || c.Name() == "check" {
			ext.ShapeFlag(c)
		}
	}
	for _, added := range ext.AddedCommands {
		c := *added // a copy, because newRoot may be called again
		c.RunE = exit.WithExitCode(added.RunE)
		root.AddCommand(&c)
	}
	return root
}

// checkEmpty rejects string flags with an empty value, which usually comes from an unset shell variable. Otherwise
// `graphrun run --inputs ""`, for example, would generate inputs.
func checkEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = exit.UsageErrorf("--%s is empty", f.Name)
		}
	})
	return err
}

// unknownCommand returns the error for an unknown command, with a suggestion.
func unknownCommand(root *cobra.Command, name string) error {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return exit.UsageErrorf("unknown command %q%s\nSee graphrun --help.", name, format.DidYouMean(name, names))
}

// rejectUnknown makes Cobra's own commands fail on unknown names; by default they print help and succeed.
func rejectUnknown(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return exit.UsageErrorf("completion: unknown shell %q: %s", args[0],
						format.WantOneOf(args[0], []string{"bash", "zsh", "fish", "powershell"}))
				}
				return cmd.Help()
			}
		case "help":
			c.Run, c.RunE = nil, func(cmd *cobra.Command, args []string) error {
				topic, remaining, err := root.Find(args)
				if err != nil || topic == root && len(remaining) > 0 {
					return unknownCommand(root, remaining[0])
				}
				if len(remaining) > 0 && !topic.HasSubCommands() {
					return command.UsageError(cmd, "help wants one command, got %q too", remaining[0])
				}
				topic.InitDefaultHelpFlag()
				return topic.Help()
			}
		}
	}
}

// addColorFlag adds --color.
func addColorFlag(root *cobra.Command) {
	root.PersistentFlags().String("color", term.ColorModes[0],
		"use colors `WHEN`: auto (on terminals), always, never; NO_COLOR disables them")
	command.CompleteFrom(root, "color", term.ColorModes)
}

// checkColor validates --color.
func checkColor(cmd *cobra.Command) error {
	if mode := term.ColorMode(cmd); !slices.Contains(term.ColorModes, mode) {
		return exit.UsageErrorf("--color %s: want auto, always or never", mode)
	}
	return nil
}
