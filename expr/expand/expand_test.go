package expand_test

import (
	"math"
	"os"
	"strconv"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// expanded returns the expansion of a function, and a function that runs it over elements.
func expanded[T exprtest.Float](t testing.TB, o expr.Op, target expand.Target) (*expr.Code, func(dst, x, y []T)) {
	t.Helper()
	d := tensor.DTypeOf[T]()
	b := expr.NewBuilder(d, d)
	c, err := b.Build(b.Real(b.Emit(o, []expr.Value{b.Load(0), b.Load(1)}[:o.ArgCount()]...)))
	if err == nil {
		c, err = expand.Functions(c, target)
	}
	if err != nil {
		t.Fatal(o, err)
	}
	for _, i := range c.Insts {
		if !i.Op.Primitive() {
			t.Fatalf("%v of %v keeps %v", o, d, i.Op)
		}
	}
	p, err := interp.New(&expr.Loop{Code: c, Uniform: []bool{false, false}})
	if err != nil {
		t.Fatal(o, err)
	}
	return c, func(dst, x, y []T) {
		at := []unsafe.Pointer{unsafe.Pointer(&dst[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0])}
		p.Run(nil, at, make([]int, 3), nil, len(dst), 1)
	}
}

// everything is a target with all optional instructions.
var everything = expand.Target{HasScale: true}

// runsOf returns functions that run the expansions of a function, one for each distinct target, the plain one first.
func runsOf[T exprtest.Float](t testing.TB, o expr.Op) []func(dst, x, y []T) {
	t.Helper()
	plain, first := expanded[T](t, o, expand.Target{})
	scaled, second := expanded[T](t, o, everything)
	if plain.Key() == scaled.Key() {
		return []func(dst, x, y []T){first}
	}
	return []func(dst, x, y []T){first, second}
}

// TestTargets checks that expansions use the optional instructions.
func TestTargets(t *testing.T) {
	plain, _ := expanded[float32](t, expr.Exp, expand.Target{})
	scaled, _ := expanded[float32](t, expr.Exp, everything)
	if n, most := count(scaled), 13; n > most || n >= count(plain) {
		t.Errorf("%d instructions of exp, %d without scale", n, count(plain))
	}
}

// TestTargetsAgree checks that elementary functions give the same bits for all targets, except those of NaN.
func TestTargetsAgree(t *testing.T) {
	t.Run("float32", func(t *testing.T) {
		testTargetsAgree(t, func(u uint64) float32 { return math.Float32frombits(uint32(u >> 32)) }, math.Float32bits)
	})
	t.Run("float64", func(t *testing.T) { testTargetsAgree(t, math.Float64frombits, math.Float64bits) })
}

func testTargetsAgree[T exprtest.Float, U uint32 | uint64](t *testing.T, number func(uint64) T, bits func(T) U) {
	const n, ends = 1 << 14, 1 << 11
	x, y := make([]T, n), make([]T, n)
	for k := range x {
		x[k] = number(uint64(k) << 50)
		y[k] = number(uint64(k) * 0x9e3779b97f4a7c15)
		switch { // where exponentials overflow, become subnormal and end
		case k < ends:
			x[k] = T(-760 + 1480*float64(k)/ends)
		case k < 2*ends:
			x[k] = T(-104.5 + 194*float64(k-ends)/ends)
		}
	}
	for o := expr.Exp; o.Elementary(); o++ {
		runs := runsOf[T](t, o)
		if len(runs) == 1 {
			continue
		}
		first, second := make([]T, n), make([]T, n)
		runs[0](first, x, y)
		runs[1](second, x, y)
		for k, v := range first {
			if w := second[k]; bits(v) != bits(w) && (v == v || w == w) {
				t.Errorf("%v(%v, %v) is %v or %v", o, x[k], y[k], v, w)
				break
			}
		}
	}
}

// elementaries are the functions of one operand, and the greatest number of instructions of their expansions in each
// dtype, without reinterpretations of bits.
var elementaries = []struct {
	op       expr.Op
	f        func(float64) float64
	f32, f64 int
}{
	{expr.Exp, math.Exp, 17, 23},
	{expr.Exp2, math.Exp2, 16, 21},
	{expr.Expm1, math.Expm1, 19, 28},
	{expr.Log, math.Log, 26, 39},
	{expr.Log2, math.Log2, 28, 40},
	{expr.Log10, math.Log10, 30, 42},
	{expr.Log1p, math.Log1p, 28, 41},
	{expr.Sin, math.Sin, 41, 195},
	{expr.Cos, math.Cos, 40, 195},
	{expr.Tan, math.Tan, 41, 195},
	{expr.Asin, math.Asin, 21, 29},
	{expr.Acos, math.Acos, 22, 30},
	{expr.Atan, math.Atan, 21, 33},
	{expr.Sinh, math.Sinh, 28, 37},
	{expr.Cosh, math.Cosh, 20, 26},
	{expr.Tanh, math.Tanh, 19, 31},
	{expr.Asinh, math.Asinh, 38, 62},
	{expr.Acosh, math.Acosh, 38, 60},
	{expr.Atanh, math.Atanh, 38, 62},
	{expr.Erf, math.Erf, 26, 48},
	{expr.Erfc, math.Erfc, 41, 91},
}

func count(c *expr.Code) int {
	n := c.Count()
	for _, i := range c.Insts {
		if i.Op == expr.Bits {
			n--
		}
	}
	return n
}

func TestExpandCounts(t *testing.T) {
	for _, tc := range elementaries {
		c32, _ := expanded[float32](t, tc.op, expand.Target{})
		c64, _ := expanded[float64](t, tc.op, expand.Target{})
		if n, m := count(c32), count(c64); n > tc.f32 || m > tc.f64 {
			t.Errorf("%v: %d and %d instructions, not %d and %d", tc.op, n, m, tc.f32, tc.f64)
		}
	}
}

// TestExpandFloat32 compares the expansions for float32 with package math in float64, for all numbers at a stride.
func TestExpandFloat32(t *testing.T) {
	stride := strideOf(t)
	for _, tc := range elementaries {
		t.Run(tc.op.String(), func(t *testing.T) {
			for _, run := range runsOf[float32](t, tc.op) {
				testStride(t, run, tc.f, stride)
			}
		})
	}
}

func strideOf(t *testing.T) uint64 {
	stride := testsize.Of[uint64](400009, 40009)
	if s := os.Getenv("GRAPHRUN_STRIDE"); s != "" {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil || n == 0 {
			t.Fatalf("GRAPHRUN_STRIDE is %q", s)
		}
		stride = n
	}
	return stride
}

func testStride(t *testing.T, run func(dst, x, y []float32), f func(float64) float64, stride uint64) {
	const block = 4096
	x, y := make([]float32, block), make([]float32, block)
	worst, at := 0.0, float32(0)
	for u := uint64(0); u < 1<<32; {
		for k := range x {
			x[k] = math.Float32frombits(uint32(min(u, math.MaxUint32)))
			u += stride
		}
		run(y, x, x)
		for k := range x {
			if far := exprtest.Ulps(y[k], f(float64(x[k])), 0); far > worst {
				worst, at = far, x[k]
			}
		}
	}
	t.Logf("%.3f ulp at %v", worst, at)
	if worst > 2 {
		t.Errorf("%v ulp off at %v", worst, at)
	}
}

// TestExpOfTables bounds the error of exp of float32 such that sigmoid, softplus and softmax stay within their bounds.
func TestExpOfTables(t *testing.T) {
	_, run := expanded[float32](t, expr.Exp, everything)
	x := make([]float32, 1<<18)
	for k := range x {
		x[k] = -87 + 175*float32(k)/float32(len(x))
	}
	y := make([]float32, len(x))
	run(y, x, x)
	worst, at := 0.0, float32(0)
	for k, v := range x {
		if far := exprtest.Ulps(y[k], math.Exp(float64(v)), 0); far > worst {
			worst, at = far, v
		}
	}
	if worst > 0.7 {
		t.Errorf("%v ulp off at %v", worst, at)
	}
}

// onePlusErf returns an expansion of 1 + erf(c*x) of float32, and erf as a result of its own if that is wanted.
func onePlusErf(t *testing.T, c float64, also bool) *expr.Code {
	t.Helper()
	b := expr.NewBuilder(tensor.Float32)
	x := b.Load(0)
	if c != 1 {
		x = b.Emit(expr.Mul, b.Const(tensor.Float32, c), x)
	}
	erf := b.Emit(expr.Erf, x)
	out := []expr.Output{b.Real(b.Emit(expr.Add, erf, b.Const(tensor.Float32, 1)))}
	if also {
		out = append(out, b.Real(erf))
	}
	code, err := b.Build(out...)
	if err == nil {
		code, err = expand.Functions(code, expand.Target{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestExpandOnePlusErf runs 1 + erf(c*x) of float32, which is not made of erf where nothing else uses that. Below 1,
// where the sum cancels, it is no further off than the rounding of erf would be, so that gelu is within 2 ulp of the
// true value or nearer to it than PyTorch's, which is up to 8.3e-8 off; far below it is exactly 0.
func TestExpandOnePlusErf(t *testing.T) {
	if n := count(onePlusErf(t, 1, true)); n != 27 {
		t.Errorf("%d instructions of an erf that is a result, too", n)
	}
	for _, c := range []float64{math.Sqrt2 / 2, 1, 0.37, 30} {
		testOnePlusErf(t, c, onePlusErf(t, c, false), 19)
	}
}

func testOnePlusErf(t *testing.T, c float64, code *expr.Code, most int) {
	t.Helper()
	if n := count(code); n > most {
		t.Errorf("%d instructions of 1 + erf(%v * x)", n, c)
	}
	p, err := interp.New(&expr.Loop{Code: code, Uniform: []bool{false}})
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, 4096), make([]float32, 4096)
	var above, below, gelu float64
	for u, stride := uint64(0), strideOf(t); u < 1<<32; {
		for k := range x {
			x[k] = math.Float32frombits(uint32(min(u, math.MaxUint32)))
			u += stride
		}
		p.Run(nil, []unsafe.Pointer{unsafe.Pointer(&y[0]), unsafe.Pointer(&x[0])}, make([]int, 2), nil, len(x), 1)
		for k, x := range x {
			v := c * float64(x)
			want := math.Erfc(-v)
			switch {
			case v < -9.2 && y[k] != 0:
				t.Fatalf("1 + erf(%v) is %v", v, y[k])
			case v < 0:
				below = max(below, math.Abs(float64(y[k])-want))
			default:
				above = max(above, exprtest.Ulps(y[k], want, 0))
			}
			if product := float32(0.5) * x * y[k]; x > -0.9 && x < 1e30 {
				gelu = max(gelu, exprtest.Ulps(product, 0.5*float64(x)*want, 0))
			}
		}
	}
	t.Logf("c = %v: %.3f ulp from 1 on, %.3g below; %.3f ulp of gelu above -0.9", c, above, below, gelu)
	if above > 1.2 || below > 7e-8 || c == math.Sqrt2/2 && (below > 6e-8 || gelu > 2) {
		t.Errorf("c = %v: %v ulp off from 1 on, %v below; gelu %v ulp", c, above, below, gelu)
	}
}

func TestExpandFloat64(t *testing.T) {
	runs, worst := map[string][]func(dst, x, y []float64){}, map[string]float64{}
	for o := expr.Exp; o.Elementary(); o++ {
		runs[o.String()] = runsOf[float64](t, o)
	}
	exprtest.EachExact(t, func(name string, x, y, want, low float64) {
		var got [1]float64
		for _, run := range runs[name] {
			run(got[:], []float64{x}, []float64{y})
			far := exprtest.Ulps(got[0], want, low)
			worst[name] = max(worst[name], far)
			if far > 2 {
				t.Errorf("%s(%v, %v) = %v, %v ulp off %v", name, x, y, got[0], far, want)
			}
		}
	})
	if len(worst) != len(runs) {
		t.Errorf("values of %d functions of %d", len(worst), len(runs))
	}
	t.Log(worst)
}
