package inputs

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
)

// AddFlags adds --inputs, --input and --seed.
func (s *Sources) AddFlags(cmd *cobra.Command) {
	flagSet := cmd.Flags()
	flagSet.StringVar(&s.archive, "inputs", "", "read inputs from the arrays of `FILE.npz`")
	flagSet.StringArrayVar(&s.files, "input", nil, "read one input, as in `NAME=FILE.npy` (repeatable)")
	flagSet.Uint64Var(&s.Seed, "seed", 0, "generate inputs without an array from seed `N`")
	_ = cmd.MarkFlagFilename("inputs", "npz")
}

// Check validates the flags without reading files.
func (s *Sources) Check(cmd *cobra.Command) error {
	s.isSeedGiven = cmd.Flags().Changed("seed")
	hasFile := map[string]bool{}
	for _, f := range s.files {
		name, path, ok := strings.Cut(f, "=")
		if !ok || name == "" || path == "" {
			return exit.UsageErrorf("--input %s: want NAME=FILE.npy", f)
		}
		if hasFile[name] {
			return exit.UsageErrorf("--input gives %s twice", name)
		}
		hasFile[name] = true
	}
	return nil
}

// inputNames returns the names of inputs.
func inputNames(inputs []*graph.Value) []string {
	names := make([]string, len(inputs))
	for i, v := range inputs {
		names[i] = v.Name
	}
	return names
}
