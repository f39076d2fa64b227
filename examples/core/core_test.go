package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// randomGraph draws a graph of pointwise ops over inputs with permuted, broadcast, channels-last and gapped strides.
func randomGraph(r *rand.Rand) map[string]any {
	full := make([]int, 1+r.IntN(5))
	for i := range full {
		full[i] = []int{1, 1, 2, 3, 4}[r.IntN(5)]
	}
	var inputs, nodes []map[string]any
	var names []string
	for i := range 2 + r.IntN(3) {
		shape := append([]int{}, full[r.IntN(2)*r.IntN(len(full)):]...) // of full or of lower rank
		for k := range shape {
			if r.IntN(5) == 0 {
				shape[k] = 1
			}
		}
		strides, next := make([]int, len(shape)), 1
		for _, dim := range r.Perm(len(shape)) {
			strides[dim] = next
			if next *= shape[dim]; r.IntN(8) == 0 {
				next *= 2 // a gap
			}
		}
		name := fmt.Sprint("x", i)
		input := map[string]any{"name": name, "dtype": "float32", "shape": shape, "strides": strides}
		if r.IntN(3) == 0 {
			delete(input, "strides")
			if len(shape) == 4 && r.IntN(2) == 0 {
				input["memory_format"] = "channels_last"
			}
		}
		inputs, names = append(inputs, input), append(names, name)
	}
	pick := func() string { return names[r.IntN(len(names))] }
	for i := range 1 + r.IntN(6) {
		name := fmt.Sprint("n", i)
		node := map[string]any{"name": name, "op": "relu", "inputs": []string{pick()}}
		switch r.IntN(4) {
		case 0, 1:
			node["op"], node["inputs"] = []string{"add", "sub", "mul", "maximum"}[r.IntN(4)], []string{pick(), pick()}
		case 2:
			node["op"], node["attrs"] = "contiguous", map[string]any{}
		}
		nodes, names = append(nodes, node), append(names, name)
	}
	return map[string]any{"version": 1, "inputs": inputs, "nodes": nodes, "outputs": names[len(inputs):]}
}

// TestAsGraphrun compares strides and results of 1,000 random graphs with those of graphrun.
func TestAsGraphrun(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 26))
	values, permuted := 0, 0
	for i := range 1000 {
		text, err := json.Marshal(randomGraph(r))
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "g.json")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		own, err := load(path)
		require.NoError(t, err)
		require.NoError(t, own.propagate())
		reference, err := graphrun.Load(t.Context(), path)
		require.NoError(t, err, "%s", text)
		for _, n := range reference.Nodes {
			want, got := n.Out[0].Meta, own.values[n.Out[0].Name].Meta
			require.Equal(t, want.Shape, got.Shape, "graph %d, %s", i, text)
			require.Equal(t, want.Strides, got.Strides, "graph %d, value %s, %s", i, n.Out[0].Name, text)
			values++
			if !got.isRowMajor() {
				permuted++
			}
		}
		if i%10 > 0 {
			continue
		}
		own.run()
		in := map[string]*tensor.Tensor{}
		for _, v := range reference.Inputs {
			in[v.Name] = tensor.Must(tensor.FromStorage(v.Meta, tensor.Must(tensor.FromSlice(own.values[v.Name].data,
				len(own.values[v.Name].data))).Storage()))
		}
		out, err := graphrun.Run(t.Context(), reference, in)
		require.NoError(t, err)
		for name, want := range out {
			got := own.values[name]
			mine := tensor.Must(tensor.FromStorage(want.Meta, tensor.Must(tensor.FromSlice(got.data, len(got.data))).Storage()))
			a, err := tensor.ToSlice[float32](want)
			require.NoError(t, err)
			b, err := tensor.ToSlice[float32](mine)
			require.NoError(t, err)
			require.Equal(t, a, b, "graph %d, %s, %s", i, name, text)
		}
	}
	t.Logf("%d values, %d of them not row-major", values, permuted)
	require.Greater(t, permuted, values/10)
}

// TestWorkedExamples: the numbers of well-known worked examples of TensorIterator: effective strides, permutations,
// ambiguous formats, dense layouts and coalesced loops.
func TestWorkedExamples(t *testing.T) {
	for _, c := range []struct {
		in              []Meta
		effective       [][]int
		perm            []int
		result, strides []int
	}{
		{[]Meta{channelsLast([]int{2, 3, 4, 5}), rowMajor([]int{3, 4, 5})}, [][]int{{60, 1, 15, 3}, {0, 20, 5, 1}},
			[]int{1, 3, 2, 0}, []int{2, 3, 4, 5}, []int{60, 1, 15, 3}},
		{[]Meta{{[]int{2, 3, 1, 1}, []int{3, 1, 3, 3}}, rowMajor([]int{3, 1, 1})}, [][]int{{3, 1, 3, 3}, {0, 1, 1, 1}},
			[]int{1, 3, 2, 0}, []int{2, 3, 1, 1}, []int{3, 1, 3, 3}},
		{[]Meta{{[]int{2, 3, 1, 1}, []int{3, 1, 3, 3}}, {[]int{3, 1, 3}, []int{1, 3, 3}}}, [][]int{{3, 1, 3, 0}, {0, 1, 3, 3}},
			[]int{1, 2, 3, 0}, []int{2, 3, 1, 3}, []int{9, 1, 3, 3}},
	} {
		shape, err := broadcast(c.in)
		require.NoError(t, err)
		require.Equal(t, c.result, shape)
		var operands [][]int
		for _, m := range c.in {
			operands = append(operands, effective(m, shape))
		}
		require.Equal(t, c.effective, operands)
		require.Equal(t, c.perm, perm(shape, operands))
		out, err := pointwise(c.in)
		require.NoError(t, err)
		require.Equal(t, c.strides, out.Strides)
	}

	ambiguous := []Meta{{[]int{2, 1, 4, 4}, []int{16, 16, 4, 1}}, {[]int{2, 4, 1, 1}, []int{4, 1, 1, 1}}}
	for _, m := range ambiguous {
		require.True(t, m.isRowMajor() && m.isChannelsLast(), m)
	}
	transposed := Meta{[]int{3, 4}, []int{1, 3}}
	require.True(t, transposed.isDense() && !transposed.isRowMajor())
	require.False(t, Meta{[]int{4, 2, 3}, []int{8, 3, 1}}.isDense()) // 2*3 elements are 8 apart

	// A copy of row-major [1, 64, 5, 4] to channels last: two of the four dimensions remain.
	from := rowMajor([]int{1, 64, 5, 4})
	l := loopOf(channelsLast(from.Shape), []*Value{{Meta: from}})
	require.Equal(t, []int{64, 20}, l.sizes)
	require.Equal(t, [][]int{{1, 64}, {20, 1}}, l.strides)
}
