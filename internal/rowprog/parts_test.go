package rowprog_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/tensor"
)

// TestParts normalizes adjacent groups of channels: results are those of the definition, and equal for every order of
// chunks.
func TestParts(t *testing.T) {
	norm := testCodes[slices.IndexFunc(testCodes, func(c testCode) bool { return c.name == "norm" })]
	norm.make = func(b *expr.Builder) []expr.Output {
		x, n := b.Convert(f64, b.Load(0)), b.Reduce(expr.Add, b.Const(f64, 1))
		d := b.Emit(expr.Sub, x, b.Emit(expr.Div, b.Reduce(expr.Add, x), n))
		v := b.Emit(expr.Add, b.Emit(expr.Div, b.Reduce(expr.Add, b.Emit(expr.Mul, d, d)), n), b.Const(f64, 1e-5))
		y := b.Emit(expr.Mul, b.Emit(expr.Div, d, b.Emit(expr.Sqrt, v)), b.Convert(f64, b.Load(1)))
		return []expr.Output{b.Real(b.Convert(f32, y))}
	}
	norm.in, norm.one = norm.in[:2], []bool{false}
	extremes := testCode{"range", []tensor.DType{f32, f32}, func(b *expr.Builder) []expr.Output {
		x := b.Load(0)
		d := b.Emit(expr.Sub, b.Reduce(expr.Max, x), b.Reduce(expr.Min, x))
		return []expr.Output{b.Real(b.Emit(expr.Add, b.Emit(expr.Mul, x, b.Load(1)), d))}
	}, []bool{false}}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []testCode{norm, extremes} {
		for _, full := range [][]int{{2, 5, 3, 20}, {1, 32, 2, 300}, {1, 7, 32, 8}, {3, 400, 2, 9}, {1, 2, 31, 65}} {
			name := fmt.Sprintf("%s of %v", tc.name, full)
			b := expr.NewBuilder(tc.in...)
			c, err := b.Build(tc.make(b)...)
			if err != nil {
				t.Fatal(err)
			}
			channels := full[1] * full[2]
			x := tensor.New(f32, full...).WithStrides([]int{channels * full[3], full[2], 1, channels})
			weight := tensor.New(f32, full...).WithStrides([]int{0, full[2], 1, 0})
			mask := []bool{false, false, true, true}
			p, err := rowprog.New(c, []tensor.Meta{x}, []tensor.Meta{x, weight}, mask, rowprog.AnyDirection)
			if err != nil {
				t.Fatal(err)
			}
			if !p.ByColumns() {
				t.Errorf("%s: by rows", name)
			}
			outs, in, ptrs := filled(rng, []tensor.Meta{x}, []tensor.Meta{x, weight})
			runChunks(t, rng, p, ptrs)
			checkRows(t, name, c, in, outs, mask, full)
			bits := slices.Clone(outs[0].Storage().Bytes())
			runChunks(t, rng, p, ptrs)
			if !bytes.Equal(bits, outs[0].Storage().Bytes()) {
				t.Errorf("%s: other bits in another order of chunks", name)
			}
		}
	}
}
