package batching

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes"
)

// PreferOneRowPlan chooses a plan for all batch sizes from three candidates:
//   - manyRows, the plan for `rows` rows (p was compiled from g for this number);
//   - oneRow, the plan for one row;
//   - mixed, the plan for one row with some implementations of manyRows.
//
// A candidate has two ratios: one at 1 row and one at `rows` rows. A ratio is the candidate's cost divided by the cost
// of the plan that is made for this number of rows. PreferOneRowPlan chooses the candidate with the least sum of
// ratios. For example, with 8 rows:
//
//	candidate   cost at 1 row  cost at 8 rows  ratios     sum
//	manyRows    30 µs          80 µs           1.5, 1     2.5
//	oneRow      20 µs          100 µs          1, 1.25    2.25
//	mixed       21 µs          88 µs           1.05, 1.1  2.15  chosen
//
// Both ratios count, because the cost at one row determines the latency of a single client, and the cost at many rows
// the throughput.
//
// An open symbol is a symbol without a fixed size. A specialization of a program is a plan for a range of sizes. Its
// decisions, such as implementations, are made for one size of each open symbol, and apply at the other sizes.
//
// preferred reports whether PreferOneRowPlan chose oneRow or mixed. It is false if other sizes than the batch size are
// open, because costs depend on these sizes. symbol is the result of [Symbol]. For oneRow and mixed, pins has:
//   - the pins of p;
//   - the implementations taken from manyRows;
//   - replacements of implementations that cannot run `rows` rows.
func PreferOneRowPlan(ctx context.Context, p *program.Program, g *graph.Graph, symbol string, rows int) (
	preferred bool, pins map[string]graph.Pin, err error) {
	defer interrupt.Catch(&err)
	index := slices.Index(p.OpenSymbols(), symbol)
	if index < 0 || !p.Specializes() || rows == 1 || len(p.OpenSymbols()) > 1 {
		return false, nil, nil
	}
	c := comparison{program: p, graph: g, oneRowSizes: slices.Clone(p.AssumedSizes()),
		manyRowsSizes: slices.Clone(p.AssumedSizes())}
	c.oneRowSizes[index], c.manyRowsSizes[index] = 1, rows
	manyRows := c.planForManyRows(ctx)
	if manyRows == nil {
		return false, nil, nil
	}
	oneRow, err := c.planForOneRow(ctx, p.Options().Pins)
	if err != nil || oneRow == nil {
		return false, nil, err
	}
	mixed := oneRow
	if pins := c.mixedPins(oneRow, manyRows); !maps.Equal(pins, oneRow.pins) {
		if mixed, err = c.planForOneRow(ctx, pins); err != nil {
			return false, nil, err
		}
	}
	best := c.withLeastSum(manyRows, oneRow, mixed)
	return best != manyRows, best.pins, nil // manyRows has no pins
}

// comparison compares candidates by their costs at two batch sizes: one row, and many rows (the argument `rows` of
// PreferOneRowPlan).
type comparison struct {
	program                    *program.Program
	graph                      *graph.Graph
	oneRowSizes, manyRowsSizes []int // sizes of the open symbols
	// These are the costs in ns of the plans that are made for these sizes. planForManyRows sets them.
	leastAtOneRow, leastAtManyRows float64
}

// candidate is a plan for all batch sizes.
type candidate struct {
	pins                 map[string]graph.Pin
	atOneRow, atManyRows *passes.Plan // the plan, applied to one row and to many rows
}

// planForManyRows returns the candidate manyRows, and sets the least costs. It returns nil if this candidate is also
// the plan for one row, or if one of the sizes has no plan.
func (c *comparison) planForManyRows(ctx context.Context) *candidate {
	p := c.program
	manyRowsSpec, oneRowSpec := p.SpecializationAt(ctx, c.manyRowsSizes), p.SpecializationAt(ctx, c.oneRowSizes)
	if manyRowsSpec == nil || oneRowSpec == nil || manyRowsSpec.Decisions.Equal(oneRowSpec.Decisions) {
		return nil
	}
	// The cost of a plan may differ slightly between a search and cached decisions. Therefore all plans here are made
	// from decisions.
	bestAtOneRow := followAt(ctx, p, oneRowSpec, c.oneRowSizes)
	manyRows := &candidate{atOneRow: followAt(ctx, p, manyRowsSpec, c.oneRowSizes),
		atManyRows: followAt(ctx, p, manyRowsSpec, c.manyRowsSizes)}
	if bestAtOneRow == nil || manyRows.atOneRow == nil || manyRows.atManyRows == nil {
		return nil
	}
	c.leastAtOneRow, c.leastAtManyRows = bestAtOneRow.CostNS, manyRows.atManyRows.CostNS
	return manyRows
}

// planForOneRow returns the plan for one row with pins. If implementations do not support many rows, it adds pins and
// plans again. It returns nil if there is no plan whose implementations all support many rows.
func (c *comparison) planForOneRow(ctx context.Context, pins map[string]graph.Pin) (*candidate, error) {
	for {
		plan, err := c.planWithPins(ctx, pins)
		if err != nil || plan == nil {
			return nil, err
		}
		replaced := replacedImpls(plan.atOneRow.Graph, plan.atManyRows.Graph)
		if len(replaced) == 0 {
			return plan, nil
		}
		for name, impl := range replaced {
			if pins[name].Impl != "" { // the pinned implementation does not support many rows
				return nil, nil
			}
			pins = withImpl(pins, name, impl)
		}
	}
}

// planWithPins returns the plan for one row with pins. The implementations at many rows may differ from the
// implementations at one row. planWithPins returns nil if there is no plan, or if the decisions of the plan cannot be
// applied to many rows.
func (c *comparison) planWithPins(ctx context.Context, pins map[string]graph.Pin) (*candidate, error) {
	p, options := c.program, *c.program.Options()
	if !maps.Equal(pins, options.Pins) {
		options.Pins = pins
		var err error
		p, err = program.New(c.graph, options)
		if _, isPinError := errors.AsType[*graph.PinError](err); isPinError {
			return nil, nil // a pass made the pinned node: c.graph does not have it, so it cannot be pinned
		}
		if err != nil {
			return nil, err
		}
	}
	oneRowSpec := p.SpecializationAt(ctx, c.oneRowSizes)
	if oneRowSpec == nil {
		return nil, nil
	}
	plan := &candidate{pins: pins, atOneRow: followAt(ctx, p, oneRowSpec, c.oneRowSizes),
		atManyRows: followAt(ctx, p, oneRowSpec, c.manyRowsSizes)}
	if plan.atOneRow == nil || plan.atManyRows == nil {
		return nil, nil
	}
	return plan, nil
}

// followAt plans a program for sizes, with the decisions of a specialization. It returns nil if the decisions cannot be
// applied.
func followAt(ctx context.Context, p *program.Program, spec *program.Specialization, sizes []int) *passes.Plan {
	g, err := p.GraphAt(ctx, sizes)
	if err != nil {
		return nil
	}
	plan, err := p.Follow(ctx, spec, g)
	if err != nil {
		return nil
	}
	return plan
}

// replacedImpls returns the nodes whose implementations differ between graphs a and b. It maps each node to the name of
// the implementation in b.
func replacedImpls(a, b *graph.Graph) map[string]string {
	names, before := map[string]string{}, program.ImplsOf(a)
	for name, impl := range program.ImplsOf(b) {
		if impl != nil && impl != before[name] {
			names[name] = impl.Name
		}
	}
	return names
}

// withImpl returns a copy of pins in which a node is pinned to an implementation.
func withImpl(pins map[string]graph.Pin, node, impl string) map[string]graph.Pin {
	copied := maps.Clone(pins)
	if copied == nil {
		copied = map[string]graph.Pin{}
	}
	pin := copied[node]
	pin.Impl = impl
	copied[node] = pin
	return copied
}

// mixedPins returns the pins of oneRow and the implementations of manyRows that decrease the sum of the ratios. It
// assumes that the cost of a node does not depend on the implementations of other nodes.
func (c *comparison) mixedPins(oneRow, manyRows *candidate) map[string]graph.Pin {
	unplannedOps := map[string]*graph.Op{} // by name of node: the op in the graph before the passes
	for _, n := range c.graph.Nodes {
		unplannedOps[n.Name] = n.Op
	}
	pins, replacements := oneRow.pins, nodesOf(manyRows)
	for name, from := range nodesOf(oneRow) {
		to := replacements[name]
		impl := to.atManyRows.impl
		isUnchanged := to.atManyRows.op == unplannedOps[name]   // a node that a pass has made cannot be pinned
		isUsedAtBoth := impl != nil && impl == to.atOneRow.impl // a pin holds at all sizes
		addedAtOneRow := to.atOneRow.costNS - from.atOneRow.costNS
		addedAtManyRows := to.atManyRows.costNS - from.atManyRows.costNS
		isCheaper := c.sumOfRatios(addedAtOneRow, addedAtManyRows) < 0
		if isUnchanged && isUsedAtBoth && impl != from.atManyRows.impl && isCheaper {
			pins = withImpl(pins, name, impl.Name)
		}
	}
	return pins
}

// candidateNode is a node of a candidate at both batch sizes.
type candidateNode struct{ atOneRow, atManyRows plannedNode }

// plannedNode is a node of a plan.
type plannedNode struct {
	op     *graph.Op
	impl   *graph.Impl
	costNS float64
}

// nodesOf returns the nodes of a candidate's plan at one row, keyed by name.
func nodesOf(plan *candidate) map[string]candidateNode {
	nodes := make(map[string]candidateNode, len(plan.atOneRow.Graph.Nodes))
	for _, n := range plan.atOneRow.Graph.Nodes {
		nodes[n.Name] = candidateNode{atOneRow: plannedNode{n.Op, n.Impl, plan.atOneRow.Cost(n)}}
	}
	for _, n := range plan.atManyRows.Graph.Nodes {
		if node, ok := nodes[n.Name]; ok {
			node.atManyRows = plannedNode{n.Op, n.Impl, plan.atManyRows.Cost(n)}
			nodes[n.Name] = node
		}
	}
	return nodes
}

// withLeastSum returns the candidate with the least sum of ratios. Among equal candidates it returns the first. All
// candidates except the first may be nil.
func (c *comparison) withLeastSum(candidates ...*candidate) *candidate {
	best := candidates[0]
	for _, other := range candidates[1:] {
		if other != nil && c.sumOfRatios(other.costs()) < c.sumOfRatios(best.costs()) {
			best = other
		}
	}
	return best
}

// sumOfRatios returns the sum of the two ratios, for costs at one row and at many rows.
func (c *comparison) sumOfRatios(costAtOneRow, costAtManyRows float64) float64 {
	return costAtOneRow/c.leastAtOneRow + costAtManyRows/c.leastAtManyRows
}

// costs returns the costs of a candidate for one row and for many rows, in ns.
func (plan *candidate) costs() (atOneRow, atManyRows float64) {
	return plan.atOneRow.CostNS, plan.atManyRows.CostNS
}
