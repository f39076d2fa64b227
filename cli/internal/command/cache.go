package command

import (
	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/term"
)

// Cache is the flags --cache and --cache-size.
type Cache struct {
	dir      string
	maxBytes int64           // maximum size of all files together, in bytes
	cache    *graphrun.Cache // set by Check; nil without --cache
}

// AddFlags adds the flags.
func (c *Cache) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.dir, "cache", "", "keep packed weights and plans in `DIR`, which processes share and which "+
		"speeds up later starts")
	cmd.Flags().Int64Var(&c.maxBytes, "cache-size", 16<<30, "remove the least recently used files of --cache if together "+
		"they exceed `BYTES`")
	_ = cmd.MarkFlagDirname("cache")
}

// Check opens the cache. It rejects sizes below 1, and a size without a directory.
func (c *Cache) Check(cmd *cobra.Command) error {
	switch {
	case c.maxBytes < 1:
		return exit.UsageErrorf("--cache-size %d: want at least 1", c.maxBytes)
	case c.dir == "" && cmd.Flags().Changed("cache-size"):
		return exit.UsageErrorf("--cache-size has no effect without --cache")
	case c.dir == "":
		return nil
	}
	c.cache = graphrun.OpenCache(c.dir, graphrun.CacheOptions{MaxBytes: c.maxBytes,
		Warn: func(err error) { term.PrintNote(cmd, "%v", err) }})
	return nil
}

// Option returns the value of graphrun.Options.Cache.
func (c *Cache) Option() *graphrun.Cache { return c.cache }
