package reduce_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestLossReferenceReportsFirstTarget checks that the reference reports the first of several targets out of bounds.
func TestLossReferenceReportsFirstTarget(t *testing.T) {
	op := kernels.Lookup("nll_loss")
	in := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 3, 2),
		tensor.Must(tensor.FromSlice([]int64{1, 7, 9}, 3))}
	c, err := kerneltest.CallOf(op, nil, []tensor.Meta{in[0].Meta, in[1].Meta})
	require.NoError(t, err)
	_, err = op.Ref(c, in)
	require.ErrorContains(t, err, "Target 7 is out of bounds")
}
