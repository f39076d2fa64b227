package command

import (
	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/pricing"
)

// TunedFlag adds --tuned, which names a result of tune.
func TunedFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "tuned", "", "use the measured prices and the plan in `FILE`, which tune wrote on this "+
		"machine, with strategy optimal (default: a result in --cache)")
	_ = cmd.MarkFlagFilename("tuned", "json")
}

// Tuned reads the file that --tuned names; nil without the flag.
func Tuned(path string) (*pricing.Tuned, error) {
	if path == "" {
		return nil, nil
	}
	f, _, err := files.OpenRegular(path)
	if err != nil {
		return nil, exit.UsageErrorf("--tuned: %w", err)
	}
	defer f.Close()
	tuned, err := pricing.ReadTuned(f)
	if err != nil {
		return nil, exit.UsageErrorf("--tuned: %w", files.WithPath(path, err))
	}
	return tuned, nil
}
