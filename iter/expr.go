package iter

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
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
