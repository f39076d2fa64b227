package experiment

import (
	"slices"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/steptimes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
)

// stepLabel is the label of a step in a list of prices, with its predicted price, without times.
type stepLabel struct {
	step  string
	label pricing.LabelPrice
}

// stepLabels returns the labels of the steps of a program, for the sizes that Compile planned. It omits steps whose
// nodes no price concerns.
func stepLabels(p *graphrun.Program) (list []stepLabel) {
	internal := p.Internal()
	nodes := map[string]*graph.Node{}
	for _, n := range internal.Planned().Nodes {
		nodes[n.Name] = n
	}
	profile := internal.Options().Costs
	for _, step := range p.Report().Steps {
		label, ok := layout.LabelOf(nodes[step.Name])
		if !ok || step.CostNS <= 0 {
			continue
		}
		label.PredictedNS = step.CostNS
		if profile != nil && len(profile.Prices) > 0 { // without measured prices
			label.PredictedNS /= profile.Ratio(label.Node, label.Op, label.Implementation, label.Order).Price
		}
		list = append(list, stepLabel{step.Name, label})
	}
	return list
}

// priced returns a label with the measured price of its times, in nanoseconds.
func priced(label pricing.LabelPrice, times []float64) pricing.LabelPrice {
	spread := SpreadOf(times)
	label.MeasuredNS, label.Samples = *spread.Median, spread.Runs
	if spread.Low != nil {
		label.LowNS, label.HighNS = *spread.Low, *spread.High
	}
	return label
}

// MeasuredPrices returns the measured prices of the steps of a program, and the other prices of its profile. times are
// of runs of the program at the sizes that Compile planned.
func MeasuredPrices(p *graphrun.Program, times *steptimes.Tracer) *pricing.Prices {
	prices := &pricing.Prices{Version: pricing.PricesVersion}
	if p.Report() == nil || times == nil {
		return prices
	}
	if profile := p.Internal().Options().Costs; profile != nil {
		prices.Prices = slices.Clone(profile.Prices)
	}
	for _, step := range stepLabels(p) {
		if samples := times.Samples(step.step); len(samples) > 0 {
			prices.AddPrice(priced(step.label, samples))
		}
	}
	return prices
}
