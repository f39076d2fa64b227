package inputs

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
)

// AddFlags adds --inputs, --input and --seed.
func (s *Sources) AddFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&s.archive, "inputs", "", "read inputs from the arrays of `FILE.npz`")
	fl.StringArrayVar(&s.files, "input", nil, "read one input, as in `NAME=FILE.npy` (repeatable)")
	fl.Uint64Var(&s.Seed, "seed", 0, "generate inputs from seed `N`")
	_ = cmd.MarkFlagFilename("inputs", "npz")
}

// Check validates the flags without reading files.
func (s *Sources) Check(cmd *cobra.Command) error {
	s.generate = cmd.Flags().Changed("seed")
	seen := map[string]bool{}
	for _, f := range s.files {
		name, path, ok := strings.Cut(f, "=")
		if !ok || name == "" || path == "" {
			return exit.Wrongf("--input %s: want NAME=FILE.npy", f)
		}
		if seen[name] {
			return exit.Wrongf("--input gives %s twice", name)
		}
		seen[name] = true
	}
	return nil
}

func inputNames(inputs []*graph.Value) []string {
	names := make([]string, len(inputs))
	for i, v := range inputs {
		names[i] = v.Name
	}
	return names
}
