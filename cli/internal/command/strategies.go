package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/passes/layout"
)

// DefaultStrategy is the default of --strategy.
const DefaultStrategy = "optimal"

// StrategyFlag adds --strategy and its completion.
func (e *Extensions) StrategyFlag(cmd *cobra.Command, strategy *string) {
	cmd.Flags().StringVar(strategy, "strategy", DefaultStrategy,
		"choose layouts by strategy `NAME`: "+strings.Join(e.StrategyNames(), ", "))
	CompleteFrom(cmd, "strategy", e.StrategyNames())
}

// StrategyNames returns the names of all strategies.
func (e *Extensions) StrategyNames() []string {
	var names []string
	for _, s := range e.Strategies() {
		names = append(names, s.Name())
	}
	return names
}

// Strategy returns the strategy with a name that [Extensions.CheckStrategy] accepts. For any other name it returns
// optimal.
func (e *Extensions) Strategy(name string) graphrun.Strategy {
	for _, s := range e.Strategies() {
		if s.Name() == name {
			return s
		}
	}
	return graphrun.Optimal
}

// CheckStrategy returns an error for an unknown strategy.
func (e *Extensions) CheckStrategy(name string) error {
	if slices.Contains(e.StrategyNames(), name) {
		return nil
	}
	return exit.UsageErrorf("unknown strategy %q: %s", name, format.WantOneOf(name, e.StrategyNames()))
}

// Names of groups of strategies, for flags that take a list. The group published has the strategies that reproduce the
// layout decisions of published optimizers ([layout.Published]).
const (
	groupAll       = "all"
	groupPublished = "published"
)

// Unpublished returns the names of all strategies that are not in [layout.Published].
func (e *Extensions) Unpublished() []string {
	return slices.DeleteFunc(e.StrategyNames(), func(name string) bool { return slices.Contains(published(), name) })
}

// published returns the names of the strategies in [layout.Published].
func published() []string {
	var names []string
	for _, s := range layout.Published() {
		names = append(names, s.Name())
	}
	return names
}

// expandStrategies replaces each name of a group in a list by the names of the group's strategies.
func (e *Extensions) expandStrategies(names []string) []string {
	var out []string
	for _, name := range names {
		switch name {
		case groupAll:
			out = append(out, e.StrategyNames()...)
		case groupPublished:
			out = append(out, published()...)
		default:
			out = append(out, name)
		}
	}
	return out
}

// ExpandAndCheckStrategies replaces the groups in the value of --strategies by their strategies. It returns an error if
// the list is empty, or if a strategy is unknown or repeated.
func (e *Extensions) ExpandAndCheckStrategies(names []string) ([]string, error) {
	names = e.expandStrategies(names)
	for i, name := range names {
		if err := e.CheckStrategy(name); err != nil {
			return nil, err
		}
		if slices.Contains(names[:i], name) {
			return nil, exit.UsageErrorf("--strategies names %q twice", name)
		}
	}
	if len(names) == 0 {
		return nil, exit.UsageErrorf("--strategies is empty")
	}
	return names, nil
}

// CompleteGroups is [Extensions.CompleteStrategies] for a flag that also accepts groups of strategies.
func (e *Extensions) CompleteGroups(cmd *cobra.Command, args []string, typed string) ([]string,
	cobra.ShellCompDirective) {
	list, directive := e.CompleteStrategies(cmd, args, typed)
	completeNames := typed[:strings.LastIndex(typed, ",")+1]
	return append(list, completeNames+groupPublished, completeNames+groupAll), directive
}

// CompleteStrategies completes the last name of a comma-separated list of strategies.
func (e *Extensions) CompleteStrategies(_ *cobra.Command, _ []string, typed string) ([]string,
	cobra.ShellCompDirective) {
	completeNames := typed[:strings.LastIndex(typed, ",")+1]
	var out []string
	for _, s := range e.StrategyNames() {
		if !slices.Contains(strings.Split(completeNames, ","), s) {
			out = append(out, completeNames+s)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
