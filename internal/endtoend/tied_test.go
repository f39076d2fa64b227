package endtoend_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// tied returns a graph in which a table of 75 rows of 70 elements is multiplied, transposed or not, and gathered by an
// op.
func tied(t *testing.T, dtype tensor.DType, gather string, dim int, transposed bool) *graph.Graph {
	table := tensor.Zeros(dtype, 75, 70)
	for i := range table.Numel() {
		table.SetFlat(i, tensor.FloatScalar(float64(i*i%997)/64-7))
	}
	g := graph.New("tied", kernels.Lookup)
	w := g.Constant("table", table)
	ids := []int{2, 3}
	switch gather {
	case "index_select":
		ids = []int{6}
	case "gather":
		ids = [][]int{{6, 70}, {75, 6}}[dim]
		if dim == 1 {
			ids[0] = 68
		}
	}
	index := g.Input("ids", tensor.Int64, ids...)
	var rows *graph.Value
	switch gather {
	case "embedding":
		rows = op.Embedding(w, index)
	case "index_select":
		rows = op.IndexSelect(w, index, dim)
	case "gather":
		rows = op.Gather(w, index, dim)
	case "index":
		if dim == 0 {
			rows = op.Index(w, index, nil, nil, nil, nil, nil, nil, nil)
		} else {
			rows = op.Index(w, nil, index, nil, nil, nil, nil, nil, nil)
		}
	}
	factor, cols := w, 75
	if transposed {
		factor, cols = op.T(w), 70
	}
	x := g.Input("x", dtype, 9, cols)
	g.Output("rows", rows).Output("products", op.Matmul(x, factor))
	require.NoError(t, g.Err())
	return g
}

// TestTablesAreHeldInPanels gathers rows and columns of tables of which only packed panels remain.
func TestTablesAreHeldInPanels(t *testing.T) {
	if jit.Available() != nil {
		t.Skip("kernels in Go read products of 16-bit floats from float32")
	}
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		for _, gather := range []string{"embedding", "index_select", "gather", "index"} {
			for dim := range 2 {
				for _, transposed := range []bool{true, false} {
					if gather == "embedding" && dim == 1 {
						continue
					}
					t.Run(fmt.Sprint(dtype, gather, dim, transposed), func(t *testing.T) {
						g := tied(t, dtype, gather, dim, transposed)
						p, err := graphrun.Compile(ctx, g, graphrun.Options{Check: true})
						require.NoError(t, err)
						require.Len(t, p.Report().Packed, 1)
						assert.Len(t, p.Report().Packed[0].Readers, 2)
						need := p.Need()
						assert.Zero(t, need.Constants)
						assert.Less(t, need.Packed, 97*75*dtype.Size())
						compareTied(t, g, p)
					})
				}
			}
		}
	}
}

// compareTied compares the rows that a program gathers, or its error, with the reference.
func compareTied(t *testing.T, g *graph.Graph, p *graphrun.Program) {
	ids, x := tensor.Zeros(tensor.Int64, g.Inputs[0].Meta.Shape...), g.Inputs[1].Meta
	in := map[string]*tensor.Tensor{"ids": ids, "x": tensor.Zeros(x.DType, x.Shape...)}
	for _, last := range []int64{69, -1, 75, -76} {
		for i := range ids.Numel() {
			ids.SetFlat(i, tensor.IntScalar(int64(i*7%70)))
		}
		ids.SetFlat(ids.Numel()-1, tensor.IntScalar(last))
		want, wantErr := graph.Evaluate(g, in)
		got, err := p.Run(t.Context(), in)
		if wantErr != nil {
			require.ErrorContains(t, wantErr, "is out of bounds for dimension")
			text := fmt.Sprint("index ", last, " is out of bounds")
			require.ErrorContains(t, wantErr, text)
			require.ErrorContains(t, err, text)
			continue
		}
		require.NoError(t, err)
		rows, err := tensor.ToSlice[float32](want["rows"].CopyTo(tensor.New(tensor.Float32, want["rows"].Shape...)))
		require.NoError(t, err)
		gotRows, err := tensor.ToSlice[float32](got["rows"].CopyTo(tensor.New(tensor.Float32, want["rows"].Shape...)))
		require.NoError(t, err)
		require.Equal(t, rows, gotRows)
	}
}

// TestConvolutionsOfViews multiplies a weight and its transposes by every implementation: packed forms that do not
// state the layout of their operand are not shared.
func TestConvolutionsOfViews(t *testing.T) {
	w := tensor.Zeros(tensor.Float32, 16, 16, 3, 3)
	x := tensor.Zeros(tensor.Float32, 1, 16, 8, 8)
	for i := range w.Numel() {
		w.SetFlat(i, tensor.FloatScalar(float64(i*i%997)/512-1))
	}
	for i := range x.Numel() {
		x.SetFlat(i, tensor.FloatScalar(float64(i*i%883)/512-1))
	}
	in := map[string]*tensor.Tensor{"x": x}
	for _, impl := range kernels.Lookup("conv2d").Impls {
		g := graph.New("views", kernels.Lookup)
		c := g.Constant("w", w)
		images := g.InputMeta("x", x.Meta)
		for i, weight := range []*graph.Value{c, op.Transpose(c, 0, 1), op.Transpose(c, 2, 3)} {
			y := op.Conv2d(images, weight, nil, op.Conv2dAttrs{Padding: []int{1}})
			y.Node.Pin = graph.Pin{Impl: impl.Name}
			g.Output(fmt.Sprint("y", i), y)
		}
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 2})
		if err != nil { // an implementation for other shapes
			continue
		}
		out, err := p.Run(t.Context(), in)
		require.NoError(t, err)
		want, err := graph.Evaluate(g, in)
		require.NoError(t, err)
		for name := range want {
			a, err := tensor.ToSlice[float32](want[name])
			require.NoError(t, err)
			b, err := tensor.ToSlice[float32](out[name])
			require.NoError(t, err)
			assert.InDeltaSlice(t, a, b, 1e-3, "%s by %s", name, impl.Name)
		}
	}
}

// TestSliceOfAHalfIsUnpacked multiplies a part of a bfloat16 table: its panels are unpacked with the strides of the
// table, which the check of small graphs does.
func TestSliceOfAHalfIsUnpacked(t *testing.T) {
	table := tensor.Zeros(tensor.BFloat16, 70, 62)
	for i := range table.Numel() {
		table.SetFlat(i, tensor.FloatScalar(float64(i%61)/8))
	}
	g := graph.New("slice", kernels.Lookup)
	part := op.Slice(op.To(g.Constant("w", table), op.ToAttrs{DType: tensor.Float32}), op.SliceAttrs{Dim: 1, End: new(61)})
	x := g.Input("x", tensor.Float32, 5, 61)
	g.Output("y", op.Linear(x, part, nil))
	require.NoError(t, g.Err())
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Check: true})
	require.NoError(t, err)
	ones := tensor.Zeros(tensor.Float32, 5, 61)
	for i := range ones.Numel() {
		ones.SetFlat(i, tensor.IntScalar(1))
	}
	in := map[string]*tensor.Tensor{"x": ones}
	out, err := p.Run(t.Context(), in)
	require.NoError(t, err)
	want, err := graph.Evaluate(g, in)
	require.NoError(t, err)
	a, err := tensor.ToSlice[float32](want["y"])
	require.NoError(t, err)
	b, err := tensor.ToSlice[float32](out["y"])
	require.NoError(t, err)
	assert.InDeltaSlice(t, a, b, 1e-2)
}
