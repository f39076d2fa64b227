package bench

import (
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestBenchKeepsWeightsOnce measures a program of a graph of one size, and of open sizes: a weight that the first has
// packed is in memory no more as it came, and both give what a run of the graph does.
func TestBenchKeepsWeightsOnce(t *testing.T) {
	for name, open := range map[string]bool{"fixed": false, "open": true} {
		t.Run(name, func(t *testing.T) {
			const wide = 2048
			weight := tensor.Zeros(tensor.Float32, wide, wide)
			for i := range wide {
				weight.SetFlat(i*wide+(i*7)%wide, tensor.IntScalar(int64(i%5+1)))
			}
			came := weak.Make(weight.Storage())
			g := graphrun.New("wide")
			rows := graph.Dim{Size: 4}
			if open {
				rows = graph.Dim{Symbol: "N"}
			}
			x := g.InputDims("x", tensor.Float32, tensor.NoFormat, rows, graph.Dim{Size: wide})
			g.Output("y", op.Relu(op.Linear(x, g.Constant("weight", weight), nil)))
			require.NoError(t, graphrun.Infer(t.Context(), g))
			in := &inputs.Set{Values: map[string]*tensor.Tensor{}, Seed: 1}
			in.Generated = slices.Clone(g.Inputs)
			for _, v := range g.Inputs {
				in.Values[v.Name] = tensor.Zeros(tensor.Float32, 4, wide)
				for i := range wide {
					in.Values[v.Name].SetFlat(i, tensor.IntScalar(int64(i%9)))
				}
			}
			want, err := graphrun.Run(t.Context(), g, in.Values)
			require.NoError(t, err)

			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			of := inputs.Workload{Graph: g, Inputs: in}
			g, x, weight = nil, nil, nil
			r, err := compileRunner(&of, flags{ext: &command.Extensions{}, strategy: command.DefaultStrategy, threads: 1},
				progress.Begin(cmd, "wide"))
			require.NoError(t, err)
			for range 3 {
				runtime.GC()
			}
			if !open {
				assert.True(t, came.Value() == nil, "the weight is kept as it came")
			}
			got, err := r.program.Run(t.Context(), in.Values)
			require.NoError(t, err)
			a, err := tensor.ToSlice[float32](want["y"])
			require.NoError(t, err)
			b, err := tensor.ToSlice[float32](got["y"])
			require.NoError(t, err)
			assert.Equal(t, a, b)
			assert.Len(t, opsByName(of.Graph), 2)
		})
	}
}
