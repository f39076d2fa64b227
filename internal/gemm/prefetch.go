package gemm

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// This file chooses the prefetches of register tiles, and runs the tiles that copy a panel of B while they read B in
// place. A panel is a group of adjacent columns of B (or rows of A) stored contiguously. A term is one step along K.
// Loops over terms have two forms of prefetches:
//
//	tile.Spec.PrefetchedLines   prefetchLines lines in each iteration of the loop over terms: of packed panels of B
//	tile.Spec.Prefetch          a row once in several terms: of B itself, in tiles that copy it or read the copy, or,
//	                            with prefetchResultInLoop, of the result
//
// Both spread their prefetches over the loop, because many at once would delay the loads of the tile.

// prefetchesResult reports whether tiles prefetch rows of the result before they write them. Each row of the result
// must be contiguous, and the result must exceed half of L2. If B is not prepacked, it suffices that the result
// exceeds a quarter of L2 and that result and operands together exceed L2. With a prepacked B, tiles already
// prefetch lines of B, and prefetching such a result as well gains nothing.
func (p *Plan) prefetchesResult() bool {
	spec := &p.spec
	exceedsHalfL2 := spec.M*spec.N*p.kernels.elemBytes > machine.L2Bytes/2
	leavesCaches := exceedsHalfL2 ||
		spec.B.Source != Prepacked && p.leavesCache(spec.M*spec.N, machine.L2Bytes/4, machine.L2Bytes)
	return spec.CColStride == 1 && leavesCaches
}

// prefetchSpec returns the prefetches of register tiles that read B in the given mode, with `vectors` vectors and
// `height` rows.
func (p *Plan) prefetchSpec(read readMode, vectors, height int) []tile.Prefetch {
	lines := ceilDiv(vectors*p.kernels.lanes*p.kernels.elemBytes, machine.LineBytes)
	switch {
	case read != readDirect:
		return []tile.Prefetch{{Lines: lines, Every: p.prefetchInterval}}
	case p.prefetchResultInLoop:
		return []tile.Prefetch{{Lines: lines, Every: powerOfTwoAtMost(p.kc / height)}}
	}
	return nil
}

// powerOfTwoAtMost returns the greatest power of two that is at most n. If n is below tile.DefaultUnroll (the number of
// terms of one loop iteration), it returns that number.
func powerOfTwoAtMost(n int) int { return 1 << (bits.Len(uint(max(n, tile.DefaultUnroll))) - 1) }

// setPrefetch sets the address from which tiles prefetch panels of B while they read the panel at column j.
// linesToPrefetch chooses the number of lines.
func (t *tileState) setPrefetch(args *jit.Args, b *operandView, j int) {
	lane, aheadBytes := j-t.j0, 0
	panelWidth, lines := t.Plan.b.panelWidth, &t.Plan.prefetchLines
	switch {
	case lines[readDirect] == 0 && lines[readCopied] == 0:
		return
	case lines[readDirect] > maxPrefetchLines: // only one tile reads the panel, and prefetches it ahead of its loads
		aheadBytes = prefetchBytes
	case j+panelWidth < t.spec.N: // several tiles prefetch the next panel
		lane += panelWidth
	}
	args.Ptr[tile.Prefetched] = b.base
	args.Row[tile.Prefetched] = b.laneOffset(lane)*t.kernels.elemBytes + aheadBytes
}

// advancePrefetches moves the addresses of prefetches beyond what the given tiles have prefetched.
func (t *tileState) advancePrefetches(args *jit.Args, tiles tileRun) {
	lines := tiles.count * (t.kc / tile.DefaultUnroll) * t.Plan.prefetchLines[tiles.read]
	args.Row[tile.Prefetched] += lines * machine.LineBytes
	if tiles.read != readDirect {
		prefetches := tiles.count * prefetchCount(t.kc, t.Plan.prefetchInterval)
		args.Row[tile.PrefetchOperands] += prefetches * args.Step[tile.PrefetchStep]
	}
}

// prefetchCount returns the number of prefetches of a tile that prefetches once every `interval` terms.
func prefetchCount(terms, interval int) int {
	return ceilDiv(terms/tile.DefaultUnroll, interval/tile.DefaultUnroll)
}

// computeAndCopyPanel computes the first register tile of a stack. It reads B in place, and copies the panel for the
// other tiles of the stack. Afterwards args has the panel as operand B again.
func (t *tileState) computeAndCopyPanel(args *jit.Args, a *operandView, first tileRun) {
	elemBytes, termStride := t.kernels.elemBytes, t.Plan.b.termStride
	panel, panelOffset, panelStep := args.Ptr[tile.Vec], args.Row[tile.Vec], args.Step[tile.VecTerm]
	args.Ptr[tile.Packed], args.Row[tile.Packed] = panel, panelOffset

	args.Ptr[tile.Vec], args.Row[tile.Vec] = t.ptrB, (t.k0*termStride+first.col)*elemBytes
	args.Step[tile.VecTerm] = termStride * elemBytes

	// The tile and its successors, which read the copy, prefetch the next panel from B itself.
	args.Ptr[tile.PrefetchOperands], args.Row[tile.PrefetchOperands] = t.ptrB, t.nextPanelOffset(first.col)*elemBytes
	args.Step[tile.PrefetchStep] = termStride * elemBytes

	t.computeTiles(args, a, first)
	args.Ptr[tile.Vec], args.Row[tile.Vec], args.Step[tile.VecTerm] = panel, panelOffset, panelStep
}

// nextPanelOffset returns the offset in B, in elements, of the panel that is read after the panel of column j.
func (t *tileState) nextPanelOffset(j int) int {
	b := &t.Plan.b
	switch next := j + b.panelWidth; {
	case next < t.j1: // the next panel of this block of K
		return t.k0*b.termStride + next
	case t.k0+t.kc < t.superBlockStart+t.superBlockTerms: // the first panel of the next block
		return (t.k0+t.kc)*b.termStride + t.j0
	case next < t.spec.N: // the first panel of the next tile of C
		return t.superBlockStart*b.termStride + next
	}
	return t.k0*b.termStride + j // there is no next panel
}
