package command

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/passes/layout"
)

// FusionFlag adds --no-fusion.
func FusionFlag(cmd *cobra.Command, p *bool) {
	cmd.Flags().BoolVar(p, "no-fusion", false, "compute each node in a separate step, to see the effect of fusion")
}

// ExactFlag adds --exact.
func ExactFlag(cmd *cobra.Command, p *bool) {
	cmd.Flags().BoolVar(p, "exact", false, "compute every node by the formula of its definition; exclude faster "+
		"implementations that round differently")
}

// DeviceFlag adds --device. The command rejects unknown names before it runs.
func DeviceFlag(cmd *cobra.Command, name *string) {
	names := devices.Names()
	cmd.Flags().StringVar(name, "device", graph.HostDevice,
		"compute nodes on the device `NAME` if the plan then costs less: "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if slices.Contains(names, *name) { // the device may be missing on this machine, which is no mistake of the caller
			return nil
		}
		if _, err := devices.Open(*name); err != nil {
			return exit.UsageErrorf("--device %s: %w", *name, err)
		}
		return nil
	}
}

// SolveLimit is the flag --solver-time-limit.
type SolveLimit struct{ limit time.Duration }

// AddFlag adds the flag.
func (l *SolveLimit) AddFlag(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&l.limit, "solver-time-limit", layout.SolveLimit, "search at most `TIME`, such as 500ms, "+
		"for the cheapest plan; 0s means no search. If the time runs out, the gap to the proven lower bound is shown")
}

// Check rejects a negative time.
func (l *SolveLimit) Check() error {
	if l.limit < 0 {
		return exit.UsageErrorf("--solver-time-limit %v: want at least 0s", l.limit)
	}
	return nil
}

// Option returns the value of graphrun.Options.SolveLimit, where a negative value means no search.
func (l *SolveLimit) Option() time.Duration {
	if l.limit == 0 {
		return -1
	}
	return l.limit
}

// Slack is the flag --slack: the extra cost that strategy optimal may accept to insert fewer copies.
type Slack struct {
	text  string  // the value of the flag, such as 0.5%
	share float64 // the parsed value, such as 0.005; set by Check
}

// AddFlag adds the flag.
func (s *Slack) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.text, "slack", "0%", "let strategy optimal choose a plan with fewer copies that costs up to "+
		"`SHARE` (such as 0.5%) more than the least cost")
}

// Check parses the flag. strategies are the strategies of the command. If they do not include optimal, Check rejects
// the flag.
func (s *Slack) Check(cmd *cobra.Command, strategies ...string) error {
	share, err := ParseShare("slack", s.text, layout.MaxSlack)
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("slack") && !slices.Contains(strategies, layout.Optimal.Name()) {
		return exit.UsageErrorf("--slack: only strategy %s can accept a higher cost for fewer copies", layout.Optimal.Name())
	}
	s.share = share
	return nil
}

// ParseShare parses the value of a flag that is a percentage up to a share, such as 1 for 100%.
func ParseShare(flag, text string, most int) (float64, error) {
	number, hasPercentSign := strings.CutSuffix(text, "%")
	percentage, err := strconv.ParseFloat(number, 64)
	if !hasPercentSign || err != nil || !(percentage >= 0 && percentage <= float64(100*most)) {
		return 0, exit.UsageErrorf("--%s %s: want a percentage from 0%% to %d%%, such as 0.5%%", flag, text, 100*most)
	}
	return percentage / 100, nil
}

// String returns the value of the flag, such as 0.5%.
func (s *Slack) String() string { return s.text }

// Option returns the value of graphrun.Options.Slack.
func (s *Slack) Option() float64 { return s.share }

// Caches is the flag --caches: the capacity of the caches of a decoder.
type Caches struct {
	capacity int
	flag     *pflag.Flag
}

// AddFlag adds the flag.
func (c *Caches) AddFlag(cmd *cobra.Command) {
	cmd.Flags().IntVar(&c.capacity, "caches", 0, "update the caches of a decoder (past_key_values.* and present.*, and "+
		"similar names) in place; they have space for `N` tokens")
	c.flag = cmd.Flags().Lookup("caches")
}

// Check rejects a capacity that is not positive.
func (c *Caches) Check() error {
	if c.capacity < 0 || c.capacity == 0 && c.flag != nil && c.flag.Changed {
		return exit.UsageErrorf("--caches %d: want a positive number", c.capacity)
	}
	return nil
}

// Option returns the value of graphrun.Options.Caches.
func (c *Caches) Option() []graphrun.GrowingCache {
	if c.capacity == 0 {
		return nil
	}
	return graphrun.RecognizedCaches(c.capacity)
}

// ThreadsFlag adds --threads.
func ThreadsFlag(cmd *cobra.Command, p *int) {
	cmd.Flags().IntVar(p, "threads", 0, "number `N` of workers of a run; 0 is GOMAXPROCS")
}

// CheckThreads rejects a negative value of --threads.
func CheckThreads(n int) error {
	if n < 0 {
		return exit.UsageErrorf("--threads %d: want a positive number (0 means GOMAXPROCS)", n)
	}
	return nil
}
