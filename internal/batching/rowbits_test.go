package batching

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// weightNodes has nodes that compute a constant w of the given shape.
func weightNodes(shape ...int) string {
	return fmt.Sprintf(`{"name": "k", "op": "arange", "attrs": {"end": %d, "dtype": "float32"}},
		{"name": "s", "op": "sin", "inputs": ["k"]},
		{"name": "w", "op": "reshape", "inputs": ["s"], "attrs": {"shape": %s}}, `, tensor.Numel(shape), listOf(shape))
}

func listOf(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", ", ") }

// rowGraph is a graph whose input x has a batch dimension, followed by the dimensions of a row.
type rowGraph struct {
	row   []int
	nodes string // JSON; node y is the output
}

// rowGraphs returns graphs that sum over rows, with lengths at which kernels change the order of their sums if the
// number of rows changes.
func rowGraphs() (list []rowGraph) {
	add := func(nodes string, row ...int) { list = append(list, rowGraph{row, nodes}) }
	for _, length := range testsize.Of([]int{3, 15, 100, 70000},
		[]int{3, 7, 15, 16, 33, 100, 1000, 5000, 33000, 70000, 300000}) {
		add(`{"name": "y", "op": "softmax", "inputs": ["x"], "attrs": {"dim": 1}}`, length)
		add(`{"name": "y", "op": "sum", "inputs": ["x"], "attrs": {"dim": [1]}}`, length)
		add(fmt.Sprintf(`{"name": "y", "op": "layer_norm", "inputs": ["x"], "attrs": {"normalized_shape": [%d]}}`, length),
			length)
		if length > 10000 {
			continue
		}
		for _, columns := range []int{1, 3, 40} {
			add(weightNodes(columns, length)+`{"name": "y", "op": "linear", "inputs": ["x", "w"]}`, length)
			add(weightNodes(length, columns)+`{"name": "y", "op": "matmul", "inputs": ["x", "w"]}`, 7, length)
		}
		add(`{"name": "y", "op": "scaled_dot_product_attention", "inputs": ["x", "x", "x"]}`, min(length, 100), 20)
		for _, equation := range []string{"bij,kj->bik", "bij,kl->bkl", "bij,kj,kj->bi"} {
			add(weightNodes(20, length)+fmt.Sprintf(`{"name": "y", "op": "einsum", "inputs": ["x", "w"%s],
				"attrs": {"equation": %q}}`, strings.Repeat(`, "w"`, strings.Count(equation, ",")-1), equation), 3, length)
		}
	}
	for _, length := range testsize.Of([]int{1, 5, 50}, []int{1, 2, 5, 16, 50, 130}) {
		add(weightNodes(48, 48)+`
			{"name": "q", "op": "linear", "inputs": ["x", "w"]},
			{"name": "r", "op": "reshape", "inputs": ["q"], "attrs": {"shape": ["N", -1, 3, 16]}},
			{"name": "t", "op": "permute", "inputs": ["r"], "attrs": {"dims": [0, 2, 1, 3]}},
			{"name": "a", "op": "scaled_dot_product_attention", "inputs": ["t", "t", "t"]},
			{"name": "u", "op": "permute", "inputs": ["a"], "attrs": {"dims": [0, 2, 1, 3]}},
			{"name": "v", "op": "reshape", "inputs": ["u"], "attrs": {"shape": ["N", -1, 48]}},
			{"name": "c", "op": "select", "inputs": ["v"], "attrs": {"dim": 1, "index": 0}},
			{"name": "y", "op": "linear", "inputs": ["c", "w"]}`, length, 48)
	}
	for _, image := range testsize.Of([][]int{{3, 224, 224}, {512, 7, 7}},
		[][]int{{3, 224, 224}, {512, 7, 7}, {8, 56, 56}, {16, 3, 3}, {5, 4, 100}}) {
		add(`{"name": "y", "op": "mean", "inputs": ["x"], "attrs": {"dim": [2, 3]}}`, image...)
		add(`{"name": "y", "op": "softmax", "inputs": ["x"], "attrs": {"dim": 1}}`, image...)
		add(`{"name": "y", "op": "instance_norm", "inputs": ["x"]}`, image...)
		add(`{"name": "y", "op": "group_norm", "inputs": ["x"], "attrs": {"num_groups": 1}}`, image...)
		for _, channels := range []int{1, 24} {
			add(weightNodes(channels, image[0], 3, 3)+`{"name": "y", "op": "conv2d", "inputs": ["x", "w"], `+
				`"attrs": {"padding": [1, 1]}}`, image...)
		}
	}
	return list
}

// reshapedGraphs returns graphs with a reshape that is a view at one row, with other strides than at several rows.
func reshapedGraphs() (list []rowGraph) {
	const channels = 24 // of the images: half the channels of x
	for _, image := range testsize.Of([][]int{{9, 11}}, [][]int{{9, 11}, {1, 1}, {14, 14}, {3, 70}}) {
		weight := weightNodes(channels, channels, 3, 3)
		depthwise := weightNodes(channels, 1, 3, 3)
		for _, node := range []string{
			weight + `{"name": "y", "op": "conv2d", "inputs": ["v", "w"], "attrs": {"padding": [1, 1]}}`,
			depthwise + `{"name": "y", "op": "conv2d", "inputs": ["v", "w"], "attrs": {"padding": [1, 1], "groups": 24}}`,
			weight + `{"name": "y", "op": "conv_transpose2d", "inputs": ["v", "w"]}`,
			`{"name": "y", "op": "avg_pool2d", "inputs": ["v"], "attrs": {"kernel_size": [3, 3], "padding": [1, 1]}}`,
			`{"name": "y", "op": "adaptive_avg_pool2d", "inputs": ["v"], "attrs": {"output_size": [1, 1]}}`,
			`{"name": "y", "op": "adaptive_avg_pool2d", "inputs": ["v"], "attrs": {"output_size": [2, 3]}}`,
			`{"name": "y", "op": "group_norm", "inputs": ["v"], "attrs": {"num_groups": 3}}`,
			`{"name": "y", "op": "instance_norm", "inputs": ["v"]}`,
			`{"name": "y", "op": "softmax", "inputs": ["v"], "attrs": {"dim": 1}}`,
			`{"name": "y", "op": "upsample_bilinear2d", "inputs": ["v"], "attrs": {"scale_factors": [2, 2]}}`,
			`{"name": "y", "op": "sum", "inputs": ["v"], "attrs": {"dim": [1, 2, 3]}}`,
			`{"name": "y", "op": "norm", "inputs": ["v"], "attrs": {"dim": [1, 3]}}`,
		} {
			list = append(list, rowGraph{append(image, 2*channels), fmt.Sprintf(`
				{"name": "t", "op": "permute", "inputs": ["x"], "attrs": {"dims": [0, 3, 1, 2]}},
				{"name": "v", "op": "reshape", "inputs": ["t"], "attrs": {"shape": ["2 * N", %d, %d, %d]}}, %s`,
				channels, image[0], image[1], node)})
		}
	}
	for _, length := range testsize.Of([]int{2, 37}, []int{1, 2, 7, 16, 37, 300}) {
		for _, node := range []string{
			weightNodes(20, length, 3) + `{"name": "y", "op": "conv1d", "inputs": ["v", "w"]}`,
			`{"name": "y", "op": "matmul", "inputs": ["v", "u"]}`,
			`{"name": "y", "op": "matmul", "inputs": ["u", "v"]}`,
			`{"name": "y", "op": "scaled_dot_product_attention", "inputs": ["v", "v", "v"]}`,
			`{"name": "y", "op": "einsum", "inputs": ["v", "v"], "attrs": {"equation": "bij,bij->b"}}`,
			`{"name": "y", "op": "avg_pool1d", "inputs": ["v"], "attrs": {"kernel_size": [5]}}`,
			`{"name": "y", "op": "sum", "inputs": ["v"], "attrs": {"dim": [1]}}`,
			`{"name": "y", "op": "sum", "inputs": ["v"], "attrs": {"dim": [1, 2]}}`,
			`{"name": "y", "op": "mean", "inputs": ["v"], "attrs": {"dim": [2]}}`,
			`{"name": "y", "op": "var", "inputs": ["v"], "attrs": {"dim": [1, 2]}}`,
			`{"name": "y", "op": "prod", "inputs": ["v"], "attrs": {"dim": 1}}`,
			`{"name": "y", "op": "logsumexp", "inputs": ["v"], "attrs": {"dim": [1]}}`,
			`{"name": "y", "op": "cumsum", "inputs": ["v"], "attrs": {"dim": 1}}`,
			`{"name": "y", "op": "softmax", "inputs": ["v"], "attrs": {"dim": 1}}`,
			fmt.Sprintf(`{"name": "y", "op": "layer_norm", "inputs": ["v"],
				"attrs": {"normalized_shape": [%d, 20]}}`, length),
			`{"name": "y", "op": "linalg_vector_norm", "inputs": ["v"], "attrs": {"dim": [1]}}`,
		} {
			list = append(list, rowGraph{[]int{length, 3, 20}, fmt.Sprintf(`
				{"name": "t", "op": "permute", "inputs": ["x"], "attrs": {"dims": [0, 2, 1, 3]}},
				{"name": "v", "op": "reshape", "inputs": ["t"], "attrs": {"shape": ["3 * N", %d, 20]}},
				{"name": "u", "op": "transpose", "inputs": ["v"], "attrs": {"dim0": 1, "dim1": 2}}, %s`, length, node)})
		}
	}
	return list
}

// matrixGraphs returns graphs of linear algebra, and graphs that replace a part of each row.
func matrixGraphs() (list []rowGraph) {
	for _, size := range testsize.Of([]int{5}, []int{1, 2, 5, 33, 40}) {
		for _, node := range []string{
			`{"name": "y", "op": "linalg_inv", "inputs": ["x"]}`,
			`{"name": "y", "op": "linalg_det", "inputs": ["x"]}`,
			`{"name": "y", "op": "linalg_solve", "inputs": ["x", "v"]}`,
			`{"name": "y", "op": "linalg_solve", "inputs": ["x", "x"]}`,
			`{"name": "y", "op": "linalg_eigvalsh", "inputs": ["x"]}`,
			`{"name": "y", "op": "linalg_svdvals", "inputs": ["x"]}`,
			`{"name": "f", "op": "linalg_qr", "inputs": ["x"], "outputs": ["q", "y"]}`,
			`{"name": "y", "op": "matrix_exp", "inputs": ["x"]}`,
			`{"name": "y", "op": "select_scatter", "inputs": ["x", "v"], "attrs": {"dim": 2, "index": 0}}`,
			`{"name": "y", "op": "slice_scatter", "inputs": ["x", "u"], "attrs": {"dim": 1, "end": 1}}`,
		} {
			list = append(list, rowGraph{[]int{size, size}, fmt.Sprintf(`
				{"name": "v", "op": "select", "inputs": ["x"], "attrs": {"dim": 1, "index": 0}},
				{"name": "u", "op": "unsqueeze", "inputs": ["v"], "attrs": {"dim": 1}}, %s`, node)})
		}
	}
	return list
}

// TestRowsKeepBits: in a batch that Axis permits, a row has the same bits as alone.
func TestRowsKeepBits(t *testing.T) {
	testsize.Long(t)
	const maxRows = 16
	joined := 0
	graphs := slices.Concat(rowGraphs(), reshapedGraphs(), matrixGraphs())
	for _, g := range graphs {
		dims := strings.Trim(listOf(g.row), "[]")
		a := axisOf(t, fmt.Sprintf(`{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32",
			"shape": ["N", %s]}], "nodes": [%s], "outputs": ["y"]}`, dims, g.nodes), maxRows+1, true)
		rowLen := tensor.Numel(g.row)
		random, data := rand.New(rand.NewPCG(1, 2)), make([]float32, maxRows*rowLen)
		for i := range data {
			data[i] = 3 * (random.Float32() - 0.5)
		}
		run := func(first, rows int) []float32 {
			x := tensor.Must(tensor.FromSlice(data[first*rowLen:(first+rows)*rowLen], append([]int{rows}, g.row...)...))
			out, err := a.program.Run(t.Context(), map[string]*tensor.Tensor{"x": x})
			require.NoError(t, err)
			y, err := tensor.ToSlice[float32](out["y"].Contiguous())
			require.NoError(t, err)
			return y
		}
		var alone [maxRows][]float32
		for row := range alone {
			alone[row] = run(row, 1)
		}
		for _, rows := range []int{2, 3, 5, maxRows} {
			if a.planAt(t.Context(), []int{1}, rows) != a.planAt(t.Context(), []int{1}, 1) {
				continue
			}
			joined++
			batch := run(0, rows)
			for row := range rows {
				length := len(batch) / rows
				assert.Equal(t, alone[row], batch[row*length:][:length], "row %d of %d: [N, %s]: %s", row, rows, dims, g.nodes)
			}
		}
	}
	assert.Greater(t, joined, 2*len(graphs), "most batches are permitted")
}
