package command

import (
	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/pricing"
)

// Compile has the flags of commands that compile models for many runs.
type Compile struct {
	ext      *Extensions
	strategy string
	exact    bool
	device   string
	threads  int
	cache    Cache
	tuned    string         // path of the file; empty for none
	result   *pricing.Tuned // of the file; set by Check
}

// AddFlags adds the flags to a command.
func (c *Compile) AddFlags(cmd *cobra.Command, ext *Extensions) {
	c.ext = ext
	ext.StrategyFlag(cmd, &c.strategy)
	ExactFlag(cmd, &c.exact)
	DeviceFlag(cmd, &c.device)
	ThreadsFlag(cmd, &c.threads)
	c.cache.AddFlags(cmd)
	TunedFlag(cmd, &c.tuned)
}

// Check checks the values of the flags.
func (c *Compile) Check(cmd *cobra.Command) error {
	if err := c.ext.CheckStrategy(c.strategy); err != nil {
		return err
	}
	if err := CheckThreads(c.threads); err != nil {
		return err
	}
	if _, err := c.ext.Declared(); err != nil {
		return err
	}
	if _, err := c.ext.Constants(); err != nil {
		return err
	}
	var err error
	if c.result, err = Tuned(c.tuned); err != nil {
		return err
	}
	return c.cache.Check(cmd)
}

// Loader returns the loader of models.
func (c *Compile) Loader() graphrun.Loader {
	declared, _ := c.ext.Declared() // checked by Check
	constants, _ := c.ext.Constants()
	return graphrun.Loader{Declared: declared, Constants: constants, Lookup: c.ext.Lookup, Operators: c.ext.Operators, Cache: c.cache.Option()}
}

// Options returns the options of [graphrun.Compile].
func (c *Compile) Options() graphrun.Options {
	return graphrun.Options{Strategy: c.ext.Strategy(c.strategy), Exact: c.exact, Device: c.device,
		Threads: c.threads, Passes: c.ext.Passes(), Cache: c.cache.Option(), Tuned: c.result}
}
