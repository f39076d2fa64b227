package interp

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// An operation of mixed dtypes computes in a wider dtype than its operands or its result have. For example, products
// of complex64 are computed in float64, and sums of bfloat16 in float32. A single loop that converts and computes takes
// a third of the time of separate loops. For example, four instructions become the step mixedOp{Add, BFloat16, Float32,
// BFloat16}, which reads x and y:
//
//	a = convert x to float32   b = convert y to float32   c = a + b   d = convert c to bfloat16
//
// chooseLoops chooses the loops of all instructions. mixedLoops is the table of mixed loops (mixedtable.go). An
// expr.Inst is an instruction, and an expr.Value the index of its result. preparer (prepare.go) makes a step of each
// instruction that has a loop; each1 and each2 (loops.go) call a function for each element.

// mixedOp is an operation that computes in dtype `in`. Its operands are converted from dtype `from`. Its result, which
// is a bool if the operation is a comparison, is converted to dtype `to`.
type mixedOp struct {
	op           expr.Op
	from, in, to tensor.DType
}

// chooseLoops chooses the loop and the operands of each value. A conversion gets no step if only operations of
// mixed dtypes read it, and an operation gets no step if only a conversion reads it.
func (prep *preparer) chooseLoops() error {
	readers := prep.countReaders()
	narrow := make([]narrowOperands, len(prep.code.Insts)) // indexed by value
	prep.values = make([]value, len(prep.code.Insts))
	for v, inst := range prep.code.Insts { // the loop appends constants to Insts, but does not visit them
		narrow[v] = prep.findNarrowOperands(inst)
		chosen := &prep.values[v]
		chosen.loop, chosen.operands = prep.chooseLoop(expr.Value(v), inst, readers, narrow)
		if chosen.loop == nil && inst.Op != expr.Const {
			return fmt.Errorf("v%d: %v of %v cannot be computed", v, inst.Op, inst.DType)
		}
	}
	prep.joinComplexOutputs(readers)
	addedConstants := len(prep.code.Insts) - len(prep.values) // narrow and complex constants
	prep.values = append(prep.values, make([]value, addedConstants)...)
	prep.markRead()
	return nil
}

// countReaders returns how many instructions, outputs and folds read each value.
func (prep *preparer) countReaders() []int {
	readers := make([]int, len(prep.code.Insts))
	for _, inst := range prep.code.Insts {
		for _, operand := range inst.Operands() {
			readers[operand]++
		}
	}
	for _, f := range prep.folded {
		readers[f.Value]++
	}
	prep.eachOutput(func(v expr.Value, _ place) { readers[v]++ })
	return readers
}

// narrowOperands are the operands of an operation before their conversion from a narrow dtype.
type narrowOperands struct {
	dtype  tensor.DType // Invalid if the operands are not narrow
	values []expr.Value
}

// findNarrowOperands returns the operands of an instruction before their conversion to its dtype, if there is a loop
// for operands of the narrow dtype. For a constant operand that the narrow dtype can represent, it appends a narrow
// constant to the code.
func (prep *preparer) findNarrowOperands(inst expr.Inst) (narrowed narrowOperands) {
	wideOperands := inst.Operands()
	if len(wideOperands) != 2 {
		return narrowed
	}
	for _, operand := range wideOperands {
		if producer := prep.code.Insts[operand]; producer.Op == expr.Convert {
			narrowed.dtype = prep.code.Insts[producer.A].DType
		}
	}
	if mixedLoops[mixedOp{op: inst.Op, from: narrowed.dtype, in: inst.DType, to: narrowed.dtype}] == nil {
		return narrowOperands{}
	}
	for _, operand := range wideOperands {
		value, isNarrow := prep.narrowOperand(operand, inst.DType, narrowed.dtype)
		if !isNarrow {
			return narrowOperands{}
		}
		narrowed.values = append(narrowed.values, value)
	}
	return narrowed
}

// narrowOperand returns an operand before its conversion from dtype narrow to dtype wide, or the narrow constant for a
// constant operand.
func (prep *preparer) narrowOperand(operand expr.Value, wide, narrow tensor.DType) (value expr.Value, ok bool) {
	switch producer := prep.code.Insts[operand]; producer.Op {
	case expr.Convert:
		return producer.A, prep.code.Insts[producer.A].DType == narrow
	case expr.Const:
		bits, isExact := narrowConstant(producer.Imm, wide, narrow)
		if !isExact {
			return expr.None, false
		}
		prep.code.Insts = append(prep.code.Insts, expr.Inst{Op: expr.Const, DType: narrow, A: expr.None, B: expr.None,
			C: expr.None, Imm: bits})
		return expr.Value(len(prep.code.Insts) - 1), true
	}
	return expr.None, false
}

// narrowConstant converts a number to a narrower dtype, and reports whether this loses no bits.
func narrowConstant(wideBits uint64, wide, narrow tensor.DType) (bits uint64, isExact bool) {
	back := uint64(0)
	const stride, count = 0, 1 // of the destination and the source
	tensor.Converter(narrow, wide)(unsafe.Pointer(&bits), unsafe.Pointer(&wideBits), stride, stride, count)
	tensor.Converter(wide, narrow)(unsafe.Pointer(&back), unsafe.Pointer(&bits), stride, stride, count)
	return bits, back == wideBits
}

// chooseLoop returns the loop of instruction v and the values that the loop reads. It is the first of these loops that
// exists:
//   - convert(x op y): the conversion v, and the operation that only v reads
//   - a*b + c*d or a + b*c: the sum or difference v, and the products that only v reads
//   - convert(x) op convert(y): the operation v, and the conversions of its operands
//   - x.re == y.re && x.im == y.im: the conjunction v, and the comparisons of the parts of complex numbers
//   - x == 0: a comparison with the constant 0
//   - the instruction alone
//
// readers has the number of readers of each value, and narrow has the operands of each value before their conversion.
func (prep *preparer) chooseLoop(v expr.Value, inst expr.Inst, readers []int, narrow []narrowOperands) (loop,
	[]expr.Value) {
	if inst.Op == expr.Convert && readers[inst.A] == 1 { // convert(x op y)
		if joined, operands := prep.joinConversion(inst, readers, narrow); joined != nil {
			return joined, operands
		}
	}
	// a*b + c*d or a + b*c
	if joined, operands := prep.joinProducts(v, inst.DType, readers, narrow); joined != nil {
		return joined, operands
	}
	// convert(x) op convert(y)
	convertsOperands := mixedOp{op: inst.Op, from: narrow[v].dtype, in: inst.DType, to: inst.DType}
	if mixed := mixedLoops[convertsOperands]; mixed != nil {
		return mixed, narrow[v].values
	}
	// If only inst reads the comparisons of the parts, the comparison of complex numbers replaces them.
	if op, numbers := prep.complexComparison(inst); len(numbers) == 2 && readers[inst.A] == 1 && readers[inst.B] == 1 {
		if test, tested := prep.zeroTest(op, tensor.Complex64, numbers); test != nil {
			return test, tested
		}
		return table[op][tensor.Complex64], numbers
	}
	if inst.Op == expr.Eq || inst.Op == expr.Ne { // x == 0
		test, tested := prep.zeroTest(inst.Op, prep.code.Insts[inst.A].DType, inst.Operands())
		if test != nil {
			return test, tested
		}
	}
	return loopFor(prep.code, inst), inst.Operands()
}

// joinConversion returns the loop that computes the operand of a conversion and converts the result, and the values
// that the loop reads. It returns nil if there is no such loop.
func (prep *preparer) joinConversion(conversion expr.Inst, readers []int, narrow []narrowOperands) (loop,
	[]expr.Value) {
	if joined, operands := prep.joinProducts(conversion.A, conversion.DType, readers, narrow); joined != nil {
		return joined, operands
	}
	inst, narrowed := prep.code.Insts[conversion.A], narrow[conversion.A]
	operation, wideOperands := mixedOp{op: inst.Op, from: narrowed.dtype, to: conversion.DType}, inst.Operands()
	for _, operand := range wideOperands { // an operation with a mixed loop has operands of one dtype
		operation.in = prep.code.Insts[operand].DType
	}
	if joined := mixedLoops[operation]; joined != nil {
		return joined, narrowed.values
	}
	operation.from = operation.in // only the result is converted
	return mixedLoops[operation], wideOperands
}

// zeroTest returns the loop that compares an operand with the constant 0, and the operand. op is Eq or Ne. zeroTest
// returns nil for other operands and dtypes.
func (prep *preparer) zeroTest(op expr.Op, dtype tensor.DType, operands []expr.Value) (loop, []expr.Value) {
	for k, operand := range operands {
		if inst := prep.code.Insts[operand]; inst.Op == expr.Const && isZero(dtype, inst.Imm) {
			return zeroTests[zeroTestOp{op, dtype}], []expr.Value{operands[1-k]}
		}
	}
	return nil, nil
}

// complexComparison is for an And or Or that combines the comparisons of the real and the imaginary parts of two
// complex64 numbers. It returns the comparison of the complex numbers, Eq or Ne, and two operands. An operand is the
// load of a real part, which the imaginary part follows in memory, or a complex constant that is appended to the code.
// For other instructions, complexComparison returns no operands.
func (prep *preparer) complexComparison(inst expr.Inst) (op expr.Op, operands []expr.Value) {
	switch {
	case inst.Op == expr.And && inst.DType == tensor.Bool:
		op = expr.Eq
	case inst.Op == expr.Or && inst.DType == tensor.Bool:
		op = expr.Ne
	default:
		return op, nil
	}
	parts := [2]expr.Inst{prep.code.Insts[inst.A], prep.code.Insts[inst.B]}
	if parts[0].Op != op || parts[1].Op != op {
		return op, nil
	}
	for k, re := range parts[0].Operands() {
		number := prep.complexNumber(re, parts[1].Operands()[k])
		if number == expr.None {
			return op, nil
		}
		operands = append(operands, number)
	}
	return op, operands
}

// markRead finds the values that a step, an output or a fold reads.
func (prep *preparer) markRead() {
	for _, f := range prep.folded {
		prep.values[f.Value].isRead = true
	}
	prep.eachOutput(func(v expr.Value, _ place) { prep.values[v].isRead = true })
	for _, reader := range slices.Backward(prep.values) {
		for _, operand := range reader.operands {
			prep.values[operand].isRead = prep.values[operand].isRead || reader.isRead
		}
	}
}
