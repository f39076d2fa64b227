package main

import (
	"slices"
	"strings"
)

var halfTypes = []string{"Half", "BF16"}

// halfLoops are the loops for short expressions of 16-bit floats. Each operation of an expression is rounded in
// registers, as in PyTorch. Without these loops, the interpreter would run each operation and each rounding as a
// separate loop over memory.
var halfLoops = slices.Concat(
	halves("add", "ab", "b", "to(f($a) + f($b))"), halves("sub", "ab", "b", "to(f($a) - f($b))"),
	halves("mul", "ab", "b", "to(f($a) * f($b))"), halves("div", "ab", "b", "to(f($a) / f($b))"),
	halves("divTrunc", "ab", "b", "exact(trunc32(round(f($a) / f($b))))"),
	halves("mulRintDiv", "abc", "bc", "to(rint32(round(f($a)*f($b))) / f($c))"),
	halves("divRintMul", "abc", "bc", "to(rint32(round(f($a)/f($b))) * f($c))"),
	halves("floorDiv", "ab", "b", "floorQuotient($a, $b)"),
	halves("leakyRelu", "ab", "b", "select16(f($a) > 0, $a, to(f($a)*f($b)))"),
)

// halves returns the loops of an expression of 16-bit floats, one loop for each dtype. operands has a letter for each
// operand, and scalars the letters of the operands that may be single numbers. value is the expression. In value, f($a)
// converts operand a to float32, round(x) rounds an intermediate result to the dtype, to(x) converts the result to the
// dtype, exact(x) converts a result that needs no rounding, and floorQuotient is a quotient rounded down.
func halves(name, operands, scalars, value string) []loop {
	var list []loop
	for _, h := range halfTypes {
		v := strings.NewReplacer("f($", "tensor."+h+".Float32($", "round(", "as"+h+"(", "to(", "tensor."+h+"Of(",
			"exact(", "exact"+h+"(", "floorQuotient(", "floorRatio"+h+"(").Replace(value)
		list = append(list, loop{Name: name + h, Elem: "tensor." + h, Operands: operands, Numbers: scalars, Value: v})
	}
	return list
}
