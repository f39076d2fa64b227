package endtoend_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

func loadText(t *testing.T, text string) (*graph.Graph, error) {
	t.Helper()
	return graphfile.Read(strings.NewReader(text), kernels.Lookup, graphfile.Options{Name: "g.json", Dir: "."})
}

// manyForms calls ops in the forms of aten's overloads.
const manyForms = `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}, {"name": "z", "dtype": "complex64", "shape": [4]},
            {"name": "n", "dtype": "int64", "shape": [4]}, {"name": "mask", "dtype": "bool", "shape": [4]}],
 "nodes": [{"name": "twice", "op": "mul", "inputs": ["x"], "attrs": {"other": 2}},
           {"name": "base", "op": "pow", "inputs": ["x"], "attrs": {"self": 2}},
           {"name": "filled", "op": "masked_fill", "inputs": ["x", "mask"], "attrs": {"value": "-Infinity"}},
           {"name": "scattered", "op": "scatter", "inputs": ["x", "n"], "attrs": {"dim": 0, "value": 7, "reduce": "add"}},
           {"name": "computed", "op": "masked_fill", "inputs": ["x", "mask"], "attrs": {"value": {"value": "least"}}},
           {"name": "least", "op": "min", "inputs": ["x"]},
           {"name": "greater", "op": "max", "inputs": ["x", "twice"]},
           {"name": "parts", "op": "split", "inputs": ["x"], "attrs": {"split_size": [1, 3]}, "outputs": ["head", "tail"]},
           {"name": "like", "op": "to", "inputs": ["x", "n"]},
           {"name": "repeated", "op": "repeat_interleave", "inputs": ["x", "n"]},
           {"name": "places", "op": "repeat_interleave", "inputs": ["n"]},
           {"name": "hot", "op": "one_hot", "inputs": ["n"]},
           {"name": "pair", "op": "add", "inputs": ["z", "z"], "attrs": {"alpha": [0, 1]}},
           {"name": "python", "op": "add", "inputs": ["z", {"number": "(1-2j)"}], "attrs": {"alpha": "2j"}},
           {"name": "either", "op": "where", "inputs": ["mask", "x"], "attrs": {"other": 1.5}}],
 "outputs": ["twice", "base", "filled", "scattered", "computed", "greater", "head", "tail", "like", "repeated", "places", "hot", "pair", "python", "either"]}`

// TestOverloadsInFiles runs the overloads of a file, before and after saving it.
func TestOverloadsInFiles(t *testing.T) {
	g, err := loadText(t, manyForms)
	require.NoError(t, err)
	var saved strings.Builder
	require.NoError(t, graphfile.Save(&saved, g))
	again, err := loadText(t, saved.String())
	require.NoError(t, err, saved.String())
	in := map[string]*tensor.Tensor{
		"x":    tensor.Must(tensor.FromSlice([]float32{1, -2, 3, 0}, 4)),
		"z":    tensor.Must(tensor.FromSlice([]complex64{1, 1i, 2 - 1i, 0}, 4)),
		"n":    tensor.Must(tensor.FromSlice([]int64{2, 0, 1, 2}, 4)),
		"mask": tensor.Must(tensor.FromSlice([]bool{false, true, true, false}, 4)),
	}
	want := map[string]string{
		"twice": "2 -4 6 0", "base": "2 0.25 8 1", "filled": "1 -Inf -Inf 0", "scattered": "8 5 17 0",
		"computed": "1 -2 -2 0",
		"greater":  "2 -2 6 0", "head": "1", "tail": "-2 3 0", "like": "1 -2 3 0", "repeated": "1 1 3 0 0",
		"places": "0 0 2 3 3",
		"hot":    "0 0 1 1 0 0 0 1 0 0 0 1", "pair": "(1+1i) (-1+1i) (3+1i) (0+0i)", "python": "(5+2i) (4+3i) (6+1i) (4+2i)",
		"either": "1.5 -2 3 1.5",
	}
	for _, g := range []*graph.Graph{g, again} {
		ref, err := graph.Evaluate(g, in)
		require.NoError(t, err)
		r, err := compiled(g, 2)
		require.NoError(t, err)
		got, err := r.Run(context.Background(), in)
		require.NoError(t, err)
		for name, w := range want {
			require.Equal(t, w, elementsText(got[name]), name)
			require.Equal(t, w, elementsText(ref[name]), "%s by reference", name)
		}
	}
}

func elementsText(t *tensor.Tensor) string {
	var s []string
	for i := range t.Numel() {
		at := make([]int, t.Rank())
		for k := t.Rank() - 1; k >= 0; k-- {
			at[k], i = i%t.Shape[k], i/t.Shape[k]
		}
		s = append(s, t.At(at...).String())
	}
	return strings.Join(s, " ")
}

// TestOverloadsInGo calls overloads by the builder.
func TestOverloadsInGo(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x, n := g.Input("x", f32, 3), g.Input("n", tensor.Int64, 3)
	parts := op.Split(x, []int{2, 1})
	g.Output("a", op.MaxOther(x, op.Neg(x))).Output("b", parts[0]).Output("c", op.RepeatInterleaveTensor(x, n)).
		Output("d", op.ToOther(x, n)).Output("e", op.Scatter(x, n, 9, 0))
	in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{1, -2, 3}, 3)),
		"n": tensor.Must(tensor.FromSlice([]int64{0, 2, 1}, 3))}
	checkRunAndSaved(t, g, in, map[string][]float32{"a": {1, 2, 3}, "b": {1, -2}, "c": {-2, -2, 3}, "d": {1, -2, 3},
		"e": {9, 9, 9}})
}

// TestOverloadMistakes: an operand is given twice, is not a number, or is missing.
func TestOverloadMistakes(t *testing.T) {
	for attrs, want := range map[string]string{
		`"inputs": ["x", 3], "attrs": {"other": 2}`:                 `operand "other" is given twice, the second time as attribute "other"`,
		`"inputs": ["x"], "attrs": {"other": "two"}`:                `attribute "other": want a number, got two`,
		`"inputs": ["x"], "attrs": {"other": {"value": "nothing"}}`: `attribute "other": there is no value "nothing"`,
		`"inputs": ["x"], "attrs": {"others": 2}`:                   `operand "other" is missing`,
		`"inputs": ["x"]`: `operand "other" is missing`,
	} {
		_, err := loadText(t, `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
 "nodes": [{"name": "y", "op": "mul", `+attrs+`}], "outputs": ["y"]}`)
		require.ErrorContains(t, err, want, attrs)
		require.ErrorContains(t, err, `g.json:2:`, attrs)
	}
}

// A number in place of an optional operand is the attribute of the operand's name.
func TestNumbersForOptionalOperands(t *testing.T) {
	g, err := loadText(t, `{"version": 1, "inputs": [{"name": "x", "dtype": "float64", "shape": [3, 3]}],
 "nodes": [{"name": "rank1", "op": "linalg_matrix_rank", "inputs": ["x", 0.5]},
           {"name": "rank2", "op": "linalg_matrix_rank", "inputs": ["x", null, 0.5]},
           {"name": "rank3", "op": "linalg_matrix_rank", "inputs": ["x", null, null, 2]},
           {"name": "inverse", "op": "linalg_pinv", "inputs": ["x", null, 0.5]},
           {"name": "repeated", "op": "repeat_interleave", "inputs": ["x", 2], "attrs": {"dim": 1}},
           {"name": "norm", "op": "linalg_norm", "inputs": ["x"], "attrs": {"ord": 0.5, "dim": 0}}],
 "outputs": ["rank1", "rank2", "rank3", "inverse", "repeated", "norm"]}`)
	require.NoError(t, err)
	x := tensor.Zeros(tensor.Float64, 3, 3) // diag(4, 1, 0.25)
	for i, v := range []float64{4, 1, 0.25} {
		x.Set(tensor.FloatScalar(v), i, i)
	}
	out, err := graphrun.Run(t.Context(), g, map[string]*tensor.Tensor{"x": x})
	require.NoError(t, err)
	elements := func(name string) []float64 {
		list, err := tensor.ToSlice[float64](out[name])
		if err != nil { // a rank
			ranks, err := tensor.ToSlice[int64](out[name])
			require.NoError(t, err)
			return []float64{float64(ranks[0])}
		}
		return list
	}
	for name, want := range map[string][]float64{"rank1": {2}, "rank2": {1}, "rank3": {1},
		"inverse":  {0.25, 0, 0, 0, 0, 0, 0, 0, 0},
		"repeated": {4, 4, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0.25, 0.25}, "norm": {4, 1, 0.25}} {
		require.InDeltaSlice(t, want, elements(name), 1e-12, name)
	}
	_, err = loadText(t, `{"version": 1, "inputs": [{"name": "x", "dtype": "float64", "shape": [3]}],
 "nodes": [{"name": "y", "op": "repeat_interleave", "inputs": ["x", 2], "attrs": {"repeats": 3}}], "outputs": ["y"]}`)
	require.ErrorContains(t, err, `operand "repeats" is given twice`)
}
