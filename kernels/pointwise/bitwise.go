package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Bitwise ops serve integers, and bools as logical ops do.
var (
	BitwiseAnd = bitwise("bitwise_and", "Ands the bits of self and other. Serves integers and bools.",
		join(signed2(bitAndSlice, bitAndSlice, bitAndSlice, bitAndSlice), unsigned2(bitAndSlice, bitAndSlice, bitAndSlice, bitAndSlice)),
		func(a, b int64) int64 { return a & b })
	BitwiseOr = bitwise("bitwise_or", "Ors the bits of self and other. Serves integers and bools.",
		join(signed2(bitOrSlice, bitOrSlice, bitOrSlice, bitOrSlice), unsigned2(bitOrSlice, bitOrSlice, bitOrSlice, bitOrSlice)),
		func(a, b int64) int64 { return a | b })
	BitwiseXor = bitwise("bitwise_xor", "Gives the bits that differ between self and other. Serves integers and bools.",
		join(signed2(bitXorSlice, bitXorSlice, bitXorSlice, bitXorSlice), unsigned2(bitXorSlice, bitXorSlice, bitXorSlice, bitXorSlice)),
		func(a, b int64) int64 { return a ^ b })
)

func bitwise(name, doc string, t bodies, f func(a, b int64) int64) *graph.Op {
	return elementwise[kit.None](name, doc, numbers2, &graph.Pointwise{Config: binary, Body: fixed(name, boolAsByte(t))},
		kit.Always(kit.ByKind(func(x []int64) int64 { return f(x[0], x[1]) }, nil, nil)),
		kit.ExIntegers, kit.Example(nil, kit.ExBools, kit.ExBools))
}

// BitwiseNot flips all bits.
var BitwiseNot = elementwise[kit.None]("bitwise_not", "Flips the bits of self; of bools it is the logical not.", unary1,
	&graph.Pointwise{Config: unary, Body: fixed("bitwise_not", join(bool1(boolNotSlice),
		signed1(bitNotSlice, bitNotSlice, bitNotSlice, bitNotSlice), unsigned1(bitNotSlice, bitNotSlice, bitNotSlice, bitNotSlice)))},
	kit.Always(func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if d == tensor.Bool {
			return tensor.BoolScalar(x[0].Int() == 0)
		}
		return tensor.IntScalar(^x[0].Int())
	}),
	kit.Example(nil, kit.ExInts), kit.Example(nil, kit.ExBools))

// Shifts by less than 0 or by the width of the dtype and more are those of PyTorch from
// version 2 on; before, the processor decided.
var (
	LeftShift = shift("bitwise_left_shift", "lshift_cpu", "Shifts the bits of self left by other. A shift below 0 or past the width gives 0.",
		join(signed2(leftSlice, leftSlice, leftSlice, leftSlice), unsigned2(leftSlice, leftSlice, leftSlice, leftSlice)),
		func(a, b int64) int64 {
			if b < 0 {
				return 0
			}
			return a << b
		})
	RightShift = shift("bitwise_right_shift", "rshift_cpu", "Shifts the bits of self right by other and keeps the sign. A shift below 0 or past the width leaves the sign only.",
		join(signed2(rightSlice, rightSlice, rightSlice, rightSlice), unsigned2(rightSlice, rightSlice, rightSlice, rightSlice)),
		func(a, b int64) int64 {
			if b < 0 {
				b = 64
			}
			return a >> b
		})
)

func shift(name, label, doc string, t bodies, f func(a, b int64) int64) *graph.Op {
	return elementwise[kit.None](name, doc, numbers2, &graph.Pointwise{Config: binary, Body: labelled(label, t)},
		kit.Always(kit.ByKind(func(x []int64) int64 { return f(x[0], x[1]) }, nil, nil)), kit.ExIntegers)
}

func bitAndSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}

func bitOrSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] | b[i]
	}
}

func bitXorSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}

func bitNotSlice[T integer](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = ^a[i]
	}
}

func boolNotSlice(dst, a []bool) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = !a[i]
	}
}

// A negative count becomes a large unsigned one, and Go shifts all bits out.

func leftSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] << uint64(b[i])
	}
}

func rightSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >> uint64(b[i])
	}
}
