package onnx

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// This file tests operators on uint64 and int64 at the limits of the dtypes against big.Int. Results wrap.

func bigInt(text string) *big.Int {
	x, ok := new(big.Int).SetString(text, 0)
	if !ok {
		panic(text)
	}
	return x
}

// extremeIntegers are the numbers of the tests by dtype.
var extremeIntegers = map[tensor.DType][]*big.Int{
	tensor.Uint64: {big.NewInt(0), big.NewInt(1), big.NewInt(3), bigInt("0x7fffffffffffffff"),
		bigInt("0x8000000000000000"), bigInt("0x8000000000000001"), bigInt("0xffffffffffffffff")},
	tensor.Int64: {big.NewInt(0), big.NewInt(1), big.NewInt(3), big.NewInt(-1), big.NewInt(-3), big.NewInt(math.MaxInt64),
		big.NewInt(math.MinInt64), big.NewInt(math.MinInt64 + 1)},
}

// integers returns a tensor of integers of any dtype that fit into uint64 or int64.
func integers(dtype tensor.DType, shape []int, list ...*big.Int) *tensor.Tensor {
	bits := make([]uint64, len(list))
	for i, x := range list {
		bits[i] = x.Uint64()
		if x.Sign() < 0 {
			bits[i] = uint64(x.Int64())
		}
	}
	x := tensor.Must(tensor.FromSlice(bits, shape...))
	if dtype == tensor.Int64 {
		return tensor.Must(x.View(tensor.New(tensor.Int64, shape...)))
	}
	return x.CopyTo(tensor.New(dtype, shape...)) // keeps the low bits
}

// integersOf returns the elements of a tensor of integers or bools.
func integersOf(t *testing.T, x *tensor.Tensor) []*big.Int {
	t.Helper()
	list := make([]*big.Int, 0, x.Numel())
	if x.DType == tensor.Uint64 {
		words, err := tensor.ToSlice[uint64](x)
		require.NoError(t, err)
		for _, word := range words {
			list = append(list, new(big.Int).SetUint64(word))
		}
		return list
	}
	words, err := tensor.ToSlice[int64](x.CopyTo(tensor.New(tensor.Int64, x.Shape...)))
	require.NoError(t, err)
	for _, word := range words {
		list = append(list, big.NewInt(word))
	}
	return list
}

// wrapped returns x modulo 2^64 in the range of the dtype.
func wrapped(dtype tensor.DType, x *big.Int) *big.Int {
	if dtype == tensor.Bool {
		return x
	}
	bits := uint(8 * dtype.Size())
	modulus := new(big.Int).Lsh(big.NewInt(1), bits)
	y := new(big.Int).Mod(x, modulus)
	if dtype.IsSigned() && y.Bit(int(bits)-1) == 1 {
		y.Sub(y, modulus)
	}
	return y
}

// runIntegers runs an operator with its operands as inputs and as constants, and compares result 0. A nil number in
// want is not compared.
func runIntegers(t *testing.T, opset int64, op string, operands []*tensor.Tensor, dtype tensor.DType, want []*big.Int,
	attrs ...*pb.AttributeProto) {
	t.Helper()
	const all = "abcdefgh"
	for i, known := range []string{all[:len(operands)], all[1:len(operands)], ""} {
		if i == 2 && (op == "CenterCropPad" || op == "Col2Im") { // their shapes must be known
			break
		}
		got := single(t, opset, op, known, operands, 1, attrs...)[0]
		require.Equal(t, dtype, got.DType, op)
		list := integersOf(t, got)
		require.Len(t, list, len(want), op)
		for i := range want {
			if want[i] != nil && want[i].Cmp(list[i]) != 0 {
				t.Errorf("%s-%d of %v, constants %q: element %d is %v, want %v", op, opset, operands[0].DType, known, i,
					list[i], want[i])
			}
		}
	}
}

func truth(is bool) *big.Int {
	if is {
		return big.NewInt(1)
	}
	return new(big.Int)
}

// power returns base to an exponent modulo 2^64. Negative exponents round towards 0.
func power(base, exponent *big.Int) *big.Int {
	modulus := new(big.Int).Lsh(big.NewInt(1), 64)
	switch {
	case exponent.Sign() >= 0:
		return new(big.Int).Exp(base, exponent, modulus)
	case base.CmpAbs(big.NewInt(1)) == 0:
		return new(big.Int).Exp(base, new(big.Int).Neg(exponent), nil)
	}
	return new(big.Int)
}

// floorMod is Python's remainder, with the sign of the divisor.
func floorMod(x, y *big.Int) *big.Int {
	remainder := new(big.Int).Rem(x, y)
	if remainder.Sign() != 0 && remainder.Sign() != y.Sign() {
		remainder.Add(remainder, y)
	}
	return remainder
}

// pointwiseCase is an operator whose operands and result have the same shape. f returns the exact result, or nil if it
// is undefined.
type pointwiseCase struct {
	op       string
	opset    int64
	operands []tensor.DType // Invalid: the tested dtype
	result   tensor.DType   // Invalid: the tested dtype
	f        func(x []*big.Int) *big.Int
	attrs    []*pb.AttributeProto
}

func quotient(x []*big.Int) *big.Int {
	if x[1].Sign() == 0 {
		return nil
	}
	return new(big.Int).Quo(x[0], x[1])
}

// shrunk is Shrink with integer parameters.
func shrunk(lambd, bias int64) func(x []*big.Int) *big.Int {
	return func(x []*big.Int) *big.Int {
		switch {
		case x[0].Cmp(big.NewInt(-lambd)) < 0:
			return new(big.Int).Add(x[0], big.NewInt(bias))
		case x[0].Cmp(big.NewInt(lambd)) > 0:
			return new(big.Int).Sub(x[0], big.NewInt(bias))
		}
		return new(big.Int)
	}
}

func extreme(sign int) func(x []*big.Int) *big.Int {
	return func(x []*big.Int) *big.Int {
		return slices.MaxFunc(x, func(a, b *big.Int) int { return sign * a.Cmp(b) })
	}
}

func bigOf(f func(z, x, y *big.Int) *big.Int) func(x []*big.Int) *big.Int {
	return func(x []*big.Int) *big.Int { return f(new(big.Int), x[0], x[1]) }
}

func compared(holds func(sign int) bool) func(x []*big.Int) *big.Int {
	return func(x []*big.Int) *big.Int { return truth(holds(x[0].Cmp(x[1]))) }
}

func pointwiseCases(dtype tensor.DType) []pointwiseCase {
	same, twice := []tensor.DType{0}, []tensor.DType{0, 0}
	thrice := []tensor.DType{0, 0, 0}
	floored := func(x []*big.Int) *big.Int {
		if x[1].Sign() == 0 {
			return nil
		}
		return floorMod(x[0], x[1])
	}
	truncated := func(x []*big.Int) *big.Int {
		if x[1].Sign() == 0 {
			return nil
		}
		return new(big.Int).Rem(x[0], x[1])
	}
	first := func(x []*big.Int) *big.Int { return x[0] }
	list := []pointwiseCase{
		{"Abs", 13, same, 0, func(x []*big.Int) *big.Int { return new(big.Int).Abs(x[0]) }, nil},
		{"Sign", 13, same, 0, func(x []*big.Int) *big.Int { return big.NewInt(int64(x[0].Sign())) }, nil},
		{"BitwiseNot", 18, same, 0, func(x []*big.Int) *big.Int { return new(big.Int).Not(x[0]) }, nil},
		{"Identity", 13, same, 0, first, nil},
		{"Add", 14, twice, 0, bigOf((*big.Int).Add), nil},
		{"Sub", 14, twice, 0, bigOf((*big.Int).Sub), nil},
		{"Mul", 14, twice, 0, bigOf((*big.Int).Mul), nil},
		{"Div", 14, twice, 0, quotient, nil},
		{"Mod", 13, twice, 0, floored, nil},
		{"Mod", 13, twice, 0, truncated, []*pb.AttributeProto{attrInt("fmod", 1)}},
		{"Max", 13, same, 0, first, nil},
		{"Max", 13, thrice, 0, extreme(1), nil},
		{"Min", 13, thrice, 0, extreme(-1), nil},
		{"BitwiseAnd", 18, twice, 0, bigOf((*big.Int).And), nil},
		{"BitwiseOr", 18, twice, 0, bigOf((*big.Int).Or), nil},
		{"BitwiseXor", 18, twice, 0, bigOf((*big.Int).Xor), nil},
		{"Equal", 13, twice, tensor.Bool, compared(func(sign int) bool { return sign == 0 }), nil},
		{"Less", 13, twice, tensor.Bool, compared(func(sign int) bool { return sign < 0 }), nil},
		{"LessOrEqual", 16, twice, tensor.Bool, compared(func(sign int) bool { return sign <= 0 }), nil},
		{"Greater", 13, twice, tensor.Bool, compared(func(sign int) bool { return sign > 0 }), nil},
		{"GreaterOrEqual", 16, twice, tensor.Bool, compared(func(sign int) bool { return sign >= 0 }), nil},
		{"Pow", 15, twice, 0, func(x []*big.Int) *big.Int { return power(x[0], x[1]) }, nil},
		{"Pow", 15, []tensor.DType{0, tensor.Uint64}, 0, func(x []*big.Int) *big.Int { return power(x[0], x[1]) }, nil},
		{"Where", 16, []tensor.DType{tensor.Bool, 0, 0}, 0, func(x []*big.Int) *big.Int { return x[2-x[0].Int64()] }, nil},
		{"PRelu", 16, twice, 0, func(x []*big.Int) *big.Int {
			if x[0].Sign() >= 0 {
				return x[0]
			}
			return new(big.Int).Mul(x[0], x[1])
		}, nil},
		{"Shrink", 9, same, 0, shrunk(0, 0), []*pb.AttributeProto{attrFloat("lambd", 0)}},
		{"Shrink", 9, same, 0, shrunk(2, 1), []*pb.AttributeProto{attrFloat("lambd", 2.5), attrFloat("bias", 1)}},
		{"Shrink", 9, same, 0, shrunk(-2, 5), []*pb.AttributeProto{attrFloat("lambd", -2), attrFloat("bias", 5)}},
		{"CastLike", 15, []tensor.DType{tensor.Int64, 0}, 0, first, nil},
		{"CastLike", 15, []tensor.DType{tensor.Uint64, 0}, 0, first, nil},
	}
	for _, to := range []tensor.DType{tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
		tensor.Uint16, tensor.Uint32, tensor.Uint64} {
		cast := first
		if to == tensor.Bool {
			cast = func(x []*big.Int) *big.Int { return truth(x[0].Sign() != 0) }
		}
		list = append(list, pointwiseCase{"Cast", 13, same, to, cast, []*pb.AttributeProto{attrInt("to", codeOf(to))}})
	}
	if dtype.IsSigned() {
		return append(list,
			pointwiseCase{"Neg", 13, same, 0, func(x []*big.Int) *big.Int { return new(big.Int).Neg(x[0]) }, nil},
			pointwiseCase{"Relu", 14, same, 0, func(x []*big.Int) *big.Int {
				return extreme(1)(append(x, new(big.Int)))
			}, nil})
	}
	shifted := func(shift func(z, x *big.Int, n uint) *big.Int) func(x []*big.Int) *big.Int {
		return func(x []*big.Int) *big.Int { return shift(new(big.Int), x[0], uint(min(x[1].Uint64(), 64))) }
	}
	return append(list,
		pointwiseCase{"BitShift", 11, twice, 0, shifted((*big.Int).Lsh),
			[]*pb.AttributeProto{attrText("direction", "LEFT")}},
		pointwiseCase{"BitShift", 11, twice, 0, shifted((*big.Int).Rsh),
			[]*pb.AttributeProto{attrText("direction", "RIGHT")}})
}

func codeOf(dtype tensor.DType) int64 {
	for code := int32(1); code <= int32(pb.BFloat16); code++ {
		if d, err := modelfile.DTypeOf(code); err == nil && d == dtype {
			return int64(code)
		}
	}
	panic(dtype)
}

// TestIntegerPointwise applies pointwise operators to all combinations of extreme numbers for which the result is
// defined.
func TestIntegerPointwise(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Uint64, tensor.Int64} {
		for _, c := range pointwiseCases(dtype) {
			combinations := [][]*big.Int{{}}
			for _, operand := range c.operands {
				numbers := extremeIntegers[operand]
				switch operand {
				case tensor.Invalid:
					numbers = extremeIntegers[dtype]
				case tensor.Bool:
					numbers = []*big.Int{big.NewInt(0), big.NewInt(1)}
				}
				var longer [][]*big.Int
				for _, combination := range combinations {
					for _, number := range numbers {
						longer = append(longer, append(slices.Clone(combination), number))
					}
				}
				combinations = longer
			}
			result := c.result
			if result == tensor.Invalid {
				result = dtype
			}
			columns := make([][]*big.Int, len(c.operands))
			var want []*big.Int
			for _, combination := range combinations {
				exact := c.f(combination)
				if exact == nil {
					continue
				}
				want = append(want, wrapped(result, exact))
				for i, number := range combination {
					columns[i] = append(columns[i], number)
				}
			}
			operands := make([]*tensor.Tensor, len(columns))
			for i, column := range columns {
				operands[i] = integers(cmp.Or(c.operands[i], dtype), []int{len(column)}, column...)
			}
			runIntegers(t, c.opset, c.op, operands, result, want, c.attrs...)
		}
	}
}

// TestIntegerRows applies operators that combine, order or select elements.
func TestIntegerRows(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Uint64, tensor.Int64} {
		numbers := extremeIntegers[dtype]
		count := len(numbers)
		row := integers(dtype, []int{count}, numbers...)
		axis := i64([]int{1}, 0)
		fold := func(f func(sum, x *big.Int) *big.Int) *big.Int {
			total := numbers[0]
			for _, number := range numbers[1:] {
				total = f(total, number)
			}
			return total
		}
		add := func(x, y *big.Int) *big.Int { return new(big.Int).Add(x, y) }
		multiply := func(x, y *big.Int) *big.Int { return new(big.Int).Mul(x, y) }
		absolute, squares := make([]*big.Int, count), make([]*big.Int, count)
		for i, x := range numbers {
			absolute[i], squares[i] = new(big.Int).Abs(x), multiply(x, x)
		}
		sumOf := func(list []*big.Int) *big.Int {
			total := new(big.Int)
			for _, x := range list {
				total.Add(total, x)
			}
			return total
		}
		wrap := func(list ...*big.Int) []*big.Int {
			wrappedList := make([]*big.Int, len(list))
			for i, x := range list {
				wrappedList[i] = wrapped(dtype, x)
			}
			return wrappedList
		}
		greatest, least := extreme(1)(numbers), extreme(-1)(numbers)

		// Reductions.
		reduced := map[string]*big.Int{"Max": greatest, "Min": least, "Sum": sumOf(numbers), "Prod": fold(multiply),
			"L1": sumOf(absolute), "SumSquare": sumOf(squares),
			"Mean": new(big.Int).Quo(sumOf(numbers), big.NewInt(int64(count)))}
		for name, want := range reduced {
			runIntegers(t, 18, "Reduce"+name, []*tensor.Tensor{row, axis}, dtype, wrap(want))
			matrix := integers(dtype, []int{count, 1}, numbers...)
			each := numbers
			switch name {
			case "L1":
				each = absolute
			case "SumSquare":
				each = squares
			}
			runIntegers(t, 18, "Reduce"+name, []*tensor.Tensor{matrix, i64([]int{1}, 1)}, dtype, wrap(each...))
		}
		runIntegers(t, 13, "ArgMax", []*tensor.Tensor{row}, tensor.Int64,
			[]*big.Int{big.NewInt(int64(slices.Index(numbers, greatest)))})
		runIntegers(t, 13, "ArgMin", []*tensor.Tensor{row}, tensor.Int64,
			[]*big.Int{big.NewInt(int64(slices.Index(numbers, least)))})
		var sums, products []*big.Int
		total, product := new(big.Int), big.NewInt(1)
		for _, x := range numbers {
			total, product = add(total, x), multiply(product, x)
			sums, products = append(sums, wrapped(dtype, total)), append(products, wrapped(dtype, product))
		}
		runIntegers(t, 14, "CumSum", []*tensor.Tensor{row, i64(nil, 0)}, dtype, sums)
		runIntegers(t, 26, "CumProd", []*tensor.Tensor{row, i64(nil, 0)}, dtype, products)

		for _, low := range numbers {
			for _, high := range numbers {
				var want []*big.Int
				for _, x := range numbers {
					want = append(want, extreme(-1)([]*big.Int{extreme(1)([]*big.Int{x, low}), high}))
				}
				bounds := []*tensor.Tensor{row, integers(dtype, nil, low), integers(dtype, nil, high)}
				runIntegers(t, 13, "Clip", bounds, dtype, want)
			}
		}

		// Orders.
		ascending := slices.SortedFunc(slices.Values(numbers), (*big.Int).Cmp)
		descending := slices.Clone(ascending)
		slices.Reverse(descending)
		k := i64([]int{1}, int64(count))
		runIntegers(t, 11, "TopK", []*tensor.Tensor{row, k}, dtype, descending)
		runIntegers(t, 11, "TopK", []*tensor.Tensor{row, k}, dtype, ascending, attrInt("largest", 0))
		twice := integers(dtype, []int{2 * count}, slices.Concat(numbers, numbers)...)
		runIntegers(t, 11, "Unique", []*tensor.Tensor{twice}, dtype, ascending)
		runIntegers(t, 11, "Unique", []*tensor.Tensor{twice}, dtype, numbers, attrInt("sorted", 0))
		var positions []*big.Int
		for i, x := range numbers {
			if x.Sign() != 0 {
				positions = append(positions, big.NewInt(int64(i)))
			}
		}
		runIntegers(t, 13, "NonZero", []*tensor.Tensor{row}, tensor.Int64, positions)

		// Products.
		square := integers(dtype, []int{count, count}, slices.Concat(slices.Repeat([][]*big.Int{numbers}, count)...)...)
		column := integers(dtype, []int{count, 1}, numbers...)
		rowMatrix := integers(dtype, []int{1, count}, numbers...)
		var outer []*big.Int
		for _, x := range numbers {
			for _, y := range numbers {
				outer = append(outer, wrapped(dtype, multiply(x, y)))
			}
		}
		runIntegers(t, 13, "MatMul", []*tensor.Tensor{column, rowMatrix}, dtype, outer)
		runIntegers(t, 13, "MatMul", []*tensor.Tensor{rowMatrix, column}, dtype, wrap(sumOf(squares)))
		runIntegers(t, 13, "Gemm", []*tensor.Tensor{column, rowMatrix}, dtype, outer)
		var outerPlus []*big.Int
		for i, x := range outer {
			outerPlus = append(outerPlus, wrapped(dtype, add(x, numbers[i%count])))
		}
		runIntegers(t, 13, "Gemm", []*tensor.Tensor{column, rowMatrix, row}, dtype, outerPlus)
		runIntegers(t, 12, "Einsum", []*tensor.Tensor{row, row}, dtype, outer, attrText("equation", "i,j->ij"))
		runIntegers(t, 12, "Einsum", []*tensor.Tensor{row, row}, dtype, wrap(sumOf(squares)), attrText("equation", "i,i->"))

		// Scattering. Indices repeat, so that the reductions combine the element with two others.
		zero, three := new(big.Int), big.NewInt(3)
		updates := integers(dtype, []int{2 * count}, slices.Concat(numbers, repeatedInteger(three, count))...)
		data := integers(dtype, []int{count}, repeatedInteger(greatest, count)...)
		indices := make([]int64, 2*count)
		for i := range indices {
			indices[i] = int64(i % count)
		}
		for reduction, f := range map[string]func(old, x *big.Int) *big.Int{
			"add": func(old, x *big.Int) *big.Int { return add(add(old, x), three) },
			"mul": func(old, x *big.Int) *big.Int { return multiply(multiply(old, x), three) },
			"min": func(old, x *big.Int) *big.Int { return extreme(-1)([]*big.Int{old, x, three}) },
			"max": func(old, x *big.Int) *big.Int { return extreme(1)([]*big.Int{old, x, three}) },
		} {
			old := greatest
			if reduction == "max" {
				old = least
			}
			var want []*big.Int
			for _, x := range numbers {
				want = append(want, wrapped(dtype, f(old, x)))
			}
			data, attr := integers(dtype, []int{count}, repeatedInteger(old, count)...), attrText("reduction", reduction)
			operands := []*tensor.Tensor{data, i64([]int{2 * count}, indices...), updates}
			runIntegers(t, 18, "ScatterElements", operands, dtype, want, attr)
			operands[1] = i64([]int{2 * count, 1}, indices...)
			runIntegers(t, 18, "ScatterND", operands, dtype, want, attr)
		}

		// Selection and movement.
		reversed := slices.Clone(numbers)
		slices.Reverse(reversed)
		backward := make([]int64, count)
		for i := range backward {
			backward[i] = int64(count - 1 - i)
		}
		back, backColumn := i64([]int{count}, backward...), i64([]int{count, 1}, backward...)
		var all []bool
		for range numbers {
			all = append(all, true)
		}
		keep := tensor.Must(tensor.FromSlice(all, count))
		last := integers(dtype, []int{1}, greatest)
		lastScalar := integers(dtype, nil, greatest)
		image := integers(dtype, []int{1, 1, 1, count}, numbers...)
		images := func(n, c, h, w int) *tensor.Tensor {
			return integers(dtype, []int{n, c, h, w}, numbers[:n*c*h*w]...)
		}
		four := []*big.Int{numbers[0], numbers[1], numbers[2], numbers[3]}
		for _, c := range []struct {
			op       string
			opset    int64
			operands []*tensor.Tensor
			want     []*big.Int
			attrs    []*pb.AttributeProto
		}{
			{"Gather", 13, []*tensor.Tensor{row, back}, reversed, nil},
			{"GatherElements", 13, []*tensor.Tensor{row, back}, reversed, nil},
			{"GatherND", 13, []*tensor.Tensor{row, backColumn}, reversed, nil},
			{"ScatterElements", 18, []*tensor.Tensor{data, back, row}, reversed, nil},
			{"ScatterND", 18, []*tensor.Tensor{data, backColumn, row}, reversed, nil},
			{"Concat", 13, []*tensor.Tensor{row, row}, slices.Concat(numbers, numbers),
				[]*pb.AttributeProto{attrInt("axis", 0)}},
			{"Slice", 13, []*tensor.Tensor{row, i64([]int{1}, -1), i64([]int{1}, -100), axis, i64([]int{1}, -1)}, reversed, nil},
			{"Expand", 13, []*tensor.Tensor{row, i64([]int{2}, 2, int64(count))}, slices.Concat(numbers, numbers), nil},
			{"Tile", 13, []*tensor.Tensor{row, i64([]int{1}, 2)}, slices.Concat(numbers, numbers), nil},
			{"Transpose", 13, []*tensor.Tensor{column}, numbers, nil},
			{"Reshape", 13, []*tensor.Tensor{column, i64([]int{1}, -1)}, numbers, nil},
			{"Flatten", 13, []*tensor.Tensor{image}, numbers, nil},
			{"Squeeze", 13, []*tensor.Tensor{column, i64([]int{1}, 1)}, numbers, nil},
			{"Unsqueeze", 13, []*tensor.Tensor{row, i64([]int{1}, 1)}, numbers, nil},
			{"Split", 13, []*tensor.Tensor{row, i64([]int{1}, int64(count))}, numbers, nil},
			{"Pad", 13, []*tensor.Tensor{row, i64([]int{2}, 1, 0), lastScalar}, slices.Concat([]*big.Int{greatest}, numbers),
				nil},
			{"Pad", 13, []*tensor.Tensor{row, i64([]int{2}, 0, 1)}, slices.Concat(numbers, numbers[count-1:]),
				[]*pb.AttributeProto{attrText("mode", "edge")}},
			{"Pad", 13, []*tensor.Tensor{row, i64([]int{2}, 0, 1)}, slices.Concat(numbers, numbers[count-2:count-1]),
				[]*pb.AttributeProto{attrText("mode", "reflect")}},
			{"Compress", 11, []*tensor.Tensor{row, keep}, numbers, nil},
			{"ReverseSequence", 10, []*tensor.Tensor{column, i64([]int{1}, int64(count))}, reversed, nil},
			{"Trilu", 14, []*tensor.Tensor{square, i64(nil, -1)}, nil, nil},
			{"OneHot", 11, []*tensor.Tensor{i64([]int{1}, 1), i64(nil, 2), integers(dtype, []int{2}, least, greatest)},
				[]*big.Int{least, greatest}, nil},
			{"DepthToSpace", 13, []*tensor.Tensor{images(1, 4, 1, 1)}, four, []*pb.AttributeProto{attrInt("blocksize", 2)}},
			{"SpaceToDepth", 13, []*tensor.Tensor{images(1, 1, 2, 2)}, four, []*pb.AttributeProto{attrInt("blocksize", 2)}},
			{"CenterCropPad", 18, []*tensor.Tensor{row, i64([]int{1}, int64(count+1))},
				slices.Concat(numbers, []*big.Int{zero}), nil},
			{"Col2Im", 18, []*tensor.Tensor{integers(dtype, []int{1, 1, count}, numbers...), i64([]int{1}, int64(count)),
				i64([]int{1}, 1)}, numbers, nil},
			{"TensorScatter", 24, []*tensor.Tensor{integers(dtype, []int{1, count, 1}, repeatedInteger(greatest, count)...),
				integers(dtype, []int{1, count, 1}, numbers...)}, numbers, nil},
			{"Resize", 13, []*tensor.Tensor{image, nil, f32([]int{4}, 1, 1, 2, 1)}, slices.Concat(numbers, numbers), nil},
			{"Upsample", 9, []*tensor.Tensor{image, f32([]int{4}, 1, 1, 2, 1)}, slices.Concat(numbers, numbers), nil},
			{"Mod", 13, []*tensor.Tensor{row, last}, nil, nil},
		} {
			want := c.want
			switch c.op {
			case "Trilu":
				for i := range count {
					for j := range count {
						if j >= i-1 {
							want = append(want, numbers[j])
						} else {
							want = append(want, zero)
						}
					}
				}
			case "Mod":
				for _, x := range numbers {
					want = append(want, floorMod(x, greatest))
				}
			}
			runIntegers(t, c.opset, c.op, c.operands, dtype, want, c.attrs...)
		}
	}
}

func repeatedInteger(x *big.Int, count int) []*big.Int { return slices.Repeat([]*big.Int{x}, count) }

// TestIntegerSpecials tests operators whose results have other dtypes, or do not follow from one element.
func TestIntegerSpecials(t *testing.T) {
	limits := func(dtype tensor.DType) []*big.Int {
		if dtype.IsSigned() {
			return []*big.Int{big.NewInt(math.MinInt64), big.NewInt(-1), new(big.Int), big.NewInt(1), big.NewInt(math.MaxInt64)}
		}
		return []*big.Int{new(big.Int), big.NewInt(1), big.NewInt(math.MaxInt64), bigInt("0x8000000000000000"),
			bigInt("0xffffffffffffffff")}
	}
	for _, dtype := range []tensor.DType{tensor.Uint64, tensor.Int64} {
		row := integers(dtype, []int{5}, limits(dtype)...)
		// To floats: the nearest number. The numbers have no ties, so that rounding twice gives the same.
		for _, float := range []struct {
			dtype tensor.DType
			bits  uint
		}{{tensor.Float64, 53}, {tensor.Float32, 24}, {tensor.BFloat16, 8}} {
			for _, known := range []string{"", "a"} {
				got := single(t, 13, "Cast", known, []*tensor.Tensor{row}, 1, attrInt("to", codeOf(float.dtype)))[0]
				for i, x := range limits(dtype) {
					want, _ := new(big.Float).SetPrec(float.bits).SetInt(x).Float64()
					require.Equal(t, want, got.At(i).Float(), "%v to %v", x, float.dtype)
				}
			}
		}
		// From float64.
		exact := []float64{0, 1, 1 << 53, 1 << 62}
		want := []*big.Int{big.NewInt(0), big.NewInt(1), big.NewInt(1 << 53), big.NewInt(1 << 62)}
		if dtype.IsSigned() {
			exact, want = append(exact, -1<<63), append(want, big.NewInt(math.MinInt64))
		} else {
			exact, want = append(exact, 1<<63, 1<<64-2048), append(want, bigInt("0x8000000000000000"),
				bigInt("0xfffffffffffff800"))
		}
		runIntegers(t, 13, "Cast", []*tensor.Tensor{tensor.Must(tensor.FromSlice(exact, len(exact)))}, dtype, want,
			attrInt("to", codeOf(dtype)))
		// Rounded towards 0: the square root of the sum of squares, and logarithms.
		for _, x := range limits(dtype) {
			if x.Sign() <= 0 {
				continue
			}
			one := integers(dtype, []int{1}, x)
			logarithm, _ := new(big.Float).SetInt(x).Float64()
			runIntegers(t, 18, "ReduceLogSum", []*tensor.Tensor{one}, dtype, []*big.Int{big.NewInt(int64(math.Log(logarithm)))})
		}
		pair := integers(dtype, []int{2}, big.NewInt(3<<40), big.NewInt(4<<40))
		runIntegers(t, 18, "ReduceL2", []*tensor.Tensor{pair}, dtype, []*big.Int{big.NewInt(5 << 40)})
		pair = integers(dtype, []int{2}, big.NewInt(math.MaxInt64), big.NewInt(math.MaxInt64))
		runIntegers(t, 18, "ReduceLogSum", []*tensor.Tensor{pair}, dtype, []*big.Int{big.NewInt(44)}) // log(2^64 - 2)
		// Created values.
		for _, x := range limits(dtype) {
			filled := attrTensor("value", protoOf(t, "", integers(dtype, []int{1}, x)))
			runIntegers(t, 9, "ConstantOfShape", []*tensor.Tensor{i64([]int{1}, 2)}, dtype, []*big.Int{x, x}, filled)
		}
		runIntegers(t, 9, "EyeLike", []*tensor.Tensor{integers(dtype, []int{1, 2}, limits(dtype)[3:]...)}, dtype,
			[]*big.Int{big.NewInt(1), big.NewInt(0)})
	}
	start, end, step := i64(nil, math.MaxInt64-3), i64(nil, math.MaxInt64), i64(nil, 2)
	runIntegers(t, 11, "Range", []*tensor.Tensor{start, end, step}, tensor.Int64, []*big.Int{big.NewInt(math.MaxInt64 - 3),
		big.NewInt(math.MaxInt64 - 1)})
	start, end, step = i64(nil, math.MinInt64+3), i64(nil, math.MinInt64), i64(nil, -2)
	runIntegers(t, 11, "Range", []*tensor.Tensor{start, end, step}, tensor.Int64, []*big.Int{big.NewInt(math.MinInt64 + 3),
		big.NewInt(math.MinInt64 + 1)})
}
