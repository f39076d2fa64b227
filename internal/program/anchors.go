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

// SpecializationFor returns the specialization that serves sizes. It tries the specializations of the hints, the
// nearest hint first, and then the specialization of the nondegenerate sizes, under which no size is 0 or 1. It returns
// the first specialization whose guards hold. If none holds, it plans a specialization for the region of the sizes. It
// returns nil if this fails.
func (p *Program) SpecializationFor(ctx context.Context, sizes []int) *Specialization {
	hints := slices.Clone(p.hints)
	if len(hints) == 0 && slices.Equal(sizes, p.assumedSizes) {
		hints = [][]int{p.assumedSizes} // Compile planned at these sizes
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

// ShareSpecializations makes runs follow the same specialization for all sizes of an open symbol: the specialization
// for the symbol's size in the first hint, or for its assumed size without hints. Its guards need not hold at the sizes
// of a run, because guards only choose among specializations: a plan that follows decisions checks that they can be
// applied. If they cannot, [Program.SpecializationFor] chooses. For example, the guard N != 1 separates a reshape that
// copies from one that returns a view. With ShareSpecializations("N"), other nodes have the same implementations and
// layouts at N=1 as at N=8, although the reshape returns a view. ShareSpecializations must be called before the first
// run.
func (p *Program) ShareSpecializations(symbol string) { p.sharedSymbol = symbol }

// firstHint returns the sizes of the first hint, or the assumed sizes if there are no hints.
func (p *Program) firstHint() []int {
	if len(p.hints) > 0 {
		return p.hints[0]
	}
	return p.assumedSizes
}

// specializationsFor yields the specializations that a plan for sizes may follow, in the order of preference.
func (p *Program) specializationsFor(ctx context.Context, sizes []int) iter.Seq[*Specialization] {
	return func(yield func(*Specialization) bool) {
		var shared *Specialization
		if i := slices.Index(p.openSymbols, p.sharedSymbol); i >= 0 {
			sharedSizes := slices.Clone(sizes)
			sharedSizes[i] = p.firstHint()[i]
			shared = p.SpecializationFor(ctx, sharedSizes)
			if shared != nil && !yield(shared) {
				return
			}
		}
		if spec := p.SpecializationFor(ctx, sizes); spec != nil && spec != shared {
			yield(spec)
		}
	}
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
	return spec.hintClass(ctx, p).guardEvaluator.Hold(sizes) // false for a nil evaluator
}

// Guards returns the conditions on sizes under which a specialization serves the sizes. The first call computes them.
// If the computation fails, all calls return the error, and the specialization serves only its hint.
func (spec *Specialization) Guards(ctx context.Context, p *Program) ([]graph.Guard, error) {
	hintClass := spec.hintClass(ctx, p)
	return hintClass.guards, hintClass.err
}

// specializeRegion returns a specialization for the region of sizes, or nil if no specialization that it tries serves
// them.
func (p *Program) specializeRegion(ctx context.Context, sizes []int) *Specialization {
	for spec := range p.regionPlans(ctx, sizes) {
		if spec.Serves(ctx, p, sizes) {
			return spec
		}
	}
	return nil
}

// PathConditions returns the conditions under which the search of [Program.SpecializationFor] reaches spec in the same
// way as for the given sizes, besides the guards of spec: the path of the region, and, for each specialization of the
// region that is tried before spec, which guards hold and which fail. symbolic is the graph with the branches of the
// given sizes. ok is false if the search for the given sizes does not reach spec.
func (p *Program) PathConditions(ctx context.Context, spec *Specialization, symbolic *graph.Symbolic, sizes []int) (
	conds []sym.Bool, ok bool) {
	if slices.Equal(spec.Hint, p.NondegenerateSizes(ctx)) ||
		slices.ContainsFunc(p.hints, func(hint []int) bool { return slices.Equal(hint, spec.Hint) }) {
		return nil, true // specializations of hints are tried first, for all sizes
	}
	conds = symbolic.Env.Path()
	for tried := range p.regionPlans(ctx, sizes) {
		if tried == spec {
			return conds, true
		}
		guards, _ := tried.Guards(ctx, p)
		outcomes := tried.hintClass(ctx, p).guardEvaluator.Truths(nil /* a new list */, sizes)
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
	options.Check, options.MemoryLimit, options.Price = false, -1, true // -1: no limit
	for spec := range p.specializationsFor(ctx, sizes) {
		options.Follow = spec.Decisions
		if plan, err := passes.Run(g, options); err == nil {
			return plan, spec, nil
		}
	}
	options.Follow = nil
	plan, err := passes.Run(g, options)
	return plan, nil, err
}

// This part plans specializations for sizes that no hint's specialization serves. A specialization is a plan for all
// sizes that satisfy its guards, the conditions on sizes under which its decisions are valid. A hint is a list of sizes
// that the caller expects. A list of sizes has one size for each open symbol: a symbol whose size the inputs of a run
// determine.

// Bounds on the search for the sizes at which a specialization is planned and priced.
const (
	maxOctaves      = 8       // maximum number of doublings of a candidate size
	maxCombinations = 1 << 13 // maximum number of combinations of sizes
	maxRegionPlans  = 3       // maximum number of plans that are tried for a region: see regionPlans
)

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
		predicates := []func(candidate []int) bool{region.path.Hold}
		for range maxRegionPlans {
			spec := p.SpecializationAt(ctx, firstCombination(region.candidateSizes, predicates))
			if spec == nil || !yield(spec) {
				return
			}
			hintClass := spec.hintClass(ctx, p)
			if hintClass.err != nil {
				return
			}
			outcomes := hintClass.guardEvaluator.Truths(nil, sizes) // of the guards of spec, in a new list
			predicates = append(predicates, func(candidate []int) bool {
				return slices.Equal(hintClass.guardEvaluator.Truths(nil, candidate), outcomes)
			})
		}
	}
}

// region is the set of all sizes for which inference takes the same branches: those that satisfy the path
// ([sym.Env.Path]). Regions do not overlap.
type region struct {
	path           *sym.Evaluator // compiled
	candidateSizes [][]int        // by open symbol: candidate sizes for pricing, usual sizes first
}

// maxRegions bounds the number of regions that are kept. A dropped region is found again when it is needed.
const maxRegions = 32

// regionOf returns the region of sizes, or nil if inference for unknown sizes fails.
func (p *Program) regionOf(ctx context.Context, sizes []int) *region {
	// Sizes of the open symbols at which every size that depends on them is at least 2, or nil. The search for them
	// does not hold the lock.
	nondegenerate := p.NondegenerateSizes(ctx)
	defer p.lock(ctx)() // locks now, and unlocks at the end
	for _, found := range p.regions {
		if found.path.Hold(sizes) {
			return found
		}
	}
	symbolic, err := p.Symbolic(ctx, sizes) // inferred for unknown sizes; takes the branches of the given sizes
	interrupt.Check(ctx)
	if err != nil {
		return nil
	}
	path, err := p.Evaluator(symbolic, nil /* no sizes */, symbolic.Env.Path())
	if err != nil {
		return nil
	}
	if len(p.regions) == maxRegions {
		p.regions = slices.Delete(p.regions, 0, 1)
	}
	found := &region{path, p.candidateSizes(symbolic, nondegenerate, sizes)}
	p.regions = append(p.regions, found)
	return found
}

// candidateSizes returns, by open symbol, the sizes at which a specialization for the region of sizes may be priced.
// The sizes in usual come first; if usual is nil, these are the assumed sizes. The result is the same for all sizes of
// the region.
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

// firstCombination returns the first sizes for which all predicates are true. values has the candidates for the size of
// each symbol. The sizes of the first symbol vary fastest. firstCombination returns nil if there is no such combination
// among the first maxCombinations.
func firstCombination(values [][]int, predicates []func([]int) bool) []int {
	sizes := make([]int, len(values))
	for combination := range maxCombinations {
		rest := combination // its digits, the lowest first, are the positions in the lists of values
		for i, list := range values {
			sizes[i] = list[rest%len(list)]
			rest /= len(list)
		}
		if rest > 0 { // all combinations have been tried
			return nil
		}
		isViolated := func(holds func([]int) bool) bool { return !holds(sizes) }
		if !slices.ContainsFunc(predicates, isViolated) {
			return sizes
		}
	}
	return nil
}

// Bounds on the search for nondegenerate sizes, which infers the graph after each doubling.
const (
	maxDoublings = 10      // maximum number of doublings
	maxElements  = 1 << 26 // maximum number of elements of an input
)

// NondegenerateSizes returns sizes of the open symbols, the symbols without a fixed size. At these sizes, every size
// that depends on the symbols is at least 2. With a size of 0 or 1, the layout of a value is ambiguous, so a plan for
// this size may be poor for others: a tensor of shape [1, 8] is both row-major and column-major.
//
// The search starts at the first hint (a list of typical sizes from the user) or the assumed sizes. It doubles each
// symbol on which a size of 0 or 1 depends. A doubled size does not exceed the upper bound of its symbol.
// NondegenerateSizes returns nil if the search fails, or if an input would exceed maxElements.
func (p *Program) NondegenerateSizes(ctx context.Context) []int {
	if p.nondegenerateLock.Lock(ctx) != nil {
		interrupt.Check(ctx) // panics, because the context has ended
	}
	defer p.nondegenerateLock.Unlock()
	if !p.nondegenerateFound {
		p.nondegenerateSizes = p.findNondegenerateSizes(ctx)
		p.nondegenerateFound = true
	}
	return p.nondegenerateSizes
}

// findNondegenerateSizes is the search of [Program.NondegenerateSizes].
func (p *Program) findNondegenerateSizes(ctx context.Context) []int {
	sizes := slices.Clone(p.firstHint())
	for i := range sizes {
		sizes[i] = p.Clamp(i, max(sizes[i], 2))
	}
	for range maxDoublings {
		var degenerate []int
		g, err := p.GraphAt(ctx, sizes)
		interrupt.Check(ctx)
		if err == nil && largestInputElements(g) > maxElements {
			return nil
		}
		if err == nil {
			degenerate, err = p.degenerateSymbols(ctx, g, sizes)
		}
		switch {
		case err != nil: // inference may fail, also at a doubled size, because sizes are too small: double all
			for i := range sizes {
				degenerate = append(degenerate, i)
			}
		case len(degenerate) == 0:
			return sizes
		}
		doubled := slices.Clone(sizes)
		for _, i := range degenerate {
			doubled[i] = p.Clamp(i, 2*sizes[i])
		}
		if slices.Equal(doubled, sizes) {
			return nil
		}
		sizes = doubled
	}
	return nil
}

// degenerateSymbols returns the open symbols on which sizes of 0 or 1 in g depend. g is the graph at the given sizes.
// It returns an error if the graph cannot be inferred at twice a size.
func (p *Program) degenerateSymbols(ctx context.Context, g *graph.Graph, sizes []int) (list []int, err error) {
	for i := range sizes {
		doubled := slices.Clone(sizes)
		doubled[i] = p.Clamp(i, 2*sizes[i])
		if doubled[i] == sizes[i] {
			continue
		}
		doubledGraph, err := p.GraphAt(ctx, doubled)
		interrupt.Check(ctx)
		if err != nil {
			return nil, err
		}
		if hasDegenerateSize(g, doubledGraph) {
			list = append(list, i)
		}
	}
	return list, nil
}

// hasDegenerateSize reports whether a size in g is 0 or 1 and differs from the size in changed. changed is the same
// graph with another size of one symbol.
func hasDegenerateSize(g, changed *graph.Graph) bool {
	var shapes [][]int
	changed.Values(func(v *graph.Value) { shapes = append(shapes, v.Meta.Shape) })
	next, found := 0, false
	g.Values(func(v *graph.Value) {
		other := shapes[next]
		next++
		for dim, size := range v.Meta.Shape {
			differs := dim < len(other) && other[dim] != size
			found = found || size < 2 && differs
		}
	})
	return found
}

// largestInputElements returns the number of elements of the largest input.
func largestInputElements(g *graph.Graph) int {
	largest := 0
	for _, v := range g.Inputs {
		largest = max(largest, v.Meta.Numel())
	}
	return largest
}
