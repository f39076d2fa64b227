package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestNaNAttributes checks that bounds of attributes reject NaN where PyTorch 1.13 does, with its messages
// (where PyTorch prints nan, the text has NaN).
func TestNaNAttributes(t *testing.T) {
	for _, c := range []struct{ op, attr, want string }{
		{"cdist", "p", "cdist only supports non-negative p values"},
		{"dropout", "p", "dropout probability has to be between 0 and 1, but got NaN"},
		{"huber_loss", "delta", "huber_loss does not support non-positive values for delta."},
		{"isclose", "atol", "atol must be greater than or equal to zero, but got NaN"},
		{"isclose", "rtol", "rtol must be greater than or equal to zero, but got NaN"},
		{"pdist", "p", "pdist only supports non-negative p values"},
		{"smooth_l1_loss", "beta", "smooth_l1_loss does not support negative values for beta."},
		{"softshrink", "lambd", "lambda must be greater or equal to 0, but found to be NaN."},
	} {
		op := kernels.Lookup(c.op)
		metas := make([]tensor.Meta, len(op.Examples[0].In))
		for i := range metas {
			metas[i] = tensor.New(tensor.Float32, 3, 4)
		}
		call, err := kerneltest.CallOf(op, graph.Attrs{c.attr: math.NaN()}, metas)
		require.NoError(t, err)
		_, err = kerneltest.Infer(op, call)
		require.ErrorContains(t, err, c.want, "%s with %s = NaN", c.op, c.attr)
	}
}
