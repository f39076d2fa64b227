package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
)

// variant is a plan that is measured beside the strategies: the plan of a strategy with further pins or at other
// prices, or the plan of a rank among the cheapest plans.
type variant struct {
	name          string
	strategy      string   // empty for optimal
	pins          []string // values of --pin
	costs, prices string   // values of --costs and --prices; empty for the prices of the other plans
	rank          int      // the position in the list of --k-best, from 1; 0 for the plan of the strategy
	profile       *pricing.Profile
}

// variantSettings are the names of the settings of a variant.
var variantSettings = []string{"pin", "costs", "prices", "k", "strategy"}

const variantHelp = "also measure the variant `NAME:SETTING=VALUE` of strategy optimal, with one of pin=NODE=impl:NAME " +
	"(or another value of --pin), costs=FILE, prices=FILE, k=N (plan N of the cheapest plans, as plan --k-best lists " +
	"them) and strategy=NAME; repeat NAME for further settings (repeatable); without --strategies, the variants are " +
	"compared with optimal"

// readVariants parses --variant and reads the prices of variants.
func (f *flags) readVariants(cmd *cobra.Command) error {
	for _, text := range f.variantTexts {
		if err := f.addSetting(text); err != nil {
			return exit.UsageErrorf("--variant %s: %w", text, err)
		}
	}
	for _, v := range f.variants {
		if v.strategy != "" && v.rank > 0 {
			return exit.UsageErrorf("--variant %s: k is for plans of strategy %s, not of %s", v.name, layout.Optimal.Name(),
				v.strategy)
		}
		if v.costs == "" && v.prices == "" {
			continue
		}
		costs, prices := v.costs, v.prices
		if costs == "" {
			costs = f.costs
		}
		if prices == "" {
			prices = f.prices
		}
		var err error
		if v.profile, err = command.PricedProfile(cmd, costs, prices); err != nil {
			return exit.UsageErrorf("--variant %s: %w", v.name, err)
		}
	}
	return nil
}

// addSetting adds the setting of a value of --variant.
func (f *flags) addSetting(text string) error {
	name, setting, found := strings.Cut(text, ":")
	setting, value, hasValue := strings.Cut(setting, "=")
	switch {
	case !found || name == "" || !hasValue || value == "":
		return errors.New("want NAME:SETTING=VALUE, such as second:k=2 or fast:pin=conv1=impl:nhwc")
	case !slices.Contains(variantSettings, setting):
		return fmt.Errorf("unknown setting %q: %s", setting, format.WantOneOf(setting, variantSettings))
	case slices.Contains(f.ext.StrategyNames(), name):
		return fmt.Errorf("%q is the name of a strategy", name)
	}
	i := slices.IndexFunc(f.variants, func(v *variant) bool { return v.name == name })
	if i < 0 {
		i = len(f.variants)
		f.variants = append(f.variants, &variant{name: name})
	}
	v := f.variants[i]
	field := map[string]*string{"costs": &v.costs, "prices": &v.prices, "strategy": &v.strategy}[setting]
	switch {
	case setting == "pin":
		v.pins = append(v.pins, value)
	case setting == "k":
		rank, err := strconv.Atoi(value)
		if err != nil || rank < 1 {
			return fmt.Errorf("k is %s: want a number from 1", value)
		}
		if v.rank > 0 {
			return fmt.Errorf("%s has two values of k", name)
		}
		v.rank = rank
	case *field != "":
		return fmt.Errorf("%s has two values of %s", name, setting)
	default:
		*field = value
	}
	if setting == "strategy" {
		return f.ext.CheckStrategy(value)
	}
	return nil
}

// String describes the settings: "optimal, pin conv1=impl:nhwc, plan 2 of the cheapest".
func (v *variant) String() string {
	parts := []string{layout.Optimal.Name()}
	if v.strategy != "" {
		parts[0] = v.strategy
	}
	for _, pin := range v.pins {
		parts = append(parts, "pin "+pin)
	}
	if v.costs != "" {
		parts = append(parts, "costs "+v.costs)
	}
	if v.prices != "" {
		parts = append(parts, "prices "+v.prices)
	}
	if v.rank > 0 {
		parts = append(parts, fmt.Sprintf("plan %d of the cheapest", v.rank))
	}
	return strings.Join(parts, ", ")
}

// texts returns the description of each variant, by name.
func (f *flags) texts() map[string]string {
	texts := map[string]string{}
	for _, v := range f.variants {
		texts[v.name] = v.String()
	}
	return texts
}

// contestant is a plan to be compiled and measured.
type contestant struct {
	name       string
	graph      *graph.Graph
	options    graphrun.Options
	isVariant  bool
	isRepriced bool // whether its cost is at the prices of the other plans
}

// contestants returns the strategies and then the variants. options are the options of all plans.
func (c *comparison) contestants(ctx context.Context, g *graph.Graph, options graphrun.Options) ([]contestant, error) {
	var list []contestant
	for _, name := range c.flags.strategies {
		options.Strategy = c.flags.ext.Strategy(name)
		list = append(list, contestant{name: name, graph: g, options: options, isRepriced: true})
	}
	for _, v := range c.flags.variants {
		added, err := c.contestantOf(ctx, g, options, v)
		if mistake := (*exit.Error)(nil); errors.As(err, &mistake) {
			return nil, exit.UsageErrorf("--variant %s: %w", v.name, mistake.Err)
		}
		if err != nil {
			return nil, fmt.Errorf("variant %s: %w", v.name, err)
		}
		list = append(list, added)
	}
	return list, nil
}

// contestantOf returns a variant. A plan that was chosen at other prices is compiled from its labels at the prices of
// the other plans, so that the costs can be compared. If prices changed which nodes are fused, the labels do not fit:
// the plan then keeps its own prices.
func (c *comparison) contestantOf(ctx context.Context, g *graph.Graph, options graphrun.Options,
	v *variant) (contestant, error) {
	added := contestant{name: v.name, graph: g, options: options, isVariant: true, isRepriced: v.profile == nil}
	added.options.Strategy = c.flags.ext.Strategy(v.strategy)
	if len(v.pins) > 0 {
		added.graph = g.Clone()
		if err := command.ApplyPins(ctx, added.graph, v.pins); err != nil {
			return added, err
		}
	}
	if v.profile != nil {
		added.options.Costs = v.profile
	}
	if v.rank == 0 && v.profile == nil {
		return added, nil
	}
	compiled, err := c.flags.ext.Compile(ctx, added.graph, added.options)
	if err != nil {
		return added, err
	}
	if v.rank > 0 {
		choices, timedOut, err := experiment.Best(compiled, v.rank)
		switch {
		case err != nil:
			return added, err
		case len(choices) < v.rank && timedOut:
			return added, exit.UsageErrorf("only %s were found before the time limit", format.Count(len(choices), "plan"))
		case len(choices) < v.rank:
			return added, exit.UsageErrorf("there are only %s that differ in implementations or copies",
				format.Count(len(choices), "plan"))
		}
		added.options.Strategy = choices[v.rank-1].Strategy()
		if compiled, err = c.flags.ext.Compile(ctx, added.graph, added.options); err != nil {
			return added, err
		}
	}
	solution := compiled.Internal().FirstBinding().Plan.Solution
	if v.profile == nil || solution == nil {
		return added, nil
	}
	problem, err := experiment.Problem(compiled)
	if err != nil {
		return added, err
	}
	repriced := added
	repriced.options.Strategy = layout.GivenNames(program.LabelNames(problem, solution.Labels))
	repriced.options.Costs, repriced.isRepriced = options.Costs, true
	if _, err := c.flags.ext.Compile(ctx, repriced.graph, repriced.options); err != nil {
		if given := (*layout.GivenError)(nil); errors.As(err, &given) {
			return added, nil
		}
		return added, err
	}
	return repriced, nil
}
