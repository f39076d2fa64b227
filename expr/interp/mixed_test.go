package interp

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// TestMixedLoops compares all loops of mixed dtypes with the definition, with two operands and with a constant.
func TestMixedLoops(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 40))
	for x := range mixedLoops {
		for _, withConstant := range []bool{false, true} {
			b := expr.NewBuilder(x.from, x.from)
			operands := [2]expr.Value{b.Load(0), b.Load(1)}
			if withConstant {
				operands[1] = b.Const(x.in, 3)
			}
			for k, v := range operands {
				if x.from != x.in && b.DType(v) != x.in {
					operands[k] = b.Convert(x.in, v)
				}
			}
			dtype := x.in
			if slices.Contains([]expr.Op{expr.Eq, expr.Ne, expr.Lt, expr.Le}, x.op) {
				dtype = tensor.Bool
			}
			v := b.AddInst(expr.Inst{Op: x.op, DType: dtype, A: operands[0], B: operands[1], C: expr.None})
			if x.to != dtype {
				v = b.Convert(x.to, v)
			}
			c, err := b.Build(b.Real(v))
			if err != nil {
				t.Fatal(x, err)
			}
			p, err := New(&expr.Loop{Code: c, Uniform: make([]bool, len(c.In))})
			if err != nil {
				t.Fatal(x, err)
			}
			if len(p.blockSteps) != 1 {
				t.Errorf("%v: %d steps, want 1", x, len(p.blockSteps))
			}
			if !againstEval(t, rng, c, 300, 2) {
				t.Fatalf("%v\n%v", x, c)
			}
		}
	}
}

// TestComplexLoops compares comparisons, selections and functions of complex64 numbers with the definition. They are
// one step if the parts are adjacent. The parts of an operand that is also stored are separate.
func TestComplexLoops(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 42))
	for text, steps := range map[string]int{"x == y": 1, "x != 0": 1, "x == complex(1, -0.0)": 1, "x == 0": 1,
		"x != conj(y)": 4, "real(x) == imag(y) and imag(x) == real(y)": 3,
		"where(real(x) > 0, x, y)": 2, "where(real(x) > 0, x, complex(1, 2))": 2, "asin(x)": 1, "asin(conj(x))": 2,
		"(where(real(y) > 0, x, y), real(x))": 6, "(where(imag(y) > 0, y, x), conj(x))": 7, "(x != y, real(x))": 5,
		"(x != 0, imag(x), real(x))": 7} {
		c := codeOf(t, text, tensor.Complex64, tensor.Complex64)
		p, err := New(&expr.Loop{Code: c, Uniform: make([]bool, len(c.In))})
		if err != nil {
			t.Fatal(text, err)
		}
		if len(p.blockSteps) != steps {
			t.Errorf("%s: %d steps, want %d", text, len(p.blockSteps), steps)
		}
		if !againstEval(t, rng, c, 600, 2) {
			t.Fatalf("%s\n%v", text, c)
		}
	}
}

// TestTables compares tables of bytes and of bools with the definition.
func TestTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 41))
	for _, d := range []tensor.DType{tensor.Bool, tensor.Int8, tensor.Uint8} {
		for _, text := range []string{"atan2(x, y)", "exp(x)", "xlogy(y, x)", "log(y)"} {
			if c := codeOf(t, text, d, d); !againstEval(t, rng, c, 600, 2) {
				t.Fatalf("%s of %v\n%v", text, d, c)
			}
		}
	}
}
