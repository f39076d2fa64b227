package main

import (
	"slices"
	"strings"
)

var halfTypes = []string{"Half", "BF16"}

// Each step is rounded, as PyTorch has it: in registers, while block by block a rounding is a loop.
var halfLoops = slices.Concat(
	halves("add", "ab", "b", "to(f($a) + f($b))"), halves("sub", "ab", "b", "to(f($a) - f($b))"),
	halves("mul", "ab", "b", "to(f($a) * f($b))"), halves("div", "ab", "b", "to(f($a) / f($b))"),
	halves("divTrunc", "ab", "b", "exact(trunc32(round(f($a) / f($b))))"),
	halves("mulRintDiv", "abc", "bc", "to(rint32(round(f($a)*f($b))) / f($c))"),
	halves("divRintMul", "abc", "bc", "to(rint32(round(f($a)/f($b))) * f($c))"),
	halves("floorDiv", "ab", "b", "lower($a, $b)"),
	halves("leakyRelu", "ab", "b", "select16(f($a) > 0, $a, to(f($a)*f($b)))"),
)

// halves are the loops of an operation on floats of 16 bits, which are computed in float32: in its value f($a) is that
// of an operand, round rounds as PyTorch does after each step, and to makes the result, or exact of what needs no
// rounding; lower is a quotient that is rounded down.
func halves(name, operands, numbers, value string) []loop {
	var list []loop
	for _, h := range halfTypes {
		v := strings.NewReplacer("f($", "tensor."+h+".Float32($", "round(", "as"+h+"(", "to(", "tensor."+h+"Of(",
			"exact(", "exact"+h+"(", "lower(", "floorRatio"+h+"(").Replace(value)
		list = append(list, loop{Name: name + h, Elem: "tensor." + h, Operands: operands, Numbers: numbers, Value: v})
	}
	return list
}
