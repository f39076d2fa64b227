package multiply

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
)

// TileEpilogue is an epilogue in the form that the machine code of tiles applies to sums in registers: a chain of
// additions, multiplications, minima and maxima. (An epilogue is an element-wise computation that fusion has joined to
// a product.) The zero TileEpilogue has no steps.
type TileEpilogue struct {
	Steps        []tile.EpilogueStep
	operandSteps []fusion.EpilogueStep // by operand: the step that reads it
	firstSlot    int                   // index of the first operand among the arguments of the code
}

// EpilogueLanes is memory of a worker for operands with one element, broadcast to all lanes of a tile.
type EpilogueLanes [maxEpilogueOperands][maxEpilogueColumns]float32

const (
	// maxEpilogueOperands is the maximum number of operands. The code of tiles has arguments for these operands.
	maxEpilogueOperands = 3
	// maxEpilogueColumns is the maximum number of columns per tile: four vectors of 16 lanes.
	maxEpilogueColumns = 64
)

// NewTileEpilogue returns an epilogue in the form that tiles apply. ok is false if epilogue is nil or tiles cannot
// apply it. columns is the number of columns of the result. firstSlot is the index of the first operand among the
// arguments of the code. Operands with one element are supported only if hasLaneMemory is set; SetOperands broadcasts
// them to [EpilogueLanes].
func NewTileEpilogue(epilogue *fusion.Epilogue, columns, firstSlot int, hasLaneMemory bool) (
	tileEpilogue TileEpilogue, ok bool) {
	tileEpilogue.firstSlot = firstSlot
	for _, fused := range epilogue.Chain() {
		step, ok := tileStep(fused, columns)
		if !ok || fused.IsScalar && !hasLaneMemory {
			return TileEpilogue{}, false
		}
		if fused.AddressIndex > 0 { // the step reads an operand
			step.Operand = len(tileEpilogue.operandSteps)
			tileEpilogue.operandSteps = append(tileEpilogue.operandSteps, fused)
		}
		tileEpilogue.Steps = append(tileEpilogue.Steps, step)
	}
	if len(tileEpilogue.Steps) == 0 || len(tileEpilogue.operandSteps) > maxEpilogueOperands {
		return TileEpilogue{}, false
	}
	return tileEpilogue, true
}

// AssignEpilogue chooses the code that applies an epilogue, and records the choice in epilogue. The code of the tiles
// applies it if canApply is set and this code can compute it. Otherwise a later phase applies it, and the returned
// epilogue of the tiles has no steps. columns is the number of columns of the result. Workers must have
// [EpilogueLanes].
func AssignEpilogue(epilogue *fusion.Epilogue, columns int, canApply bool) (tileEpilogue TileEpilogue) {
	if canApply {
		const hasLaneMemory = true
		tileEpilogue, canApply = NewTileEpilogue(epilogue, columns, tile.FirstEpilogueOperand, hasLaneMemory)
	}
	if canApply {
		epilogue.SetInRegisters()
	} else {
		epilogue.Defer()
	}
	return tileEpilogue
}

// tileStep returns a step in the form that tiles apply, or false if tiles cannot apply the step. The caller sets the
// operand index. step.AddressIndex is the index of the operand's address in Mem.Ptrs, or 0 if the step combines with
// step.Number.
func tileStep(step fusion.EpilogueStep, columns int) (out tile.EpilogueStep, ok bool) {
	out.Lower, out.Upper = step.Number, step.Number // bounds or factor, if the step has a number
	isNumber := step.AddressIndex == 0
	// IsScalar: the operand has one element. AlongFastest: it is a vector along the dimension of the least stride. If
	// this is the dimension of the columns, the vector has one element for each column.
	isPerColumn := step.IsScalar || step.AlongFastest && step.Width == columns
	switch {
	case isNumber && step.Op == expr.Max:
		out.Op = tile.AtLeast
	case isNumber && step.Op == expr.Min:
		out.Op = tile.AtMost
	case isNumber && step.Op == expr.Mul:
		out.Op = tile.Scale
	case isNumber: // addition of a number
		return out, false
	case step.AlongFastest && !isPerColumn: // a vector that is not along the columns
		return out, false
	case step.Op == expr.Add && isPerColumn:
		out.Op = tile.AddLanes
	case step.Op == expr.Mul && isPerColumn:
		out.Op = tile.MulLanes
	case step.Op == expr.Add: // the operand has an element for each result
		out.Op = tile.AddTile
	case step.Op == expr.Mul: // the operand has a factor for each result
		out.Op = tile.MulTile
	default: // a minimum or maximum with an operand
		return out, false
	}
	return out, true
}

// SetOperands sets the addresses of the operands for a chunk. lanes is memory of the worker, or nil if the epilogue
// was made without lane memory.
func (epilogue *TileEpilogue) SetOperands(args *jit.Args, m *graph.Mem, lanes *EpilogueLanes) {
	for i, step := range epilogue.operandSteps {
		args.Ptr[epilogue.firstSlot+i] = m.Ptrs[step.AddressIndex]
		if step.IsScalar {
			element := *(*float32)(m.Ptrs[step.AddressIndex])
			for lane := range lanes[i] {
				lanes[i][lane] = element
			}
			args.Ptr[epilogue.firstSlot+i] = unsafe.Pointer(&lanes[i])
		}
	}
}

// SetOffsets sets the offsets of the operands for a tile. elementOffset is the offset of the tile's first element in
// the result, and columnOffset the offset of its first column in a row, both in bytes.
func (epilogue *TileEpilogue) SetOffsets(args *jit.Args, elementOffset, columnOffset int) {
	for i, step := range epilogue.operandSteps {
		switch {
		case step.IsScalar:
			args.Row[epilogue.firstSlot+i] = 0
		case step.AlongFastest:
			args.Row[epilogue.firstSlot+i] = columnOffset
		default:
			args.Row[epilogue.firstSlot+i] = elementOffset
		}
	}
}
