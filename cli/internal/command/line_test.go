package command

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestCommandLine(t *testing.T) {
	for want, args := range map[string][]string{
		"graphrun m.json": {}, "graphrun m.json --exact": {"--exact"}, "graphrun m.json --exact=false": {"--exact=false"},
		"graphrun m.json --name ''": {"--name", ""}, "graphrun m.json --name 'a b'": {"--name", "a b"},
		"graphrun m.json --name costs.json":   {"--name", "/home/user/costs.json"},
		"graphrun m.json --dim N=1 --dim M=2": {"--dim", "N=1", "--dim", "M=2"},
	} {
		cmd := &cobra.Command{Use: "graphrun"}
		cmd.Flags().Bool("exact", false, "")
		cmd.Flags().String("name", "", "")
		cmd.Flags().StringArray("dim", nil, "")
		require.NoError(t, cmd.ParseFlags(args))
		require.Equal(t, want, CommandLine(cmd, []string{"folder/m.json"}))
	}
}
