package program

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestOneFormForAllSizes runs a product with a constant for many numbers of rows, each with a plan of its own. All
// plans read the same packed constant, in the constant's own width, and none needs the constant itself.
func TestOneFormForAllSizes(t *testing.T) {
	if !gemm.ReadsHalves(tensor.Float32, tensor.Float16) {
		t.Skip("there is no machine code for products")
	}
	const in, out = 256, 384
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		for _, hint := range []int{1, 40} {
			t.Run(fmt.Sprint(dtype, " ", hint), func(t *testing.T) {
				g := graph.New("rows", kernels.Lookup)
				g.Symbols = map[string]graph.Bounds{"n": {}}
				storage := tensor.NewWeights(in * out * dtype.Size())
				w := tensor.Must(tensor.FromStorage(tensor.New(dtype, out, in), storage))
				for i := range w.Numel() {
					w.SetFlat(i, tensor.FloatScalar(float64(i%17)/16-0.5))
				}
				before := string(storage.Bytes())
				x := g.InputDims("x", dtype, tensor.NoFormat, graph.Dim{Symbol: "n"}, graph.Dim{Size: in})
				g.Output("y", op.Linear(x, g.Constant("w", w), nil))
				require.NoError(t, g.Err())
				p, err := Compile(t.Context(), g, Options{Hints: []map[string]int{{"n": hint}}})
				require.NoError(t, err)
				var packed *tensor.Storage
				for _, n := range []int{hint, 1, 2, 9, 40, 300} {
					spec := p.SpecializationAt(t.Context(), []int{n})
					require.NotNil(t, spec)
					constants := spec.Plan.Graph.Constants
					require.Len(t, constants, 1)
					require.NotNil(t, constants[0].Packed, "%d rows", n)
					if packed == nil {
						packed = constants[0].Const.Storage()
					}
					assert.Same(t, packed, constants[0].Const.Storage(), "%d rows: %s", n, constants[0].Packed.Format)
				}
				assert.Equal(t, dtype.Size()*in*out, packed.Len())
				assert.False(t, storage.Discard(nil), "the memory of the constant is freed")
				assert.Equal(t, before, string(storage.Bytes()), "and restored for callers that read it")
			})
		}
	}
}
