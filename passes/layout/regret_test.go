package layout

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// drawnGraph is a small graph of images, with convolutions, pointwise ops, views and concatenations.
func drawnGraph(t *testing.T, random *rand.Rand) *graph.Graph {
	t.Helper()
	channels, size := 1+random.IntN(12), 2+random.IntN(9)
	g := graph.New("drawn", kernels.Lookup)
	values := []*graph.Value{g.Input("x", tensor.Float32, 1+random.IntN(2), channels, size, size)}
	w := g.Constant("w", tensor.Zeros(tensor.Float32, channels, channels, 3, 3))
	for range 2 + random.IntN(4) {
		a, b := values[random.IntN(len(values))], values[random.IntN(len(values))]
		var next *graph.Value
		switch random.IntN(6) {
		case 0, 1:
			next = g.Apply("conv2d", graph.Attrs{"padding": 1}, a, w)[0]
		case 2:
			next = g.Apply("softmax", graph.Attrs{"dim": random.IntN(4)}, a)[0]
		case 3:
			next = g.Apply("add", nil, a, b)[0]
		case 4: // a view that swaps height and width, which are equal
			next = g.Apply("transpose", graph.Attrs{"dim0": 2, "dim1": 3}, a)[0]
		case 5:
			next = g.Apply("narrow", graph.Attrs{"dim": 1, "start": 0, "length": channels}, g.Apply("cat",
				graph.Attrs{"dim": 1}, a, b)[0])[0]
		}
		values = append(values, next)
	}
	g.Output("y", values[len(values)-1])
	g.Output("z", values[len(values)-2])
	require.NoError(t, g.Err())
	return g
}

// drawnPrices has prices for some labels of a model.
func drawnPrices(m *Model, random *rand.Rand) *pricing.Prices {
	list := &pricing.Prices{}
	for _, computed := range m.computedNodes {
		if computed == nil {
			continue
		}
		for i := range computed.labels {
			l := &computed.labels[i]
			if l.impl == nil || random.IntN(2) == 0 {
				continue
			}
			measured := 100 * (0.5 + 2*random.Float64())
			result := m.variables.At(computed.node.Out[0]).forms[l.resultForms[0]].meta
			list.AddPrice(pricing.LabelPrice{Node: computed.node.Name, Op: computed.node.Op.Name,
				Implementation: l.impl.Name, Order: priceOrder([]tensor.Meta{result}), PredictedNS: 100, MeasuredNS: measured,
				Samples: 20, LowNS: measured * (0.7 + 0.3*random.Float64()), HighNS: measured * (1 + 0.3*random.Float64())})
		}
	}
	return list
}

// atCorner is a model with the same labels, and each price at one end of its interval.
func (m *Model) atCorner(t *testing.T, random *rand.Rand) *Model {
	t.Helper()
	corner := *m
	end := func(ratio pricing.Ratio) float64 {
		if random.IntN(2) == 0 {
			return ratio.Low / ratio.Price
		}
		return ratio.High / ratio.Price
	}
	corner.computedNodes = make([]*computedNode, len(m.computedNodes))
	for i, computed := range m.computedNodes {
		if computed == nil {
			continue
		}
		changed := *computed
		changed.labels = make([]label, len(computed.labels))
		for j, l := range computed.labels {
			factor := end(l.ratio)
			l.cost = scaled(l.cost, factor)
			reads := make([][]int64, len(l.readCosts))
			for k, costs := range l.readCosts {
				for _, ps := range costs {
					reads[k] = append(reads[k], scaled(ps, factor))
				}
			}
			l.readCosts = reads
			changed.labels[j] = l
		}
		corner.computedNodes[i] = &changed
	}
	corner.variables = graph.NewByValue[*variable](m.Problem.Graph)
	corner.variableList = nil
	for _, v := range m.variableList {
		m.copyCostMatrix(v)
		changed, count := *v, len(v.forms)
		changed.copyMatrix = make([]int64, len(v.copyMatrix))
		for to := range count {
			factor := end(v.copyRatios[to])
			for from := range count {
				changed.copyMatrix[from*count+to] = scaled(v.copyMatrix[from*count+to], factor)
			}
		}
		corner.variables.Set(v.value, &changed)
		corner.variableList = append(corner.variableList, &changed)
	}
	require.NoError(t, corner.build())
	require.Len(t, corner.WCSP.Variables, len(m.WCSP.Variables))
	return &corner
}

// TestRegret draws small problems with intervals of prices, and plans. At prices at random ends of the intervals, no
// plan exceeds the least cost by more than its regret.
func TestRegret(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	plans, tight := 0, 0
	for range 1000 {
		g := drawnGraph(t, random)
		m, err := NewModel(NewProblem(g, nil))
		require.NoError(t, err)
		if random.IntN(4) > 0 {
			m, err = NewModel(NewProblem(g, pricing.DefaultProfile().WithPrices(drawnPrices(m, random))))
			require.NoError(t, err)
		}
		optimal, err := m.Solve(Changed{})
		require.NoError(t, err)
		for k := range 6 {
			labels := optimal.Labels
			if k > 0 {
				labels = make([]int, len(labels))
				for i := range labels {
					labels[i] = optimal.Labels[i]
					if random.IntN(2) == 0 {
						labels[i] = random.IntN(len(m.WCSP.Variables[i].Labels))
					}
				}
			}
			if cost, err := m.WCSP.Cost(labels); err != nil || cost >= wcsp.Forbidden {
				continue
			}
			plans++
			regret, err := m.Regret(labels, k == 0)
			require.NoError(t, err)
			require.True(t, regret.solution.Optimal())
			if k == 0 {
				require.NoError(t, verify.Solution(t.Context(), regret.problem, regret.solution))
			}
			tolerance := int64(len(m.WCSP.Factors) * 64) // of rounding to picoseconds
			for range 3 {
				corner := m.atCorner(t, random)
				cost, err := corner.WCSP.Cost(labels)
				require.NoError(t, err)
				best, err := wcsp.Exact.Solve(corner.WCSP, wcsp.Options{})
				require.NoError(t, err)
				require.LessOrEqual(t, cost-best.Cost, regret.ps()+tolerance)
				if 2*(cost-best.Cost) > regret.ps() {
					tight++
				}
			}
			var sum float64
			for _, interval := range regret.Intervals {
				sum += interval.NS
			}
			// The regret is at most the difference at the prices of the model, and the parts of the intervals.
			other, err := m.WCSP.Cost(regret.solution.Labels)
			require.NoError(t, err)
			require.LessOrEqual(t, float64(regret.ps()-max(0, regret.planPS-other)), 1000*sum+float64(tolerance))
		}
	}
	require.Greater(t, plans, 1500)
	require.Greater(t, tight, plans/10) // the bound is of use
}

// TestRegretRefuses labels that are no plan.
func TestRegretRefuses(t *testing.T) {
	m := convolved(t, 8)
	_, err := m.Regret(make([]int, 1), false)
	require.ErrorContains(t, err, "labels")
	_, err = (*Model)(nil).Regret(nil, false)
	require.ErrorContains(t, err, "NewModel")
}
