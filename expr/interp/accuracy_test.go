package interp

import (
	"math"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
	"github.com/graphrun/graphrun/tensor"
)

// composed has functions that are defined in terms of elementary ones, their reference and interval, and the permitted
// error in float32: 2 ulp, or that of PyTorch if it is greater.
var composed = []struct {
	text       string
	f          func(x float64) float64
	from, to   float64
	bound, pos float64 // the second in Go
}{
	{"sigmoid(x)", logistic, -87, 89, 2.4, 2.4},
	{"silu(x)", func(x float64) float64 { return x * logistic(x) }, -85, 89, 2.37, 2.37},
	{"softplus(x)", softplus, -87, 89, 2, 1.5},
	{"log_sigmoid(x)", func(x float64) float64 { return -softplus(-x) }, -87, 87, 2, 1.5},
	{"mish(x)", func(x float64) float64 { return x * math.Tanh(softplus(x)) }, -85, 89, 2.7, 2.7},
	{"gelu(x)", func(x float64) float64 { return 0.5 * x * math.Erfc(-x*math.Sqrt2/2) }, -0.67, 9, 2, 2},
	{"gelu_tanh(x)", func(x float64) float64 {
		return x * logistic(2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))
	}, -0.67, 9, 2.3, 2.3},
	{"elu(x)", func(x float64) float64 {
		if x > 0 {
			return x
		}
		return math.Expm1(x)
	}, -20, 9, 1.5, 0.6},
	{"rsqrt(x)", func(x float64) float64 { return 1 / math.Sqrt(x) }, 1e-3, 9, 1.5, 1.5},
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// TestComposedFunctions checks these errors, for both kinds of machine code and in Go.
func TestComposedFunctions(t *testing.T) {
	const n = 1 << 16
	x, y := make([]float32, n), make([]float32, n)
	for _, tc := range composed {
		f, err := expr.Parse(tc.text, "x")
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.Code([]tensor.DType{tensor.Float32}, expr.Typing{})
		if err != nil {
			t.Fatal(tc.text, err)
		}
		for k := range x {
			x[k] = float32(tc.from + (tc.to-tc.from)*float64(k)/n)
		}
		for name, target := range map[string]*expand.Target{"with scale": {HasScale: true}, "without": {}, "in Go": nil} {
			code, bound := c, tc.pos
			if target != nil {
				bound = tc.bound
				if code, err = expand.Functions(c, *target); err != nil {
					t.Fatal(tc.text, err)
				}
			}
			p, err := New(&expr.Loop{Code: code, Uniform: []bool{false}})
			if err != nil {
				t.Fatal(err)
			}
			p.Run(nil, []unsafe.Pointer{unsafe.Pointer(&y[0]), unsafe.Pointer(&x[0])}, make([]int, 2), nil, n, 1)
			worst, at := 0.0, float32(0)
			for k, v := range x {
				if far := exprtest.Ulps(y[k], tc.f(float64(v)), 0); far > worst {
					worst, at = far, v
				}
			}
			t.Logf("%s %s: %.3f ulp at %v", tc.text, name, worst, at)
			if worst > bound {
				t.Errorf("%s %s: %v ulp off at %v", tc.text, name, worst, at)
			}
		}
	}
}
