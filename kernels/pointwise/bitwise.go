package pointwise

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Bitwise ops support integers, and bools as logical ops do.
var (
	BitwiseAnd = bitwise("bitwise_and", "Ands the bits of self and other. Supports integers and bools.",
		join(signed2(bitAndSlice, bitAndSlice, bitAndSlice, bitAndSlice),
			unsigned2(bitAndSlice, bitAndSlice, bitAndSlice, bitAndSlice)),
		func(a, b int64) int64 { return a & b })
	BitwiseOr = bitwise("bitwise_or", "Ors the bits of self and other. Supports integers and bools.",
		join(signed2(bitOrSlice, bitOrSlice, bitOrSlice, bitOrSlice),
			unsigned2(bitOrSlice, bitOrSlice, bitOrSlice, bitOrSlice)),
		func(a, b int64) int64 { return a | b })
	BitwiseXor = bitwise("bitwise_xor", "Gives the bits that differ between self and other. Supports integers and bools.",
		join(signed2(bitXorSlice, bitXorSlice, bitXorSlice, bitXorSlice),
			unsigned2(bitXorSlice, bitXorSlice, bitXorSlice, bitXorSlice)),
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
		signed1(bitNotSlice, bitNotSlice, bitNotSlice, bitNotSlice),
		unsigned1(bitNotSlice, bitNotSlice, bitNotSlice, bitNotSlice)))},
	kit.Always(func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if d == tensor.Bool {
			return tensor.BoolScalar(x[0].Int() == 0)
		}
		return tensor.IntScalar(^x[0].Int())
	}),
	kit.Example(nil, kit.ExInts), kit.Example(nil, kit.ExBools))

// A shift takes the lowest 5 bits of the count, of int64 6 bits, as PyTorch 1.13 has it from the
// processor: the narrow dtypes are shifted as 32-bit numbers, whose lowest bits are kept.
var (
	LeftShift = shift("bitwise_left_shift", "lshift_cpu", "Shifts the bits of self left by other, of which the lowest 5 "+
		"bits count, 6 of int64.",
		join(signed2(leftSlice, leftSlice, leftSlice, leftSlice), unsigned2(leftSlice, leftSlice, leftSlice, leftSlice)),
		func(a, b int64) int64 { return a << b })
	RightShift = shift("bitwise_right_shift", "rshift_cpu", "Shifts the bits of self right by other, of which the "+
		"lowest 5 bits count, 6 of int64, and keeps the sign.",
		join(signed2(rightSlice, rightSlice, rightSlice, rightSlice),
			unsigned2(rightSlice, rightSlice, rightSlice, rightSlice)),
		func(a, b int64) int64 { return a >> b })
)

func shift(name, label, doc string, t bodies, f func(a, b int64) int64) *graph.Op {
	return elementwise[kit.None](name, doc, numbers2, &graph.Pointwise{Config: binary, Body: labelled(label, t)},
		kit.Always(func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
			return tensor.IntScalar(f(x[0].Int(), x[1].Int()&int64(max(32, 8*d.Size())-1)))
		}), kit.ExIntegers)
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

// shiftMask keeps the bits of a count that a shift takes.
func shiftMask[T integer]() uint64 { return uint64(max(32, 8*unsafe.Sizeof(T(0))) - 1) }

func leftSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	mask := shiftMask[T]()
	for i := range dst {
		dst[i] = a[i] << (uint64(b[i]) & mask)
	}
}

func rightSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	mask := shiftMask[T]()
	for i := range dst {
		dst[i] = a[i] >> (uint64(b[i]) & mask)
	}
}
