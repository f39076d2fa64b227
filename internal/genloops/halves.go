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
	halves("floorDiv", "ab", "b", "floorDivOf($a, $b)"),
	halves("leakyRelu", "ab", "b", "select16(f($a) > 0, $a, to(f($a)*f($b)))"),
)

// halves are the loops of an operation on floats of 16 bits, which are computed in float32: in its value f($a) is that
// of an operand, round rounds as PyTorch does after each step, and to makes the
// result, or exact of what needs no rounding.
func halves(name, operands, numbers, value string) []loop {
	var list []loop
	for _, h := range halfTypes {
		v := strings.NewReplacer("f($", "tensor."+h+".Float32($", "round(", "as"+h+"(", "to(", "tensor."+h+"Of(",
			"exact(", "exact"+h+"(", "floorDivOf(", "floorDivOf"+h+"(").Replace(value)
		list = append(list, loop{Name: name + h, Elem: "tensor." + h, Operands: operands, Numbers: numbers, Value: v})
	}
	return list
}

const halfText = `{{define "halves"}}{{range .Halves}}
// floorDivOf{{.}} is floorDiv, of which each step is rounded. All cases are at hand before one is chosen, without a
// branch: they come at random. Where the quotient is small its product with the divisor fits the bits of a float32.
func floorDivOf{{.}}(a, b tensor.{{.}}) tensor.{{.}} {
	x, y := a.Float32(), b.Float32()
	ratio := x / y
	if y == 0 {
		return tensor.{{.}}Of(ratio)
	}
	m := x - trunc32(ratio)*y
	signs := math.Float32bits(x) ^ math.Float32bits(m)
	if math.Float32bits(ratio)&^signBit32 >= most16 || m != m || int32(signs) < 0 && m != 0 {
		m = mod32(x, y)
	}
	q := as{{.}}(as{{.}}(x-m) / y)
	r, low := math.Float32bits(q), math.Float32bits(as{{.}}(q-1))
	if m == 0 {
		low = r
	}
	if int32(math.Float32bits(y)^math.Float32bits(m)) < 0 {
		r = low
	}
	q = math.Float32frombits(r)
	f := trunc32(q)
	if r, low = math.Float32bits(f), math.Float32bits(f-1); f > q {
		r = low
	}
	f = math.Float32frombits(r)
	r, more, zero := math.Float32bits(f), math.Float32bits(f+1), math.Float32bits(ratio)&signBit32
	if q-f > aboveHalf{{.}} {
		r = more
	}
	if q == 0 {
		r = zero
	}
	return exact{{.}}(math.Float32frombits(r))
}
{{end}}
{{end}}`
