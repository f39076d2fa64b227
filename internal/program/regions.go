package program

import (
	"context"
	"iter"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/sym"
)

// This file plans specializations for sizes that no hint's specialization serves. A specialization is a plan for all
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
		predicates := []func(candidate []int) bool{region.guards.Hold}
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
	guards         *sym.Evaluator // the path, compiled
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
		if found.guards.Hold(sizes) {
			return found
		}
	}
	symbolic, err := p.Symbolic(ctx, sizes) // inferred for unknown sizes; takes the branches of the given sizes
	interrupt.Check(ctx)
	if err != nil {
		return nil
	}
	guards, err := p.Evaluator(symbolic, nil /* no sizes */, symbolic.Env.Path())
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
