//go:build !race

package graphrun_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/ends/endstest"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// longChunk is a node whose work is a few chunks, however large its operands are.
type longChunk struct {
	inputs string // "name dtype shape; ..."
	node   string
	looks  int // at least, in a run
}

var longChunks = map[string]longChunk{
	"dot":            {"x float32 [16777216]; z float32 [16777216]", `"op": "dot", "inputs": ["x", "z"]`, 6},
	"dot of complex": {"x complex64 [8388608]; z complex64 [8388608]", `"op": "dot", "inputs": ["x", "z"]`, 3},
	"mv":             {"x int64 [3, 2097152]; z int64 [2097152]", `"op": "mv", "inputs": ["x", "z"]`, 2},
	"gru of complex": {"x complex64 [65536, 1, 2]; h complex64 [1, 1, 3]; w complex64 [9, 2]; r complex64 [9, 3]; " +
		"b complex64 [9]; s complex64 [9]", `"op": "gru", "inputs": ["x", "h", "w", "r", "b", "s"], "outputs": ["y", "n"]`, 30},
	"rnn of integers": {"x int64 [65536, 1, 2]; h int64 [1, 1, 3]; w int64 [3, 2]; r int64 [3, 3]; b int64 [3]; " +
		"s int64 [3]", `"op": "rnn_relu", "inputs": ["x", "h", "w", "r", "b", "s"], "outputs": ["y", "n"]`, 10},
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
	require.NoError(t, graphrun.Infer(g))
	for _, v := range g.Inputs {
		in[v.Name] = tensor.Zeros(v.Meta.DType, v.Meta.Shape...)
	}
	p, err := graphrun.Compile(g, graphrun.Options{Threads: 1})
	require.NoError(t, err)
	return p, in
}

// TestRunsEndWithinChunks holds that runs look at the context within long chunks, and end there.
func TestRunsEndWithinChunks(t *testing.T) {
	for name, l := range longChunks {
		t.Run(name, func(t *testing.T) {
			p, in := l.program(t)
			all := endstest.After(0)
			_, err := p.Run(all, in)
			require.NoError(t, err)
			require.GreaterOrEqual(t, all.Looks(), l.looks, "looks at the context")
			for n := 1; n <= all.Looks(); n += 1 + 2*n {
				_, err := p.Run(endstest.After(n), in)
				require.Equal(t, endstest.ErrLooked, err, "at look %d of %d", n, all.Looks())
			}
			_, err = p.Run(t.Context(), in)
			require.NoError(t, err)
		})
	}
}
