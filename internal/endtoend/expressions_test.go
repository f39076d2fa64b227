package endtoend_test

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// looseness is the permitted difference between a formula and a kernel.
type looseness uint8

const (
	exact   looseness = iota // none
	zeros                    // the sign of a zero: of two zeros, Go chooses by the sign, and expressions take the second
	rounds                   // a few units in the last place: compiled loops have their own functions
	cancels                  // a few units in the last place of 1, from which the result is subtracted
	powers                   // complex powers: the exponential of a rounded exponent
)

// stated is a pointwise op with its formula as text.
type stated struct {
	op    string
	attrs graph.Attrs
	text  string
	loose looseness
}

var ops = []stated{
	{"add", nil, "x + y", exact}, {"add", graph.Attrs{"alpha": 2}, "x + 2 * y", exact}, {"sub", nil, "x - y", exact},
	{"rsub", nil, "y - x", exact}, {"mul", nil, "x * y", exact}, {"div", nil, "x / y", exact},
	{"div", graph.Attrs{"rounding_mode": "floor"}, "x // y", exact},
	{"div", graph.Attrs{"rounding_mode": "trunc"}, "trunc_divide(x, y)", exact},
	{"floor_divide", nil, "x // y", exact}, {"remainder", nil, "x % y", exact}, {"fmod", nil, "fmod(x, y)", exact},
	{"addcmul", graph.Attrs{"value": 3}, "x + 3 * y * z", exact},
	{"addcdiv", graph.Attrs{"value": 3}, "x + 3 * y / z", exact},
	{"neg", nil, "-x", exact}, {"abs", nil, "abs(x)", exact}, {"sign", nil, "sign(x)", exact},
	{"sgn", nil, "sgn(x)", rounds}, {"square", nil, "square(x)", exact}, {"reciprocal", nil, "reciprocal(x)", exact},
	{"sqrt", nil, "sqrt(x)", exact}, {"rsqrt", nil, "rsqrt(x)", rounds}, {"frac", nil, "frac(x)", exact},
	{"floor", nil, "floor(x)", exact}, {"ceil", nil, "ceil(x)", exact}, {"trunc", nil, "trunc(x)", exact},
	{"round", nil, "round(x)", exact}, {"round", graph.Attrs{"decimals": 2}, "round(x, 2)", exact},
	{"round", graph.Attrs{"decimals": -1}, "round(x, -1)", exact},
	{"bitwise_and", nil, "x & y", exact}, {"bitwise_or", nil, "x | y", exact}, {"bitwise_xor", nil, "x ^ y", exact},
	{"bitwise_not", nil, "~x", exact}, {"bitwise_left_shift", nil, "x << y", exact},
	{"bitwise_right_shift", nil, "x >> y", exact},
	{"eq", nil, "x == y", exact}, {"ne", nil, "x != y", exact}, {"lt", nil, "x < y", exact},
	{"le", nil, "x <= y", exact}, {"gt", nil, "x > y", exact}, {"ge", nil, "x >= y", exact},
	{"logical_and", nil, "x and y", exact}, {"logical_or", nil, "x or y", exact},
	{"logical_xor", nil, "logical_xor(x, y)", exact}, {"logical_not", nil, "not x", exact},
	{"maximum", nil, "max(x, y)", zeros}, {"minimum", nil, "min(x, y)", zeros}, {"fmax", nil, "fmax(x, y)", zeros},
	{"fmin", nil, "fmin(x, y)", zeros}, {"clamp", graph.Attrs{"min": -1, "max": 2}, "clamp(x, -1, 2)", exact},
	{"clamp", nil, "clamp(x, y, z)", zeros}, {"clamp_min", nil, "max(x, y)", zeros},
	{"relu", nil, "relu(x)", exact}, {"relu6", nil, "relu6(x)", exact}, {"hardtanh", nil, "hardtanh(x)", exact},
	{"leaky_relu", graph.Attrs{"negative_slope": 0.25}, "leaky_relu(x, 0.25)", zeros},
	{"threshold", graph.Attrs{"threshold": 1, "value": 7}, "threshold(x, 1, 7)", exact},
	{"hardshrink", nil, "hardshrink(x, 0.5)", exact}, {"softshrink", nil, "softshrink(x, 0.5)", exact},
	{"shrink", graph.Attrs{"lambd": 1, "bias": 0.25}, "shrink(x, 1, 0.25)", exact},
	{"hardswish", nil, "hardswish(x)", exact}, {"hardsigmoid", nil, "hardsigmoid(x)", exact},
	{"sigmoid", nil, "sigmoid(x)", rounds}, {"silu", nil, "silu(x)", rounds},
	{"log_sigmoid", nil, "log_sigmoid(x)", rounds},
	{"softplus", graph.Attrs{"beta": 2, "threshold": 3}, "softplus(x, 2, 3)", rounds},
	{"mish", nil, "mish(x)", rounds},
	{"gelu", nil, "gelu(x)", cancels}, {"gelu", graph.Attrs{"approximate": "tanh"}, "gelu_tanh(x)", cancels},
	{"elu", graph.Attrs{"alpha": 2, "scale": 0.5, "input_scale": 1.5}, "elu(x, 2, 0.5, 1.5)", rounds},
	{"selu", nil, "selu(x)", rounds}, {"celu", graph.Attrs{"alpha": 0.5}, "celu(x, 0.5)", rounds},
	{"logit", nil, "logit(x)", rounds}, {"logit", graph.Attrs{"eps": 0.1}, "logit(x, 0.1)", rounds},
	{"lerp", graph.Attrs{"weight": 0.25}, "lerp(x, y, 0.25)", exact}, {"lerp", nil, "lerp(x, y, z)", rounds},
	{"pow", nil, "x ** y", powers}, {"atan2", nil, "atan2(x, y)", rounds}, {"hypot", nil, "hypot(x, y)", rounds},
	{"copysign", nil, "copysign(x, y)", exact}, {"xlogy", nil, "xlogy(x, y)", rounds},
	{"logaddexp", nil, "logaddexp(x, y)", cancels}, {"logaddexp2", nil, "logaddexp2(x, y)", cancels},
	{"heaviside", nil, "heaviside(x, y)", exact}, {"nan_to_num", nil, "nan_to_num(x)", exact},
	{"nan_to_num", graph.Attrs{"nan": 1.5, "posinf": 7, "neginf": -3}, "nan_to_num(x, 1.5, 7, -3)", exact},
	{"isnan", nil, "isnan(x)", exact}, {"isinf", nil, "isinf(x)", exact}, {"isfinite", nil, "isfinite(x)", exact},
	{"isposinf", nil, "isposinf(x)", exact}, {"isneginf", nil, "isneginf(x)", exact},
	{"signbit", nil, "signbit(x)", exact},
	{"angle", nil, "angle(x)", rounds}, {"conj_physical", nil, "conj(x)", exact}, {"lgamma", nil, "lgamma(x)", exact},
	{"erfinv", nil, "erfinv(x)", exact}, {"where", nil, "where(x, y, z)", exact},
	{"exp", nil, "exp(x)", rounds}, {"exp2", nil, "exp2(x)", rounds}, {"expm1", nil, "expm1(x)", rounds},
	{"log", nil, "log(x)", rounds}, {"log2", nil, "log2(x)", rounds}, {"log10", nil, "log10(x)", rounds},
	{"log1p", nil, "log1p(x)", rounds}, {"sin", nil, "sin(x)", rounds}, {"cos", nil, "cos(x)", rounds},
	{"tan", nil, "tan(x)", rounds}, {"asin", nil, "asin(x)", rounds}, {"acos", nil, "acos(x)", rounds},
	{"atan", nil, "atan(x)", rounds}, {"sinh", nil, "sinh(x)", rounds}, {"cosh", nil, "cosh(x)", rounds},
	{"tanh", nil, "tanh(x)", rounds}, {"asinh", nil, "asinh(x)", rounds}, {"acosh", nil, "acosh(x)", rounds},
	{"atanh", nil, "atanh(x)", rounds}, {"erf", nil, "erf(x)", rounds}, {"erfc", nil, "erfc(x)", rounds},
}

// TestMixedOperands checks the promotion of operands with different dtypes, by the operations or by a common dtype.
func TestMixedOperands(t *testing.T) {
	mixed := [][2]tensor.DType{{tensor.Int32, tensor.Float16}, {tensor.Uint8, tensor.Int8}, {tensor.Bool, tensor.BFloat16},
		{tensor.Float16, tensor.BFloat16}, {tensor.Int64, tensor.Complex64}, {tensor.Float64, tensor.Complex64},
		{tensor.Float32, tensor.Int16}, {tensor.Bool, tensor.Bool}}
	for _, o := range []stated{{"add", nil, "x + y", exact}, {"mul", nil, "x * y", exact}, {"div", nil, "x / y", exact},
		{"lt", nil, "x < y", exact}, {"eq", nil, "x == y", exact}, {"maximum", nil, "max(x, y)", zeros},
		{"remainder", nil, "x % y", exact}, {"logical_and", nil, "x and y", exact}} {
		f, err := expr.Parse(o.text)
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		for _, pair := range mixed {
			common, err := tensor.Promote(pair[0], pair[1])
			if err != nil {
				t.Fatal(err)
			}
			ran += asKernelOf(t, o, f, pair[:], expr.Typing{}) + asKernelOf(t, o, f, pair[:], expr.Typing{Common: common})
		}
		if ran < 8 {
			t.Errorf("%s: only %d cases", o.text, ran)
		}
	}
}

const elements = 700 // more than one block

// TestOpsAsText compares formulas with the kernels of their ops, for each dtype that both support.
func TestOpsAsText(t *testing.T) {
	testsize.Long(t)
	for _, o := range ops {
		f, err := expr.Parse(o.text)
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		for d := tensor.Bool; d.Valid(); d++ {
			ran += asKernel(t, o, f, d)
		}
		if ran == 0 {
			t.Errorf("%s is computed of no dtype by both", o.text)
		}
	}
}

// asKernel compares results for one dtype. It returns 0 if the formula or the kernel does not support it, and 1
// otherwise.
func asKernel(t *testing.T, o stated, f *expr.Formula, d tensor.DType) int {
	types := make([]tensor.DType, len(f.Params()))
	for k := range types {
		if types[k] = d; o.op == "where" && k == 0 {
			types[k] = tensor.Bool
		}
	}
	if o.attrs["alpha"] != nil && d == tensor.Bool {
		return 0 // for bools, alpha is a condition, unlike in the text
	}
	return asKernelOf(t, o, f, types, expr.Typing{})
}

func asKernelOf(t *testing.T, o stated, f *expr.Formula, d []tensor.DType, typing expr.Typing) int {
	rng := rand.New(rand.NewPCG(uint64(d[0]), 7))
	g := graphrun.New("one")
	var operands []any
	in := map[string]*tensor.Tensor{}
	for k, name := range f.Params() {
		divisor := k > 0 && (o.op == "div" || o.op == "floor_divide" || o.op == "remainder" || o.op == "fmod")
		in[name] = samples(rng, d[k], divisor)
		operands = append(operands, g.Input(name, d[k], elements))
	}
	out := g.Apply(o.op, o.attrs, operands...)
	if g.Err() != nil {
		return 0
	}
	g.Output("out", out[0])
	results, err := graphrun.Run(context.Background(), g, in)
	if err != nil {
		return 0
	}
	want := results["out"]
	code, err := f.Code(d, typing)
	if err != nil {
		t.Errorf("%s of %v: only the kernel: %v", o.text, d, err)
		return 0
	}
	if code.Out[0].DType != want.DType {
		t.Errorf("%s of %v is %v, the op's %v", o.text, d, code.Out[0].DType, want.DType)
		return 1
	}
	got := tensor.Empty(tensor.New(want.DType, elements))
	interpret(t, code, got, in, f.Params())
	for i := range elements {
		a, b := got.At(i), want.At(i)
		if o.op == "exp" && want.DType.IsComplex() && math.IsInf(real(a.Complex()), 1) {
			continue // for infinity with imaginary part 0, C gives 0 and Go NaN
		}
		if !matches(a, b, want.DType, o.loose) {
			t.Errorf("%s of %v: %v gives %v, the op %v", o.text, d, at(in, f.Params(), i), a, b)
			return 1
		}
	}
	return 1
}

func at(in map[string]*tensor.Tensor, names []string, i int) (list []string) {
	for _, name := range names {
		list = append(list, fmt.Sprint(in[name].At(i)))
	}
	return list
}

func interpret(t *testing.T, code *expr.Code, out *tensor.Tensor, in map[string]*tensor.Tensor, names []string) {
	p, err := interp.New(&expr.Loop{Code: code, Uniform: make([]bool, len(names))})
	if err != nil {
		t.Fatal(err)
	}
	ptrs := []unsafe.Pointer{out.Pointer()}
	for _, name := range names {
		ptrs = append(ptrs, in[name].Pointer())
	}
	p.Run(nil, ptrs, make([]int, len(ptrs)), nil, elements, 1)
}

// samples returns a tensor of special and random values.
func samples(rng *rand.Rand, d tensor.DType, divisor bool) *tensor.Tensor {
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3, -7.25, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40,
		100, -100, 6e4, 1e10, -3e30}
	x := tensor.Empty(tensor.New(d, elements))
	one := func() float64 {
		if rng.IntN(3) == 0 {
			return special[rng.IntN(len(special))]
		}
		return rng.NormFloat64() * 4
	}
	for i := range elements {
		switch {
		case d.IsIntegral(true):
			v := int64(rng.IntN(40) - 12)
			if divisor && (v == 0 || d == tensor.Bool) {
				v = 3
			}
			x.Set(tensor.IntScalar(v), i)
		case d.IsComplex():
			x.Set(tensor.ComplexScalar(complex(one(), one())), i)
		default:
			x.Set(tensor.FloatScalar(one()), i)
		}
	}
	return x
}

// matches compares elements, the parts of complex numbers separately. All NaNs are equal.
func matches(a, b tensor.Scalar, d tensor.DType, loose looseness) bool {
	if !d.IsComplex() && !d.IsFloat() {
		return a.Int() == b.Int()
	}
	much := 1.0
	if loose == powers && d.IsComplex() {
		if much = 100; !finite(a.Complex()) && !finite(b.Complex()) {
			return true // the angle of an overflowed power is unknown
		}
	}
	part := func(x, y float64) bool {
		if loose < rounds || x != x || y != y || math.IsInf(x, 0) || math.IsInf(y, 0) {
			return x == y && (loose > exact || math.Signbit(x) == math.Signbit(y)) || x != x && y != y
		}
		size := max(math.Abs(x), math.Abs(y))
		if z := cmplx.Abs(b.Complex()); z == z {
			size = max(size, z)
		}
		if loose == cancels {
			size = max(size, 1)
		}
		eps := map[tensor.DType]float64{tensor.Float16: 1. / 512, tensor.BFloat16: 1. / 64, tensor.Float32: 2e-6,
			tensor.Float64: 1e-14, tensor.Complex64: 2e-6, tensor.Complex128: 1e-14}[d]
		return math.Abs(x-y) <= much*eps*size+1e-38
	}
	x, y := a.Complex(), b.Complex()
	return part(real(x), real(y)) && part(imag(x), imag(y))
}

func finite(z complex128) bool { return !cmplx.IsInf(z) && !cmplx.IsNaN(z) }
