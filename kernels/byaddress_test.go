package kernels_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestConstantsByAddress checks the fact ConstantsByAddress of every op on its examples: a kernel that was made for a
// call with constants computes the results of other constants if a run gives their addresses.
func TestConstantsByAddress(t *testing.T) {
	tested := 0
	for _, op := range kernels.All() {
		if !op.ConstantsByAddress || op.Decompose != nil {
			continue
		}
		for i, example := range op.Examples {
			for k := range max(len(op.Impls), 1) {
				call, err := kerneltest.CallOf(op, example.Attrs, example.In)
				require.NoError(t, err, "%s, example %d", op.Name, i)
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				in := make([]*tensor.Tensor, len(example.In))
				for j, meta := range example.In {
					if meta.DType == tensor.Invalid {
						continue
					}
					draw := kerneltest.NonzeroValues(rng)
					if op.Params[min(j, len(op.Params)-1)].IndexBound != nil {
						draw = func(tensor.DType) tensor.Scalar { return tensor.IntScalar(int64(k & 1)) }
					}
					in[j] = kerneltest.Filled(meta, draw)
					call.In[j].Value.Const = tensor.Zeros(meta.DType, meta.Shape...).CopyTo(meta)
				}
				_, err = kerneltest.Infer(op, call)
				require.NoError(t, err, "%s, example %d", op.Name, i)
				var layouts []tensor.Meta
				if k < len(op.Impls) {
					call.Impl = &op.Impls[k]
					walks := call.Impl.Walks(call, nil)
					if call.Impl.Inexact || len(walks) == 0 || !call.Impl.Reads(call, walks[0]) {
						continue
					}
					call.Walk = walks[0]
					for r, meta := range call.Out {
						layouts = append(layouts, call.Walk.ResultLayout(r, meta))
					}
				}
				err = kerneltest.CheckCall(op, call, in, layouts...)
				require.NoError(t, err, "%s, example %d, implementation %d", op.Name, i, k)
				tested++
			}
		}
	}
	require.Greater(t, tested, 300)
}
