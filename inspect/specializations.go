package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/sym"
)

// Specialization is a plan for all sizes that satisfy its guards. If the guards are unknown, it is used only for its
// hint: the sizes for which it was planned.
type Specialization struct {
	Hint    map[string]int  `json:"hint" doc:"The sizes for which it was planned and priced, by symbol."`
	Holds   []string        `json:"holds_while" doc:"The guards: it serves sizes that satisfy all of these conditions."`
	Guards  []Guard         `json:"guards" doc:"What requires each condition of holds_while, in the same order."`
	Copies  int             `json:"copies" doc:"The number of copies that it inserts."`
	Regret  []Regret        `json:"regret" doc:"Comparisons with plans made for certain sizes: the least sizes, the hints, the greatest sizes if all symbols have an upper bound, and a multiple of the hint for each symbol without one."`
	Memory  *MemoryFormulas `json:"memory,omitzero" doc:"The sizes of its buffers; left out if they are long expressions."`
	Unknown string          `json:"unknown,omitzero" doc:"Why the guards are unknown."`
}

// Guard is the reason for a condition on sizes: the node that requires it.
type Guard struct {
	Node  string   `json:"node,omitzero" doc:"The node whose inference requires it; left out if an input or the planner requires it."`
	Op    string   `json:"op,omitzero" doc:"The op of the node."`
	Binds []string `json:"binds,omitzero" doc:"The symbols that it restricts to one size."`
}

// Regret compares a specialization at certain sizes with the plan made for these sizes.
type Regret struct {
	Sizes  map[string]int `json:"sizes" doc:"The sizes, by symbol."`
	Choice string         `json:"which" doc:"The choice of these sizes: least, hint, greatest, or a multiple of the hint for a symbol without an upper bound."`
	Fits   bool           `json:"fits" doc:"Whether these sizes satisfy the guards: otherwise another plan serves them."`
	CostNS float64        `json:"cost_ns" doc:"The estimated cost of the specialization at these sizes, in nanoseconds."`
	BestNS float64        `json:"best_ns" doc:"The estimated cost of a plan for these sizes, in nanoseconds."`
	Regret float64        `json:"regret" doc:"The difference of the costs, divided by the cost of a plan for these sizes."`
	Bytes  *int           `json:"bytes,omitzero" doc:"The value of the memory formulas at these sizes, in bytes."`
}

// Specializations describes the plans for the hints (graphrun.Options.Hints). Without hints, it describes one plan.
// This is a plan for sizes of at least 2 if there are such sizes, otherwise the plan for the assumed sizes.
// Specializations plans the graph several times. The list is empty if no size is open, or if the graph runs in
// segments.
func Specializations(p *graphrun.Program) ([]Specialization, error) {
	internal := p.Internal()
	if _, err := internal.Compiled(); err != nil || !internal.Specializes() {
		return nil, err
	}
	var list []Specialization
	for _, spec := range mainSpecializations(internal) {
		list = append(list, describe(internal, spec))
	}
	return list, nil
}

// UsageOf returns the use of plans so far. Classes are listed once a run has met a size other than an anchor. It
// returns nothing for a nil program.
func UsageOf(p *graphrun.Program) report.Usage { return p.Internal().Usage() }

// mainSpecializations returns the specializations for the hints or, without hints, for the nondegenerate sizes (see
// [program.Program.NondegenerateSizes]) or the assumed sizes. Together they cover nearly all sizes.
func mainSpecializations(p *program.Program) (list []*program.Specialization) {
	ctx := context.Background()
	hints := slices.Clone(p.Hints())
	if sizes := p.NondegenerateSizes(ctx); len(hints) == 0 && sizes != nil {
		hints = append(hints, sizes)
	}
	if len(hints) == 0 {
		hints = append(hints, p.AssumedSizes())
	}
	for _, hint := range hints {
		if spec := p.SpecializationAt(ctx, hint); spec != nil && !slices.Contains(list, spec) {
			list = append(list, spec)
		}
	}
	return list
}

// describe returns the report of one specialization, with its regret at each size that is priced.
func describe(p *program.Program, spec *program.Specialization) Specialization {
	described := Specialization{Hint: p.SizesByName(spec.Hint), Copies: len(spec.Plan.Copies), Regret: []Regret{},
		Holds: []string{}, Guards: []Guard{}}
	guards, err := spec.Guards(context.Background(), p)
	if err != nil {
		described.Unknown = err.Error()
	}
	for _, g := range guards {
		reason := Guard{Binds: g.Binds}
		if g.Node != nil {
			reason.Node, reason.Op = g.Node.Name, g.Node.Op.Name
		}
		described.Holds, described.Guards = append(described.Holds, g.Cond.String()), append(described.Guards, reason)
	}
	memory := addMemory(&described, p, spec)
	for _, priced := range sizesToPrice(p) {
		compared, err := regret(p, spec, priced)
		if err != nil {
			continue // the graph rejects these sizes
		}
		if compared.Fits && memory != nil {
			if byteCounts, err := memory.Sizes(nil, priced.sizes); err == nil { // appended to nil
				bytes := byteCounts[0] + byteCounts[1] // outputs, other values: see addMemory
				compared.Bytes = &bytes
			}
		}
		described.Regret = append(described.Regret, compared)
	}
	return described
}

// addMemory sets described.Memory to the two memory formulas, and returns an evaluator of them. If the expressions are
// long or symbolic planning fails, it returns nil and sets nothing.
func addMemory(described *Specialization, p *program.Program, spec *program.Specialization) *sym.Evaluator {
	symbolicPlan, err := p.SymbolicPlanOf(context.Background(), spec, spec.Hint)
	if err != nil {
		return nil
	}
	formulas, ok := memoryOf(symbolicPlan.PlannedGraph)
	if !ok {
		return nil
	}
	evaluator, err := p.Evaluator(symbolicPlan.Symbolic, []sym.Int{formulas.outputs, formulas.maxLive}, nil)
	if err != nil {
		return nil
	}
	described.Memory = &MemoryFormulas{formulas.outputs.String(), formulas.maxLive.String()}
	return evaluator
}

// pricedSizes is a set of sizes at which specializations are priced.
type pricedSizes struct {
	sizes  []int
	choice string // the reason for the choice: see Regret.Choice
}

// sizesToPrice returns the sets of sizes at which specializations are priced. These are the least sizes, the hints and,
// if all symbols are bounded, the greatest sizes. For each symbol without an upper bound, it adds a multiple of its
// hint.
func sizesToPrice(p *program.Program) (list []pricedSizes) {
	assumed, symbols := p.AssumedSizes(), p.Source().Symbols
	least, greatest, allBounded := slices.Clone(assumed), slices.Clone(assumed), true
	add := func(sizes []int, choice string) {
		if !slices.ContainsFunc(list, func(c pricedSizes) bool { return slices.Equal(c.sizes, sizes) }) {
			list = append(list, pricedSizes{sizes, choice})
		}
	}
	hints := p.Hints()
	if len(hints) == 0 {
		hints = [][]int{assumed}
	}
	for i, name := range p.OpenSymbols() {
		least[i], greatest[i] = p.Clamp(i, 1), symbols[name].Max
		allBounded = allBounded && greatest[i] > 0
	}
	add(least, "least")
	for _, hint := range p.Hints() {
		add(hint, "hint")
	}
	if allBounded {
		add(greatest, "greatest")
	}
	for i, name := range p.OpenSymbols() {
		if symbols[name].Max > 0 {
			continue
		}
		largestHint := slices.MaxFunc(hints, func(a, b []int) int { return cmp.Compare(a[i], b[i]) })
		if sizes, factor := unboundedSizes(p, largestHint, i); factor > 1 {
			add(sizes, fmt.Sprintf("%d times the hint of %s, which has no upper bound", factor, name))
		}
	}
	return list
}

// A symbol without an upper bound is priced at unboundedFactor times its largest hint, or at a smaller multiple if
// values would exceed memory.
const unboundedFactor = 64

// unboundedSizes returns the sizes of a hint, with the size of symbol i multiplied by the returned factor. A size of 0
// counts as 1. If no multiple fits, the factor is 1 and the sizes must not be used.
func unboundedSizes(p *program.Program, hint []int, i int) (sizes []int, factor int) {
	sizes = slices.Clone(hint)
	for factor = unboundedFactor; factor > 1; factor /= 2 {
		sizes[i] = max(hint[i], 1) * factor
		if _, err := p.GraphAt(context.Background(), sizes); err == nil { // GraphAt fails if values exceed memory
			break
		}
	}
	return sizes, factor
}

// regret prices a specialization at given sizes. It returns an error if the graph rejects the sizes.
func regret(p *program.Program, spec *program.Specialization, priced pricedSizes) (compared Regret, err error) {
	ctx := context.Background()
	g, err := p.GraphAt(ctx, priced.sizes)
	if err != nil {
		return compared, err
	}
	compared.Sizes, compared.Choice = p.SizesByName(priced.sizes), priced.choice
	if !spec.Serves(ctx, p, priced.sizes) {
		return compared, nil
	}
	options := p.PlanOptions(ctx)
	options.Check, options.MemoryLimit = false, -1 // no limit: the plans are only priced
	best, err := passes.Run(g, options)
	if err != nil {
		return compared, err
	}
	applied, err := p.Follow(ctx, spec, g) // plans g with the decisions of the specialization
	switch {
	case errors.As(err, new(*passes.Misfit)): // the decisions cannot be applied at these sizes
		return compared, nil
	case err != nil:
		return compared, err
	}
	compared.Fits, compared.CostNS, compared.BestNS = true, applied.CostNS, min(best.CostNS, applied.CostNS)
	if compared.BestNS > 0 {
		compared.Regret = compared.CostNS/compared.BestNS - 1
	}
	return compared, nil
}
