package program

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/graphrun/graphrun/graph"
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
