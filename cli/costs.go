package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/report"
)

// costsFlag says by which profile of a machine work is priced.
func costsFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "costs", "", "price work by the profile of a machine in `FILE`, which calibrate wrote "+
		"(default: that of this machine, where it was calibrated)")
	_ = cmd.MarkFlagFilename("costs", "json")
}

// pricesOf reads the profile that --costs names; without it that of this machine, where graphrun calibrate has kept
// one. It is nil where nobody measured. A kept profile that cannot be read is said, and is no failure: without it
// everything goes as on a machine that nobody measured.
func pricesOf(cmd *cobra.Command, path string) (*machine.Profile, error) {
	if path != "" {
		p, err := machine.ReadProfile(path)
		if err != nil {
			return nil, wrongf("--costs: %w", files.InFile(path, err))
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
				cause(err))
		}
	}
	return nil, nil
}

// pricedBy tells which profile a plan was priced by, in words.
func pricedBy(p report.Profile) string {
	digest := p.Digest
	if len(digest) > shortDigest {
		digest = digest[:shortDigest]
	}
	if p.Default {
		return fmt.Sprintf("the default profile for %s (%s)", p.Instructions, digest)
	}
	when, _, _ := strings.Cut(p.Measured, "T")
	return fmt.Sprintf("a profile for %s, measured %s (%s)", p.Instructions, cmp.Or(when, "some day"), digest)
}

// shortDigest is how much of a digest is printed for readers.
const shortDigest = 12
