package interp

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Handwritten loops to compare the interpreter with.
func handAdd(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func handMul(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func handExp(dst, a []float32) {
	f := math.Exp
	g := func(x float32) float32 { return float32(f(float64(x))) }
	for i := range dst {
		dst[i] = g(a[i])
	}
}

func handRelu(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], 0)
	}
}

// BenchmarkInterp runs 65,536 elements by the interpreter and by handwritten loops, one for each operation, and reports
// the best time of each.
func BenchmarkInterp(b *testing.B) {
	const n = 1 << 16
	vec := make([][]float32, 5)
	for k := range vec {
		vec[k] = make([]float32, n)
		for i := range vec[k] {
			vec[k][i] = float32(rand.NormFloat64())
		}
	}
	d := tensor.Float32
	x := func(e *expr.Builder, k int) expr.Value { return e.Load(k) }
	for _, tc := range []struct {
		name string
		ins  int
		code func(e *expr.Builder) expr.Value
		hand func()
	}{
		{"add", 2, func(e *expr.Builder) expr.Value { return e.Emit(expr.Add, x(e, 0), x(e, 1)) },
			func() { handAdd(vec[0], vec[1], vec[2]) }},
		{"mul", 2, func(e *expr.Builder) expr.Value { return e.Emit(expr.Mul, x(e, 0), x(e, 1)) },
			func() { handMul(vec[0], vec[1], vec[2]) }},
		{"exp", 1, func(e *expr.Builder) expr.Value { return e.Emit(expr.Exp, x(e, 0)) }, func() { handExp(vec[0], vec[1]) }},
		{"relu", 1, func(e *expr.Builder) expr.Value { return e.Emit(expr.Max, x(e, 0), e.Const(d, 0)) },
			func() { handRelu(vec[0], vec[1]) }},
		{"relu(a*b+c)", 3, func(e *expr.Builder) expr.Value {
			return e.Emit(expr.Max, e.Emit(expr.Add, e.Emit(expr.Mul, x(e, 0), x(e, 1)), x(e, 2)), e.Const(d, 0))
		}, func() {
			handMul(vec[0], vec[1], vec[2])
			handAdd(vec[0], vec[0], vec[3])
			handRelu(vec[0], vec[0])
		}},
	} {
		e := expr.NewBuilder([]tensor.DType{d, d, d, d}[:tc.ins]...)
		c, err := e.Build(e.Real(tc.code(e)))
		if err != nil {
			b.Fatal(err)
		}
		p, err := New(&expr.Loop{Code: c, Uniform: make([]bool, tc.ins)})
		if err != nil {
			b.Fatal(err)
		}
		var ptrs []unsafe.Pointer
		for k := range tc.ins + 1 {
			ptrs = append(ptrs, unsafe.Pointer(&vec[k][0]))
		}
		strides, s := make([]int, len(ptrs)), p.NewScratch()
		b.Run(tc.name, func(b *testing.B) {
			best := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() { // alternately, so that disturbances affect both
				for k, f := range []func(){func() { p.Run(s, ptrs, strides, nil, n, 1) }, tc.hand} {
					start := time.Now()
					f()
					best[k] = min(best[k], time.Since(start))
				}
			}
			b.ReportMetric(float64(best[0].Nanoseconds()), "ns/interp")
			b.ReportMetric(float64(best[1].Nanoseconds()), "ns/hand")
		})
	}
}
