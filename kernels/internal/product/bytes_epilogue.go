package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
)

// byteEpilogue is an epilogue of byte products: float32 operations that tiles apply to the sums in registers.
type byteEpilogue struct {
	steps []tile.EpilogueStep
	reads []fusion.EpilogueStep // by operand index of steps: the fused step that reads the operand
}

// byteEpilogueRun has a worker's copies of the operands with one element, broadcast to every lane of a tile.
type byteEpilogueRun [mostEpilogueOperands][mostEpilogueColumns]float32

const (
	// mostEpilogueOperands is the greatest number of operands that an epilogue reads.
	mostEpilogueOperands = 3
	// mostEpilogueColumns is the greatest number of columns of a tile: four vectors of 16 lanes.
	mostEpilogueColumns = 64
)

// newEpilogue returns the epilogue in the form of tiles, or an empty epilogue if tiles cannot apply it. Tiles can apply
// a chain of steps to sums that are complete in registers. Sums are incomplete if zero points correct them later or if
// several calls add to them. A separate phase over whole rows then costs less than a loop over each strip.
func (t *byteTiles) newEpilogue(e *fusion.Epilogue) (d byteEpilogue) {
	if t.finishing.Rows || t.finishing.Columns || t.groups > callGroups {
		e.Leave()
		return d
	}
	for _, s := range e.Chain() {
		x, ok := byteEpilogueStep(s, t.n)
		if s.Place > 0 {
			x.Operand = len(d.reads)
			d.reads = append(d.reads, s)
		}
		if !ok || len(d.reads) > mostEpilogueOperands {
			e.Leave()
			return byteEpilogue{}
		}
		d.steps = append(d.steps, x)
	}
	if len(d.steps) == 0 {
		e.Leave()
	} else {
		e.Absorb()
	}
	return d
}

// byteEpilogueStep returns an operation in the form of tiles; false if tiles cannot apply the operation. columns is the
// number of columns of the result.
func byteEpilogueStep(s fusion.EpilogueStep, columns int) (x tile.EpilogueStep, ok bool) {
	x.Lo, x.Hi = s.Number, s.Number
	number, lanes := s.Place == 0, s.One || s.Lanes && s.Width == columns
	switch {
	case number && s.Op == expr.Max:
		x.Op = tile.AtLeast
	case number && s.Op == expr.Min:
		x.Op = tile.AtMost
	case number && s.Op == expr.Mul:
		x.Op = tile.Scale
	case number || s.Lanes && !lanes:
		return x, false
	case s.Op == expr.Add && lanes:
		x.Op = tile.AddLanes
	case s.Op == expr.Mul && lanes:
		x.Op = tile.MulLanes
	case s.Op == expr.Add:
		x.Op = tile.AddTile
	case s.Op == expr.Mul:
		x.Op = tile.MulTile
	default:
		return x, false
	}
	return x, true
}

// enter sets the addresses of a chunk.
func (d *byteEpilogue) enter(a *jit.Args, r *byteEpilogueRun, m *graph.Mem) {
	for i, s := range d.reads {
		a.Ptr[tile.EpilogueOperands+i] = m.Ptrs[s.Place]
		if s.One {
			by := *(*float32)(m.Ptrs[s.Place])
			for k := range r[i] {
				r[i][k] = by
			}
			a.Ptr[tile.EpilogueOperands+i] = unsafe.Pointer(&r[i])
		}
	}
}

// at sets the operands for the tile whose first element has the given offset in the result and the given column.
func (d *byteEpilogue) at(a *jit.Args, element, column int) {
	for i, s := range d.reads {
		switch {
		case s.One:
			a.Row[tile.EpilogueOperands+i] = 0
		case s.Lanes:
			a.Row[tile.EpilogueOperands+i] = column * groupBytes
		default:
			a.Row[tile.EpilogueOperands+i] = element * groupBytes
		}
	}
}
