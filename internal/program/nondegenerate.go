package program

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
)

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
