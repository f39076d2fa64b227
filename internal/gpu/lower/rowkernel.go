package lower

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// rowKernel generates the kernel of one launch. A launch computes units. A unit is a row or, in the first launch of a
// pass over cut rows, a piece of a row. Several threads of a group compute a unit: the lanes of the unit. For each fold
// of the pass, they combine the elements of the unit into one number.
//
// For example, the sum of rows of 1024 float32 elements has vectors of 4 elements and 256 lanes for each row. Lane 3
// adds elements 12 to 15 (addPass). The lanes then combine their sums in group memory (combineLanes), and the first
// lane stores the sum of the row (addPerRow).
//
// A pass (expr.RowPass) has Code for each element, Folds of values of Code, and PerRow, which runs once per row. Inputs
// and outputs have places (expr.Place): an operand or an output of the program, a stored row (AtRow), a number of the
// row (AtNumber), or Nowhere for a value that is only folded.
type rowKernel struct {
	scalarBuilder // builds the kernel: see scalar.go
	*rows         // the layouts and the division into pieces, for all launches of the program

	units       int  // number of rows or pieces
	lanes       int  // number of lanes of a unit
	laneStride  int  // difference between the thread indices of two adjacent lanes
	joinsPieces bool // whether the kernel combines the results of pieces; its units are rows

	// The following fields are values in the generated code. Methods such as Emit, op and add32 add an instruction to
	// this code and return its result.

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
// parameters of the kernel are the outputs, the operands without positions, and the scratch memory.
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
	if program.Scratch == 0 { // no kernel uses the scratch memory, which does not exist: pass any address
		launch.Args[params].Buffer = 0
	}
	program.Launches = append(program.Launches, launch)
	return nil
}

// setUnits sets joinsPieces and lanes. It adds the code that computes the row, the piece and the lane of a thread, and
// the addresses of the row. Threads whose unit does not exist compute the last unit but store nothing, because all
// threads must reach the barriers.
func (k *rowKernel) setUnits() {
	const u32 = tensor.Uint32
	rows, units := k.rows, k.units
	k.joinsPieces = rows.pieces > 1 && units == rows.rowCount
	k.lanes = lanesOf(rows.pieceLen, rows.vector)
	if k.joinsPieces {
		k.lanes = lanesOf(rows.pieces, 1)
	}
	unitsPerGroup := groupSize / k.lanes
	k.thread = k.Emit(ir.Thread, u32)
	// thread = unit*lanes + lane or, if adjacent threads compute adjacent rows, thread = lane*unitsPerGroup + unit.
	// lanes and unitsPerGroup are powers of two. With 4 lanes, thread 5 is lane 1 of unit 1 or, in the other case, lane
	// 0 of unit 5.
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

// sizesOf returns the sizes of axes.
func sizesOf(list []axis) (sizes []int) {
	for _, dim := range list {
		sizes = append(sizes, dim.size)
	}
	return sizes
}

// stridesOf returns the strides of output or operand i along axes, in bytes.
func stridesOf(list []axis, i int) (strides []int) {
	for _, dim := range list {
		strides = append(strides, dim.strides[i])
	}
	return strides
}

// elementIndex returns row*columns + column as a uint64: the index of an element of a matrix.
func (k *rowKernel) elementIndex(row, column ir.Value, columns int) ir.Value {
	const u64 = tensor.Uint64
	fast, slow := k.op(lane.Convert, u64, column), k.op(lane.Convert, u64, row)
	return k.op(lane.Add, u64, fast, k.op(lane.Mul, u64, slow, k.Const(u64, uint64(columns))))
}

// scratchAt returns the address of an element of an array at byte start of the scratch memory. index is a uint64, and
// an element has size bytes.
func (k *rowKernel) scratchAt(start, size int, index ir.Value) ir.Value {
	const u64 = tensor.Uint64
	base := k.addBytes(k.EmitImm(ir.Param, u64, uint64(k.Params-1)), start)
	return k.op(lane.Add, u64, base, k.op(lane.Mul, u64, index, k.Const(u64, uint64(size))))
}

// numberAddress returns the address of number n of the row.
func (k *rowKernel) numberAddress(n int) ir.Value {
	start := k.numbersOffset + slotBytes*n*k.rowCount
	return k.scratchAt(start, slotBytes, k.op(lane.Convert, tensor.Uint64, k.row))
}

// partialAddress returns the address of the result of a fold, given by its index in the pass, for a piece of the row.
func (k *rowKernel) partialAddress(fold int, piece ir.Value) ir.Value {
	start := k.partialsOffset + slotBytes*fold*k.rowCount*k.pieces
	return k.scratchAt(start, slotBytes, k.elementIndex(k.row, piece, k.pieces))
}

// number returns number n of the row (RowProgram.Numbers), such as the result of a fold.
func (k *rowKernel) number(n int) ir.Value {
	value, ok := k.numbers[n]
	if !ok { // computed by an earlier launch
		value = k.loadRun(run{dtype: k.program.Numbers[n], count: 1, align: slotBytes}, k.numberAddress(n))[0]
		k.numbers[n] = value
	}
	return value
}

// uniform returns the numbers of the element of an operand with one element for each row: the element, or its real and
// imaginary part.
func (k *rowKernel) uniform(operand int) []ir.Value {
	if values, ok := k.uniforms[operand]; ok {
		return values
	}
	if k.isPositions(operand) { // rows have one element, whose position is 0
		return []ir.Value{k.Const(tensor.Int32, 0)}
	}
	i := k.outputCount + operand
	values := k.load(oneElement(k.metas[i].DType), k.base[i])
	k.uniforms[operand] = values
	return values
}

// loadUniforms adds, before a loop, the loads of the inputs that have one value for each row. It fills numbers and
// uniforms.
func (k *rowKernel) loadUniforms(in []expr.Place) {
	for _, place := range in {
		switch {
		case place.Kind == expr.AtNumber:
			k.number(place.N)
		case place.Kind == expr.AtOperand && k.program.Uniform[place.N]:
			k.uniform(place.N)
		}
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
	var accumulators []ir.Value
	for _, fold := range pass.Folds {
		dtype := pass.Code.Insts[fold.Value].DType
		neutral := expr.Neutral(fold.Op, dtype)
		accumulators = append(accumulators, k.Emit(ir.Var, registerDType(dtype), k.elementBits(dtype, neutral)))
	}
	// A thread computes the vectors of elements that begin at first, first+step, ..., below limit.
	first, limit := k.elementRange()
	step := k.lanes * k.vector
	loop := func() {
		position := k.Emit(ir.Var, u32, first)
		k.While(func() ir.Value {
			element := k.Emit(ir.ReadVar, u32, position)
			k.addElements(&pass, element, accumulators)
			next := k.add32(element, k.u32(step))
			k.Emit(ir.WriteVar, tensor.Invalid, position, next)
			return k.op(lane.Le, tensor.Bool, limit, next)
		})
	}
	// The generated loop has at least one iteration. Each lane of a row needs at least one, because lanes*vector is at
	// most rowLen. The last piece may be shorter, so some of its lanes need none.
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

// elementRange returns the first element of the thread, and the end of the elements of its unit.
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

// elementBits returns an element with the given bits. Unlike constant, it accepts bools.
func (k *rowKernel) elementBits(dtype tensor.DType, bits uint64) ir.Value {
	if dtype == tensor.Bool {
		return k.Const(dtype, bits&1)
	}
	return k.constant(dtype, bits)
}

// combineFolds combines the accumulators of the lanes of a unit. If the unit is a row, the results become numbers of
// the row (k.numbers). If it is a piece, they are stored in scratch memory.
func (k *rowKernel) combineFolds(pass *expr.RowPass, accumulators []ir.Value) {
	var results []ir.Value
	for index, fold := range pass.Folds {
		dtype := pass.Code.Insts[fold.Value].DType
		folded := k.Emit(ir.ReadVar, registerDType(dtype), accumulators[index])
		results = append(results, k.combineLanes(fold.Op, dtype, folded))
	}
	if k.piece == ir.None {
		for index, result := range results {
			k.numbers[pass.FoldResults[index]] = result
		}
		return
	}
	k.If(k.isFirst(), func() {
		for index, result := range results {
			address := k.partialAddress(index, k.piece)
			dtype := pass.Code.Insts[pass.Folds[index].Value].DType
			k.storeRun(run{dtype: dtype, count: 1, align: slotBytes}, address, []ir.Value{result})
		}
	})
}

// isFirst reports whether the thread is the first of an existing unit.
func (k *rowKernel) isFirst() ir.Value { return k.and(k.isValid, k.equal(k.lane, k.u32(0))) }

// fold combines two partial results of a fold by its operation.
func (k *rowKernel) fold(op expr.Op, dtype tensor.DType, a, b ir.Value) ir.Value {
	return k.addInst(expr.Inst{Op: op, DType: dtype, A: 0, B: 0, C: expr.None}, dtype, []ir.Value{a, b})
}

// combineLanes combines the values of the lanes of a unit by a balanced tree, in group memory. In each step, half is
// halved, and lane l below half combines its value with the value of lane l+half. All lanes get the result.
func (k *rowKernel) combineLanes(op expr.Op, dtype tensor.DType, value ir.Value) ir.Value {
	if k.lanes == 1 {
		return value
	}
	array, stored := k.Array(sharedType(dtype), groupSize), sharedType(dtype)
	k.EmitImm(ir.StoreShared, tensor.Invalid, array, k.thread, k.toShared(dtype, value))
	for half := k.lanes / 2; half > 0; half /= 2 {
		k.Emit(ir.Barrier, tensor.Invalid)
		k.If(k.isLess(k.lane, half), func() {
			other := k.add32(k.thread, k.u32(half*k.laneStride))
			lower := k.fromShared(dtype, k.EmitImm(ir.LoadShared, stored, array, k.thread))
			upper := k.fromShared(dtype, k.EmitImm(ir.LoadShared, stored, array, other))
			folded := k.fold(op, dtype, lower, upper)
			k.EmitImm(ir.StoreShared, tensor.Invalid, array, k.thread, k.toShared(dtype, folded))
		})
	}
	k.Emit(ir.Barrier, tensor.Invalid)
	first := k.sub32(k.thread, k.mul32(k.lane, k.laneStride))
	return k.fromShared(dtype, k.EmitImm(ir.LoadShared, stored, array, first))
}

// joinPieces combines the results of the pieces of a row in pass i, and stores them as numbers of the row.
func (k *rowKernel) joinPieces(i int) {
	pass := k.program.Passes[i]
	for index, fold := range pass.Folds {
		dtype := pass.Code.Insts[fold.Value].DType
		partial := func(piece ir.Value) ir.Value {
			return k.loadRun(run{dtype: dtype, count: 1, align: slotBytes}, k.partialAddress(index, piece))[0]
		}
		accumulator := k.Emit(ir.Var, registerDType(dtype), partial(k.lane))
		// Lane l combines pieces l and l+lanes, if piece l+lanes exists. There are fewer than 2*lanes pieces.
		second := k.add32(k.lane, k.u32(k.lanes))
		if k.lanes < k.pieces {
			k.If(k.isLess(second, k.pieces), func() {
				folded := k.fold(fold.Op, dtype, k.Emit(ir.ReadVar, registerDType(dtype), accumulator), partial(second))
				k.Emit(ir.WriteVar, tensor.Invalid, accumulator, folded)
			})
		}
		folded := k.Emit(ir.ReadVar, registerDType(dtype), accumulator)
		k.numbers[pass.FoldResults[index]] = k.combineLanes(fold.Op, dtype, folded)
	}
	if len(pass.Folds) > 0 {
		k.If(k.isFirst(), func() {
			for _, index := range pass.FoldResults {
				k.storeNumber(index)
			}
		})
	}
}

// storeNumber stores number n of the row for later launches.
func (k *rowKernel) storeNumber(n int) {
	number := run{dtype: k.program.Numbers[n], count: 1, align: slotBytes}
	k.storeRun(number, k.numberAddress(n), []ir.Value{k.numbers[n]})
}

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

// addressOf returns the access of a thread to elements of a dtype in the memory of output or operand i, and the address
// of the first element. index is the index of that element along each reduced axis.
func (k *rowKernel) addressOf(i int, dtype tensor.DType, index []ir.Value) (access, ir.Value) {
	shape, strides := sizesOf(k.reducedAxes), stridesOf(k.reducedAxes, i)
	allSizes := slices.Concat(shape, sizesOf(k.keptAxes))
	allStrides := slices.Concat(strides, stridesOf(k.keptAxes, i))
	elementAccess := access{dtype: dtype, stride: strides[0], vector: k.vector,
		align: alignOf(dtype, k.align[i], allSizes, allStrides, k.vector)}
	return elementAccess, k.addOffset(k.base[i], k.offset(index, shape, strides))
}

// storedRow returns the access of a thread to a stored row (RowProgram.Rows[stored]), and the address of an element of
// the row. index is the index of the element along each reduced axis.
func (k *rowKernel) storedRow(stored int, element ir.Value, index []ir.Value) (access, ir.Value) {
	dtype := k.program.Rows[stored].DType
	if output := k.program.Rows[stored].Out; output >= 0 {
		return k.addressOf(output, dtype, index)
	}
	// The address is a sum of multiples of three numbers. These are the alignment of the stored rows, the distance
	// between the vectors of threads, and the distance between rows. The lowest bit that is set in any of them divides
	// it.
	align := 16 | k.vector*dtype.Size()
	if k.rowCount > 1 {
		align |= k.rowLen * dtype.Size()
	}
	elementAccess := access{dtype: dtype, stride: dtype.Size(), vector: k.vector,
		align: max(align&-align, dtype.ToReal().Size())}
	return elementAccess, k.scratchAt(k.scratchRows[stored], dtype.Size(), k.elementIndex(k.row, element, k.rowLen))
}

// loadElements loads the vector of elements that begins at an element of the row, and returns the numbers of each input
// of a pass. index is the index of that element along each reduced axis.
func (k *rowKernel) loadElements(in []expr.Place, element ir.Value, index []ir.Value) [][]ir.Value {
	loaded := make([][]ir.Value, len(in))
	for operand, place := range in {
		switch {
		case place.Kind == expr.AtRow:
			loaded[operand] = k.load(k.storedRow(place.N, element, index))
		case place.Kind == expr.AtNumber:
			loaded[operand] = []ir.Value{k.numbers[place.N]}
		case k.program.Uniform[place.N]: // in this case and the following ones, the place is an operand
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
func (k *rowKernel) addElements(pass *expr.RowPass, element ir.Value, accumulators []ir.Value) {
	index := k.indexInShape(element, sizesOf(k.reducedAxes))
	loaded := k.loadElements(pass.In, element, index)
	stored := make([][]ir.Value, len(pass.Out))
	for offset := range k.vector {
		values := k.eval(pass.Code, func(operand, part int) ir.Value {
			parts := 1
			if pass.Code.In[operand].IsComplex() {
				parts = 2
			}
			// The remainder is for operands with one element for each row.
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
			dtype := pass.Code.Insts[fold.Value].DType
			folded := k.fold(fold.Op, dtype, k.Emit(ir.ReadVar, registerDType(dtype), accumulators[i]), values[fold.Value])
			k.Emit(ir.WriteVar, tensor.Invalid, accumulators[i], folded)
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
