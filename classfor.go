package graphrun

import (
	"cmp"
	"context"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/sym"
)

// Bounds on the search for sizes at which a class is priced: how far sizes are doubled beyond what is usual, the sets
// of sizes that are looked at, and how often guards of planning cut a set of sizes in two.
const (
	mostOctaves = 8
	mostPoints  = 1 << 13
	mostCuts    = 3
)

// classFor returns the class that serves sizes, by its guards: the nearest of the hints that were given whose guards
// hold, else that at which no size is 0 or 1 by chance, else one that is planned for this region of sizes. It is nil
// where there is none.
func (p *Program) classFor(ctx context.Context, sizes []int) *class {
	hints := slices.Clone(p.hints)
	if len(hints) == 0 && slices.Equal(sizes, p.assumed) {
		hints = [][]int{p.assumed} // what Compile planned, which may have gone from the bindings since
	}
	slices.SortStableFunc(hints, func(a, b []int) int { return cmp.Compare(distance(a, sizes), distance(b, sizes)) })
	if generic := p.generic(ctx); generic != nil {
		hints = append(hints, generic)
	}
	for _, hint := range hints {
		if k := p.classAt(ctx, hint); k.holds(ctx, p, sizes) {
			return k
		}
	}
	return p.regional(ctx, sizes)
}

// region is a set of sizes at which inference goes the same way: those for which the guards hold that it records. All
// sizes are in one region each.
type region struct {
	guards *sym.Evaluator
	points [][]int // by open symbol, sizes at which a class may be priced, those that are usual first
}

// keptRegions bounds the regions that are kept; one that went is found anew.
const keptRegions = 32

// regionOf returns the region of sizes; nil where inference for unknown sizes goes no way at all.
func (p *Program) regionOf(ctx context.Context, sizes []int) *region {
	generic := p.generic(ctx) // it plans, too
	defer p.lock(ctx)()
	for _, r := range p.regions {
		if r.guards.Hold(sizes) {
			return r
		}
	}
	s, err := p.symbolicAt(ctx, sizes)
	ends.Look(ctx)
	if err != nil {
		return nil
	}
	guards, err := p.evaluator(s, nil, s.Env.Guards())
	if err != nil {
		return nil
	}
	if len(p.regions) == keptRegions {
		p.regions = slices.Delete(p.regions, 0, 1)
	}
	r := &region{guards, p.points(s, generic, sizes)}
	p.regions = append(p.regions, r)
	return r
}

// regional returns a class that is planned for the region of sizes. It is priced at sizes that follow from the region,
// so that it is the same whichever of its sizes came first. Where guards of its planning do not hold at the sizes, the
// part of the region in which they have the same truths as here has a class of its own.
func (p *Program) regional(ctx context.Context, sizes []int) *class {
	r := p.regionOf(ctx, sizes)
	if r == nil {
		return nil
	}
	within := []func([]int) bool{r.guards.Hold}
	for range mostCuts {
		k := p.classAt(ctx, firstPoint(r.points, within))
		switch {
		case k == nil:
			return nil
		case k.holds(ctx, p, sizes):
			return k
		case k.truth == nil:
			return nil
		}
		here := k.truth.Truths(nil, sizes)
		within = append(within, func(at []int) bool { return slices.Equal(k.truth.Truths(nil, at), here) })
	}
	return nil
}

// symbolicAt infers the graph for unknown sizes, as inference goes at these.
func (p *Program) symbolicAt(ctx context.Context, sizes []int) (*graph.Symbolic, error) {
	g := p.graph.Clone()
	if err := p.bind(g, nil); err != nil {
		return nil, err
	}
	g.SetContext(ctx)
	s, err := g.Symbolic(p.named(sizes))
	if s != nil && s.Graph != nil {
		s.Graph.SetContext(context.Background()) // it is kept
	}
	return s, err
}

// evaluator returns what computes expressions over the open symbols, and tells whether conditions on them hold.
func (p *Program) evaluator(s *graph.Symbolic, sizes []sym.Int, conds []sym.Bool) (*sym.Evaluator, error) {
	names := make([]string, len(p.open))
	for i, name := range p.open {
		names[i] = s.Name(name)
	}
	return sym.NewEvaluator(names, sizes, conds)
}

// points are, by open symbol, the sizes at which a class of the region of sizes may be priced: those that are usual
// first. They are the same for all sizes of the region.
func (p *Program) points(s *graph.Symbolic, usual, sizes []int) [][]int {
	bound := map[string]bool{}
	for _, g := range s.Guards {
		for _, name := range g.Binds {
			bound[name] = true
		}
	}
	if usual == nil {
		usual = p.assumed
	}
	values := make([][]int, len(p.open))
	for i, name := range p.open {
		if bound[name] { // there is no other size in the region
			values[i] = sizes[i : i+1]
			continue
		}
		list := []int{usual[i], 2, 1, 0, 3, 4, 5, 8}
		for octave := range mostOctaves {
			list = append(list, max(usual[i], 8)<<(octave+1))
		}
		for _, n := range list {
			if n = p.within(i, n); !slices.Contains(values[i], n) {
				values[i] = append(values[i], n)
			}
		}
	}
	return values
}

// firstPoint returns the first combination of values that is within a region; nil where there is none among those that
// are looked at. The first symbols' values change first.
func firstPoint(values [][]int, within []func([]int) bool) []int {
	place, at := make([]int, len(values)), make([]int, len(values))
	for range mostPoints {
		for i, k := range place {
			at[i] = values[i][k]
		}
		if !slices.ContainsFunc(within, func(holds func([]int) bool) bool { return !holds(at) }) {
			return at
		}
		i := 0
		for ; i < len(place); i++ {
			if place[i]++; place[i] < len(values[i]) {
				break
			}
			place[i] = 0
		}
		if i == len(place) {
			return nil
		}
	}
	return nil
}

// holds reports whether a class serves sizes: its guards hold there, or it was planned for them. A nil class serves
// none.
func (k *class) holds(ctx context.Context, p *Program, sizes []int) bool {
	if k == nil {
		return false
	}
	if slices.Equal(k.hint, sizes) {
		return true
	}
	k.guarded(ctx, p)
	return k.truth.Hold(sizes)
}

// guarded finds the guards of a class, once.
func (k *class) guarded(ctx context.Context, p *Program) {
	if k.asking.Lock(ctx) != nil {
		ends.Look(ctx)
	}
	defer k.asking.Unlock()
	if k.asked {
		return
	}
	form, err := p.form(ctx, k, k.hint)
	ends.Look(ctx)
	if err == nil {
		k.truth, err = p.evaluator(form.Symbolic, nil, form.Env.Guards())
		k.guards = form.guards
	}
	k.why, k.asked = err, true
}
