package lower

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// rowKernel generates the kernel of one launch. A launch computes units. A unit is a row or, in the first launch of a
// pass over cut rows, a piece of a row. Several threads of a group, the lanes of the unit, compute a unit together. For
// each fold of the pass, they combine the elements of the unit into one number.
//
// For example, the sum of rows of 1024 float32 elements has vectors of 4 elements and 256 lanes for each row. Lane 3
// adds elements 12 to 15 (addPass). The lanes then combine their sums in group memory (combineLanes), and the first
// lane stores the sum of the row (addPerRow).
//
// A pass (expr.RowPass) has Code for each element, Folds of values of Code, and PerRow, which runs once per row. Inputs
// and outputs have places (expr.Place). A place is an operand or an output of the program, a stored row (AtRow), a
// number of the row (AtNumber), or Nowhere for a value that is only folded.
type rowKernel struct {
	scalarBuilder // builds the kernel: see scalar.go
	*rows         // the layouts and the division into pieces, for all launches of the program

	units       int  // number of rows or pieces
	lanes       int  // number of lanes of a unit
	laneStride  int  // difference between the thread indices of two adjacent lanes
	joinsPieces bool // whether the kernel combines the results of pieces; in this case the units are rows

	// The following fields are values in the generated code. Methods such as Emit, op and add32 add an instruction to this
	// code, and return the result of the instruction.

	thread   ir.Value           // index of the thread in the group
	lane     ir.Value           // index of the thread among the lanes of its unit
	isValid  ir.Value           // whether the unit exists: the last group may have more lanes than its units need
	row      ir.Value           // index of the row
	piece    ir.Value           // index of the piece in the row; ir.None if the unit is a row
	base     []ir.Value         // by output and operand: the address of the first element of the row
	numbers  map[int]ir.Value   // by index in RowProgram.Numbers: a number that is computed once for the row
	uniforms map[int][]ir.Value // by operand with one element for each row: the numbers of the element
}

// addLaunch adds a launch for a number of units to the program. body adds the code of a thread to the kernel. The
// parameters of the kernel are the outputs, the operands, and the scratch memory. The last operand may be the positions
// (indices in the row) of the elements. Positions have no memory, and are not a parameter.
func (r *rows) addLaunch(program *Program, units int, body func(kernel *rowKernel)) error {
	params := len(r.metas)
	if r.hasPositions {
		params--
	}
	kernel := &rowKernel{rows: r, units: units, numbers: map[int]ir.Value{}, uniforms: map[int][]ir.Value{}}
	kernel.scalarBuilder = scalarBuilder{Builder: ir.NewBuilder(params+1, groupSize), target: r.target}
	if params+1 > r.target.MaxParams { // 1: the scratch memory
		return fmt.Errorf("gpu: a kernel with %d outputs and operands is %w", params, ErrUnsupported)
	}
	kernel.setUnits()
	body(kernel)

	sharedBytes := 0
	for _, array := range kernel.Shared {
		sharedBytes += array.DType.Size() * array.Length
	}
	switch {
	case kernel.err != nil:
		return kernel.err
	case sharedBytes > maxGroupMemory:
		return fmt.Errorf("gpu: a kernel with %d bytes of group memory is %w", sharedBytes, ErrUnsupported)
	}
	if err := kernel.Check(); err != nil {
		return err
	}

	unitsPerGroup := groupSize / kernel.lanes
	launch := Launch{Kernel: &kernel.Kernel, Groups: (units + unitsPerGroup - 1) / unitsPerGroup}
	for i := range params {
		launch.Args = append(launch.Args, Arg{Buffer: i})
	}
	launch.Args = append(launch.Args, Arg{Buffer: Scratch})
	if program.Scratch == 0 { // there is no scratch memory, and no kernel accesses it: pass any address
		launch.Args[params].Buffer = 0
	}
	program.Launches = append(program.Launches, launch)
	return nil
}

// setUnits sets joinsPieces and lanes. It adds the code that computes the row, the piece and the lane of a thread, and
// the addresses of the row. All threads must reach the barriers. Therefore threads whose unit does not exist compute
// the last unit, but store nothing.
func (k *rowKernel) setUnits() {
	const u32 = tensor.Uint32
	rows, units := k.rows, k.units
	k.joinsPieces = rows.pieces > 1 && units == rows.rowCount
	k.lanes = lanesOf(rows.pieceLen, rows.vector)
	if k.joinsPieces {
		const vector = 1 // a lane loads the results of pieces one by one
		k.lanes = lanesOf(rows.pieces, vector)
	}

	unitsPerGroup := groupSize / k.lanes
	k.thread = k.Emit(ir.Thread, u32)
	// thread = unit*lanes + lane or, if adjacent threads compute adjacent rows, thread = lane*unitsPerGroup + unit. lanes
	// and unitsPerGroup are powers of two. With 4 lanes, thread 5 is lane 1 of unit 1. If adjacent threads compute
	// adjacent rows, it is lane 0 of unit 5.
	unitInGroup := k.quotient(k.thread, k.lanes)
	k.lane, k.laneStride = k.op(lane.And, u32, k.thread, k.u32(k.lanes-1)), 1
	if rows.threadsSpanRows && rows.pieces == 1 {
		unitInGroup = k.op(lane.And, u32, k.thread, k.u32(unitsPerGroup-1))
		k.lane, k.laneStride = k.quotient(k.thread, unitsPerGroup), unitsPerGroup
	}

	unit := k.add32(k.mul32(k.Emit(ir.Group, u32), unitsPerGroup), unitInGroup)
	k.isValid = k.isLess(unit, units)
	unit = k.selectValue(u32, k.isValid, unit, k.u32(units-1))
	k.row, k.piece = unit, ir.None
	if units != rows.rowCount { // unit = row*pieces + piece
		k.row = k.quotient(unit, rows.pieces)
		k.piece = k.sub32(unit, k.mul32(k.row, rows.pieces))
	}
	k.setBase()
}

// setBase adds the code that computes the addresses of the row.
func (k *rowKernel) setBase() {
	shape := sizesOf(k.keptAxes)
	index := k.indexInShape(k.row, shape)
	for i := range k.Params - 1 { // the last parameter is the scratch memory
		param := k.EmitImm(ir.Param, tensor.Uint64, uint64(i))
		k.base = append(k.base, k.addOffset(param, k.offset(index, shape, stridesOf(k.keptAxes, i))))
	}
}

// addPass adds the loop of pass i over the elements of a unit, and combines the folds of the unit's lanes.
func (k *rowKernel) addPass(i int) {
	const u32 = tensor.Uint32
	pass := k.program.Passes[i]
	if pass.Code == nil { // the pass has no loop
		return
	}
	k.loadUniforms(pass.In)
	var accumulators []accumulator
	for _, fold := range pass.Folds {
		dtype := pass.Code.Insts[fold.Value].DType
		accumulators = append(accumulators, k.newAccumulator(fold.Op, dtype, k.neutral(fold.Op, dtype)))
	}
	// A thread computes the vectors of elements that begin at first, first+step and so on, up to limit (exclusive).
	first, limit := k.elementRange()
	step := k.lanes * k.vector
	loop := func() {
		position := k.Emit(ir.Var, u32, first)
		k.While(func() ir.Value {
			element := k.Emit(ir.ReadVar, u32, position)
			k.addElements(&pass, element, accumulators)
			next := k.add32(element, k.u32(step))
			k.Emit(ir.WriteVar, tensor.Invalid, position, next)
			return k.op(lane.Le, tensor.Bool, limit, next) // the condition that ends the loop
		})
	}
	// The generated loop has at least one iteration. Each lane of a row needs at least one iteration, because lanes*vector
	// is at most rowLen. The last piece may be shorter, so that some of its lanes need no iteration.
	switch {
	case k.piece != ir.None:
		k.If(k.less(first, limit), loop)
	case step >= k.rowLen:
		k.addElements(&pass, first, accumulators)
	default:
		loop()
	}
	k.combineFolds(&pass, accumulators)
}

// elementRange returns the first element of the thread, and the (exclusive) end of the elements of the thread's unit.
func (k *rowKernel) elementRange() (first, limit ir.Value) {
	first = k.mul32(k.lane, k.vector)
	limit = k.u32(k.rowLen)
	if k.piece != ir.None {
		begin := k.mul32(k.piece, k.pieceLen)
		end := k.add32(begin, k.u32(k.pieceLen))
		first = k.add32(first, begin)
		limit = k.selectValue(tensor.Uint32, k.less(end, limit), end, limit)
	}
	return first, limit
}

// isFirst returns the condition that the thread is the first lane of an existing unit.
func (k *rowKernel) isFirst() ir.Value { return k.and(k.isValid, k.equal(k.lane, k.u32(0))) }

// addPerRow adds the code of pass i that runs once per row, after the loop over elements.
func (k *rowKernel) addPerRow(i int) {
	pass := k.program.Passes[i]
	if pass.PerRow == nil {
		return
	}
	k.loadUniforms(pass.PerRowIn)
	values := k.eval(pass.PerRow, func(operand, part int) ir.Value {
		if place := pass.PerRowIn[operand]; place.Kind == expr.AtOperand {
			return k.uniform(place.N)[part]
		}
		return k.numbers[pass.PerRowIn[operand].N]
	})
	for output, place := range pass.PerRowOut {
		if place.Kind == expr.AtNumber {
			k.numbers[place.N] = values[pass.PerRow.Out[output].Re]
		}
	}
	k.If(k.isFirst(), func() {
		for output, place := range pass.PerRowOut {
			out := pass.PerRow.Out[output]
			switch {
			case place.Kind == expr.AtOutput:
				list := []ir.Value{values[out.Re]}
				if out.Im != expr.None {
					list = append(list, values[out.Im])
				}
				k.store(oneElement(k.metas[place.N].DType), k.base[place.N], list)
			case place.Kind == expr.AtNumber && k.joinsPieces:
				k.storeNumber(place.N)
			}
		}
	})
}

// loadElements loads the vector of elements that begins at an element of the row, and returns the numbers of each input
// of a pass. index is the index of this element along each reduced axis.
func (k *rowKernel) loadElements(in []expr.Place, element ir.Value, index []ir.Value) [][]ir.Value {
	loaded := make([][]ir.Value, len(in))
	for operand, place := range in {
		switch {
		case place.Kind == expr.AtRow:
			loaded[operand] = k.load(k.storedRow(place.N, element, index))
		case place.Kind == expr.AtNumber:
			loaded[operand] = []ir.Value{k.numbers[place.N]}
		case k.program.Uniform[place.N]: // in this case and the following cases, the place is an operand
			loaded[operand] = k.uniform(place.N)
		case k.isPositions(place.N):
			for offset := range k.vector {
				position := k.add32(element, k.u32(offset))
				loaded[operand] = append(loaded[operand], k.bits(tensor.Int32, position))
			}
		default:
			i := k.outputCount + place.N
			loaded[operand] = k.load(k.addressOf(i, k.metas[i].DType, index))
		}
	}
	return loaded
}

// addElements adds the code that computes the vector of elements that begins at an element of the row. The code loads
// the inputs of the pass, adds to the accumulators, and stores the outputs.
func (k *rowKernel) addElements(pass *expr.RowPass, element ir.Value, accumulators []accumulator) {
	index := k.indexInShape(element, sizesOf(k.reducedAxes))
	loaded := k.loadElements(pass.In, element, index)
	stored := make([][]ir.Value, len(pass.Out))
	for offset := range k.vector {
		values := k.eval(pass.Code, func(operand, part int) ir.Value {
			parts := 1
			if pass.Code.In[operand].IsComplex() {
				parts = 2
			}
			// The remainder (%) is for operands with one element for each row.
			return loaded[operand][(offset*parts+part)%len(loaded[operand])]
		})
		for output, place := range pass.Out {
			if place.Kind == expr.Nowhere { // only a fold uses the value
				continue
			}
			out := pass.Code.Out[output]
			stored[output] = append(stored[output], values[out.Re])
			if out.Im != expr.None {
				stored[output] = append(stored[output], values[out.Im])
			}
		}
		for i, fold := range pass.Folds {
			acc := accumulators[i]
			k.write(acc, k.fold(acc, k.read(acc), values[fold.Value]))
		}
	}
	if slices.ContainsFunc(pass.Out, func(place expr.Place) bool { return place.Kind != expr.Nowhere }) {
		k.If(k.isValid, func() { k.storeElements(pass.Out, stored, element, index) })
	}
}

// storeElements stores the vector of elements that begins at an element of the row. stored has the numbers of each
// output of a pass, and index is the index of the first element along each reduced axis.
func (k *rowKernel) storeElements(out []expr.Place, stored [][]ir.Value, element ir.Value, index []ir.Value) {
	for output, place := range out {
		switch place.Kind {
		case expr.AtOutput:
			elementAccess, address := k.addressOf(place.N, k.metas[place.N].DType, index)
			k.store(elementAccess, address, stored[output])
		case expr.AtRow:
			elementAccess, address := k.storedRow(place.N, element, index)
			k.store(elementAccess, address, stored[output])
		}
	}
}
