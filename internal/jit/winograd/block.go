package winograd

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/tile"
)

// valueID is a vector that a block computes: the index of its operation in block.operations.
type valueID int

// zero stands for the pixels outside the image, whose value is 0. Operations on zero are omitted or simplified.
const zero valueID = -1

// opcode selects the computation of an operation.
type opcode uint8

const (
	opConst          opcode = iota // the constant constValue
	opLoad                         // the element at (row, col) of the input
	opBias                         // the element of the bias
	opAdd                          // x + y
	opSub                          // x - y
	opMulConst                     // k * x
	opMul                          // x * y
	opFMA                          // y + k*x, rounded once
	opFNMA                         // y - k*x, rounded once
	opMax                          // max(x, k), where NaNs in x are kept
	opMin                          // min(x, k), where NaNs in x are kept
	opTileOperand                  // the element of an epilogue operand for (row, col) of the result
	opChannelOperand               // the element of an epilogue operand for the channel
	opStore                        // stores x at (row, col) of the result
)

// operation is an operation of a block. Its operands x, y and k are values; k is the value of an opConst. Operands that
// the opcode does not use are `zero`.
type operation struct {
	opcode     opcode
	x, y, k    valueID
	row, col   int     // the element that is loaded or stored
	constValue float32 // value of opConst
	operand    int     // index of an epilogue operand
}

// block is a straight-line sequence of vector operations. A lane of a vector is a channel. inputBlock, weightBlock and
// outputBlock make the blocks of the three transforms. The first two transform pixels and weights to N x N points, and
// outputBlock transforms the sums of the products of points to M x M results ([Form]). The methods of block append one
// operation each, and return its value. For example, b.store(b.sub(b.load(2, 0), b.load(0, 0)), 0, 0) appends four
// operations:
//
//	0: opLoad  row 2, col 0
//	1: opLoad  row 0, col 0
//	2: opSub   x 0, y 1
//	3: opStore x 2, row 0, col 0
type block struct {
	operations []operation
	constants  map[float32]valueID // the value of each constant
}

// Part is a rectangle of a tile: rows [Row, RowEnd) and columns [Col, ColEnd).
type Part struct{ Row, Col, RowEnd, ColEnd int }

// contains reports whether an element is in the part.
func (part Part) contains(row, col int) bool {
	return part.Row <= row && row < part.RowEnd && part.Col <= col && col < part.ColEnd
}

// inputBlock returns the block that transforms the pixels of a tile to points: first each column, then each row. Pixels
// outside the part are 0, and loads are relative to the first pixel inside the part. For F(4x4) the four inner rows of
// points are computed and stored first, then the two outer rows. The columns are loaded twice, but at most 24 instead
// of 36 transformed values are live, few enough for the registers of AVX-512 and NEON.
func (f Form) inputBlock(part Part) *block {
	in := inputBuilder{block: new(block), form: f, part: part}
	size := f.N()
	if f.M == 2 {
		for col := range size {
			for row, value := range f.inputTransform(in.block, in.loadColumn(col)) {
				in.transformed[row][col] = value
			}
		}
		in.storeRows(0, 1, 2, 3)
		return in.block
	}
	for col := range size {
		for index, value := range f.pointsAB(in.block, in.loadColumn(col)) {
			in.transformed[1+index][col] = value
		}
	}
	in.storeRows(1, 2, 3, 4)
	for col := range size {
		in.transformed[0][col], in.transformed[5][col] = f.pointsZeroInfinity(in.block, in.loadColumn(col))
	}
	in.storeRows(0, 5)
	return in.block
}

// inputBuilder makes the block of an input transform.
type inputBuilder struct {
	*block
	form        Form
	part        Part          // of the tile: the pixels inside the image
	transformed [6][6]valueID // by row of points and column of pixels: the transforms of the columns
}

// loadColumn returns the pixels of a column of the tile.
func (in *inputBuilder) loadColumn(col int) []valueID {
	pixels := make([]valueID, in.form.N())
	for row := range pixels {
		pixels[row] = zero
		if in.part.contains(row, col) {
			pixels[row] = in.load(row-in.part.Row, col-in.part.Col)
		}
	}
	return pixels
}

// storeRows transforms rows of transformed columns to rows of points, and stores them.
func (in *inputBuilder) storeRows(rows ...int) {
	for _, row := range rows {
		for col, value := range in.form.inputTransform(in.block, in.transformed[row][:in.form.N()]) {
			in.store(value, row, col)
		}
	}
}

// weightBlock returns the transform of the 3x3 weights of a window to points: first each column, then each row.
func (f Form) weightBlock() *block {
	weights := new(block)
	size := f.N()
	transformed := make([][]valueID, size) // by row of points: the transforms of the columns
	for col := range windowSize {
		column := []valueID{weights.load(0, col), weights.load(1, col), weights.load(2, col)}
		for row, value := range f.weightTransform(weights, column) {
			transformed[row] = append(transformed[row], value)
		}
	}
	for row := range size {
		for col, value := range f.weightTransform(weights, transformed[row]) {
			weights.store(value, row, col)
		}
	}
	return weights
}

// windowSize is the number of rows and of columns of the window.
const windowSize = 3

// outputBlock returns the transform of a tile's points to results. It stores only the first `rows` rows and `cols`
// columns of results. If hasBias is true, it adds the bias. It then applies the epilogue.
func (f Form) outputBlock(rows, cols int, hasBias bool, epilogue []tile.EpilogueStep) *block {
	out := new(block)
	size := f.N()
	transformed := make([][]valueID, f.M) // by row of results: the transforms of the columns
	for col := range size {
		points := make([]valueID, size)
		for row := range size {
			points[row] = out.load(row, col)
		}
		for row, value := range f.outputTransform(out, points) {
			transformed[row] = append(transformed[row], value)
		}
	}
	biasValue := zero
	if hasBias {
		biasValue = out.appendOperation(operation{opcode: opBias, x: zero, y: zero, k: zero})
	}
	channelOperands := map[int]valueID{}
	for row := range rows {
		results := f.outputTransform(out, transformed[row])
		for col, value := range results[:cols] { // codeGen.lower drops operations that only other columns need
			// The results lack the factors scale(row) and scale(col): outputTransform omits them.
			value = out.addScaled(f.scale(row)*f.scale(col), value, biasValue)
			for _, step := range epilogue {
				value = out.epilogueStep(step, value, row, col, channelOperands)
			}
			out.store(value, row, col)
		}
	}
	return out
}

// epilogueStep applies an operation of an epilogue to the result at (row, col). channelOperands caches the loaded
// operands with one element for each channel, by index of the operand.
func (b *block) epilogueStep(step tile.EpilogueStep, value valueID, row, col int,
	channelOperands map[int]valueID) valueID {
	result := operation{opcode: opAdd, x: value, y: zero, k: zero}
	switch step.Op {
	case tile.AtLeast:
		result.opcode, result.k = opMax, b.constant(step.Lower)
	case tile.AtMost:
		result.opcode, result.k = opMin, b.constant(step.Upper)
	case tile.Scale: // Lower is the factor
		result.opcode, result.k = opMulConst, b.constant(step.Lower)
	case tile.MulTile, tile.MulLanes:
		result.opcode, result.y = opMul, b.epilogueOperand(step, row, col, channelOperands)
	default: // AddTile and AddLanes
		result.y = b.epilogueOperand(step, row, col, channelOperands)
	}
	return b.appendOperation(result)
}

// epilogueOperand returns the element of a step's operand for the result at (row, col). See epilogueStep.
func (b *block) epilogueOperand(step tile.EpilogueStep, row, col int, channelOperands map[int]valueID) valueID {
	operand := operation{opcode: opTileOperand, row: row, col: col, operand: step.Operand, x: zero, y: zero, k: zero}
	if step.Op == tile.AddTile || step.Op == tile.MulTile {
		return b.appendOperation(operand)
	}
	if _, ok := channelOperands[step.Operand]; !ok {
		operand.opcode = opChannelOperand
		channelOperands[step.Operand] = b.appendOperation(operand)
	}
	return channelOperands[step.Operand]
}

// appendOperation adds an operation and returns its value.
func (b *block) appendOperation(op operation) valueID {
	b.operations = append(b.operations, op)
	return valueID(len(b.operations) - 1)
}

// constant returns the value of a constant.
func (b *block) constant(number float64) valueID {
	rounded := float32(number)
	if constant, ok := b.constants[rounded]; ok {
		return constant
	}
	if b.constants == nil {
		b.constants = map[float32]valueID{}
	}
	constant := b.appendOperation(operation{opcode: opConst, constValue: rounded, x: zero, y: zero, k: zero})
	b.constants[rounded] = constant
	return constant
}

// load returns the element at (row, col) of the input.
func (b *block) load(row, col int) valueID {
	return b.appendOperation(operation{opcode: opLoad, row: row, col: col, x: zero, y: zero, k: zero})
}

// add returns x + y.
func (b *block) add(x, y valueID) valueID {
	switch {
	case x == zero:
		return y
	case y == zero:
		return x
	}
	return b.appendOperation(operation{opcode: opAdd, x: x, y: y, k: zero})
}

// sub returns x - y.
func (b *block) sub(x, y valueID) valueID {
	switch {
	case y == zero:
		return x
	case x == zero:
		return b.mul(-1, y)
	}
	return b.appendOperation(operation{opcode: opSub, x: x, y: y, k: zero})
}

// mul returns k*x.
func (b *block) mul(k float64, x valueID) valueID {
	if x == zero {
		return zero
	}
	return b.appendOperation(operation{opcode: opMulConst, x: x, y: zero, k: b.constant(k)})
}

// fma returns y + k*x.
func (b *block) fma(k float64, x, y valueID) valueID {
	switch {
	case x == zero:
		return y
	case y == zero:
		return b.mul(k, x)
	}
	op := opFMA
	if k < 0 {
		op = opFNMA
	}
	return b.appendOperation(operation{opcode: op, x: x, y: y, k: b.constant(math.Abs(k))})
}

// addScaled returns y + k*x, where k may be 1 or -1.
func (b *block) addScaled(k float64, x, y valueID) valueID {
	switch k {
	case 1:
		return b.add(x, y)
	case -1:
		return b.sub(y, x)
	}
	return b.fma(k, x, y)
}

// store stores a value. The value zero becomes the constant 0.
func (b *block) store(value valueID, row, col int) {
	if value == zero {
		value = b.constant(0)
	}
	b.appendOperation(operation{opcode: opStore, x: value, y: zero, k: zero, row: row, col: col})
}
