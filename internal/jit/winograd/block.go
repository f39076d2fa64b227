package winograd

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/tile"
)

// valueID is a vector that a block computes: the index of its operation in block.operations.
type valueID int

// zero is the value of pixels outside the image, the constant 0. Operations on zero are omitted or simplified.
const zero valueID = 0

// opcode selects the computation of an operation.
type opcode uint8

const (
	opConst          opcode = iota // the constant with the bits constBits
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

// operation is an operation of a block. The opcode determines which fields it uses; the others are 0.
type operation struct {
	opcode    opcode
	x, y, k   valueID // operands; k is the value of an opConst
	row, col  int     // the element that is loaded or stored
	constBits uint32  // bits of the float32 of opConst: as a key of a map, -0 differs from 0
	operand   int     // index of an epilogue operand
}

// block is a straight-line sequence of vector operations. A lane of a vector is a channel. The methods of block append
// one operation each, and return its value. For example, b.store(b.sub(b.load(2, 0), b.load(0, 0)), 0, 0) appends four
// operations to a new block:
//
//	0: opConst 0
//	1: opLoad  row 2, col 0
//	2: opLoad  row 0, col 0
//	3: opSub   x 1, y 2
//	4: opStore x 3, row 0, col 0
type block struct {
	operations []operation
	shared     map[operation]valueID // the values that appendOnce has appended: constants and operands by channel
}

// newBlock returns a block with one operation, the constant `zero`.
func newBlock() *block {
	return &block{operations: []operation{{opcode: opConst}}, shared: map[operation]valueID{}}
}

// appendOperation adds an operation and returns its value.
func (b *block) appendOperation(op operation) valueID {
	b.operations = append(b.operations, op)
	return valueID(len(b.operations) - 1)
}

// appendOnce returns the value of an operation without operands, which it adds if the block does not have it.
func (b *block) appendOnce(op operation) valueID {
	value, ok := b.shared[op]
	if !ok {
		value = b.appendOperation(op)
		b.shared[op] = value
	}
	return value
}

// constant returns the value of a constant.
func (b *block) constant(number float64) valueID {
	return b.appendOnce(operation{opcode: opConst, constBits: math.Float32bits(float32(number))})
}

// load returns the element at (row, col) of the input.
func (b *block) load(row, col int) valueID {
	return b.appendOperation(operation{opcode: opLoad, row: row, col: col})
}

// add returns x + y.
func (b *block) add(x, y valueID) valueID {
	switch {
	case x == zero:
		return y
	case y == zero:
		return x
	}
	return b.appendOperation(operation{opcode: opAdd, x: x, y: y})
}

// sub returns x - y.
func (b *block) sub(x, y valueID) valueID {
	switch {
	case y == zero:
		return x
	case x == zero:
		return b.mul(-1, y)
	}
	return b.appendOperation(operation{opcode: opSub, x: x, y: y})
}

// mul returns k*x.
func (b *block) mul(k float64, x valueID) valueID {
	if x == zero {
		return zero
	}
	return b.appendOperation(operation{opcode: opMulConst, x: x, k: b.constant(k)})
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

// store stores a value at (row, col) of the result.
func (b *block) store(value valueID, row, col int) {
	b.appendOperation(operation{opcode: opStore, x: value, row: row, col: col})
}

// epilogueStep applies an operation of an epilogue to the result at (row, col).
func (b *block) epilogueStep(step tile.EpilogueStep, value valueID, row, col int) valueID {
	result := operation{opcode: opAdd, x: value}
	switch step.Op {
	case tile.AtLeast:
		result.opcode, result.k = opMax, b.constant(step.Lower)
	case tile.AtMost:
		result.opcode, result.k = opMin, b.constant(step.Upper)
	case tile.Scale: // Lower is the factor
		result.opcode, result.k = opMulConst, b.constant(step.Lower)
	case tile.MulTile, tile.MulLanes:
		result.opcode, result.y = opMul, b.epilogueOperand(step, row, col)
	default: // AddTile and AddLanes
		result.y = b.epilogueOperand(step, row, col)
	}
	return b.appendOperation(result)
}

// epilogueOperand returns the element of a step's operand for the result at (row, col).
func (b *block) epilogueOperand(step tile.EpilogueStep, row, col int) valueID {
	if step.Op == tile.AddTile || step.Op == tile.MulTile {
		return b.appendOperation(operation{opcode: opTileOperand, row: row, col: col, operand: step.Operand})
	}
	return b.appendOnce(operation{opcode: opChannelOperand, operand: step.Operand})
}
