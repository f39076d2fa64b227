package sym

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Evaluator computes expressions and conditions for many bindings. It is faster than [Int.At], because it computes
// shared parts once and finds symbols by index instead of by name. An Evaluator is immutable and safe for concurrent
// use.
//
// It is a list of instructions. Each computes one cell from earlier cells. For the symbols x and y, the size
// 2*x*y + 1 and the condition x*y >= 4 are compiled to
//
//	cell 0  opSymbol 0            x
//	cell 1  opSymbol 1            y
//	cell 2  opProduct 2, cells 0 1
//	cell 3  opSum 1, cell 2       the size
//	cell 4  opProduct 1, cells 0 1
//	cell 5  opSum -4, cell 4      the difference of the condition to 0
//	cell 6  opGe, cell 5          the condition
type Evaluator struct {
	symbols   []string
	code      []instruction // code[i] computes cell i
	operands  []int32       // the cells that instructions read: see instruction
	sizeCells []int32       // by expression: its cell
	condCells []int32       // by condition: its cell
	sizes     []Int         // the expressions, evaluated directly if intermediate results overflow an int
	conds     []Bool        // the conditions, evaluated directly in the same case
}

// instruction computes one cell from the earlier cells with the indexes Evaluator.operands[from:to].
type instruction struct {
	op       opcode
	from, to int32
	number   int // the constant of a sum, the coefficient of a product, or the index of a symbol
}

// opcode is the operation of an instruction.
type opcode uint8

const (
	opSymbol  opcode = iota
	opProduct        // number times the product of the operands
	opSum            // number plus the sum of the operands
	opDiv            // the first operand divided by the second, rounded down
	opMod            // the remainder of this division
	opMax
	opMin
	opWhere // the second operand if the first operand is true, else the third
	opEq    // 1 if the operand is 0, else 0
	opNe    // 1 if the operand is not 0, else 0
	opGe    // 1 if the operand is not negative, else 0
	opAnd
	opOr
)

// cell is the value of an instruction.
type cell struct {
	value     int
	undefined bool // there is no value, because of a division by zero or an overflow
	overflows bool // the reason is an overflow of the result or of an operand; undefined is then set, too
}

// NewEvaluator returns an evaluator for sizes and conditions over the named symbols. Its methods get the values of
// these symbols, in the order of symbols. NewEvaluator fails if a size or condition has another symbol.
func NewEvaluator(symbols []string, sizes []Int, conds []Bool) (*Evaluator, error) {
	builder := &evaluatorBuilder{evaluator: &Evaluator{symbols: slices.Clone(symbols)}, emitted: map[string]int32{},
		exprs: map[*expr]int32{}, atoms: map[*atom]int32{}, conds: map[*cond]int32{}}
	builder.evaluator.sizes, builder.evaluator.conds = slices.Clone(sizes), slices.Clone(conds)
	for _, size := range sizes {
		builder.evaluator.sizeCells = append(builder.evaluator.sizeCells, builder.size(size))
	}
	for _, c := range conds {
		builder.evaluator.condCells = append(builder.evaluator.condCells, builder.bool(c))
	}
	if builder.err != nil {
		return nil, builder.err
	}
	return builder.evaluator, nil
}

// Hold reports whether all conditions hold at the given values of the symbols. A condition that divides by zero does
// not hold. Hold returns false if the number of values is wrong. It does not allocate if there are at most
// stackCells instructions and no intermediate result overflows an int.
func (e *Evaluator) Hold(values []int) bool {
	if e == nil || len(values) != len(e.symbols) {
		return false
	}
	var buffer [stackCells]cell
	cells := e.run(values, buffer[:])
	for i := range e.condCells {
		if !e.truth(i, cells, values) {
			return false
		}
	}
	return true
}

// Truths appends an element to list for each condition: whether the condition holds, as in [Evaluator.Hold]. If the
// number of values is wrong, it returns list.
func (e *Evaluator) Truths(list []bool, values []int) []bool {
	if e == nil || len(values) != len(e.symbols) {
		return list
	}
	var buffer [stackCells]cell
	cells := e.run(values, buffer[:])
	for i := range e.condCells {
		list = append(list, e.truth(i, cells, values))
	}
	return list
}

// Sizes appends the values of the expressions to list. It fails if an expression divides by zero or overflows an int,
// or if the number of values is wrong.
func (e *Evaluator) Sizes(list, values []int) ([]int, error) {
	if e == nil || len(values) != len(e.symbols) {
		return list, fmt.Errorf("sym: got %d values for %d symbols", len(values), len(e.symbols))
	}
	var buffer [stackCells]cell
	cells := e.run(values, buffer[:])
	for i, index := range e.sizeCells {
		value := cells[index].value
		switch {
		case cells[index].overflows:
			var err error
			if value, err = e.sizes[i].At(e.binding(values)); err != nil {
				return list, err
			}
		case cells[index].undefined:
			return list, errDivisionByZero
		}
		list = append(list, value)
	}
	return list, nil
}

// truth reports whether condition i holds.
func (e *Evaluator) truth(i int, cells []cell, values []int) bool {
	value := cells[e.condCells[i]]
	if value.overflows {
		holds, err := e.conds[i].At(e.binding(values))
		return err == nil && holds
	}
	return value.holds()
}

// binding returns the values of the symbols by name.
func (e *Evaluator) binding(values []int) Binding {
	b := make(Binding, len(values))
	for i, name := range e.symbols {
		b[name] = values[i]
	}
	return b
}

// stackCells is the size of the buffer on the stack. An evaluation with more cells allocates memory.
const stackCells = 192

// run computes all cells. It stores them in buffer if they fit, otherwise in new memory.
func (e *Evaluator) run(values []int, buffer []cell) []cell {
	if len(e.code) > len(buffer) {
		buffer = make([]cell, len(e.code))
	}
	cells := buffer[:len(e.code)]
	for i := range e.code {
		inst := &e.code[i]
		args := e.operands[inst.from:inst.to]
		switch inst.op {
		case opSymbol:
			cells[i] = cell{value: values[inst.number]}
		case opProduct, opSum, opMax, opMin:
			cells[i] = accumulatedCell(inst, args, cells)
		case opDiv, opMod:
			cells[i] = floorCell(inst.op == opMod, cells[args[0]], cells[args[1]])
		case opWhere:
			cells[i] = whereCell(cells[args[0]], cells[args[1]], cells[args[2]])
		case opAnd, opOr:
			cells[i] = junctionCell(inst.op == opOr, args, cells)
		case opEq, opNe, opGe:
			cells[i] = comparisonCell(inst.op, cells[args[0]])
		}
	}
	return cells
}

// accumulatedCell computes a sum, a product, a maximum or a minimum of the cells with the indexes args.
func accumulatedCell(inst *instruction, args []int32, cells []cell) cell {
	result := cell{value: inst.number}
	for k, index := range args {
		operand := cells[index]
		result.undefined = result.undefined || operand.undefined
		result.overflows = result.overflows || operand.overflows
		fits := true
		switch {
		case inst.op == opProduct:
			result.value, fits = mulFits(result.value, operand.value)
		case inst.op == opSum:
			result.value, fits = addFits(result.value, operand.value)
		case k == 0: // the first operand of a maximum or minimum
			result.value = operand.value
		case inst.op == opMax:
			result.value = max(result.value, operand.value)
		default:
			result.value = min(result.value, operand.value)
		}
		if !fits {
			result.undefined, result.overflows = true, true
		}
	}
	return result
}

// floorCell returns dividend // divisor. If wantsRemainder is set, it returns dividend % divisor instead.
func floorCell(wantsRemainder bool, dividend, divisor cell) cell {
	overflows := dividend.overflows || divisor.overflows || dividend.value == math.MinInt && divisor.value == -1
	if overflows || dividend.undefined || divisor.undefined || divisor.value == 0 {
		return cell{undefined: true, overflows: overflows}
	}
	quotient := floorDiv(dividend.value, divisor.value)
	if wantsRemainder {
		quotient = dividend.value - divisor.value*quotient
	}
	return cell{value: quotient}
}

// whereCell returns ifTrue or ifFalse. If cond is undefined, so is the result.
func whereCell(cond, ifTrue, ifFalse cell) cell {
	switch {
	case cond.undefined:
		return cond
	case cond.value != 0:
		return ifTrue
	}
	return ifFalse
}

// comparisonCell compares a difference with 0.
func comparisonCell(op opcode, difference cell) cell {
	result := cell{undefined: difference.undefined, overflows: difference.overflows}
	isZero := difference.value == 0
	if op == opEq && isZero || op == opNe && !isZero || op == opGe && difference.value >= 0 {
		result.value = 1
	}
	return result
}

// junctionCell computes a disjunction if isOr is set, else a conjunction. As in [Bool.At], evaluation stops at the
// first operand that decides the result. Later operands may be undefined.
func junctionCell(isOr bool, args []int32, cells []cell) cell {
	for _, index := range args {
		if x := cells[index]; x.undefined || (x.value != 0) == isOr {
			return x
		}
	}
	if isOr {
		return cell{}
	}
	return cell{value: 1}
}

// holds reports whether the cell of a condition is true.
func (c cell) holds() bool { return !c.undefined && c.value != 0 }

// evaluatorBuilder compiles expressions to instructions. Each part is compiled once, after its operands. The maps hold
// the index of the instruction for each part.
type evaluatorBuilder struct {
	evaluator *Evaluator
	emitted   map[string]int32 // by operation, number and operands
	exprs     map[*expr]int32
	atoms     map[*atom]int32
	conds     map[*cond]int32
	err       error
}

// emit returns the index of an instruction, which it appends if there is no equal one.
func (b *evaluatorBuilder) emit(op opcode, number int, args ...int32) int32 {
	if op == opSum && number == 0 && len(args) == 1 {
		return args[0]
	}
	key := binary.AppendVarint([]byte{byte(op)}, int64(number))
	for _, arg := range args {
		key = binary.AppendVarint(key, int64(arg))
	}
	if index, done := b.emitted[string(key)]; done {
		return index
	}
	b.emitted[string(key)] = int32(len(b.evaluator.code))
	first := len(b.evaluator.operands)
	b.evaluator.operands = append(b.evaluator.operands, args...)
	b.evaluator.code = append(b.evaluator.code,
		instruction{op: op, from: int32(first), to: int32(len(b.evaluator.operands)), number: number})
	return int32(len(b.evaluator.code) - 1)
}

// size compiles a number or an expression and returns the index of its instruction.
func (b *evaluatorBuilder) size(a Int) int32 {
	if a.e == nil {
		return b.emit(opSum, a.n)
	}
	return b.expr(a.e)
}

// bool compiles a truth value or a condition and returns the index of its instruction.
func (b *evaluatorBuilder) bool(c Bool) int32 {
	switch {
	case c.cond != nil:
		return b.cond(c.cond)
	case c.truth:
		return b.emit(opAnd, 0) // an empty conjunction
	}
	return b.emit(opOr, 0) // an empty disjunction
}

// expr compiles an expression, a constant plus terms, and returns the index of its instruction. A term is a coefficient
// times atoms, and an atom is a symbol or a function of expressions.
func (b *evaluatorBuilder) expr(sum *expr) int32 {
	if index, done := b.exprs[sum]; done {
		return index
	}
	var terms []int32
	for _, t := range sum.terms {
		var factors []int32
		for _, a := range t.atoms {
			factors = append(factors, b.atom(a))
		}
		if len(factors) == 1 && t.coeff == 1 {
			terms = append(terms, factors[0])
			continue
		}
		terms = append(terms, b.emit(opProduct, t.coeff, factors...))
	}
	index := b.emit(opSum, sum.constant, terms...)
	b.exprs[sum] = index
	return index
}

// atom compiles an atom and returns the index of its instruction.
func (b *evaluatorBuilder) atom(a *atom) int32 {
	if index, done := b.atoms[a]; done {
		return index
	}
	var args []int32
	if a.cond != nil {
		args = append(args, b.cond(a.cond))
	}
	for _, x := range a.args {
		args = append(args, b.expr(x))
	}
	number := 0
	switch a.kind {
	case kindSymbol:
		number = b.symbol(a.name)
	case kindUnexpandedProduct:
		number = 1 // the coefficient; the constant of kindUnexpandedSum is 0
	}
	index := b.emit(atomOps[a.kind], number, args...)
	b.atoms[a] = index
	return index
}

// atomOps has the operation that computes an atom, by its kind. An unexpanded sum or product has two operands. It is an
// atom because its expansion would overflow an int.
var atomOps = [...]opcode{kindSymbol: opSymbol, kindDiv: opDiv, kindMod: opMod, kindMax: opMax, kindMin: opMin,
	kindWhere: opWhere, kindUnexpandedSum: opSum, kindUnexpandedProduct: opProduct}

// symbol returns the index of a symbol in Evaluator.symbols. An unknown symbol is an error.
func (b *evaluatorBuilder) symbol(name string) int {
	if i := slices.Index(b.evaluator.symbols, name); i >= 0 {
		return i
	}
	b.err = fmt.Errorf("sym: unknown symbol %s", name)
	return 0
}

// cond compiles a condition and returns the index of its instruction.
func (b *evaluatorBuilder) cond(c *cond) int32 {
	if index, done := b.conds[c]; done {
		return index
	}
	var args []int32
	for _, p := range c.args {
		args = append(args, b.cond(p))
	}
	if !c.isJunction() {
		args = append(args, b.expr(c.difference))
	}
	op := map[condKind]opcode{condEq: opEq, condNe: opNe, condGe: opGe, condAnd: opAnd, condOr: opOr}[c.kind]
	index := b.emit(op, 0, args...)
	b.conds[c] = index
	return index
}
