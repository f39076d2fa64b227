package endtoend_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// quantizedGraph builds random graphs with quantized numbers, as exporters write them: uint8 or int8, with zero points,
// and weights with one scale or one for each output channel.
type quantizedGraph struct {
	r      *rand.Rand
	g      *graph.Graph
	serial int
}

func (q *quantizedGraph) constant(d tensor.DType, value func() float64, shape ...int) *graph.Value {
	t := tensor.Zeros(d, shape...)
	eachIndex(shape, func(at []int) {
		if v := value(); d.IsFloat() {
			t.Set(tensor.FloatScalar(v), at...)
		} else {
			t.Set(tensor.IntScalar(int64(v)), at...)
		}
	})
	q.serial++
	return q.g.Constant(fmt.Sprintf("c%d", q.serial), t)
}

// levels returns int8 or uint8, and a function that returns a random number of this dtype.
func (q *quantizedGraph) levels() (tensor.DType, func() float64) {
	if q.r.IntN(2) == 0 {
		return tensor.Int8, func() float64 { return float64(q.r.IntN(256) - 128) }
	}
	return tensor.Uint8, func() float64 { return float64(q.r.IntN(256)) }
}

// through quantizes a value with a scale and a random zero point, and dequantizes it.
func (q *quantizedGraph) through(v *graph.Value, scale float64) (levels, wide *graph.Value) {
	d, level := q.levels()
	s, zero := q.constant(tensor.Float32, func() float64 { return scale }), q.constant(d, level)
	levels = op.QuantizeLinear(v, s, zero)
	return levels, op.DequantizeLinear(levels, s, zero)
}

// weight returns a dequantized weight. Dimension 0 has the output channels.
func (q *quantizedGraph) weight(shape ...int) *graph.Value {
	d, level := q.levels()
	var per []int
	if q.r.IntN(2) == 0 {
		per = shape[:1]
	}
	zero := func() float64 { return 0 }
	if d == tensor.Uint8 {
		zero = func() float64 { return 128 }
	} else if q.r.IntN(4) == 0 {
		zero = level
	}
	scale := q.constant(tensor.Float32, func() float64 { return 0.01 * (0.5 + q.r.Float64()) }, per...)
	return q.g.Apply("dequantize_linear", graph.Attrs{"axis": 0}, q.constant(d, level, shape...), scale,
		q.constant(d, zero, per...))[0]
}

// product adds a convolution or a linear layer of an input, sometimes with bounds, and quantizes the result.
func (q *quantizedGraph) product() {
	r := q.r
	bias := func(n int) any {
		if r.IntN(3) == 0 {
			return nil
		}
		return q.constant(tensor.Float32, r.NormFloat64, n)
	}
	channels, out, k := 1+r.IntN(20), 1+r.IntN(40), 1+2*r.IntN(2)
	var y *graph.Value
	if r.IntN(3) == 0 {
		x := q.g.Input("x", tensor.Float32, 1+r.IntN(5), channels)
		_, wide := q.through(x, 0.02)
		y = q.g.Apply("linear", nil, wide, q.weight(out, channels), bias(out))[0]
	} else {
		groups := 1 + r.IntN(5)/4
		if r.IntN(4) == 0 { // depthwise
			groups, channels, out = channels, 1, 1
		}
		size := k + r.IntN(12)
		x := q.g.Input("x", tensor.Float32, 1+r.IntN(2), channels*groups, size, size+r.IntN(4))
		_, wide := q.through(x, 0.02)
		at := graph.Attrs{"stride": 1 + r.IntN(2), "padding": r.IntN(k), "groups": groups}
		y = q.g.Apply("conv2d", at, wide, q.weight(out*groups, channels, k, k), bias(out*groups))[0]
	}
	switch r.IntN(3) {
	case 0:
		y = op.Relu(y)
	case 1:
		y = q.g.Apply("clamp", graph.Attrs{"min": -0.5, "max": 6}, y)[0]
	}
	levels, _ := q.through(y, 0.05*math.Sqrt(float64(channels*k*k)))
	q.g.Output("y", levels)
}

// moves adds a sum or a product of two inputs, and ops that move and join numbers.
func (q *quantizedGraph) moves() {
	shape := []int{1 + q.r.IntN(2), 2 + q.r.IntN(4), 3, 4}
	_, a := q.through(q.g.Input("x", tensor.Float32, shape...), 0.02)
	_, b := q.through(q.g.Input("z", tensor.Float32, shape...), 0.03)
	of := op.Add(a, b)
	if q.r.IntN(3) == 0 {
		of = op.Mul(a, b)
	}
	sum, c := q.through(op.Relu(of), 0.04)
	joined := q.g.Apply("cat", graph.Attrs{"dim": 1}, c, a)[0]
	levels, _ := q.through(op.Permute(joined, []int{0, 2, 3, 1}), []float64{0.04, 0.1}[q.r.IntN(2)])
	q.g.Output("sum", sum)
	q.g.Output("y", levels)
}

// run plans and runs a graph. why has the reasons of its rewritten nodes.
func (q *quantizedGraph) run(t *testing.T, in map[string]*tensor.Tensor, o passes.Options, workers int) (
	out map[string]*tensor.Tensor, why []string) {
	t.Helper()
	o.Check = true
	p, err := passes.Run(q.g, o)
	require.NoError(t, err)
	program, err := exec.Compile(p.Graph, exec.Options{Threads: workers})
	require.NoError(t, err)
	out, err = program.Run(t.Context(), in)
	require.NoError(t, err)
	for _, d := range p.Decomposed {
		why = append(why, d.Why)
	}
	return out, why
}

// farthest returns the greatest difference of elements, and the number of elements that differ.
func farthest(a, b *tensor.Tensor) (most float64, differ int) {
	eachIndex(a.Shape, func(at []int) {
		d := math.Abs(a.At(at...).Float() - b.At(at...).Float())
		most = max(most, d)
		if d > 0 {
			differ++
		}
	})
	return most, differ
}

func multiplies(why string) bool { return strings.HasSuffix(why, "multiplies bytes") }
func fromLevels(why string) bool { return strings.HasSuffix(why, "is computed from quantized values") }

// TestQuantizedNumbersStayIntegers compares graphs of quantized numbers with the definition in floats. Sums of integers
// are rounded once, so a few levels may differ by one. Exact plans do not compute in integers.
func TestQuantizedNumbersStayIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(2026, 21))
	elements, differ, products, moves, moved, pairs := 0, 0, 0, 0, 0, 0
	for i := range 36 {
		if leavesOut(i, 11) {
			continue
		}
		q := &quantizedGraph{r: r, g: graph.New("g", kernels.Lookup)}
		if i%3 == 0 {
			q.moves()
			moves++
		} else {
			q.product()
		}
		require.NoError(t, q.g.Infer())
		in := map[string]*tensor.Tensor{}
		for _, v := range q.g.Inputs {
			in[v.Name] = operand(r, v.Name, v.Meta)
		}
		want, err := graph.Evaluate(q.g, in)
		require.NoError(t, err)
		got, why := q.run(t, in, passes.Options{Strategy: layout.Optimal}, 1)
		again, _ := q.run(t, in, passes.Options{Strategy: layout.Propagate}, 3)
		_, exact := q.run(t, in, passes.Options{Options: layout.Options{Exact: true}}, 1)
		for name := range want {
			most, n := farthest(got[name], want[name])
			assert.LessOrEqual(t, most, 1.0, "%d: %s", i, name)
			elements, differ = elements+want[name].Numel(), differ+n
			most, _ = farthest(got[name], again[name])
			assert.Zero(t, most, "%d: %s, other strategies and workers", i, name)
		}
		assert.False(t, slices.ContainsFunc(exact, multiplies) || slices.ContainsFunc(exact, fromLevels))
		if slices.ContainsFunc(why, fromLevels) {
			pairs++
		}
		if slices.ContainsFunc(why, multiplies) {
			products++
		}
		if slices.ContainsFunc(why, func(s string) bool { return strings.Contains(s, "moves numbers") }) {
			moved++
		}
	}
	assert.Less(t, differ*200, elements, "levels that differ")
	assert.Greater(t, 3*moved, 2*moves, "moved as bytes")
	assert.Equal(t, moves, pairs)
	if loops.CodeAvailable() {
		assert.Greater(t, products, testsize.Short(0, 10))
	}
}

// TestHalfwayLevelsAreEven adds and multiplies dequantized numbers, with scales for which every second result is
// half-way between two levels. It is rounded to the even level before the zero point is added.
func TestHalfwayLevelsAreEven(t *testing.T) {
	r := rand.New(rand.NewPCG(2026, 24))
	for zero := range 6 {
		for _, of := range []func(a, b *graph.Value) *graph.Value{
			func(a, b *graph.Value) *graph.Value { return op.Add(a, b) },
			func(a, b *graph.Value) *graph.Value { return op.Mul(a, b) },
		} {
			q := &quantizedGraph{r: r, g: graph.New("g", kernels.Lookup)}
			d, from := tensor.Uint8, 60
			if zero%2 == 1 {
				d, from = tensor.Int8, -2
			}
			number := func(d tensor.DType, v float64) *graph.Value { return q.constant(d, func() float64 { return v }) }
			wide := func(name string, scale, zero float64) *graph.Value {
				return op.DequantizeLinear(q.g.Input(name, tensor.Uint8, 30, 30), number(tensor.Float32, scale),
					number(tensor.Uint8, zero))
			}
			point := number(d, float64(from+zero/2))
			q.g.Output("y", op.QuantizeLinear(of(wide("a", 0.5, 3), wide("b", 1, 10)), number(tensor.Float32, 1), point))
			require.NoError(t, q.g.Infer())
			in := map[string]*tensor.Tensor{}
			for _, v := range q.g.Inputs {
				in[v.Name] = tensor.Zeros(tensor.Uint8, 30, 30)
				eachIndex([]int{30, 30}, func(at []int) { in[v.Name].Set(tensor.IntScalar(int64(r.IntN(20))), at...) })
			}
			want, err := graph.Evaluate(q.g, in)
			require.NoError(t, err)
			got, why := q.run(t, in, passes.Options{}, 1)
			require.True(t, slices.ContainsFunc(why, fromLevels), "%v", why)
			_, differ := farthest(got["y"], want["y"])
			assert.Zero(t, differ, "%v, zero point %d", d, from+zero/2)
		}
	}
}

// TestGreatestOfQuantizedNumbers checks that max_pool2d of dequantized numbers takes the maximum of bytes, in exact
// plans too. The padding is a number or a list.
func TestGreatestOfQuantizedNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(2026, 22))
	for i := range 24 {
		if leavesOut(i, 11) {
			continue
		}
		q := &quantizedGraph{r: r, g: graph.New("g", kernels.Lookup)}
		_, x := q.through(q.g.Input("x", tensor.Float32, 1+r.IntN(2), 1+r.IntN(20), 4+r.IntN(9), 4+r.IntN(9)), 0.02)
		pad := r.IntN(2)
		at := graph.Attrs{"kernel_size": 2 + r.IntN(2), "stride": 1 + r.IntN(3), "padding": pad, "ceil_mode": r.IntN(2) == 0}
		if i%2 == 0 {
			at["padding"] = []int{pad, pad}
		}
		levels, _ := q.through(q.g.Apply("max_pool2d", at, x)[0], []float64{0.02, 0.05}[i%2])
		q.g.Output("y", levels)
		require.NoError(t, q.g.Infer())
		in := map[string]*tensor.Tensor{"x": operand(r, "x", q.g.Inputs[0].Meta)}
		want, err := graph.Evaluate(q.g, in)
		require.NoError(t, err)
		for _, o := range []passes.Options{{Strategy: layout.Optimal}, {Options: layout.Options{Exact: true}}} {
			got, why := q.run(t, in, o, 1+i%3)
			most, differ := farthest(got["y"], want["y"])
			assert.LessOrEqual(t, most, 1.0, "%v", at)
			assert.LessOrEqual(t, differ*50, want["y"].Numel(), "%v", at)
			assert.True(t, slices.ContainsFunc(why, func(s string) bool { return strings.Contains(s, "maximum of bytes") }),
				"%v: %v", at, why)
		}
	}
}

// TestQuantizesAnyNumber quantizes infinities, NaN, huge and tiny numbers, and numbers half-way between levels, with or
// without bounds and an added constant. The levels are those of the definition.
func TestQuantizesAnyNumber(t *testing.T) {
	testsize.Long(t)
	r := rand.New(rand.NewPCG(2026, 23))
	for i := range 24 {
		q := &quantizedGraph{r: r, g: graph.New("g", kernels.Lookup)}
		scale := math.Exp(r.NormFloat64() * 10)
		x := q.g.Input("x", tensor.Float32, 7, 40)
		y := x
		if i%3 == 1 {
			y = op.Add(y, q.constant(tensor.Float32, func() float64 { return r.NormFloat64() * scale }, 40))
		}
		if i%2 == 0 {
			y = q.g.Apply("clamp", graph.Attrs{"min": -3 * scale, "max": 100 * scale}, y)[0]
		}
		levels, _ := q.through(y, scale)
		q.g.Output("y", levels)
		require.NoError(t, q.g.Infer())
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 3e38, -3e38, 1e-45, math.Copysign(0, -1)}
		in := tensor.Zeros(tensor.Float32, 7, 40)
		eachIndex(in.Shape, func(at []int) {
			v := (float64(r.IntN(600)-300) / 2) * scale
			if r.IntN(6) == 0 {
				v = odd[r.IntN(len(odd))]
			}
			in.Set(tensor.FloatScalar(v), at...)
		})
		want, err := graph.Evaluate(q.g, map[string]*tensor.Tensor{"x": in})
		require.NoError(t, err)
		for _, o := range []passes.Options{{Strategy: layout.Optimal}, {Options: layout.Options{Exact: true}}} {
			got, why := q.run(t, map[string]*tensor.Tensor{"x": in}, o, 1)
			most, _ := farthest(got["y"], want["y"])
			require.Zero(t, most, "%d", i)
			require.Contains(t, why, "by the reciprocal of the scale")
		}
	}
}

// TestQuantizedNumbersThatOthersReadStay checks that a convolution whose float result is also an output is computed in
// floats, and that the plan has the reason.
func TestQuantizedNumbersThatOthersReadStay(t *testing.T) {
	q := &quantizedGraph{r: rand.New(rand.NewPCG(1, 2)), g: graph.New("g", kernels.Lookup)}
	_, x := q.through(q.g.Input("x", tensor.Float32, 1, 8, 6, 6), 0.02)
	y := q.g.Apply("conv2d", nil, x, q.weight(8, 8, 3, 3))[0]
	levels, _ := q.through(y, 0.5)
	q.g.Output("levels", levels)
	q.g.Output("y", y)
	p, err := passes.Run(q.g, passes.Options{})
	require.NoError(t, err)
	assert.Contains(t, p.Unfused, report.Unfused{Node: y.Name, Reader: levels.Name,
		Why: "its float result has other readers"})
}

// TestQuantizedNumbersWithOtherZeroPoints dequantizes bytes by zero points of the other dtype of bytes, which machine
// code does not support.
func TestQuantizedNumbersWithOtherZeroPoints(t *testing.T) {
	r := rand.New(rand.NewPCG(92, 7))
	bytes := []tensor.DType{tensor.Uint8, tensor.Int8}
	for i := range 32 {
		g := graph.New("g", kernels.Lookup)
		scale := g.Constant("scale", tensor.Must(tensor.FromSlice([]float32{0.125}, 1)))
		shape, window := []int{4, 20}, []int{20, 9}
		if i%2 == 0 {
			shape, window = []int{1, 8, 6, 5}, []int{9, 8, 3, 3}
		}
		in := map[string]*tensor.Tensor{"x": bytesOf(r, bytes[i/2%2], shape...)}
		x := op.DequantizeLinear(g.InputMeta("x", in["x"].Meta), scale, g.Constant("xz", bytesOf(r, bytes[i/4%2], 1)))
		w := op.DequantizeLinear(g.Constant("w", bytesOf(r, bytes[i/8%2], window...)), scale,
			g.Constant("wz", tensor.Zeros(bytes[i/16%2], 1)))
		y := op.Matmul
		if i%2 == 0 {
			y = func(x, w *graph.Value) *graph.Value { return op.Conv2d(x, w, nil) }
		}
		g.Output("y", op.QuantizeLinear(y(x, w), scale, g.Constant("yz", bytesOf(r, bytes[r.IntN(2)], 1))))
		require.NoError(t, g.Err())
		want, err := graph.Evaluate(g, in)
		require.NoError(t, err)
		p, err := passes.Run(g, passes.Options{})
		require.NoError(t, err, "%d", i)
		program, err := exec.Compile(p.Graph, exec.Options{Threads: 1})
		require.NoError(t, err)
		got, err := program.Run(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, floats(want["y"]), floats(got["y"]), "%d", i)
	}
}
