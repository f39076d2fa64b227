package interp

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
	"github.com/graphrun/graphrun/tensor"
)

// formulas are formulas of the operands x and y for lists of dtypes. Their rare operands need predicated ranges, and
// their values are parts of complex numbers, in operands, in outputs and in between.
var formulas = []struct {
	dtypes []tensor.DType
	texts  []string
}{
	{[]tensor.DType{tensor.Complex64, tensor.Complex128}, []string{"x * x", "x * y", "x / y", "x + y", "-x", "exp(x)",
		"x != 0 and y != 0", "(x != 0) != (y != 0)", "x == y", "lerp(x, y, x)", "real(x * y)", "imag(x / y) + 1",
		"x * y + x / y", "abs(x * y)", "x * 2.5 - y * y", "where(real(x) > 0, x * y, x / y)", "where(x == y, x, y)",
		"conj(x) * x", "sin(x)", "complex(imag(x), real(x))", "complex(real(x), -real(x))", "complex(real(x), real(x))",
		"hardswish(real(x))", "real(x) + 0.7 * imag(x) * real(y)", "where(real(x) > imag(x), 1, 2)", "real(y)",
		"real(x) * imag(y) - real(y) * 3", "real(x) * 3 + imag(y) * imag(x)"}},
	{[]tensor.DType{tensor.Float32, tensor.Float64}, []string{"hypot(x, y)", "nan_to_num(x)", "x // y", "x % y",
		"heaviside(x, y)", "sign(x)", "fmax(x, y)", "clamp(x, y, 1)", "softshrink(x, 0.5)", "x - trunc(x)", "trunc(x / y)",
		"rint(x * y) / y", "xlogy(x, y)", "leaky_relu(x, 0.3)", "hardswish(x)", "lerp(x, y, 0.7)", "lgamma(x)", "x ** y",
		"x * y - y * 3", "3 * x + y * x", "x - y * 3", "x * y - x", "float64(x) * y - 3 * y", "x + (x < y)", "(x < y) * x"}},
	{[]tensor.DType{tensor.Float16, tensor.BFloat16}, []string{"x + y", "x / y", "x // y", "trunc_divide(x, y)",
		"round(x, 2)", "where(x > 0, x, x * y)", "maximum(x, 0)"}},
	{[]tensor.DType{tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32, tensor.Uint32, tensor.Int64,
		tensor.Uint64}, []string{"x << y", "x >> y", "fmod(x, y)", "x % y", "x // y", "minimum(maximum(x, 0), y)",
		"heaviside(x, y)", "sin(x) + y", "abs(x)", "x != 0 and y != 0", "x & y",
		"x * y - y * 3", "x - y * 3", "x * y - x"}},
	{[]tensor.DType{tensor.Bool}, []string{"x and y", "x != y", "sin(x) + y"}},
}

// TestFormulas compares formulas with their definition.
func TestFormulas(t *testing.T) {
	for k, list := range formulas {
		for _, d := range list.dtypes {
			for _, text := range list.texts {
				c := codeOf(t, text, d, d)
				rng := rand.New(rand.NewPCG(uint64(k), 8))
				for range 10 {
					if !againstEval(t, rng, c, []int{1, 33, 1100}[rng.IntN(3)], 1+rng.IntN(3)) {
						t.Fatalf("%s\n%v", text, c)
					}
				}
			}
		}
	}
}

// TestFunctionsOfBytes compares tables of functions of one byte with the functions.
func TestFunctionsOfBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for _, d := range []tensor.DType{tensor.Int8, tensor.Uint8, tensor.Bool} {
		for _, text := range []string{"sin(x)", "float64(exp(x))", "float16(tanh(x))", "exp(x) > 2",
			"exp(complex(sin(x), x))"} {
			for range 10 {
				if c := codeOf(t, text, d); !againstEval(t, rng, c, []int{1, 33, 1100}[rng.IntN(3)], 1+rng.IntN(3)) {
					t.Fatalf("%s\n%v", text, c)
				}
			}
		}
	}
}

func codeOf(t *testing.T, text string, dtypes ...tensor.DType) *expr.Code {
	t.Helper()
	f, err := expr.Parse(text, []string{"x", "y"}[:len(dtypes)]...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Code(dtypes, expr.Typing{})
	if err != nil {
		t.Fatal(text, err)
	}
	return c
}

// TestPredicatedRanges has masks that are all true or all false in some blocks, and mixed in others.
func TestPredicatedRanges(t *testing.T) {
	c := codeOf(t, "where(x > 0, where(x > 8, exp(y) + log(x), tanh(y) ** 2), "+
		"where(y < 0, sin(y) * cos(x), y * y / 3 - y * x / 7 + x * x * y))", tensor.Float32, tensor.Float32)
	if _, _, ranges := orderByPredicate(c, nil); len(ranges) != 6 {
		t.Errorf("%d predicated ranges, want 6: %v", len(ranges), ranges)
	}
	p, err := New(&expr.Loop{Code: c, Uniform: []bool{false, false}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 8192
	x, y, got := make([]float32, n), make([]float32, n), make([]float32, n)
	rng := rand.New(rand.NewPCG(1, 9))
	for i := range x {
		y[i] = float32(rng.NormFloat64())
		switch i / 1024 % 5 {
		case 0:
			x[i] = 1
		case 1:
			x[i] = -1
		case 2:
			x[i] = 9
		case 3:
			x[i] = float32(i % 2)
		default:
			x[i] = float32(rng.NormFloat64() * 9)
		}
	}
	at := []unsafe.Pointer{unsafe.Pointer(&got[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0])}
	p.Run(nil, at, []int{0, 0, 0}, nil, n, 1)
	for i := range got {
		var in [2]expr.Number
		in[0].Re, in[1].Re = uint64(*(*uint32)(unsafe.Pointer(&x[i]))), uint64(*(*uint32)(unsafe.Pointer(&y[i])))
		if want := c.Eval(in[:]...)[0].Re; !exprtest.SameBits(tensor.Float32, uint64(*(*uint32)(unsafe.Pointer(&got[i]))),
			want) {
			t.Fatalf("%d: x %v, y %v: got %v", i, x[i], y[i], got[i])
		}
	}
}

// TestSteps counts the loops over a block of common operands. Products of complex numbers have a sum and a difference
// of products, and a store. The parts of a quotient share predicated ranges. A function of one byte is
// a table, even if there is an operand that it does not read, and so is a function of two bools.
func TestSteps(t *testing.T) {
	for _, tc := range []struct {
		text string
		d    tensor.DType
		want int
	}{
		{"x * y", tensor.Complex64, 3}, {"x / y", tensor.Complex64, 25}, {"x + y", tensor.Complex64, 3},
		{"3 * x - y * x", tensor.Float64, 1}, {"x * y - 3", tensor.Float32, 1}, {"x * y - y * 3", tensor.Int32, 2},
		{"heaviside(x, y)", tensor.Int32, 3},
		{"x * 2 + y", tensor.BFloat16, 3}, {"x << y", tensor.Uint8, 1}, {"exp(x)", tensor.Int8, 1},
		{"atan2(x, y)", tensor.Bool, 1},
	} {
		text, want := tc.text, tc.want
		c := codeOf(t, text, tc.d, tc.d)
		p, err := New(&expr.Loop{Code: c, Uniform: make([]bool, 2)})
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		for k := 0; k < len(p.blockSteps); k++ {
			if p.blockSteps[k].loop != nil {
				steps++
			}
			k += p.blockSteps[k].skipCount
		}
		if steps != want {
			t.Errorf("%s: %d steps, want %d", text, steps, want)
		}
	}
}
