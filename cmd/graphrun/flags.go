package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
		best, least := "", 3
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if d := distance(name, f.Name); d < least || strings.HasPrefix(f.Name, name) {
				best, least = f.Name, min(d, least)
			}
		})
		if best != "" {
			msg += fmt.Sprintf("; did you mean --%s?", best)
		}
	}
	return fmt.Sprintf("%s\nSee %s --help.", msg, cmd.CommandPath())
}

// distance is the number of letters to insert, drop or replace (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
