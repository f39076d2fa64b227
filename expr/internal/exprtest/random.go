package exprtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/tensor"
)

// AllDTypes lists all dtypes.
var AllDTypes = []tensor.DType{tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
	tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64,
	tensor.Complex64, tensor.Complex128}

// RandomCode makes a code of up to 12 operations on operands of random dtypes. Each operation reads values that the
// code already has, and the first output is the last operation. For example:
//
//	v0 = load x0 (float32)   v1 = load x1 (int8)
//	v2 = convert v1 to float32
//	v3 = v0 * v2
//	y0 = v3
func RandomCode(t testing.TB, rng *rand.Rand) *expr.Code {
	in := make([]tensor.DType, 1+rng.IntN(3))
	for i := range in {
		in[i] = AllDTypes[rng.IntN(len(AllDTypes))]
	}
	builder := expr.NewBuilder(in...)
	var values []expr.Value
	for k, dtype := range in {
		values = append(values, builder.Load(k))
		if dtype.IsComplex() {
			values = append(values, builder.LoadImag(k))
		}
	}
	operand := func() expr.Value { return values[rng.IntN(len(values))] }
	for range 1 + rng.IntN(12) {
		values = append(values, RandomInst(builder, rng, operand))
	}
	var outputs []expr.Output
	for k := range 1 + rng.IntN(3) {
		re := operand()
		if k == 0 {
			re = values[len(values)-1]
		}
		outputs = append(outputs, randomOutput(builder, rng, re, operand))
	}
	code, err := builder.Build(outputs...)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// randomOutput returns an output with the real part re. Some outputs of floats are complex.
func randomOutput(builder *expr.Builder, rng *rand.Rand, re expr.Value, operand func() expr.Value) expr.Output {
	if dtype := builder.DType(re); dtype == tensor.Float32 || dtype == tensor.Float64 {
		if im := operand(); rng.IntN(3) == 0 && builder.DType(im) == dtype {
			return expr.Output{DType: dtype.ToComplex(), Re: re, Im: im}
		}
	}
	return builder.Real(re)
}

// RandomInst adds a random valid operation to a builder. operand returns a random value of the builder. Operands after
// the first are converted to the dtype of the first. If the chosen operation is not valid for this dtype, RandomInst
// chooses again, with other operands.
func RandomInst(builder *expr.Builder, rng *rand.Rand, operand func() expr.Value) expr.Value {
	for {
		first := operand()
		dtype := builder.DType(first)
		if dtype.IsReducedFloat() || rng.IntN(6) == 0 { // 16-bit floats have no arithmetic
			first = builder.Convert(convertedDTypes[rng.IntN(len(convertedDTypes))], first)
			if dtype = builder.DType(first); dtype.IsReducedFloat() {
				return first
			}
		}
		arg := func() expr.Value {
			if rng.IntN(3) == 0 {
				return randomConst(builder, rng, dtype)
			}
			return builder.Convert(dtype, operand())
		}
		op := expr.Op(1 + rng.IntN(int(expr.Scan))) // 0 is invalid, and Scan is the last op
		switch op {
		case expr.Const, expr.Load, expr.Convert, expr.Reduce, expr.Position, expr.Scan: // not operations on values
			return randomConst(builder, rng, dtype)
		case expr.Bits:
			sameSize := dtypesBySize[dtype.Size()]
			return builder.Bits(sameSize[rng.IntN(len(sameSize))], first)
		case expr.Select:
			return builder.Emit(expr.Select, builder.Convert(tensor.Bool, operand()), first, arg())
		case expr.Lookup:
			if dtype != tensor.Float32 {
				continue
			}
			return builder.AddInst(expr.Inst{Op: expr.Lookup, DType: dtype, A: first, B: expr.None, C: expr.None,
				Imm: uint64(rng.IntN(len(elementary.Tables)))})
		case expr.Call:
			if !dtype.IsFloat() {
				continue
			}
			function := testFuncs[rng.IntN(len(testFuncs))]
			return builder.Call(function, dtype, []expr.Value{first, arg(), arg()}[:function.ArgCount]...)
		}
		// IsValidOp assumes that the result has the dtype of the operands. The result of a comparison is a bool instead.
		isComparison := op == expr.Eq || op == expr.Ne || op == expr.Lt || op == expr.Le
		if !isComparison && !IsValidOp(op, dtype) {
			continue
		}
		args := []expr.Value{first, arg(), arg()}[:op.ArgCount()]
		if rng.IntN(2) == 0 && len(args) > 1 {
			args[0], args[1] = args[1], args[0]
		}
		return builder.Emit(op, args...)
	}
}

// testFuncs are the functions that random codes call.
var testFuncs = []*expr.Func{
	{Name: "test.lgamma", ArgCount: 1, F: func(a, _, _ float64) float64 { v, _ := math.Lgamma(a); return v }},
	{Name: "test.mix", ArgCount: 3, F: func(a, b, c float64) float64 { return float64(a*b) - c }},
}

// convertedDTypes are the dtypes to which [RandomInst] converts values.
var convertedDTypes = [...]tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Uint8, tensor.Float16,
	tensor.BFloat16, tensor.Bool, tensor.Int64, tensor.Uint64, tensor.Int16}

// dtypesBySize has dtypes whose bits an element of the given size in bytes may have.
var dtypesBySize = map[int][]tensor.DType{1: {tensor.Uint8, tensor.Int8}, 2: {tensor.Int16, tensor.Float16},
	4: {tensor.Int32, tensor.Float32, tensor.Uint32}, 8: {tensor.Int64, tensor.Float64}}

// randomConst adds a random constant.
func randomConst(builder *expr.Builder, rng *rand.Rand, dtype tensor.DType) expr.Value {
	return builder.AddInst(expr.Inst{Op: expr.Const, DType: dtype, A: expr.None, B: expr.None, C: expr.None,
		Imm: RandomBits(rng, dtype)})
}

// IsValidOp reports whether an operation with operands and a result of the given dtype is valid.
func IsValidOp(op expr.Op, dtype tensor.DType) bool {
	load := expr.Inst{Op: expr.Load, DType: dtype, A: 0, B: expr.None, C: expr.None}
	code := expr.Code{In: []tensor.DType{dtype}, Insts: []expr.Inst{load, {Op: op, DType: dtype}},
		Out: []expr.Output{{DType: dtype, Re: 1, Im: expr.None}}}
	return code.Check() == nil
}

// RandomBits returns the bits of a random element of a real dtype: a special value, a small number, or random bits.
func RandomBits(rng *rand.Rand, dtype tensor.DType) uint64 {
	if dtype == tensor.Bool {
		return rng.Uint64() & 1
	}
	mask := ^uint64(0) >> (64 - 8*dtype.Size())
	switch choice := rng.IntN(4); {
	case choice == 0:
		return rng.Uint64() & mask
	case dtype.IsFloat() && choice == 1:
		return floatBits(dtype, specialFloats[rng.IntN(len(specialFloats))])
	case dtype.IsFloat():
		return floatBits(dtype, math.Round(rng.NormFloat64()*100)/8)
	case choice == 1: // the extremes of signed and unsigned integers, and small numbers
		return []uint64{0, 1, mask, mask >> 1, mask>>1 + 1, 2}[rng.IntN(6)]
	}
	return uint64(rng.IntN(20)-8) & mask
}

// specialFloats are numbers at which operations differ: zeros, infinities, NaN, subnormal numbers, and numbers outside
// the range of a narrower dtype.
var specialFloats = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3.5, -7.25, math.Inf(1), math.Inf(-1),
	math.NaN(), 1e-40, -1e-310, 6e4, 3e9, -3e9, 1e19, math.MaxFloat32, -math.MaxFloat64, math.Pi, 1 << 24}

// floatBits returns the bits of a number that is converted to a float dtype.
func floatBits(dtype tensor.DType, number float64) (bits uint64) {
	const dstStride, srcStride, count = 0, 0, 1
	tensor.Converter(dtype, tensor.Float64)(unsafe.Pointer(&bits), unsafe.Pointer(&number), dstStride, srcStride, count)
	return bits
}

// SameBits reports whether two elements of a real dtype have the same bits, or are both NaN.
func SameBits(dtype tensor.DType, aBits, bBits uint64) bool {
	if aBits == bBits {
		return true
	}
	switch dtype {
	case tensor.Float16:
		x, y := tensor.Half(aBits).Float32(), tensor.Half(bBits).Float32()
		return x != x && y != y
	case tensor.BFloat16:
		x, y := tensor.BF16(aBits).Float32(), tensor.BF16(bBits).Float32()
		return x != x && y != y
	case tensor.Float32:
		x, y := math.Float32frombits(uint32(aBits)), math.Float32frombits(uint32(bBits))
		return x != x && y != y
	case tensor.Float64:
		x, y := math.Float64frombits(aBits), math.Float64frombits(bBits)
		return x != x && y != y
	}
	return false
}
