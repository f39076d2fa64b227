package iter

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// This file compiles the loop of a kernel's expression for the layouts of an iteration. For example, the loop of x + y
// with a row-major x [8, 100] and y [8, 1] computes rows of 100 elements, and y is a scalar of a row.
//
// walkShape has the sizes of the iteration, fastest dimension first, and byteStride returns the strides of the operands
// in these dimensions. A staged operand is copied to a contiguous block, one tile at a time ([tiles]).

// prepareExpr compiles the loop of a kernel's expression for this iteration.
func (it *Iterator) prepareExpr(kernel Kernel) (Prepared, error) {
	code, err := it.Rule.InMemory(kernel) // adds conversions from and to the dtypes that operands have in memory
	if err != nil {
		return Prepared{}, err
	}
	loop, staged := it.rowLoop(code)
	prepared := Prepared{iterator: it}
	if slices.Contains(staged, true) {
		prepared.staged, prepared.tiles = staged, it.tilesOf(staged)
	}
	if prepared.loop, err = loops.New(loop, it.loopOptions(code, prepared.tiles, staged)); err != nil {
		return Prepared{}, err
	}
	if !prepared.loop.Compiled() && len(it.walkShape) > 1 && it.walkShape[0] < shortRow {
		// Without machine code, a loop calls a Go function for each instruction and row: see shortRow.
		if prepared.loop, err = contiguousLoop(code); err != nil {
			return Prepared{}, err
		}
		for i := range staged {
			staged[i] = true
		}
		prepared.joinsRows, prepared.staged, prepared.tiles = true, staged, it.tilesOf(staged)
	}
	isPart := it.offsets != nil // of a larger iteration
	prepared.singleRow = prepared.staged == nil && len(it.walkShape) <= 1 && !isPart
	return prepared, nil
}

// shortRow is the length below which rows are short. If the loop calls a Go function for each row, several short rows
// are first copied into a block, which one call computes.
const shortRow = 16

// rowLoop returns the loop that computes one row of an expression. A row is a run along the fastest dimension of the
// walk. Inputs that are constant along rows become scalars of the loop. rowLoop also marks the staged operands:
// operands that are neither constant nor contiguous along rows, and are therefore copied to blocks.
func (it *Iterator) rowLoop(code *expr.Code) (loop *expr.Loop, staged []bool) {
	loop, staged = &expr.Loop{Code: code, Uniform: make([]bool, len(code.In))}, make([]bool, len(it.operands))
	for i := range it.operands { // outputs, then inputs
		stride := it.byteStride(0, i) // along rows, in bytes
		switch {
		case stride == it.operands[i].Meta.DType.Size() || it.numel == 1 || len(it.walkShape) == 0:
		case stride == 0 && i >= it.outCount:
			loop.Uniform[i-it.outCount] = true
		default:
			staged[i] = true
		}
	}
	return loop, staged
}

// walkLoop computes range r, which the caller has checked, with the compiled loop.
func (p *Prepared) walkLoop(c *Cursor, ptrs []unsafe.Pointer, r Range) error {
	it := p.iterator
	if p.tiles != nil {
		return p.walkTiles(c, ptrs, r)
	}
	strideCount := len(it.operands) // walkStrides has this many strides for each dimension of the walk
	strideBetweenRows := it.walkStrides[strideCount : 2*strideCount]
	return it.eachStep(c, ptrs, r, func(addrs []unsafe.Pointer, rowLen, rows int) error {
		p.loop.Run(&c.loops, addrs, strideBetweenRows, rowLen, rows)
		return nil
	})
}

// IsExpression reports whether the kernel is an expression, not a function.
func (p Prepared) IsExpression() bool { return p.loop != nil }

// ElementNS estimates the time in nanoseconds to compute one element whose operands are in the L1 cache. It is 0 if
// there is no machine code.
func (p Prepared) ElementNS() float64 {
	if p.loop == nil {
		return 0
	}
	return p.loop.ElementNS()
}

// Listings describes the compiled loop of an expression. It returns nil for a kernel that is a function.
func (p Prepared) Listings() []expr.Listing {
	if p.loop == nil {
		return nil
	}
	listing := p.loop.Listing("")
	listing.Staged = slices.Clone(p.staged)
	return []expr.Listing{listing}
}

// This part chooses prefetching and stores for the loop of an expression. Hardware prefetchers suffice for most loops.

// loopOptions chooses prefetching for the loop, and whether it uses non-temporal stores (which bypass the caches). plan
// is nil if no operand is staged.
func (it *Iterator) loopOptions(code *expr.Code, plan *tiles, staged []bool) loops.Options {
	opts := loops.Options{NonTemporal: it.storesBypassCaches(staged)}
	switch {
	case plan == nil && opts.NonTemporal && isComputeBound(code):
		opts.Prefetch = it.prefetchInOrder() // long contiguous rows
	case plan != nil && plan.transposed && it.hasLargeOutput():
		opts.Prefetch = it.prefetchTileRows(plan, staged)
	}
	return opts
}

// storesBypassCaches reports whether all outputs are written in place, and one has at least NonTemporalMinBytes.
func (it *Iterator) storesBypassCaches(staged []bool) bool {
	if slices.Contains(staged[:it.outCount], true) {
		return false
	}
	outputBytes := 0
	for i := range it.outCount {
		outputBytes = max(outputBytes, it.numel*it.operands[i].MemoryDType.Size())
	}
	return outputBytes >= machine.NonTemporalMinBytes
}

// prefetchTileRows prefetches the first input that the loop reads in place, prefetchRows rows of a tile ahead.
func (it *Iterator) prefetchTileRows(plan *tiles, staged []bool) loops.Prefetch {
	for i := it.outCount; i < len(it.operands); i++ {
		distance := prefetchRows * it.byteStride(plan.tileDims[1], i)
		fits := distance != 0 && int(int32(distance)) == distance
		if !staged[i] && it.byteStride(0, i) != 0 && fits {
			// Rows are adjacent if a row ends where the next begins.
			rowsAreAdjacent := distance == prefetchRows*it.walkShape[0]*it.byteStride(0, i)
			return loops.Prefetch{Operands: 1 << (i - it.outCount), Bytes: int32(distance), IntoL1: rowsAreAdjacent}
		}
	}
	return loops.Prefetch{}
}

// prefetchRows is the prefetch distance, in rows of a tile, for an operand that the loop reads in place. The loop
// needs prefetch instructions because the rows are too short and too far apart for hardware prefetchers. Adding
// [4096,4096] and its transpose takes 7.6 ms with prefetching and 8 ms without.
//
// Rows that are adjacent in memory are prefetched into L1. Other rows would be evicted from L1 before use, so they are
// prefetched into L2. Measured on Emerald Rapids: with adjacent rows (64-channel pixels added to a contiguous image),
// L1 takes 1.86 ms and L2 takes 1.99 ms. With other rows (a transposed image), L1 takes 12.0 ms and L2 takes 11.6 ms.
const prefetchRows = 8

// prefetchBytes is the prefetch distance, in bytes, for operands that compute-bound loops read in order. Their loads
// are far apart in time, so that the hardware prefetcher does not run far enough ahead. On Zen 5, for 16 Mi elements,
// prefetching reduces the time of exp from 3.1 to 2.3 ms, of tanh from 3.2 to 2.5 ms, and of a bfloat16 sum from 1.9 to
// 1.5 ms. For a float32 sum, which is not compute-bound, prefetching would increase the time from 3.4 to 3.6 ms.
const prefetchBytes = 8192

// isComputeBound reports whether an expression is compute-bound: it has elementary functions, or rounds to bfloat16,
// which takes several instructions.
func isComputeBound(c *expr.Code) bool {
	return slices.ContainsFunc(c.Insts, func(i expr.Inst) bool {
		return i.Op.Elementary() || i.Op == expr.Convert && i.DType == tensor.BFloat16
	})
}

// prefetchInOrder returns the prefetch distances for operands whose rows are contiguous and much longer than
// prefetchBytes.
func (it *Iterator) prefetchInOrder() (p loops.Prefetch) {
	for i := it.outCount; i < len(it.operands) && len(it.walkShape) > 0; i++ {
		stride := it.walkStrides[i]
		if stride == it.operands[i].MemoryDType.Size() && stride*it.walkShape[0] >= 8*prefetchBytes {
			p.Operands |= 1 << (i - it.outCount) // a bit for each input
		}
	}
	if p.Operands != 0 {
		p.Bytes, p.IntoL1 = prefetchBytes, true
	}
	return p
}
