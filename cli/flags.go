package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/suggest"
)

// oneFile is the argument check of the commands that take one graph file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return misused(cmd, "%s wants one graph file, got %s", cmd.Name(), count(len(args), "argument"))
	}
	return nil
}

// completeGraph completes the name of a graph file.
func completeGraph(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"json", "onnx"}, cobra.ShellCompDirectiveFilterFileExt
}

func dimFlag(cmd *cobra.Command, dims *[]string) {
	cmd.Flags().StringArrayVar(dims, "dim", nil, "size of a symbolic dimension, as in `N=8` (repeatable)")
}

func pinFlag(cmd *cobra.Command, pins *[]string) {
	cmd.Flags().StringArrayVar(pins, "pin", nil,
		"demand a layout of a value under every strategy, `NAME=FORMAT` or NAME=order:0,2,3,1 (its other layouts are copies "+
			"of that), or how a node is computed, NODE=impl:NAME (repeatable)")
}

// applyPins demands what --pin says, and infers again.
func applyPins(ctx context.Context, g *graph.Graph, pins []string) error {
	type demanded struct {
		name string
		lays bool
	}
	said := map[demanded]graph.Pin{}
	for _, text := range pins {
		// The name of a value may have = in it, a pin has none.
		at := strings.LastIndexByte(text, '=')
		if at <= 0 {
			return wrongf("--pin %s: want NAME=FORMAT, NAME=order:0,2,3,1 or NODE=impl:NAME", text)
		}
		name := text[:at]
		p, err := graph.ParsePin(text[at+1:])
		if err == nil {
			err = g.Pin(name, p)
		}
		if err != nil {
			return wrongf("--pin %s: %w", text, err)
		}
		what := demanded{name, p.Lays()}
		if before, twice := said[what]; twice && before != p {
			return wrongf("--pin gives %s twice: %v and %v", name, before, p)
		}
		said[what] = p
	}
	if len(pins) == 0 {
		return nil
	}
	if err := inferStrictly(ctx, g); err != nil { // as a view of what is pinned
		return wrongf("--pin %s: %w", strings.Join(pins, ", "), err)
	}
	return nil
}

// noArguments is the argument check of the commands that take none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misused(cmd, "%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

// misused is an error about the arguments of a command, with how it is called.
func misused(cmd *cobra.Command, format string, args ...any) error {
	return wrongf("%s\nUsage: %s", fmt.Sprintf(format, args...), cmd.UseLine())
}

// completeFrom completes the value of a flag from a list.
func completeFrom(cmd *cobra.Command, flag string, values []string) {
	// The flag exists, so this cannot fail.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// flagError says what is wrong with a flag: which one may have been meant, or what its value
// has to be.
func flagError(cmd *cobra.Command, err error) error {
	msg := err.Error()
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		if name := unknown.GetSpecifiedName(); len(name) > 1 {
			if flag := meant(name, flagNames(cmd)); flag != "" {
				msg += suggest.DidYouMean("--" + flag)
			}
		}
	case errors.As(err, &missing):
		msg = fmt.Sprintf("--%s: a value is missing: want %s", missing.GetFlag().Name, wanted(missing.GetFlag()))
	case errors.As(err, &value) && errors.Is(err, strconv.ErrRange):
		msg = fmt.Sprintf("--%s %s: want a number nearer to 0", value.GetFlag().Name, value.GetValue())
	case errors.As(err, &value):
		msg = fmt.Sprintf("--%s %s: want %s", value.GetFlag().Name, value.GetValue(), wanted(value.GetFlag()))
	}
	return wrongf("%s\nSee %s --help.", msg, cmd.CommandPath())
}

// flagNames lists the flags of a command.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// wanted tells in words what values a flag takes.
func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number that is not negative"
	case "bool":
		return "true or false"
	case "duration":
		return "a time such as 3s or 500ms"
	}
	name, _ := pflag.UnquoteUsage(f)
	return name
}
