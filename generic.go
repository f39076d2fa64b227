package graphrun

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
)

// Bounds on the search for sizes at which a graph shows its layouts: how often sizes are doubled, and the elements that
// inputs may have.
const (
	mostDoublings = 10
	mostElements  = 1 << 26
)

// generic returns sizes of the open symbols at which no size of a value that depends on them is 0 or 1, for of such
// values strides do not tell the layout, and implementations take them for what they are not at other sizes. It
// doubles those that are assumed, or hinted at first, as often as needed; nil where that does not help.
func (p *Program) generic(ctx context.Context) []int {
	if p.genericLock.Lock(ctx) != nil {
		ends.Look(ctx)
	}
	defer p.genericLock.Unlock()
	if !p.genericFound {
		p.genericSizes = p.findGeneric(ctx)
		p.genericFound = true
	}
	return p.genericSizes
}

// findGeneric is the search of generic.
func (p *Program) findGeneric(ctx context.Context) []int {
	sizes := slices.Clone(p.assumed)
	if len(p.hints) > 0 {
		sizes = slices.Clone(p.hints[0])
	}
	for i := range sizes {
		sizes[i] = p.within(i, max(sizes[i], 2))
	}
	for range mostDoublings {
		thin, ok := p.thin(ctx, sizes)
		if ok && len(thin) == 0 {
			return sizes
		}
		if !ok { // at sizes as small nothing can be inferred: all grow
			thin = nil
			for i := range sizes {
				thin = append(thin, i)
			}
		}
		grown := slices.Clone(sizes)
		for _, i := range thin {
			grown[i] = p.within(i, 2*sizes[i])
		}
		if slices.Equal(grown, sizes) {
			return nil
		}
		sizes = grown
	}
	return nil
}

// within is a size of an open symbol, or the nearest that is within its bounds.
func (p *Program) within(i, n int) int {
	b := p.graph.Symbols[p.open[i]]
	if n = max(n, b.Min); b.Max > 0 {
		n = min(n, b.Max)
	}
	return n
}

// thin returns the open symbols on which sizes of values depend that are 0 or 1; false where the graph cannot be
// inferred.
func (p *Program) thin(ctx context.Context, sizes []int) (list []int, ok bool) {
	g, err := p.at(ctx, sizes)
	ends.Look(ctx)
	if err != nil || inputElements(g) > mostElements {
		return nil, false
	}
	for i := range sizes {
		more := slices.Clone(sizes)
		if more[i] = p.within(i, 2*sizes[i]); more[i] == sizes[i] {
			continue
		}
		h, err := p.at(ctx, more)
		ends.Look(ctx)
		if err != nil {
			return nil, false
		}
		if thinner(g, h) {
			list = append(list, i)
		}
	}
	return list, true
}

// thinner reports whether a size that is 0 or 1 in g is another in h, which is the same graph with another size of a
// symbol.
func thinner(g, h *graph.Graph) bool {
	var shapes [][]int
	h.Values(func(v *graph.Value) { shapes = append(shapes, v.Meta.Shape) })
	at, found := 0, false
	g.Values(func(v *graph.Value) {
		other := shapes[at]
		at++
		for d, n := range v.Meta.Shape {
			found = found || n < 2 && d < len(other) && other[d] != n
		}
	})
	return found
}

func inputElements(g *graph.Graph) int {
	most := 0
	for _, v := range g.Inputs {
		most = max(most, v.Meta.Numel())
	}
	return most
}
