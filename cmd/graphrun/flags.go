package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphrun/graphrun/internal/words"
)

// oneFile is the argument check of the commands that take one graph file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return wrongf("%s wants one graph file, got %d arguments\nUsage: %s", cmd.Name(), len(args), cmd.UseLine())
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
	cmd.Flags().StringArrayVar(dims, "dim", nil, "size of a symbolic dimension, as in N=8 (repeatable)")
}

// unknownFlag adds to a flag error the flag that may have been meant.
func unknownFlag(cmd *cobra.Command, err error) string {
	msg := err.Error()
	if name, ok := strings.CutPrefix(msg, "unknown flag: --"); ok {
		best := ""
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if names = append(names, f.Name); strings.HasPrefix(f.Name, name) {
				best = f.Name
			}
		})
		if near := words.Nearest(name, slices.Values(names)); near != "" {
			best = near
		}
		if best != "" {
			msg += words.DidYouMean("--" + best)
		}
	}
	return fmt.Sprintf("%s\nSee %s --help.", msg, cmd.CommandPath())
}
