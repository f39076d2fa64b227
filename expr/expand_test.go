package expr

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

func dtypeOf[T float]() tensor.DType {
	if unsafe.Sizeof(T(0)) == 4 {
		return tensor.Float32
	}
	return tensor.Float64
}

// expanded returns the expansion of a function, and what runs it over elements.
func expanded[T float](t testing.TB, o Op, target Target) (*Code, func(dst, x, y []T)) {
	t.Helper()
	d := dtypeOf[T]()
	b := NewBuilder(d, d)
	c, err := b.Build(b.Real(b.Do(o, []Value{b.Load(0), b.Load(1)}[:o.Args()]...)))
	if err == nil {
		c, err = c.Expand(target)
	}
	if err != nil {
		t.Fatal(o, err)
	}
	for _, i := range c.Insts {
		if !i.Op.Primitive() {
			t.Fatalf("%v of %v keeps %v", o, d, i.Op)
		}
	}
	p, err := (&Loop{Code: c, Scalar: []bool{false, false}}).Prepare()
	if err != nil {
		t.Fatal(o, err)
	}
	return c, func(dst, x, y []T) {
		at := []unsafe.Pointer{unsafe.Pointer(&dst[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0])}
		p.Run(nil, at, make([]int, 3), nil, len(dst), 1)
	}
}

// everything is a target that has all there is.
var everything = Target{Scale: true}

// runsOf returns what runs the expansions of a function, one for each target that has its own: the plain one first.
func runsOf[T float](t testing.TB, o Op) []func(dst, x, y []T) {
	t.Helper()
	plain, first := expanded[T](t, o, Target{})
	scaled, second := expanded[T](t, o, everything)
	if plain.Key() == scaled.Key() {
		return []func(dst, x, y []T){first}
	}
	return []func(dst, x, y []T){first, second}
}

// TestTargets holds that what there is an instruction for is made use of.
func TestTargets(t *testing.T) {
	plain, _ := expanded[float32](t, Exp, Target{})
	scaled, _ := expanded[float32](t, Exp, everything)
	if n, most := count(scaled), 13; n > most || n >= count(plain) {
		t.Errorf("%d instructions of exp, %d without scale", n, count(plain))
	}
}

// TestTargetsAgree holds that elementary functions give the same bits for all targets: those of a NaN apart.
func TestTargetsAgree(t *testing.T) {
	t.Run("float32", func(t *testing.T) {
		testTargetsAgree(t, func(u uint64) float32 { return math.Float32frombits(uint32(u >> 32)) }, math.Float32bits)
	})
	t.Run("float64", func(t *testing.T) { testTargetsAgree(t, math.Float64frombits, math.Float64bits) })
}

func testTargetsAgree[T float, U uint32 | uint64](t *testing.T, number func(uint64) T, bits func(T) U) {
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
	for o := Exp; o.Elementary(); o++ {
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

// ulps is how far y is from want + low, in units of T's last place there. Infinities are the numbers after the last;
// NaN, infinities and zeros, with their signs, must be as wanted.
func ulps[T float](y T, want, low float64) float64 {
	least, mantissa, most := -1022, 52, math.Inf(1)
	if dtypeOf[T]() == tensor.Float32 {
		least, mantissa, most = -126, 23, 0x1p128
	}
	v, exact := float64(y), float64(T(want)) == want && low == 0
	switch {
	case want != want && v != v:
		return 0
	case want != want || v != v || math.Signbit(v) != math.Signbit(want):
		return math.Inf(1)
	case v == want && exact, math.IsInf(v, 0) && math.Abs(want) >= most:
		return 0
	case math.IsInf(want, 0):
		return math.Inf(1)
	case math.IsInf(v, 0):
		v = math.Copysign(most, v)
	case math.Abs(want) >= most:
		want, low = math.Copysign(most, want), 0
	}
	return math.Abs((v-want)-low) / math.Ldexp(1, max(math.Ilogb(want), least)-mantissa)
}

// elementaries are the functions of one operand, and how many instructions their expansions may have in each dtype,
// without those that only name bits otherwise.
var elementaries = []struct {
	op       Op
	f        func(float64) float64
	f32, f64 int
}{
	{Exp, math.Exp, 17, 23},
	{Exp2, math.Exp2, 16, 21},
	{Expm1, math.Expm1, 19, 28},
	{Log, math.Log, 26, 39},
	{Log2, math.Log2, 28, 40},
	{Log10, math.Log10, 30, 42},
	{Log1p, math.Log1p, 28, 41},
	{Sin, math.Sin, 41, 195},
	{Cos, math.Cos, 40, 195},
	{Tan, math.Tan, 41, 195},
	{Asin, math.Asin, 21, 29},
	{Acos, math.Acos, 22, 30},
	{Atan, math.Atan, 21, 33},
	{Sinh, math.Sinh, 28, 37},
	{Cosh, math.Cosh, 20, 26},
	{Tanh, math.Tanh, 19, 31},
	{Asinh, math.Asinh, 38, 62},
	{Acosh, math.Acosh, 38, 60},
	{Atanh, math.Atanh, 38, 62},
	{Erf, math.Erf, 26, 48},
	{Erfc, math.Erfc, 41, 91},
}

func count(c *Code) int {
	n := c.Count()
	for _, i := range c.Insts {
		if i.Op == Bits {
			n--
		}
	}
	return n
}

func TestExpandCounts(t *testing.T) {
	for _, tc := range elementaries {
		c32, _ := expanded[float32](t, tc.op, Target{})
		c64, _ := expanded[float64](t, tc.op, Target{})
		if n, m := count(c32), count(c64); n > tc.f32 || m > tc.f64 {
			t.Errorf("%v: %d and %d instructions, not %d and %d", tc.op, n, m, tc.f32, tc.f64)
		}
	}
}

// TestExpandFloat32 runs float32's expansions over all numbers, a stride apart, against package math in float64.
// GRAPHRUN_STRIDE is another stride: 1 takes a function two or three minutes.
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
	stride := uint64(40009)
	if testing.Short() {
		stride = 400009
	}
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
			if far := ulps(y[k], f(float64(x[k])), 0); far > worst {
				worst, at = far, x[k]
			}
		}
	}
	t.Logf("%.3f ulp at %v", worst, at)
	if worst > 2 {
		t.Errorf("%v ulp off at %v", worst, at)
	}
}

// TestExpOfTables holds exp of float32 to the error that other functions leave it room for: what sigmoid, softplus and
// softmax make of exp adds to that.
func TestExpOfTables(t *testing.T) {
	_, run := expanded[float32](t, Exp, everything)
	x := make([]float32, 1<<18)
	for k := range x {
		x[k] = -87 + 175*float32(k)/float32(len(x))
	}
	y := make([]float32, len(x))
	run(y, x, x)
	worst, at := 0.0, float32(0)
	for k, v := range x {
		if far := ulps(y[k], math.Exp(float64(v)), 0); far > worst {
			worst, at = far, v
		}
	}
	if worst > 0.7 {
		t.Errorf("%v ulp off at %v", worst, at)
	}
}

// onePlusErf returns an expansion of 1 + erf(c*x) of float32, and erf as a result of its own if that is wanted.
func onePlusErf(t *testing.T, c float64, also bool) *Code {
	t.Helper()
	b := NewBuilder(tensor.Float32)
	x := b.Load(0)
	if c != 1 {
		x = b.Do(Mul, b.Const(tensor.Float32, c), x)
	}
	erf := b.Do(Erf, x)
	out := []Output{b.Real(b.Do(Add, erf, b.Const(tensor.Float32, 1)))}
	if also {
		out = append(out, b.Real(erf))
	}
	code, err := b.Build(out...)
	if err == nil {
		code, err = code.Expand(Target{})
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

func testOnePlusErf(t *testing.T, c float64, code *Code, most int) {
	t.Helper()
	if n := count(code); n > most {
		t.Errorf("%d instructions of 1 + erf(%v * x)", n, c)
	}
	p, err := (&Loop{Code: code, Scalar: []bool{false}}).Prepare()
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
				above = max(above, ulps(y[k], want, 0))
			}
			if product := float32(0.5) * x * y[k]; x > -0.9 && x < 1e30 {
				gelu = max(gelu, ulps(product, 0.5*float64(x)*want, 0))
			}
		}
	}
	t.Logf("c = %v: %.3f ulp from 1 on, %.3g below; %.3f ulp of gelu above -0.9", c, above, below, gelu)
	if above > 1.2 || below > 7e-8 || c == math.Sqrt2/2 && (below > 6e-8 || gelu > 2) {
		t.Errorf("c = %v: %v ulp off from 1 on, %v below; gelu %v ulp", c, above, below, gelu)
	}
}

// eachExact reads values that were computed in 113 bits: the name of a function, operands, the value and what that
// lacks.
func eachExact(t *testing.T, each func(name string, x, y, want, low float64)) {
	t.Helper()
	f, err := os.Open("testdata/elementary.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(s.Text())
		var v [4]float64
		for k := range v {
			if v[k], err = strconv.ParseFloat(words[k+1], 64); err != nil {
				t.Fatal(err)
			}
		}
		each(words[0], v[0], v[1], v[2], v[3])
	}
}

func TestExpandFloat64(t *testing.T) {
	runs, worst := map[string][]func(dst, x, y []float64){}, map[string]float64{}
	for o := Exp; o.Elementary(); o++ {
		runs[o.String()] = runsOf[float64](t, o)
	}
	eachExact(t, func(name string, x, y, want, low float64) {
		var got [1]float64
		for _, run := range runs[name] {
			run(got[:], []float64{x}, []float64{y})
			far := ulps(got[0], want, low)
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
