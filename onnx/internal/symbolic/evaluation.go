package symbolic

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// evaluation evaluates the expression of an op on symbolic elements, for one row: the elements over which the op folds,
// or a single element if the op does not fold. It computes only the values that a result needs, because other values
// may have no symbolic form. The expression is a list of instructions; A is the first operand of an instruction, and
// Imm a constant. An [Element] is a condition, an integer, or a fraction. For example, the expression of add has the
// instructions v0 = load 0, v1 = load 1 and v2 = v0 + v1. For the
// vectors with the elements N, 3 and 1, H, it gives the elements N + 1 and H + 3.
type evaluation struct {
	symbols   *Symbols
	code      *expr.Code
	rowLength int                          // length of the row
	load      func(operand, k int) Element // returns the element of an operand at position k of the row
	computed  map[rowValue]Element         // the computed values
	failed    bool                         // whether a needed value has no symbolic form
}

// rowValue is a value of the expression at a position of the row.
type rowValue struct {
	value    expr.Value
	position int
}

// result returns result i at position k of the row. It returns false if the result has no symbolic form.
func (e *evaluation) result(i, k int) (Element, bool) {
	output := e.code.Out[i]
	element := e.valueAt(output.Re, k)
	if output.Im != expr.None { // complex results have no symbolic form
		e.failed = true
		return element, false
	}
	if dtype := e.code.Insts[output.Re].DType; dtype != output.DType {
		element = e.convert(dtype, output.DType, element)
	}
	return element, !e.failed
}

// fail records that a needed value has no symbolic form.
func (e *evaluation) fail() Element {
	e.failed = true
	return Element{}
}

// valueAt returns a value at position k of the row.
func (e *evaluation) valueAt(v expr.Value, k int) Element {
	element, ok := e.computed[rowValue{v, k}]
	if !ok && !e.failed {
		element = e.compute(v, k)
		e.computed[rowValue{v, k}] = element
	}
	return element
}

// compute computes a value at position k of the row: see [evaluation.valueAt].
func (e *evaluation) compute(v expr.Value, k int) Element {
	inst := e.code.Insts[v]
	switch inst.Op {
	case expr.Const:
		return e.constant(inst)
	case expr.Load:
		return e.load(int(inst.A), k) // A of a Load is the index of the operand
	case expr.Reduce: // folds the whole row
		return e.foldRow(inst, e.rowLength)
	case expr.Scan: // folds the row up to position k
		return e.foldRow(inst, k+1)
	case expr.Select: // it may be the last instruction of a division that rounds down
		if quotient, ok := e.division(v, k); ok {
			return quotient
		}
	}
	args := make([]Element, 0, 3)
	for _, use := range inst.Operands() {
		args = append(args, e.valueAt(use, k))
	}
	if e.failed || len(args) == 0 {
		return e.fail()
	}
	if inst.Op == expr.Convert {
		return e.convert(e.code.Insts[inst.A].DType, inst.DType, args[0])
	}
	last := inst.Operands()[len(args)-1] // of a Select, the first operand is a condition
	return e.apply(inst.Op, e.code.Insts[last].DType, args...)
}

// constant returns a constant of the expression. Imm has its bits, the lowest byte first.
func (e *evaluation) constant(inst expr.Inst) Element {
	bits := tensor.Zeros(inst.DType)
	for byteIndex := range bits.Storage().Bytes() {
		bits.Storage().Bytes()[byteIndex] = byte(inst.Imm >> (8 * byteIndex))
	}
	isNumber := inst.DType.IsIntegral(true) || inst.DType.IsFloat()
	if symbolicConstant := FromData(bits); symbolicConstant != nil && isNumber {
		return symbolicConstant.Elements[0]
	}
	return e.fail()
}

// foldRow folds the first count elements of the row by the operation in Imm.
func (e *evaluation) foldRow(inst expr.Inst, count int) Element {
	op := expr.Op(inst.Imm)
	if count == 0 {
		neutral := map[expr.Op]int{expr.Add: 0, expr.Or: 0, expr.Mul: 1, expr.And: 1}
		number, ok := neutral[op]
		if !ok {
			return e.fail()
		}
		// The element has a value for each kind of dtype: an integer, a condition and a fraction.
		return Element{Numerator: sym.Of(number), Condition: sym.BoolOf(number != 0), denominator: 1}
	}
	folded := e.valueAt(inst.A, 0)
	for k := 1; k < count && !e.failed; k++ {
		folded = e.apply(op, inst.DType, folded, e.valueAt(inst.A, k))
	}
	return folded
}

// apply applies an operation to elements. dtype is the dtype of the last element.
func (e *evaluation) apply(op expr.Op, dtype tensor.DType, args ...Element) Element {
	switch {
	case e.failed:
		return Element{}
	case op == expr.Select:
		return e.choose(dtype, args[0].Condition, args[1], args[2])
	case dtype == tensor.Bool:
		return e.logic(op, args)
	case dtype == tensor.Int64 || dtype == tensor.Int32:
		return e.integer(op, args)
	case dtype.IsFloat():
		return e.floatOp(op, dtype, args)
	}
	return e.fail()
}

// logic applies an operation to one or two bools. An operation with one operand uses only a.
func (e *evaluation) logic(op expr.Op, args []Element) Element {
	a, b := args[0].Condition, args[len(args)-1].Condition
	differ := a.And(b.Not()).Or(a.Not().And(b))
	switch op {
	case expr.And:
		return Element{Condition: a.And(b)}
	case expr.Or:
		return Element{Condition: a.Or(b)}
	case expr.Xor, expr.Ne:
		return Element{Condition: differ}
	case expr.Eq:
		return Element{Condition: differ.Not()}
	case expr.Not:
		return Element{Condition: a.Not()}
	}
	return e.fail()
}

// integer applies an operation to one or two integers. An operation with one operand uses only a.
func (e *evaluation) integer(op expr.Op, args []Element) Element {
	a, b := args[0].Numerator, args[len(args)-1].Numerator
	switch op {
	case expr.Add:
		return Element{Numerator: a.Add(b)}
	case expr.Sub:
		return Element{Numerator: a.Sub(b)}
	case expr.Mul:
		return Element{Numerator: a.Mul(b)}
	case expr.Div:
		if quotient, ok := truncated(a, b); ok {
			return Element{Numerator: quotient}
		}
	case expr.Neg:
		return Element{Numerator: a.Neg()}
	case expr.Abs:
		return Element{Numerator: a.Max(a.Neg())}
	case expr.Min:
		return Element{Numerator: a.Min(b)}
	case expr.Max:
		return Element{Numerator: a.Max(b)}
	case expr.Eq, expr.Ne, expr.Lt, expr.Le:
		return Element{Condition: compareInts(op, a, b)}
	}
	return e.fail()
}

// compareInts compares integers by Eq, Ne, Lt or Le.
func compareInts(op expr.Op, a, b sym.Int) sym.Bool {
	switch op {
	case expr.Eq:
		return a.Eq(b)
	case expr.Ne:
		return a.Ne(b)
	case expr.Lt:
		return a.Lt(b)
	}
	return a.Le(b)
}

// choose returns a if the condition holds, else b.
func (e *evaluation) choose(dtype tensor.DType, cond sym.Bool, a, b Element) Element {
	switch {
	case dtype == tensor.Bool:
		return Element{Condition: cond.And(a.Condition).Or(cond.Not().And(b.Condition))}
	case dtype.IsFloat() && (a.denominator != b.denominator || a.rounded || b.rounded):
		return e.fail()
	}
	return Element{Numerator: sym.Where(cond, a.Numerator, b.Numerator), denominator: a.denominator,
		exactConditions: slices.Concat(a.exactConditions, b.exactConditions)}
}

// truncated divides with truncation toward zero, as C does. The divisor must be positive.
func truncated(dividend, divisor sym.Int) (sym.Int, bool) {
	switch {
	case !Positive(divisor):
		return sym.Int{}, false
	case NotNegative(dividend):
		return dividend.Div(divisor), true
	}
	return sym.Where(dividend.Ge(sym.Int{}), dividend.Div(divisor),
		dividend.Neg().Div(divisor).Neg()), true // Div rounds down
}

// floorQuotient and floorRemainder are the expressions of an int64 division that rounds down, and of its remainder.
// These expressions combine a truncating division with several other operations. Package sym has a single operation for
// each of the two: see [evaluation.division].
var floorQuotient, floorRemainder = codeOf("x // y"), codeOf("x % y")

// codeOf returns the expression of a formula of x and y on int64, the dtype of sizes.
func codeOf(text string) *expr.Code {
	formula, err := expr.Parse(text, "x", "y")
	if err != nil {
		panic(err) // the text is constant
	}
	dtype := tensor.Int64
	code, err := formula.Code([]tensor.DType{dtype, dtype}, expr.Typing{})
	if err != nil {
		panic(err)
	}
	return code
}

// division computes value v by a single operation if its formula is floorQuotient or floorRemainder. ok is false for
// any other formula.
func (e *evaluation) division(v expr.Value, k int) (quotient Element, ok bool) {
	for _, pattern := range []*expr.Code{floorQuotient, floorRemainder} {
		operands := []expr.Value{expr.None, expr.None}
		if !matches(pattern, e.code, pattern.Out[0].Re, v, operands) {
			continue
		}
		dividend, divisor := e.valueAt(operands[0], k).Numerator, e.valueAt(operands[1], k).Numerator
		switch {
		case e.failed || !Positive(divisor):
			return e.fail(), true
		case pattern == floorQuotient:
			return Element{Numerator: dividend.Div(divisor)}, true
		}
		return Element{Numerator: dividend.Mod(divisor)}, true
	}
	return quotient, false
}

// matches reports whether a value of the code is computed like a value of the pattern. An operand of the pattern
// matches any value of the code; matches stores this value in operands.
func matches(pattern, code *expr.Code, patternValue, codeValue expr.Value, operands []expr.Value) bool {
	patternInst, inst := pattern.Insts[patternValue], code.Insts[codeValue]
	if patternInst.Op == expr.Load {
		if operands[patternInst.A] == expr.None {
			operands[patternInst.A] = codeValue
		}
		return operands[patternInst.A] == codeValue
	}
	if patternInst.Op != inst.Op || patternInst.DType != inst.DType || patternInst.Imm != inst.Imm {
		return false
	}
	uses := inst.Operands()
	for k, patternUse := range patternInst.Operands() {
		if !matches(pattern, code, patternUse, uses[k], operands) {
			return false
		}
	}
	return true
}
