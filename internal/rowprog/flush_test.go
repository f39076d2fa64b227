package rowprog_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/tensor"
)

// flushes returns the code of f over a row, the code with exponentials below e^-60 flushed to 0, and whether any is.
func flushes(t *testing.T, d tensor.DType, f func(b *expr.Builder, x expr.Value) expr.Value) (
	exact, flushed *expr.Code, ok bool) {
	b := expr.NewBuilder(d)
	exact, err := b.Build(b.Real(f(b, b.Load(0))))
	require.NoError(t, err)
	flushed, ok = exact.FlushExp(-60)
	return exact, flushed, ok
}

func belowMost(b *expr.Builder, x expr.Value) expr.Value {
	return b.Emit(expr.Exp, b.Emit(expr.Sub, x, b.Reduce(expr.Max, x)))
}

func softmax(b *expr.Builder, x expr.Value) expr.Value {
	e := belowMost(b, x)
	return b.Emit(expr.Div, e, b.Reduce(expr.Add, e))
}

// Exponentials below the bound are 0; others, and NaN, are unchanged.
func TestFlushExp(t *testing.T) {
	exact, flushed, ok := flushes(t, tensor.Float32, belowMost)
	require.True(t, ok)
	eval := func(c *expr.Code, x float32) float32 {
		s, err := rowprog.New(c, []tensor.Meta{tensor.New(tensor.Float32, 1, 2)},
			[]tensor.Meta{tensor.New(tensor.Float32, 1, 2)}, []bool{false, true}, rowprog.ByRows)
		require.NoError(t, err)
		in, out := []float32{0, x}, make([]float32, 2)
		var state rowprog.State
		scratch, worker := make([]byte, s.Scratch()), make([]byte, s.WorkerScratch())
		ptrs := []unsafe.Pointer{unsafe.Pointer(&out[0]), unsafe.Pointer(&in[0])}
		for phase := range s.Phases() {
			for chunk := range s.Chunks(phase) {
				require.NoError(t, s.Run(&state, phase, chunk, ptrs, scratch, worker))
			}
		}
		return out[1]
	}
	for _, x := range []float32{0, 1, -59.5, -60, 88} {
		assert.Equal(t, eval(exact, x), eval(flushed, x), "e^%v", x)
		assert.NotZero(t, eval(flushed, x), "e^%v", x)
	}
	for _, x := range []float32{-60.1, -100, -1e9, float32(math.Inf(-1))} {
		assert.Zero(t, eval(flushed, x), "e^%v", x)
	}
	assert.True(t, math.IsNaN(float64(eval(flushed, float32(math.NaN())))))
	exact, same, ok := flushes(t, tensor.Float64, softmax)
	assert.False(t, ok)
	assert.Equal(t, exact.Key(), same.Key())
}

// Exponentials are flushed if they do not affect results beside the largest exponential, which is 1.
func TestFlushExpWhere(t *testing.T) {
	const f32, f64 = tensor.Float32, tensor.Float64
	for _, c := range []struct {
		name string
		want bool
		f    func(b *expr.Builder, x expr.Value) expr.Value
	}{
		{"softmax", true, softmax},
		{"summed in float64", true, func(b *expr.Builder, x expr.Value) expr.Value {
			e := belowMost(b, x)
			sum := b.Convert(f32, b.Reduce(expr.Add, b.Convert(f64, e)))
			return b.Emit(expr.Mul, e, b.Emit(expr.Div, b.Const(f32, 1), sum))
		}},
		{"dropped", true, func(b *expr.Builder, x expr.Value) expr.Value {
			return b.Emit(expr.Select, b.Emit(expr.Lt, x, b.Const(f32, 3)), softmax(b, x), b.Const(f32, 0))
		}},
		{"logarithm of the sum", true, func(b *expr.Builder, x expr.Value) expr.Value {
			return b.Emit(expr.Sub, x, b.Emit(expr.Log, b.Reduce(expr.Add, belowMost(b, x))))
		}},
		{"nothing taken off", false, func(b *expr.Builder, x expr.Value) expr.Value {
			e := b.Emit(expr.Exp, x)
			return b.Emit(expr.Div, e, b.Reduce(expr.Add, e))
		}},
		{"another row's largest", false, func(b *expr.Builder, x expr.Value) expr.Value {
			most := b.Reduce(expr.Max, b.Emit(expr.Abs, x))
			return b.Emit(expr.Exp, b.Emit(expr.Sub, x, most))
		}},
		{"logarithms of weights", false, func(b *expr.Builder, x expr.Value) expr.Value {
			return b.Emit(expr.Log, softmax(b, x))
		}},
		{"scaled by the sum of some", false, func(b *expr.Builder, x expr.Value) expr.Value {
			some := b.Emit(expr.Mul, softmax(b, x), b.Emit(expr.Abs, x))
			return b.Emit(expr.Div, some, b.Reduce(expr.Add, some))
		}},
		{"divisors", false, func(b *expr.Builder, x expr.Value) expr.Value {
			return b.Emit(expr.Div, x, belowMost(b, x))
		}},
		{"compared", false, func(b *expr.Builder, x expr.Value) expr.Value {
			return b.Emit(expr.Select, b.Emit(expr.Lt, b.Const(f32, 0), belowMost(b, x)), x, b.Const(f32, 0))
		}},
	} {
		_, _, ok := flushes(t, f32, c.f)
		assert.Equal(t, c.want, ok, c.name)
	}
}
