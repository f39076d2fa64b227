package multiply

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
)

// TileEpilogue is an epilogue that the machine code of tiles applies to sums in registers: a chain of additions,
// multiplications, minima and maxima. The zero TileEpilogue has no steps.
type TileEpilogue struct {
	Steps        []tile.EpilogueStep
	operandSteps []fusion.EpilogueStep // by operand: the step that reads it
	slot         int                   // index of the first operand among the arguments of the code
}

// EpilogueLanes is memory of a worker for operands with one element, broadcast to all lanes of a tile.
type EpilogueLanes [maxEpilogueOperands][maxEpilogueColumns]float32

const (
	// maxEpilogueOperands is the maximum number of operands. The code of tiles has arguments for these operands.
	maxEpilogueOperands = 3
	// maxEpilogueColumns is the maximum number of columns per tile: four vectors of 16 lanes.
	maxEpilogueColumns = 64
)

// NewTileEpilogue returns epilogue e in the form that tiles apply. ok is false if e is nil or tiles cannot apply e.
// columns is the number of columns of the result. slot is the index that the first operand of e gets among the
// arguments of the code. Operands with one element are supported only if hasLaneMemory is set; SetOperands broadcasts
// them to [EpilogueLanes].
func NewTileEpilogue(e *fusion.Epilogue, columns, slot int, hasLaneMemory bool) (d TileEpilogue, ok bool) {
	d.slot = slot
	for _, s := range e.Chain() {
		x, ok := tileStep(s, columns)
		if !ok || s.IsScalar && !hasLaneMemory {
			return TileEpilogue{}, false
		}
		if s.Place > 0 {
			x.Operand = len(d.operandSteps)
			d.operandSteps = append(d.operandSteps, s)
		}
		d.Steps = append(d.Steps, x)
	}
	if len(d.Steps) == 0 || len(d.operandSteps) > maxEpilogueOperands {
		return TileEpilogue{}, false
	}
	return d, true
}

// tileStep returns a step in the form that tiles apply, or false if tiles cannot apply the step. The caller sets the
// operand index.
func tileStep(s fusion.EpilogueStep, columns int) (x tile.EpilogueStep, ok bool) {
	x.Lo, x.Hi = s.Number, s.Number
	isNumber, perColumn := s.Place == 0, s.IsScalar || s.AlongFastest && s.Width == columns
	switch {
	case isNumber && s.Op == expr.Max:
		x.Op = tile.AtLeast
	case isNumber && s.Op == expr.Min:
		x.Op = tile.AtMost
	case isNumber && s.Op == expr.Mul:
		x.Op = tile.Scale
	case isNumber || s.AlongFastest && !perColumn:
		return x, false
	case s.Op == expr.Add && perColumn:
		x.Op = tile.AddLanes
	case s.Op == expr.Mul && perColumn:
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

// SetOperands sets the addresses of the operands for a chunk. copies is memory of the worker, or nil if the epilogue
// was made without lanes.
func (d *TileEpilogue) SetOperands(a *jit.Args, m *graph.Mem, copies *EpilogueLanes) {
	for i, s := range d.operandSteps {
		a.Ptr[d.slot+i] = m.Ptrs[s.Place]
		if s.IsScalar {
			element := *(*float32)(m.Ptrs[s.Place])
			for k := range copies[i] {
				copies[i][k] = element
			}
			a.Ptr[d.slot+i] = unsafe.Pointer(&copies[i])
		}
	}
}

// SetOffsets sets the offsets of the operands for a tile. element is the offset of the tile's first element in the
// result, and column the offset of its first column in a row, both in bytes.
func (d *TileEpilogue) SetOffsets(a *jit.Args, element, column int) {
	for i, s := range d.operandSteps {
		switch {
		case s.IsScalar:
			a.Row[d.slot+i] = 0
		case s.AlongFastest:
			a.Row[d.slot+i] = column
		default:
			a.Row[d.slot+i] = element
		}
	}
}
