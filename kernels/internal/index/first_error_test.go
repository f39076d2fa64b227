package index_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestReferenceReportsFirstIndex checks that references report the first of several indices that are out of bounds.
func TestReferenceReportsFirstIndex(t *testing.T) {
	values := tensor.Zeros(tensor.Float32, 3)
	indices := tensor.Must(tensor.FromSlice([]int64{1, 7, 9}, 3))
	tuples := tensor.Must(tensor.FromSlice([]int64{1, 7, 9}, 3, 1))
	dim := map[string]any{"dim": 0}
	for name, call := range map[string]struct {
		attrs map[string]any
		in    []*tensor.Tensor
	}{
		"gather":       {dim, []*tensor.Tensor{values, indices}},
		"take":         {nil, []*tensor.Tensor{values, indices}},
		"gather_nd":    {nil, []*tensor.Tensor{values, tuples}},
		"scatter_nd":   {nil, []*tensor.Tensor{values, tuples, values}},
		"index_select": {dim, []*tensor.Tensor{values, indices}},
		"index_copy":   {dim, []*tensor.Tensor{values, indices, values}},
		"index":        {nil, []*tensor.Tensor{values, indices}},
		"scatter":      {dim, []*tensor.Tensor{values, indices, values}},
	} {
		op := kernels.Lookup(name)
		metas := make([]tensor.Meta, len(call.in))
		for i, x := range call.in {
			metas[i] = x.Meta
		}
		c, err := kerneltest.CallOf(op, call.attrs, metas)
		require.NoError(t, err, name)
		_, err = op.Ref(c, call.in)
		require.ErrorContains(t, err, "index 7 is out of bounds", name)
	}
}
