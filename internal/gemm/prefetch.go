package gemm

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// This file emits prefetches for all register tiles, and runs the tiles that copy a panel of B while they read B in
// place. A panel is a group of adjacent columns of B (or rows of A) stored contiguously. A term is one step along K. A
// tile prefetches one cache line at a time, at intervals of several terms. Many prefetches at once would delay the
// loads of the tile. If the product copies B, its tiles prefetch the next panel from B itself, not from the copy. Other
// tiles prefetch the rows of the result that they are about to write.

// prefetchCount returns the number of prefetches of a tile that has one prefetch for each `interval` of its terms.
func prefetchCount(terms, interval int) int {
	return ceilDiv(terms/tile.DefaultUnroll, interval/tile.DefaultUnroll)
}

// powerOfTwoAtMost returns the greatest power of two that is at most n. If n is below tile.DefaultUnroll (the number of
// terms of one loop iteration), it returns that number.
func powerOfTwoAtMost(n int) int { return 1 << (bits.Len(uint(max(n, tile.DefaultUnroll))) - 1) }

// prefetchesResult reports whether tiles prefetch rows of the result before they write them. Each row of the result
// must be contiguous, and the result must exceed half of L2. If B is not prepacked, it suffices that the result
// exceeds a quarter of L2 and that result and operands together exceed L2. With a prepacked B, tiles already
// prefetch lines of B, and prefetching such a result as well gains nothing.
func (p *Plan) prefetchesResult() bool {
	spec := &p.spec
	leavesCaches := spec.M*spec.N*p.kernels.elemBytes > machine.L2Bytes/2 ||
		spec.B.Source != Prepacked && p.leavesCache(spec.M*spec.N, machine.L2Bytes/4, machine.L2Bytes)
	return spec.CColStride == 1 && leavesCaches
}

// prefetchSpec returns the prefetches of register tiles that read B in the given mode, with `vectors` vectors and
// `height` rows.
func (p *Plan) prefetchSpec(mode readMode, vectors, height int) []tile.Prefetch {
	lines := ceilDiv(vectors*p.kernels.lanes*p.kernels.elemBytes, machine.LineBytes)
	switch {
	case mode != readDirect:
		return []tile.Prefetch{{Lines: lines, Every: p.prefetchInterval}}
	case p.prefetchResultInLoop:
		return []tile.Prefetch{{Lines: lines, Every: powerOfTwoAtMost(p.kc / height)}}
	}
	return nil
}

// setPrefetch sets the address from which tiles prefetch B while they read the panel at column j. linesToPrefetch
// chooses the number of lines.
func (t *tileState) setPrefetch(args *jit.Args, b *operandView, j int) {
	plan, size := t.Plan, t.kernels.elemBytes
	switch offset := j - t.j0; {
	case plan.prefetchLines[readDirect] > maxPrefetchLines:
		args.Ptr[tile.Prefetched], args.Row[tile.Prefetched] = b.base, b.laneOffset(offset)*size+prefetchBytes
	case plan.prefetchLines[readDirect] > 0 || plan.prefetchLines[readCopied] > 0:
		if j+plan.b.panelWidth < t.spec.N { // not the last panel
			offset += plan.b.panelWidth
		}
		args.Ptr[tile.Prefetched], args.Row[tile.Prefetched] = b.base, b.laneOffset(offset)*size
	}
}

// computeAndCopyPanel computes the first register tile of a stack: a column of register tiles of equal height, which
// all read the same panel of B. It reads B in place, and copies the panel for the other tiles of the stack. The tile
// begins at row i and column j of C.
func (t *tileState) computeAndCopyPanel(args *jit.Args, a *operandView, stack tileStack, store storeMode, i, j,
	cols int) {
	elemBytes, b := t.kernels.elemBytes, &t.Plan.b
	panel, offset, step := args.Ptr[tile.Vec], args.Row[tile.Vec], args.Step[tile.VecTerm]
	args.Ptr[tile.Packed], args.Row[tile.Packed] = panel, offset
	args.Ptr[tile.Vec], args.Row[tile.Vec], args.Step[tile.VecTerm] = t.ptrB, (t.k0*b.termStride+j)*elemBytes,
		b.termStride*elemBytes
	args.Ptr[tile.PrefetchOperands], args.Row[tile.PrefetchOperands] = t.ptrB, t.nextPanelOffset(j)*elemBytes
	args.Step[tile.PrefetchStep] = b.termStride * elemBytes
	t.computeTiles(args, a, stack, store, readAndCopy, i, 1, j, cols)
	args.Ptr[tile.Vec], args.Row[tile.Vec], args.Step[tile.VecTerm] = panel, offset, step
}

// nextPanelOffset returns the offset in B, in elements, of the panel that is read after the panel of column j.
func (t *tileState) nextPanelOffset(j int) int {
	b := &t.Plan.b
	switch next := j + b.panelWidth; {
	case next < t.j1:
		return t.k0*b.termStride + next
	case t.k0+t.kc < t.superBlockStart+t.superBlockTerms:
		return (t.k0+t.kc)*b.termStride + t.j0
	case next < t.spec.N:
		return t.superBlockStart*b.termStride + next
	}
	return t.k0*b.termStride + j // there is no next panel
}
