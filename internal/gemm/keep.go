package gemm

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// What is asked for while terms are added up comes one row after the other: many lines at once would have the terms
// wait for theirs. It is the panel of B that follows, where it is, for tiles of a panel that is kept (and besides, line
// by line, the panel in which that will be kept), and for others rows of the result, which are about to be written.

// fetches is how often something is asked for among so many terms.
func fetches(terms, every int) int { return ceilDiv(terms/tile.FewTerms, every/tile.FewTerms) }

// powerWithin is the greatest power of two that is at most n, from the terms of a turn on.
func powerWithin(n int) int { return 1 << (bits.Len(uint(max(n, tile.FewTerms))) - 1) }

// farResult reports whether the result is more than L2 keeps beside the operands, and is written row by row. Where B is
// packed beforehand, a result of half as much is asked for in vain: lines of B come ahead then, too.
func (p *Plan) farResult() bool {
	s := &p.spec
	far := s.M*s.N*p.set.size > machine.L2Bytes/2 ||
		s.B.Source != Prepacked && p.leavesCache(s.M*s.N, machine.L2Bytes/4, machine.L2Bytes)
	return s.CColStride == 1 && far
}

// fetches are what tiles ask for besides.
func (p *Plan) fetches(how reading, vectors, height int) []tile.Fetch {
	lines := ceilDiv(vectors*p.set.lanes*p.set.size, machine.LineBytes)
	switch {
	case how != plainly:
		return []tile.Fetch{{Lines: lines, Every: p.every}}
	case p.far:
		return []tile.Fetch{{Lines: lines, Every: powerWithin(p.kc / height)}}
	}
	return nil
}

// keepPanel computes the first tile of a panel of B, which it reads where it is, and keeps it for the tiles below.
func (t *tileState) keepPanel(x *jit.Args, a *feed, k stack, st stage, i, j, cols int) {
	size, b := t.set.size, &t.Plan.b
	panel, at, step := x.Ptr[tile.Vec], x.Row[tile.Vec], x.Step[tile.VecTerm]
	x.Ptr[tile.Kept], x.Row[tile.Kept] = panel, at
	x.Ptr[tile.Vec], x.Row[tile.Vec], x.Step[tile.VecTerm] = t.pb, (t.k0*b.ks+j)*size, b.ks*size
	x.Ptr[tile.Fetches], x.Row[tile.Fetches], x.Step[tile.FetchStep] = t.pb, t.following(j)*size, b.ks*size
	t.tiles(x, a, k, st, keeping, i, 1, j, cols)
	x.Ptr[tile.Vec], x.Row[tile.Vec], x.Step[tile.VecTerm] = panel, at, step
}

// following is where the panel of B is that is read where it is after that of column j.
func (t *tileState) following(j int) int {
	b := &t.Plan.b
	switch next := j + b.w; {
	case next < t.j1:
		return t.k0*b.ks + next
	case t.k0+t.kc < t.superK+t.depth:
		return (t.k0+t.kc)*b.ks + t.j0
	case next < t.spec.N:
		return t.superK*b.ks + next
	}
	return t.k0*b.ks + j // nothing follows
}
