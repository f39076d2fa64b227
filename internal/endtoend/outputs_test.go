package endtoend_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// randomView applies a random view to v, or returns v.
func randomView(rng *rand.Rand, g *graph.Graph, v *graph.Value) *graph.Value {
	shape := v.Meta.Shape
	if len(shape) == 0 {
		return v
	}
	dim := rng.IntN(len(shape))
	size := shape[dim]
	switch rng.IntN(8) {
	case 0:
		if size > 0 {
			return g.Apply("select", graph.Attrs{"dim": dim, "index": rng.IntN(size)}, v)[0]
		}
	case 1:
		start := rng.IntN(size + 1)
		return g.Apply("slice", graph.Attrs{"dim": dim, "start": start, "end": start + rng.IntN(size-start+1),
			"step": 1 + rng.IntN(2)}, v)[0]
	case 2:
		return g.Apply("transpose", graph.Attrs{"dim0": dim, "dim1": rng.IntN(len(shape))}, v)[0]
	case 3:
		return g.Apply("unsqueeze", graph.Attrs{"dim": dim}, v)[0]
	case 4:
		return g.Apply("squeeze", nil, v)[0]
	case 5:
		return g.Apply("reshape", graph.Attrs{"shape": []int{v.Meta.Numel()}}, v)[0] // a copy if no view is possible
	case 6:
		if len(shape) > 1 {
			return g.Apply("diagonal", graph.Attrs{"dim1": dim, "dim2": (dim + 1) % len(shape)}, v)[0]
		}
	case 7:
		return g.Apply("expand", graph.Attrs{"size": append([]int{3}, shape...)}, v)[0]
	}
	return v
}

// outputsOfViews returns a graph whose outputs are views of an input, of copies, of a computed value and of a constant.
func outputsOfViews(rng *rand.Rand) *graph.Graph {
	g := graph.New("outputs", kernels.Lookup)
	meta := tensor.New(f32, 4, 3, 5)
	meta.Offset = rng.IntN(2) * 1000
	x := g.InputMeta("x", meta)
	k := g.Constant("k", (&joiner{rng: rng}).fill(tensor.New(f32, 4, 3, 5)))
	e := g.Apply("neg", nil, x)[0]
	bases := []*graph.Value{x, k, e, g.Apply("clone", nil, x)[0], g.Apply("clone", nil, randomView(rng, g, x))[0],
		g.Apply("clone", nil, e)[0], g.Apply("clone", nil, k)[0], g.Apply("neg", nil, k)[0]}
	for i := range 1 + rng.IntN(4) {
		v := bases[rng.IntN(len(bases))]
		for range rng.IntN(4) {
			v = randomView(rng, g, v)
			bases = append(bases, v)
		}
		g.Output(fmt.Sprint("y", i), v)
	}
	return g
}

// elementBytes returns the first and the last byte, plus 1, of the elements of a layout.
func elementBytes(m tensor.Meta) (start, end int) {
	return m.Offset * m.DType.Size(), max(m.Extent(), m.Offset) * m.DType.Size()
}

// TestOutputsOwnTheirMemory checks the memory of outputs. A view of an input, and no other output, shares the input's
// storage. Outputs share storage if their elements overlap in the memory of one value of the graph as given. The
// storage of outputs has no bytes before, between or after them, and [exec.Need] is the sum of its sizes.
func TestOutputsOwnTheirMemory(t *testing.T) {
	for seed := range uint64(testsize.Of(60, 1500)) {
		rng := rand.New(rand.NewPCG(seed, 77))
		g := outputsOfViews(rng)
		require.NoError(t, g.Err())
		x := (&joiner{rng: rng}).fill(g.Inputs[0].Meta)
		in := map[string]*tensor.Tensor{"x": x}
		want, err := graph.Evaluate(g, in)
		require.NoError(t, err)
		for _, s := range layout.All() {
			where := fmt.Sprintf("seed %d, %s", seed, s.Name())
			p, err := passes.Run(g, passes.Options{Strategy: s})
			require.NoError(t, err, where)
			program, err := exec.Compile(p.Graph, exec.Options{Threads: 1 + int(seed%2)})
			require.NoError(t, err, where)
			for range 2 { // the second run reuses the session
				got, err := program.Run(t.Context(), in)
				require.NoError(t, err, where)
				checkOutputMemory(t, g, x, want, got, program.Need().Outputs, where)
			}
			into := map[string]*tensor.Tensor{}
			list := make([]*tensor.Tensor, len(g.Outputs))
			for i, output := range g.Outputs {
				list[i] = tensor.Zeros(f32, output.Value.Meta.Shape...)
				into[output.Name] = list[i]
			}
			require.NoError(t, program.RunInto(t.Context(), []*tensor.Tensor{x}, list), where)
			for name := range want {
				require.Equal(t, floats(want[name]), floats(into[name]), "%s, %s", where, name)
			}
		}
	}
}

// checkOutputMemory checks the outputs of one run: see [TestOutputsOwnTheirMemory].
func checkOutputMemory(t *testing.T, g *graph.Graph, x *tensor.Tensor, want, got map[string]*tensor.Tensor, need int,
	where string) {
	t.Helper()
	sharing := map[*tensor.Storage][]*tensor.Tensor{}
	for i, output := range g.Outputs {
		result := got[output.Name]
		require.Equal(t, floats(want[output.Name]), floats(result), "%s, %s", where, output.Name)
		require.Equal(t, output.Value.Meta.Strides, result.Strides, "%s, %s", where, output.Name)
		isInput := output.Value.Root() == g.Inputs[0]
		require.Equal(t, isInput, result.Storage() == x.Storage(), "%s, %s", where, output.Name)
		require.NotSame(t, g.Constants[0].Const.Storage(), result.Storage(), "%s, %s", where, output.Name)
		if isInput {
			continue
		}
		sharing[result.Storage()] = append(sharing[result.Storage()], result)
		start, end := elementBytes(output.Value.Meta)
		for _, other := range g.Outputs[:i] {
			otherStart, otherEnd := elementBytes(other.Value.Meta)
			sharesRoot := other.Value.Root() == output.Value.Root()
			isShared := got[other.Name].Storage() == result.Storage()
			if !sharesRoot {
				require.False(t, isShared, "%s, %s and %s", where, other.Name, output.Name)
			} else if otherStart < end && start < otherEnd && otherStart < otherEnd && start < end {
				require.True(t, isShared, "%s, %s and %s", where, other.Name, output.Name)
				require.Equal(t, start-otherStart, 4*(result.Offset-got[other.Name].Offset), where)
			}
		}
	}
	total := 0
	for storage, results := range sharing {
		slices.SortFunc(results, func(a, b *tensor.Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
		end := 0
		for _, result := range results {
			require.LessOrEqual(t, 4*result.Offset, end, where)
			_, resultEnd := elementBytes(result.Meta)
			end = max(end, resultEnd)
		}
		require.Equal(t, end, storage.Len(), where)
		total += storage.Len()
	}
	require.Equal(t, need, total, where)
}

// Outputs of a run in segments own no more memory than outputs of a program do. A segment that reads the memory of an
// operand finds it as inferred, although an earlier segment computed it.
func TestOutputsOfSegmentsOwnTheirMemory(t *testing.T) {
	for _, s := range layout.All() {
		g := graph.New("segments", kernels.Lookup)
		x := g.Input("x", f32, 40, 3)
		e := g.Apply("neg", nil, x)[0]
		row := g.Apply("select", graph.Attrs{"dim": 0, "index": -1}, e)[0]
		part := g.Apply("slice", graph.Attrs{"dim": 0, "start": 7}, x)[0]
		copied := g.Apply("slice", graph.Attrs{"dim": 0, "start": 2}, g.Apply("clone", nil, part)[0])[0]
		places := g.Apply("nonzero", nil, g.Apply("relu", nil, e)[0])[0]
		column := g.Apply("select", graph.Attrs{"dim": 1, "index": 1}, places)[0]
		count := g.Apply("unsqueeze", graph.Attrs{"dim": 0}, g.Apply("count_nonzero", nil, row)[0])[0]
		strided := func(v *graph.Value, offset int) *graph.Value {
			return g.Apply("as_strided", graph.Attrs{"size": graph.ValueRef{Value: count}, "stride": []int{1},
				"storage_offset": offset}, v)[0]
		}
		g.Output("row", row).Output("places", g.Apply("select", graph.Attrs{"dim": 0, "index": 0}, places)[0])
		g.Output("column", column).Output("x", g.Apply("select", graph.Attrs{"dim": 0, "index": 5}, x)[0])
		g.Output("ofRow", g.Apply("neg", nil, strided(row, 6))[0])
		g.Output("ofCopy", g.Apply("neg", nil, strided(copied, 1))[0])
		require.NoError(t, g.Err())
		in := map[string]*tensor.Tensor{"x": tensor.Zeros(f32, 40, 3)}
		for i := range 120 {
			in["x"].SetFlat(i, tensor.FloatScalar(float64(i-60)))
		}
		r, err := program.Compile(t.Context(), g, program.Options{Strategy: s})
		require.NoError(t, err)
		got, err := r.Run(t.Context(), in)
		require.NoError(t, err)
		for name, want := range map[string][]float32{"row": {-57, -58, -59}, "ofRow": {-54, -53, -52},
			"ofCopy": {38, 37, 36}, "x": {-45, -44, -43}} {
			require.Equal(t, want, floats(got[name]), "%s, %s", s.Name(), name)
		}
		require.Same(t, in["x"].Storage(), got["x"].Storage())
		require.Equal(t, 12, got["row"].Storage().Len(), s.Name())
		// places has 60 rows of 2; the row and the column overlap at element 1.
		require.Equal(t, 8*120, got["column"].Storage().Len(), s.Name())
		require.Same(t, got["column"].Storage(), got["places"].Storage(), s.Name())
	}
}

// The copy of outputs with elements of different sizes starts at a multiple of the largest size.
func TestOutputsOfDifferentElementSizes(t *testing.T) {
	g := graph.New("sizes", kernels.Lookup)
	pairs := g.Apply("view_as_real", nil, g.Apply("neg", nil, g.Input("x", tensor.Complex64, 9))[0])[0]
	floatsOf := g.Apply("slice", graph.Attrs{"dim": 0, "start": 5},
		g.Apply("view", graph.Attrs{"size": []int{18}}, pairs)[0])[0] // from byte 20
	numbers := g.Apply("slice", graph.Attrs{"dim": 0, "start": 3, "end": 8}, g.Value("neg"))[0] // from byte 24
	g.Output("numbers", numbers).Output("floats", floatsOf)
	require.NoError(t, g.Err())
	x := (&joiner{rng: rand.New(rand.NewPCG(1, 2))}).fill(tensor.New(tensor.Complex64, 9))
	want, err := graph.Evaluate(g, map[string]*tensor.Tensor{"x": x})
	require.NoError(t, err)
	for _, s := range layout.All() {
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err)
		program, err := exec.Compile(p.Graph, exec.Options{})
		require.NoError(t, err)
		got, err := program.Run(t.Context(), map[string]*tensor.Tensor{"x": x})
		require.NoError(t, err)
		for name := range want {
			require.NoError(t, sameElements(got[name], want[name]), "%s, %s", s.Name(), name)
		}
		require.Equal(t, []int{56, 56, 1, 1}, []int{got["numbers"].Storage().Len(), program.Need().Outputs,
			got["numbers"].Offset, got["floats"].Offset})
	}
}
