package winograd

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/tile"
)

// value is a vector value that a block computes, identified by the index of its operation.
type value int

// zero stands for the pixels outside the image, whose value is 0. Operations on zero emit nothing or a simpler
// operation.
const zero value = -1

type opcode uint8

const (
	opConst opcode = iota // k
	opLoad                // the element at (row, col) of the input
	opBias                // the element of the bias
	opAdd                 // x + y
	opSub                 // x - y
	opMul                 // k * x
	opFMA                 // y + k*x, rounded once
	opFNMA                // y - k*x, rounded once
	opMax                 // max(x, k), where NaNs in x are kept
	opMin                 // min(x, k), where NaNs in x are kept
	opTile                // the element of an epilogue operand for (row, col) of the result
	opLanes               // the element of an epilogue operand for the channel
	opTimes               // x * y
	opStore               // stores x at (row, col) of the result
)

// operation is an operation of a block. x, y and k are operands or zero; k is a constant.
type operation struct {
	op       opcode
	x, y, k  value
	row, col int
	number   float32 // value of opConst
	operand  int     // index of an epilogue operand
}

// block is a straight-line sequence of vector operations.
type block struct {
	list      []operation
	constants map[float32]value
}

func (b *block) append(o operation) value {
	b.list = append(b.list, o)
	return value(len(b.list) - 1)
}

func (b *block) constant(f float64) value {
	k := float32(f)
	if v, ok := b.constants[k]; ok {
		return v
	}
	if b.constants == nil {
		b.constants = map[float32]value{}
	}
	v := b.append(operation{op: opConst, number: k, x: zero, y: zero, k: zero})
	b.constants[k] = v
	return v
}

func (b *block) load(row, col int) value {
	return b.append(operation{op: opLoad, row: row, col: col, x: zero, y: zero, k: zero})
}

func (b *block) add(x, y value) value {
	switch {
	case x == zero:
		return y
	case y == zero:
		return x
	}
	return b.append(operation{op: opAdd, x: x, y: y, k: zero})
}

func (b *block) sub(x, y value) value {
	switch {
	case y == zero:
		return x
	case x == zero:
		return b.mul(-1, y)
	}
	return b.append(operation{op: opSub, x: x, y: y, k: zero})
}

func (b *block) mul(k float64, x value) value {
	if x == zero {
		return zero
	}
	return b.append(operation{op: opMul, x: x, y: zero, k: b.constant(k)})
}

// fma returns y + k*x.
func (b *block) fma(k float64, x, y value) value {
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
	return b.append(operation{op: op, x: x, y: y, k: b.constant(math.Abs(k))})
}

// addScaled returns y + k*x, where k may be 1.
func (b *block) addScaled(k float64, x, y value) value {
	if k == 1 {
		return b.add(x, y)
	}
	return b.fma(k, x, y)
}

// store stores a value. The value zero becomes the constant 0.
func (b *block) store(v value, row, col int) {
	if v == zero {
		v = b.constant(0)
	}
	b.append(operation{op: opStore, x: v, y: zero, k: zero, row: row, col: col})
}

// Part is a rectangle of a tile: rows [Row, RowEnd) and columns [Col, ColEnd).
type Part struct{ Row, Col, RowEnd, ColEnd int }

func (p Part) has(row, col int) bool {
	return p.Row <= row && row < p.RowEnd && p.Col <= col && col < p.ColEnd
}

// operandBlock is the transform of a tile's pixels to points. Pixels outside p are 0, and loads are relative to the
// first pixel inside. For F(4x4) the four inner rows of points are computed first. At most 24 instead of 36 values are
// then live, which fit into the registers.
func (f Form) operandBlock(p Part) *block {
	b := new(block)
	n := f.N()
	column := func(col int) []value {
		pixels := make([]value, n)
		for row := range n {
			pixels[row] = zero
			if p.has(row, col) {
				pixels[row] = b.load(row-p.Row, col-p.Col)
			}
		}
		return pixels
	}
	half := map[int][]value{} // by row of points: the result of the transform along columns
	setHalf := func(row, col int, v value) {
		if half[row] == nil {
			half[row] = make([]value, n)
		}
		half[row][col] = v
	}
	storeRows := func(rows ...int) {
		for _, row := range rows {
			for col, v := range f.inputTransform(b, half[row]) {
				b.store(v, row, col)
			}
		}
	}
	if f.M == 2 {
		for col := range n {
			for row, v := range f.inputTransform(b, column(col)) {
				setHalf(row, col, v)
			}
		}
		storeRows(0, 1, 2, 3)
		return b
	}
	for col := range n {
		for i, v := range f.pointsAB(b, column(col)) {
			setHalf(1+i, col, v)
		}
	}
	storeRows(1, 2, 3, 4)
	for col := range n {
		first, last := f.pointsZeroInfinity(b, column(col))
		setHalf(0, col, first)
		setHalf(5, col, last)
	}
	storeRows(0, 5)
	return b
}

// resultBlock is the transform of a tile's points to the first rows and columns of results. It adds the bias if bias is
// true, and applies the epilogue.
func (f Form) resultBlock(rows, cols int, bias bool, epilogue []tile.EpilogueStep) *block {
	b := new(block)
	n := f.N()
	half := make([][]value, f.M) // by row of results: the result of the transform along columns
	for col := range n {
		points := make([]value, n)
		for row := range n {
			points[row] = b.load(row, col)
		}
		for row, v := range f.outputTransform(b, points) {
			half[row] = append(half[row], v)
		}
	}
	biasValue := zero
	if bias {
		biasValue = b.append(operation{op: opBias, x: zero, y: zero, k: zero})
	}
	lanes := map[int]value{}
	for row := range rows {
		for col, v := range f.outputTransform(b, half[row]) {
			if col < cols {
				v = b.addScaled(f.scale(row)*f.scale(col), v, biasValue)
				for _, t := range epilogue {
					v = b.epilogueStep(t, v, row, col, lanes)
				}
				b.store(v, row, col)
			}
		}
	}
	return b
}

// epilogueStep applies an operation of an epilogue to the result at (row, col). lanes caches the loaded per-channel
// operands, by index of the operand.
func (b *block) epilogueStep(t tile.EpilogueStep, v value, row, col int, lanes map[int]value) value {
	o := operation{op: opAdd, x: v, y: zero, k: zero}
	switch t.Op {
	case tile.AtLeast:
		o.op, o.k = opMax, b.constant(t.Lo)
	case tile.AtMost:
		o.op, o.k = opMin, b.constant(t.Hi)
	case tile.Scale:
		o.op, o.k = opMul, b.constant(t.Lo)
	case tile.MulTile, tile.MulLanes:
		o.op = opTimes
		fallthrough
	default:
		operand := operation{op: opTile, row: row, col: col, operand: t.Operand, x: zero, y: zero, k: zero}
		if t.Op == tile.AddTile || t.Op == tile.MulTile {
			o.y = b.append(operand)
			break
		}
		if _, ok := lanes[t.Operand]; !ok {
			operand.op = opLanes
			lanes[t.Operand] = b.append(operand)
		}
		o.y = lanes[t.Operand]
	}
	return b.append(o)
}
