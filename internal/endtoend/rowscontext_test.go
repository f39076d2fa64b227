//go:build !race

package endtoend_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/interrupt/interrupttest"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// longRow is how many elements the row of each call has.
const longRow = 1 << 20

// longRows are calls whose work is one row that is not cut into chunks, or cannot be: nodes with their inputs.
var longRows = map[string]string{
	"sort":              `"op": "sort", "inputs": ["x"], "outputs": ["y", "i"]`,
	"argsort":           `"op": "argsort", "inputs": ["x"]`,
	"topk":              `"op": "topk", "inputs": ["x"], "outputs": ["y", "i"], "attrs": {"k": 100000}`,
	"topk of few":       `"op": "topk", "inputs": ["x"], "outputs": ["y", "i"], "attrs": {"k": 10}`,
	"kthvalue":          `"op": "kthvalue", "inputs": ["x"], "outputs": ["y", "i"], "attrs": {"k": 1000}`,
	"cumsum":            `"op": "cumsum", "inputs": ["x"], "attrs": {"dim": 0}`,
	"cumprod":           `"op": "cumprod", "inputs": ["x"], "attrs": {"dim": 0}`,
	"softmax":           `"op": "softmax", "inputs": ["x"], "attrs": {"dim": 0}`,
	"log_softmax":       `"op": "log_softmax", "inputs": ["x"], "attrs": {"dim": 0}`,
	"hardmax":           `"op": "hardmax", "inputs": ["x"]`,
	"layer_norm":        fmt.Sprintf(`"op": "layer_norm", "inputs": ["x"], "attrs": {"normalized_shape": %d}`, longRow),
	"rms_norm":          fmt.Sprintf(`"op": "rms_norm", "inputs": ["x"], "attrs": {"normalized_shape": %d}`, longRow),
	"multinomial":       `"op": "multinomial", "inputs": ["positive"], "attrs": {"num_samples": 50000}`,
	"avg_pool1d":        `"op": "avg_pool1d", "inputs": ["planes"], "attrs": {"kernel_size": 3}`,
	"unique":            `"op": "_unique2", "inputs": ["x"], "outputs": ["y", "i", "c"]`,
	"nonzero":           `"op": "nonzero", "inputs": ["x"]`,
	"masked_select":     `"op": "masked_select", "inputs": ["x", "mask"]`,
	"repeat_interleave": `"op": "repeat_interleave", "inputs": ["repeats"]`,
}

// longInputs makes the inputs of longRows, each once. Runs only read them.
var longInputs = map[string]func() *tensor.Tensor{
	"x": longInput(tensor.Float32, []int{longRow}, func(v int64) tensor.Scalar {
		return tensor.FloatScalar(float64(v-50000) / 1000)
	}),
	"positive": longInput(tensor.Float32, []int{longRow}, func(v int64) tensor.Scalar { return tensor.IntScalar(v + 1) }),
	"planes":   longInput(tensor.Float32, []int{1, 1, longRow}, tensor.IntScalar),
	"mask":     longInput(tensor.Bool, []int{longRow}, func(v int64) tensor.Scalar { return tensor.BoolScalar(v%2 == 0) }),
	"repeats":  longInput(tensor.Int64, []int{longRow}, func(v int64) tensor.Scalar { return tensor.IntScalar(v % 3) }),
}

// longInput returns a function that makes a tensor of longRow elements, functions of scattered numbers below 100003.
func longInput(d tensor.DType, shape []int, element func(v int64) tensor.Scalar) func() *tensor.Tensor {
	return sync.OnceValue(func() *tensor.Tensor {
		made := tensor.Zeros(d, shape...)
		for i := range longRow {
			made.SetFlat(i, element(int64(i*7919%100003)))
		}
		return made
	})
}

func longRowGraph(t *testing.T, node string) (*graphrun.Program, map[string]*tensor.Tensor) {
	t.Helper()
	if !strings.Contains(node, `"outputs"`) {
		node += `, "outputs": ["y"]`
	}
	in, inputs := map[string]*tensor.Tensor{}, []string{}
	for name, made := range longInputs {
		if !strings.Contains(node, `"`+name+`"`) {
			continue
		}
		v := made()
		in[name] = v
		inputs = append(inputs, fmt.Sprintf(`{"name": %q, "dtype": %q, "shape": %s}`, name, v.DType,
			tensor.ListString(v.Shape)))
	}
	text := fmt.Sprintf(`{"version": 1, "inputs": [%s], "nodes": [{"name": "n", %s}], "outputs": ["y"]}`,
		strings.Join(inputs, ", "), node)
	g, err := graphfile.Parse(strings.NewReader(text), kernels.Lookup, graphfile.Options{})
	require.NoError(t, err)
	require.NoError(t, graphrun.Infer(ctx, g))
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 1})
	require.NoError(t, err)
	return p, in
}

// TestRunsEndWithinRows holds that runs look at the context within long rows, end at each look, and leave nothing
// behind that changes the next run.
func TestRunsEndWithinRows(t *testing.T) {
	testsize.Long(t)
	for name, node := range longRows {
		t.Run(name, func(t *testing.T) {
			p, in := longRowGraph(t, node)
			run := func(ctx context.Context) (*tensor.Tensor, error) {
				out, err := p.Run(ctx, in)
				return out["y"], err
			}
			want, err := run(t.Context())
			require.NoError(t, err)
			all := interrupttest.EndAtCheck(0)
			_, err = run(all)
			require.NoError(t, err)
			require.GreaterOrEqual(t, all.Checks(), 8, "looks at the context")
			for n := 1; n <= all.Checks(); n += 1 + n*testsize.Of(40, 1) {
				_, err := run(interrupttest.EndAtCheck(n))
				require.Equal(t, interrupttest.ErrEnded, err, "at look %d of %d", n, all.Checks())
			}
			got, err := run(t.Context())
			require.NoError(t, err)
			require.Equal(t, want.Contiguous().Storage().Bytes(), got.Contiguous().Storage().Bytes(), "the next run")
		})
	}
}

// TestPackingEnds holds that packing of one weight looks at the context.
func TestPackingEnds(t *testing.T) {
	testsize.Long(t)
	if !loops.CodeAvailable() {
		t.Skip("weights are packed for machine code")
	}
	looks := func(g *graph.Graph) int {
		ctx := interrupttest.EndAtCheck(0)
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 1})
		require.NoError(t, err)
		require.NotEmpty(t, p.Report().Packed)
		return ctx.Checks()
	}
	product := func(rows, columns int) *graph.Graph {
		g := graph.New("g", kernels.Lookup)
		x, w := g.Input("x", tensor.Float32, 64, rows), g.Constant("w", tensor.Zeros(tensor.Float32, rows, columns))
		g.Output("y", op.Matmul(x, w))
		return g
	}
	depthwise := func(channels int) *graph.Graph {
		g := graph.New("g", kernels.Lookup)
		image := tensor.New(tensor.Uint8, 1, channels, 3, 3).WithStrides([]int{9 * channels, 1, 3 * channels, channels})
		x := g.InputMeta("x", image)
		w, b := tensor.Zeros(tensor.Int8, channels, 1, 3, 3), tensor.Zeros(tensor.Int32, channels)
		y := g.Apply("conv2d_bytes", graph.Attrs{"groups": channels}, x, g.Constant("w", w), g.Constant("b", b), nil,
			g.Constant("z", tensor.Zeros(tensor.Uint8)))
		g.Output("y", y[0])
		return g
	}
	require.GreaterOrEqual(t, looks(product(1024, 8192)), looks(product(1024, 64))+6)
	require.GreaterOrEqual(t, looks(product(1<<17, 65)), looks(product(64, 65))+32, "long panels")
	require.GreaterOrEqual(t, looks(depthwise(1<<17)), looks(depthwise(64))+10)
}
