package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/machine"
)

// CostsFlag says by which profile of a machine work is priced.
func CostsFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "costs", "", "price work by the profile of a machine in `FILE`, which calibrate wrote "+
		"(default: that of this machine, where it was calibrated)")
	_ = cmd.MarkFlagFilename("costs", "json")
}

// Prices reads the profile that --costs names; without it that of this machine, where graphrun calibrate has kept
// one. It is nil where nobody measured. A kept profile that cannot be read is said, and is no failure: without it
// everything goes as on a machine that nobody measured.
func Prices(cmd *cobra.Command, path string) (*machine.Profile, error) {
	if path != "" {
		p, err := machine.ReadProfile(path)
		if err != nil {
			return nil, exit.Wrongf("--costs: %w", files.InFile(path, err))
		}
		return p, nil
	}
	path, err := machine.ProfilePath()
	if err != nil {
		return nil, nil // no home, no cache
	}
	p, err := machine.ReadProfile(path)
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
	default:
		if _, missing := os.Stat(path); missing == nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "graphrun: note: the profile of this machine is left aside: %s: %v\n", path,
				outfile.Cause(err))
		}
	}
	return nil, nil
}
