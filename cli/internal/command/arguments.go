package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/internal/suggest"
)

// OneFile accepts exactly one graph file as argument.
func OneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return UsageError(cmd, "%s wants one graph file, got %s", cmd.Name(), format.Count(len(args), "argument"))
	}
	return nil
}

// NoArguments accepts no argument.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UsageError(cmd, "%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

// UsageError returns an error about the arguments of a command. The message ends with the usage of the command.
func UsageError(cmd *cobra.Command, format string, args ...any) error {
	return exit.UsageErrorf("%s\nUsage: %s", fmt.Sprintf(format, args...), cmd.UseLine())
}

// CompleteGraph completes the name of a graph file.
func CompleteGraph(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"json", "onnx"}, cobra.ShellCompDirectiveFilterFileExt
}

// CompleteGraphs completes the names of any number of graph files.
func CompleteGraphs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json", "onnx"}, cobra.ShellCompDirectiveFilterFileExt
}

// CompleteFrom makes shells complete the value of a flag from a list.
func CompleteFrom(cmd *cobra.Command, flag string, values []string) {
	// The registration fails only for an unknown flag.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// FlagError rewords Cobra's error about a flag: it suggests a similar flag for an unknown flag, or describes the values
// that the flag accepts.
func FlagError(cmd *cobra.Command, err error) error {
	msg := err.Error()
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		if name := unknown.GetSpecifiedName(); len(name) > 1 { // one letter has too many similar flags
			if flag := format.ClosestName(name, flagNames(cmd)); flag != "" {
				msg += suggest.DidYouMean("--" + flag)
			}
		}
	case errors.As(err, &missing):
		msg = fmt.Sprintf("--%s: a value is missing: want %s", missing.GetFlag().Name, describeValues(missing.GetFlag()))
	case errors.As(err, &value) && errors.Is(err, strconv.ErrRange):
		msg = fmt.Sprintf("--%s %s: the number is out of range", value.GetFlag().Name, value.GetValue())
	case errors.As(err, &value):
		msg = fmt.Sprintf("--%s %s: want %s", value.GetFlag().Name, value.GetValue(), describeValues(value.GetFlag()))
	}
	return exit.UsageErrorf("%s\nSee %s --help.", msg, cmd.CommandPath())
}

// flagNames lists the flags of a command.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// describeValues describes the values that a flag accepts: by its type, or by the placeholder in its help, such as
// FILE.
func describeValues(f *pflag.Flag) string {
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

// FileLabel returns a label of a graph file for results: its base name. Many exports have the name model.onnx, in a
// folder with the name of the model. The label then also has the name of the folder.
func FileLabel(path string) string {
	base, folder := filepath.Base(path), filepath.Base(filepath.Dir(path))
	if base == "model.onnx" && folder != "." && folder != ".." && folder != string(filepath.Separator) {
		return folder + "/" + base
	}
	return base
}

// FileLabels maps each path to a label for results: the path's [FileLabel] if it is unique, otherwise the path.
func FileLabels(paths []string) map[string]string {
	labels, pathOf := map[string]string{}, map[string]string{} // pathOf is by label
	for _, path := range paths {
		label := FileLabel(path)
		labels[path] = label
		if other, taken := pathOf[label]; taken && other != path {
			labels[path], labels[other] = path, other
		}
		pathOf[label] = path
	}
	return labels
}
