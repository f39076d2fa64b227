package batching

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes"
)

// PlanForOneRow chooses a plan for all batch sizes from three:
//   - the plan for `rows` rows, for which p was compiled from g;
//   - the plan for one row;
//   - the plan for one row with some implementations of the plan for `rows` rows.
//
// Each plan has two ratios, at 1 row and at `rows` rows: its cost divided by the cost of the plan that is made for this
// number of rows. PlanForOneRow chooses the plan whose greater ratio is the least. For example, with 8 rows:
//
//	plan for    cost at 1 row  cost at 8 rows  ratios
//	8 rows      30 µs          80 µs           1.5, 1
//	1 row       20 µs          100 µs          1, 1.25    chosen
//
// choseOneRow reports whether it chose one of the plans for one row. It is false if other sizes are open, because costs
// depend on them. symbol is the result of [Symbol]. For a plan for one row, pins has:
//   - the pins of p;
//   - the implementations taken from the plan for `rows` rows;
//   - replacements of implementations that cannot run `rows` rows.
func PlanForOneRow(ctx context.Context, p *program.Program, g *graph.Graph, symbol string, rows int) (
	choseOneRow bool, pins map[string]graph.Pin, err error) {
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
	best := c.withLeastRatio(manyRows, oneRow, mixed)
	return best != manyRows, best.pins, nil
}

// comparison compares plans for all batch sizes at two sizes: one row, and many rows (the argument rows of
// PlanForOneRow).
type comparison struct {
	program                        *program.Program
	graph                          *graph.Graph
	oneRowSizes, manyRowsSizes     []int   // sizes of the open symbols
	leastAtOneRow, leastAtManyRows float64 // costs of the plans for these sizes
}

// candidate is a plan for all batch sizes.
type candidate struct {
	pins                 map[string]graph.Pin
	atOneRow, atManyRows *passes.Plan // the plan, applied to one row and to many rows
}

// costs returns the costs of a plan for one row and for many rows, in ns.
func (plan *candidate) costs() (atOneRow, atManyRows float64) {
	return plan.atOneRow.CostNS, plan.atManyRows.CostNS
}

// maxRatio returns the greater of a plan's two ratios, for its costs at one row and at many rows.
func (c *comparison) maxRatio(atOneRow, atManyRows float64) float64 {
	return max(atOneRow/c.leastAtOneRow, atManyRows/c.leastAtManyRows)
}

// withLeastRatio returns the candidate with the least maxRatio; the first one of equal ones. Candidates may be nil,
// except the first one.
func (c *comparison) withLeastRatio(candidates ...*candidate) *candidate {
	best := candidates[0]
	for _, other := range candidates[1:] {
		if other != nil && c.maxRatio(other.costs()) < c.maxRatio(best.costs()) {
			best = other
		}
	}
	return best
}

// planForManyRows returns the plan for many rows, and sets the least costs. It returns nil if this is also the plan for
// one row, or if there is no plan for one of the sizes.
func (c *comparison) planForManyRows(ctx context.Context) *candidate {
	p := c.program
	manyRowsSpec, oneRowSpec := p.SpecializationAt(ctx, c.manyRowsSizes), p.SpecializationAt(ctx, c.oneRowSizes)
	if manyRowsSpec == nil || oneRowSpec == nil || manyRowsSpec.Decisions.Equal(oneRowSpec.Decisions) {
		return nil
	}
	// A plan found by a search and the same plan made from cached decisions may differ slightly in cost, so all plans here
	// are made from decisions.
	oneRowAtOneRow := followAt(ctx, p, oneRowSpec, c.oneRowSizes)
	manyRows := &candidate{atOneRow: followAt(ctx, p, manyRowsSpec, c.oneRowSizes),
		atManyRows: followAt(ctx, p, manyRowsSpec, c.manyRowsSizes)}
	if oneRowAtOneRow == nil || manyRows.atOneRow == nil || manyRows.atManyRows == nil {
		return nil
	}
	c.leastAtOneRow, c.leastAtManyRows = oneRowAtOneRow.CostNS, manyRows.atManyRows.CostNS
	return manyRows
}

// planForOneRow returns the plan for one row with pins. It adds pins where implementations do not support many rows,
// and plans anew until all of them do. It returns nil if there is no such plan.
func (c *comparison) planForOneRow(ctx context.Context, pins map[string]graph.Pin) (*candidate, error) {
	options := *c.program.Options()
	options.Pins = pins
	for {
		p := c.program
		if !maps.Equal(options.Pins, p.Options().Pins) {
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
		if !oneRowSpec.Serves(ctx, p, c.manyRowsSizes) {
			return nil, nil
		}
		plan := &candidate{pins: options.Pins, atOneRow: followAt(ctx, p, oneRowSpec, c.oneRowSizes),
			atManyRows: followAt(ctx, p, oneRowSpec, c.manyRowsSizes)}
		if plan.atOneRow == nil || plan.atManyRows == nil {
			return nil, nil
		}
		replaced := replacements(plan.atOneRow.Graph, plan.atManyRows.Graph)
		if len(replaced) == 0 {
			return plan, nil
		}
		for name, impl := range replaced {
			if options.Pins[name].Impl != "" {
				return nil, nil
			}
			options.Pins = withImpl(options.Pins, name, impl)
		}
	}
}

// mixedPins returns the pins of plan oneRow and further pins: implementations of plan manyRows. It adds them in the
// order of changesTo, and ends when the maximum ratio of costs does not fall.
func (c *comparison) mixedPins(oneRow, manyRows *candidate) map[string]graph.Pin {
	pins := oneRow.pins
	atOneRow, atManyRows := oneRow.costs()
	ratio := c.maxRatio(atOneRow, atManyRows)
	for _, change := range c.changesTo(manyRows, oneRow) {
		atOneRow, atManyRows = atOneRow+change.addedNS, atManyRows-change.savedNS
		changedRatio := c.maxRatio(atOneRow, atManyRows)
		if changedRatio >= ratio {
			break
		}
		pins, ratio = withImpl(pins, change.node, change.impl), changedRatio
	}
	return pins
}

// implChange is a change of plan oneRow: a node gets its implementation of plan manyRows. The costs of other nodes are
// assumed not to change.
type implChange struct {
	node, impl string
	addedNS    float64 // cost added at one row
	savedNS    float64 // cost saved at many rows
}

// changesTo returns the changes of plan oneRow to implementations of plan manyRows that save cost at many rows. The
// change with the greatest ratio of saved to added cost is the first.
func (c *comparison) changesTo(manyRows, oneRow *candidate) []implChange {
	pinnableOps := map[string]*graph.Op{} // by name of node: passes have not made these nodes, so they can be pinned
	for _, n := range c.graph.Nodes {
		pinnableOps[n.Name] = n.Op
	}
	// The nodes of both plans, at one row and at many rows.
	oneRowAtOneRow, oneRowAtManyRows := nodesOf(oneRow.atOneRow), nodesOf(oneRow.atManyRows)
	manyRowsAtOneRow, manyRowsAtManyRows := nodesOf(manyRows.atOneRow), nodesOf(manyRows.atManyRows)
	var changes []implChange
	for _, name := range sorted.Keys(oneRowAtOneRow) {
		impl := manyRowsAtManyRows[name].impl
		isPinnable := manyRowsAtManyRows[name].op == pinnableOps[name] && impl != nil && impl == manyRowsAtOneRow[name].impl
		savedNS := oneRowAtManyRows[name].costNS - manyRowsAtManyRows[name].costNS
		if isPinnable && impl != oneRowAtManyRows[name].impl && savedNS > 0 {
			changes = append(changes, implChange{node: name, impl: impl.Name, savedNS: savedNS,
				addedNS: max(0, manyRowsAtOneRow[name].costNS-oneRowAtOneRow[name].costNS)})
		}
	}
	sorted.Func(changes, func(a, b implChange) int { return cmp.Compare(b.savedNS*a.addedNS, a.savedNS*b.addedNS) })
	return changes
}

// plannedNode is a node of a plan.
type plannedNode struct {
	op     *graph.Op
	impl   *graph.Impl
	costNS float64
}

// nodesOf returns the nodes of a plan by name.
func nodesOf(plan *passes.Plan) map[string]plannedNode {
	nodes := make(map[string]plannedNode, len(plan.Graph.Nodes))
	for _, n := range plan.Graph.Nodes {
		nodes[n.Name] = plannedNode{n.Op, n.Impl, plan.Cost(n)}
	}
	return nodes
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

// followAt plans a program for sizes by the decisions of a specialization. It returns nil if they cannot be applied.
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

// replacements returns the names of the implementations of b, by node, that differ from those of a.
func replacements(a, b *graph.Graph) map[string]string {
	names, before := map[string]string{}, program.ImplsOf(a)
	for name, impl := range program.ImplsOf(b) {
		if impl != nil && impl != before[name] {
			names[name] = impl.Name
		}
	}
	return names
}
