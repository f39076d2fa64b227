package batching

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// oneRow has a plan of its own for one row, because reshape then returns a view.
const oneRow = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 4, 6]}],
	"nodes": [{"name": "t", "op": "transpose", "inputs": ["x"], "attrs": {"dim0": 0, "dim1": 1}},
		{"name": "r", "op": "reshape", "inputs": ["t"], "attrs": {"shape": [4, -1]}},
		{"name": "e", "op": "exp", "inputs": ["r"]},
		{"name": "s", "op": "reshape", "inputs": ["e"], "attrs": {"shape": [4, -1, 6]}},
		{"name": "y", "op": "transpose", "inputs": ["s"], "attrs": {"dim0": 0, "dim1": 1}}], "outputs": ["y"]}`

func axisOf(t *testing.T, text string, maxRows int, exact bool) *Axis {
	t.Helper()
	g, err := graphfile.Parse(strings.NewReader(text), kernels.Lookup, graphfile.Options{})
	require.NoError(t, err)
	p, err := program.Compile(t.Context(), g, program.Options{})
	require.NoError(t, err)
	symbol, err := Symbol(g)
	require.NoError(t, err)
	a, err := Prove(t.Context(), p, g, symbol, maxRows, exact)
	require.NoError(t, err)
	return a
}

func runsOf(a *Axis, rows ...int) (list []*Run) {
	for i, n := range rows {
		x := tensor.Zeros(tensor.Float32, n, 4, 6)
		x.Set(tensor.FloatScalar(float64(i)), 0, 0, 0)
		list = append(list, a.NewRun(map[string]*tensor.Tensor{"x": x}))
	}
	return list
}

// TestBatch: runs of one row are not joined with others, because their bits could differ.
func TestBatch(t *testing.T) {
	a := axisOf(t, oneRow, 8, true)
	require.NotSame(t, a.planAt([]int{1}, 9), a.planAt([]int{1}, 1))
	require.Same(t, a.planAt([]int{1}, 9), a.planAt([]int{1}, 2))
	assert.Equal(t, []int{0}, a.Batch(runsOf(a, 1, 1), 8))
	assert.Equal(t, []int{0, 1}, a.Batch(runsOf(a, 2, 2), 8))
	assert.Equal(t, []int{0, 2, 4}, a.Batch(runsOf(a, 2, 1, 3, 5, 3), 8))
	assert.Equal(t, []int{0}, a.Batch(runsOf(a, 8, 1), 8), "a run of all rows")
	assert.Equal(t, []int{0, 2}, a.Batch(runsOf(a, 2, 3, 2, 1), 4), "fewer rows than Prove permits")
	assert.Equal(t, []int{0, 1}, axisOf(t, oneRow, 8, false).Batch(runsOf(a, 1, 1), 8))
	var none *Axis
	assert.Equal(t, []int{0}, none.Batch(runsOf(none, 2, 2), 8))
}

func TestJoinAndSplit(t *testing.T) {
	a := axisOf(t, oneRow, 8, true)
	runs := runsOf(a, 2, 3)
	in, err := Join(runs)
	require.NoError(t, err)
	assert.Equal(t, []int{5, 4, 6}, in["x"].Shape)
	assert.Equal(t, 1.0, in["x"].At(2, 0, 0).Float())
	parts := a.Split(map[string]*tensor.Tensor{"y": in["x"]}, runs)
	assert.Equal(t, []int{3, 4, 6}, parts[1]["y"].Shape)
	assert.Equal(t, 1.0, parts[1]["y"].At(0, 0, 0).Float())
}
