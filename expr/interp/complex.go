package interp

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// The code of a loop computes the two parts of a complex number separately. One loop computes both parts if they are
// copied together or if one function computes both. For example, out = where(mask, x, y) has two instructions Select
// with the same mask, one for the real parts of x and y and one for their imaginary parts. They become one Select of
// complex64 numbers.

// joinComplexOutputs chooses one loop for both parts of a complex output if there is such a loop. The real part then
// stands for the complex number. readers has the number of readers by value.
func (prep *preparer) joinComplexOutputs(readers []int) {
	for slot, output := range prep.code.Out {
		if output.DType != tensor.Complex64 || readers[output.Re] != 1 || readers[output.Im] != 1 {
			continue
		}
		if both, operands := prep.complexLoop(output.Re, output.Im); both != nil {
			prep.values[output.Re].loop, prep.values[output.Re].operands = both, operands
			prep.code.Insts[output.Re].DType = tensor.Complex64
			prep.code.Out[slot].Im = expr.None
		}
	}
}

// complexLoop returns the loop that computes the complex number with the parts re and im, and the values that the loop
// reads. It returns nil if there is no such loop.
func (prep *preparer) complexLoop(re, im expr.Value) (loop, []expr.Value) {
	first, second := prep.code.Insts[re], prep.code.Insts[im]
	switch {
	case first.Op != second.Op:
	case first.Op == expr.Select && first.A == second.A:
		whenTrue, whenFalse := prep.complexNumber(first.B, second.B), prep.complexNumber(first.C, second.C)
		if whenTrue != expr.None && whenFalse != expr.None {
			return selects[sizeIndex(tensor.Complex64.Size())], []expr.Value{first.A, whenTrue, whenFalse}
		}
	case first.Op == expr.Call && slices.Equal(first.Operands(), second.Operands()):
		function := prep.code.Funcs[first.Imm]
		if function.Complex != nil && function.Im == prep.code.Funcs[second.Imm] {
			return complexCall(function.Complex), []expr.Value{first.A, first.B}
		}
	}
	return nil, nil
}

// complexNumber returns the value of the complex64 number with the given parts, or None. The value is either the load
// of the real part, which the imaginary part follows in memory, or a constant that is appended to the code. A load that
// an output stores cannot be such a value, because its place is a copy of one part.
func (prep *preparer) complexNumber(re, im expr.Value) expr.Value {
	first, second := prep.code.Insts[re], prep.code.Insts[im]
	switch {
	case first.Op != second.Op || first.DType != tensor.Float32 || second.DType != tensor.Float32:
	case first.Op == expr.Load:
		areParts := first.A == second.A && first.Imm == 0 && second.Imm == 1 // both are parts of one operand
		if areParts && !prep.isStored(re) {
			return re
		}
	case first.Op == expr.Const:
		prep.code.Insts = append(prep.code.Insts, expr.Inst{Op: expr.Const, DType: tensor.Complex64, A: expr.None,
			B: expr.None, C: expr.None, Imm: first.Imm&(1<<32-1) | second.Imm<<32})
		return expr.Value(len(prep.code.Insts) - 1)
	}
	return expr.None
}

// isStored reports whether an output stores a value.
func (prep *preparer) isStored(v expr.Value) (stored bool) {
	prep.eachOutput(func(output expr.Value, _ place) { stored = stored || output == v })
	return stored
}

// complexCall returns the loop of a function of the complex number with the parts a and b.
func complexCall(f func(complex128) complex128) loop {
	return func(o operands) {
		each2(&o, func(a, b float32) complex64 { return complex64(f(complex(float64(a), float64(b)))) })
	}
}
