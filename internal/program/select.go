package program

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/sym"
)

// This file chooses the specialization, a plan that runs share, for the sizes of a run.
//
//   - An open symbol is one whose size the inputs of a run determine. A list of sizes has one size for each open
//     symbol.
//   - A hint is a list of sizes that the caller expects.
//   - A specialization is planned at one list of sizes, its Hint, and serves all sizes at which its guards hold. For
//     example, a plan for N=8 with the guard N >= 2 serves every N from 2 on.
//   - A region is the set of all sizes at which inference takes the same branches. Sizes that no hint's specialization
//     serves get one that is planned in their region.

// Bounds on the search for the sizes at which a specialization is planned and priced.
const (
	maxOctaves      = 8       // maximum number of doublings of a candidate size
	maxCombinations = 1 << 13 // maximum number of combinations of sizes
	maxRegionPlans  = 3       // maximum number of plans that are tried for a region: see regionPlans
)

// SpecializationFor returns the specialization that serves sizes. It tries the specializations of the hints, the
// nearest hint first, and then the specialization of the nondegenerate sizes, under which no size is 0 or 1. It returns
// the first specialization whose guards hold. If none holds, it plans a specialization for the region of the sizes. It
// returns nil if this fails.
func (p *Program) SpecializationFor(ctx context.Context, sizes []int) *Specialization {
	hints := slices.Clone(p.hints)
	if len(hints) == 0 && slices.Equal(sizes, p.assumedSizes) {
		hints = [][]int{p.assumedSizes} // planned by Compile, though its binding may have been dropped
	}
	sorted.Func(hints, func(a, b []int) int { return cmp.Compare(distance(a, sizes), distance(b, sizes)) })
	if nondegenerate := p.NondegenerateSizes(ctx); nondegenerate != nil {
		hints = append(hints, nondegenerate)
	}
	for _, hint := range hints {
		if spec := p.SpecializationAt(ctx, hint); spec.Serves(ctx, p, sizes) {
			return spec
		}
	}
	return p.specializeRegion(ctx, sizes)
}

// Serves reports whether a specialization serves sizes. This is so if its guards hold at the sizes, or if the sizes are
// its hint. A nil specialization serves no sizes.
func (spec *Specialization) Serves(ctx context.Context, p *Program, sizes []int) bool {
	if spec == nil {
		return false
	}
	if slices.Equal(spec.Hint, sizes) {
		return true
	}
	_, _ = spec.Guards(ctx, p)             // sets guardEvaluator; nil after an error
	return spec.guardEvaluator.Hold(sizes) // false for a nil evaluator
}

// Guards returns the conditions on sizes under which a specialization serves the sizes. The first call computes them.
// If the computation fails, all calls return the error, and the specialization serves only its hint.
func (spec *Specialization) Guards(ctx context.Context, p *Program) ([]graph.Guard, error) {
	if spec.guardsLock.Lock(ctx) != nil {
		interrupt.Check(ctx) // panics, because the context has ended
	}
	defer spec.guardsLock.Unlock()
	if spec.guardsDone {
		return spec.guards, spec.guardsErr
	}
	plan, err := p.SymbolicPlanOf(ctx, spec, spec.Hint)
	interrupt.Check(ctx)
	if err == nil {
		spec.guardEvaluator, err = p.Evaluator(plan.Symbolic, nil, plan.Env.Guards())
		spec.guards = plan.Guards
	}
	spec.guardsErr, spec.guardsDone = err, true
	return spec.guards, spec.guardsErr
}

// specializeRegion returns a specialization for the region of sizes, or nil if none that is tried serves them.
func (p *Program) specializeRegion(ctx context.Context, sizes []int) *Specialization {
	for spec := range p.regionPlans(ctx, sizes) {
		if spec.Serves(ctx, p, sizes) {
			return spec
		}
	}
	return nil
}

// regionPlans returns the specializations that are tried for the region of sizes. The first one is planned at the first
// candidate sizes in the region. Each later one is planned at the first candidate sizes at which the guards of the
// earlier ones have the same outcomes as at the given sizes. For example, let the first plan be for N=8 with the guard
// N <= 16. For a run with N=100, the guard fails. It also fails at the candidate N=32, for which the second plan is
// made. The plans depend only on the region and the outcomes, so that the order of runs does not matter.
func (p *Program) regionPlans(ctx context.Context, sizes []int) iter.Seq[*Specialization] {
	return func(yield func(*Specialization) bool) {
		region := p.regionOf(ctx, sizes)
		if region == nil {
			return
		}
		predicates := []func(candidate []int) bool{region.guards.Hold}
		for range maxRegionPlans {
			spec := p.SpecializationAt(ctx, firstCombination(region.candidateSizes, predicates))
			if spec == nil || !yield(spec) {
				return
			}
			if _, err := spec.Guards(ctx, p); err != nil {
				return
			}
			outcomes := spec.guardEvaluator.Truths(nil, sizes) // of the guards of spec, in a new list
			predicates = append(predicates, spec.hasOutcomes(outcomes))
		}
	}
}

// region is the set of all sizes that satisfy the guards of the same branches of inference. Regions do not overlap.
type region struct {
	guards         *sym.Evaluator
	candidateSizes [][]int // by open symbol: candidate sizes for pricing, usual sizes first
}

// maxRegions bounds the number of regions that are kept. A dropped region is found again when it is needed.
const maxRegions = 32

// regionOf returns the region of sizes, or nil if inference for unknown sizes fails.
func (p *Program) regionOf(ctx context.Context, sizes []int) *region {
	nondegenerate := p.NondegenerateSizes(ctx) // before the lock, so that this search does not hold it
	defer p.lock(ctx)()
	for _, found := range p.regions {
		if found.guards.Hold(sizes) {
			return found
		}
	}
	symbolic, err := p.Symbolic(ctx, sizes)
	interrupt.Check(ctx)
	if err != nil {
		return nil
	}
	guards, err := p.Evaluator(symbolic, nil, symbolic.Env.Guards())
	if err != nil {
		return nil
	}
	if len(p.regions) == maxRegions {
		p.regions = slices.Delete(p.regions, 0, 1)
	}
	found := &region{guards, p.candidateSizes(symbolic, nondegenerate, sizes)}
	p.regions = append(p.regions, found)
	return found
}

// candidateSizes returns, by open symbol, the sizes at which a specialization for the region of sizes may be priced.
// The sizes in usual come first. The result is the same for all sizes of the region.
func (p *Program) candidateSizes(symbolic *graph.Symbolic, usual, sizes []int) [][]int {
	boundSymbols := map[string]bool{}
	for _, guard := range symbolic.Guards {
		for _, name := range guard.Binds {
			boundSymbols[name] = true
		}
	}
	if usual == nil {
		usual = p.assumedSizes
	}
	values := make([][]int, len(p.openSymbols))
	for i, name := range p.openSymbols {
		if boundSymbols[name] { // the region has no other size
			values[i] = sizes[i : i+1]
			continue
		}
		// The small sizes are for regions with few sizes, such as the sizes below 5. The doubled sizes are for ranges
		// of large sizes.
		list := []int{usual[i], 2, 1, 0, 3, 4, 5, 8}
		for octave := range maxOctaves {
			list = append(list, max(usual[i], 8)<<(octave+1))
		}
		for _, size := range list {
			size = p.Clamp(i, size)
			if !slices.Contains(values[i], size) {
				values[i] = append(values[i], size)
			}
		}
	}
	return values
}

// hasOutcomes returns a predicate on sizes: whether guard i of spec holds exactly if outcomes[i] is true, for all i.
func (spec *Specialization) hasOutcomes(outcomes []bool) func(sizes []int) bool {
	return func(sizes []int) bool { return slices.Equal(spec.guardEvaluator.Truths(nil, sizes), outcomes) }
}

// firstCombination returns the first sizes for which all predicates are true. values has the candidates for the size of
// each symbol. The sizes of the first symbol vary fastest. firstCombination returns nil if there is no such combination
// among the first maxCombinations.
func firstCombination(values [][]int, predicates []func([]int) bool) []int {
	index, sizes := make([]int, len(values)), make([]int, len(values))
	for range maxCombinations {
		for i, position := range index {
			sizes[i] = values[i][position]
		}
		isViolated := func(holds func([]int) bool) bool { return !holds(sizes) }
		if !slices.ContainsFunc(predicates, isViolated) {
			return sizes
		}
		if !nextCombination(index, values) {
			return nil
		}
	}
	return nil
}

// nextCombination advances index, the positions of a combination in values. It reports whether there is another one.
func nextCombination(index []int, values [][]int) bool {
	for i := range index {
		if index[i]++; index[i] < len(values[i]) {
			return true
		}
		index[i] = 0
	}
	return false
}

// PathConditions returns the conditions under which the search of [Program.SpecializationFor] reaches spec in the same
// way as for the given sizes. For each specialization of the region that is tried before spec, the conditions state
// which guards hold and which fail. They do not state the guards of the region and of spec. ok is false if the search
// for the given sizes does not reach spec.
func (p *Program) PathConditions(ctx context.Context, spec *Specialization, sizes []int) (conds []sym.Bool, ok bool) {
	if slices.Equal(spec.Hint, p.NondegenerateSizes(ctx)) ||
		slices.ContainsFunc(p.hints, func(hint []int) bool { return slices.Equal(hint, spec.Hint) }) {
		return nil, true // specializations of hints are tried first, for all sizes
	}
	for tried := range p.regionPlans(ctx, sizes) {
		if tried == spec {
			return conds, true
		}
		guards, _ := tried.Guards(ctx, p)
		outcomes := tried.guardEvaluator.Truths(nil, sizes)
		if len(outcomes) != len(guards) { // the guards are unknown
			break
		}
		for i, guard := range guards {
			if outcomes[i] {
				conds = append(conds, guard.Cond)
			} else {
				conds = append(conds, guard.Cond.Not())
			}
		}
	}
	return nil, false
}

// PlanAt plans the graph for sizes as a run does, without compiling it. If no specialization serves the sizes, the
// returned specialization is nil.
func (p *Program) PlanAt(ctx context.Context, sizes []int) (*passes.Plan, *Specialization, error) {
	g, err := p.GraphAt(ctx, sizes)
	if err != nil {
		return nil, nil, err
	}
	options := p.PlanOptions(ctx)
	options.Check, options.MemoryLimit, options.Price = false, -1, true
	if spec := p.SpecializationFor(ctx, sizes); spec != nil {
		options.Follow = spec.Decisions
		if plan, err := passes.Run(g, options); err == nil {
			return plan, spec, nil
		}
	}
	options.Follow = nil
	plan, err := passes.Run(g, options)
	return plan, nil, err
}
