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
	"github.com/graphrun/graphrun/pricing"
)

// CostsFlag adds --costs, which names the cost profile.
func CostsFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "costs", "", "estimate costs with the profile in `FILE`, which calibrate wrote "+
		"(default: the profile of this machine, if it was calibrated)")
	_ = cmd.MarkFlagFilename("costs", "json")
}

// PricesFlag adds --prices, which names a file of measured prices.
func PricesFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "prices", "", "use the measured prices of steps in `FILE`, which plan --measure --json "+
		"wrote, where they exist")
	_ = cmd.MarkFlagFilename("prices", "json")
}

// PricedProfile returns the profile of [CostProfile], with the prices that --prices names, if any.
func PricedProfile(cmd *cobra.Command, costs, prices string) (*pricing.Profile, error) {
	profile, err := CostProfile(cmd, costs)
	if err != nil || prices == "" {
		return profile, err
	}
	f, _, err := files.OpenRegular(prices)
	if err != nil {
		return nil, exit.UsageErrorf("--prices: %w", err)
	}
	defer f.Close()
	list, err := pricing.ReadPrices(f)
	if err != nil {
		return nil, exit.UsageErrorf("--prices: %w", files.WithPath(prices, err))
	}
	return profile.WithPrices(list), nil
}

// CostProfile reads the cost profile that --costs names. Without --costs it reads the profile that graphrun calibrate
// stored for this machine. If no profile is stored, or the stored profile cannot be read, CostProfile returns nil,
// which means the built-in profile. CostProfile reports a stored profile with invalid contents on stderr.
func CostProfile(cmd *cobra.Command, path string) (*pricing.Profile, error) {
	if path != "" {
		profile, err := pricing.ReadProfile(path)
		if err != nil {
			return nil, exit.UsageErrorf("--costs: %w", files.WithPath(path, err))
		}
		return profile, nil
	}
	path, err := pricing.ProfilePath()
	if err != nil {
		return nil, nil // the user has no cache folder, so no stored profile
	}
	profile, err := pricing.ReadProfile(path)
	if err == nil {
		return profile, nil
	}
	// Stat fails if the profile does not exist, or for example if the cache folder is a file.
	_, statErr := os.Stat(path)
	if statErr == nil && !errors.Is(err, fs.ErrPermission) {
		fmt.Fprintf(cmd.ErrOrStderr(), "graphrun: note: the profile of this machine is ignored: %s: %v\n", path,
			outfile.Cause(err))
	}
	return nil, nil
}
