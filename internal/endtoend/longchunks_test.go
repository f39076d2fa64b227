//go:build !race

package endtoend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/interrupt/interrupttest"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// longChunk is a node whose work is a few chunks, however large its operands are.
type longChunk struct {
	inputs string // "name dtype shape; ..."
	node   string
	looks  int // at least, in a run
}

// roi is a region of one bin of as many samples as a bin may have.
const roi = `"op": "roi_align", "inputs": ["x", "z"], "attrs": {"pooled_height": 1, "pooled_width": 1,
	"sampling_ratio": 1024}`

var longChunks = map[string]longChunk{
	"dot":            {"x float32 [16777216]; z float32 [16777216]", `"op": "dot", "inputs": ["x", "z"]`, 6},
	"dot of complex": {"x complex64 [8388608]; z complex64 [8388608]", `"op": "dot", "inputs": ["x", "z"]`, 3},
	"mv":             {"x int64 [3, 2097152]; z int64 [2097152]", `"op": "mv", "inputs": ["x", "z"]`, 2},
	"gru of complex": {"x complex64 [65536, 1, 2]; h complex64 [1, 1, 3]; w complex64 [9, 2]; r complex64 [9, 3]; " +
		"b complex64 [9]; s complex64 [9]",
		`"op": "gru", "inputs": ["x", "h", "w", "r", "b", "s"], "outputs": ["y", "n"]`, 30},
	"rnn of integers": {"x int64 [65536, 1, 2]; h int64 [1, 1, 3]; w int64 [3, 2]; r int64 [3, 3]; b int64 [3]; " +
		"s int64 [3]", `"op": "rnn_relu", "inputs": ["x", "h", "w", "r", "b", "s"], "outputs": ["y", "n"]`, 10},
	"index_fill": {"x float32 [4]; i int64 [4194304]; v float32 []", `"op": "index_fill", "inputs": ["x", "i", "v"],
		"attrs": {"dim": 0}`, 30},
	"one_hot": {"x int64 [1]", `"op": "one_hot", "inputs": ["x"], "attrs": {"num_classes": 4194304}`, 30},
	"tril":    {"x float32 [2, 4194304]", `"op": "tril", "inputs": ["x"]`, 60},
	"triu":    {"x float32 [2, 4194304]", `"op": "triu", "inputs": ["x"], "attrs": {"diagonal": 4194000}`, 60},
	"grid_sampler": {"x float64 [1, 1048576, 2, 2]; z float64 [1, 1, 1, 2]",
		`"op": "grid_sampler", "inputs": ["x", "z"]`, 30},
	"roi_align": {"x float32 [1, 1, 4, 4]; z float32 [1, 5]", roi, 30},
	"adaptive pool": {"x float32 [1, 2, 1, 5]", `"op": "adaptive_max_pool2d", "inputs": ["x"], "outputs": ["y", "i"],
		"attrs": {"output_size": [1, 524288]}, "memory_format": "channels_last"`, 100},
	"conv_transpose1d": {"x complex64 [1, 2, 524288]; w complex64 [2, 1, 3]",
		`"op": "conv_transpose1d", "inputs": ["x", "w"]`, 520},
	"conv_transpose1d by phases": {"x float32 [1, 2, 1048576]; w float32 [2, 1, 3]",
		`"op": "conv_transpose1d", "inputs": ["x", "w"], "attrs": {"stride": 2}`, 1000},
	"tfidf_vectorizer": {"x int64 [1048576]", `"op": "tfidf_vectorizer", "inputs": ["x"], "attrs": {"max_gram_length": 1,
		"min_gram_length": 1, "max_skip_count": 0, "mode": "TF", "ngram_counts": [0], "ngram_indexes": [0, 1],
		"pool_int64s": [3, 5]}`, 20},
}

// program returns the program of the node, and inputs of 0.
func (l longChunk) program(t *testing.T) (*graphrun.Program, map[string]*tensor.Tensor) {
	t.Helper()
	in, node := map[string]*tensor.Tensor{}, l.node
	if !strings.Contains(node, `"outputs"`) {
		node += `, "outputs": ["y"]`
	}
	var inputs []string
	for _, text := range strings.Split(l.inputs, "; ") {
		f := strings.SplitN(text, " ", 3)
		inputs = append(inputs, fmt.Sprintf(`{"name": %q, "dtype": %q, "shape": %s}`, f[0], f[1], f[2]))
	}
	g, err := graphfile.Parse(strings.NewReader(fmt.Sprintf(`{"version": 1, "inputs": [%s], "nodes": [{"name": "n", %s}],
		"outputs": ["y"]}`, strings.Join(inputs, ", "), node)), kernels.Lookup, graphfile.Options{})
	require.NoError(t, err)
	require.NoError(t, graphrun.Infer(ctx, g))
	for _, v := range g.Inputs {
		in[v.Name] = tensor.Zeros(v.Meta.DType, v.Meta.Shape...)
	}
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 1})
	require.NoError(t, err)
	return p, in
}

// TestRunsEndWithinChunks holds that runs look at the context within long chunks, and end there.
func TestRunsEndWithinChunks(t *testing.T) {
	testsize.Long(t)
	for name, l := range longChunks {
		t.Run(name, func(t *testing.T) {
			p, in := l.program(t)
			all := interrupttest.EndAtCheck(0)
			_, err := p.Run(all, in)
			require.NoError(t, err)
			require.GreaterOrEqual(t, all.Checks(), l.looks, "looks at the context")
			for n := 1; n <= all.Checks(); n += 1 + 2*n {
				_, err := p.Run(interrupttest.EndAtCheck(n), in)
				require.Equal(t, interrupttest.ErrEnded, err, "at look %d of %d", n, all.Checks())
			}
			_, err = p.Run(t.Context(), in)
			require.NoError(t, err)
		})
	}
}
