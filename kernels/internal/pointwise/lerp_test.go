package pointwise_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// TestLerpWeights checks the errors for calls without a weight and with two weights.
func TestLerpWeights(t *testing.T) {
	three := []tensor.Meta{kit.F32(2), kit.F32(2), kit.F32(2)}
	two := three[:2]
	for want, c := range map[string]struct {
		attrs graph.Attrs
		in    []tensor.Meta
	}{
		"lerp: weight must be given, as an operand or an attribute":      {nil, two},
		"lerp: weight is given twice, as an operand and as an attribute": {graph.Attrs{"weight": 0.5}, three},
	} {
		op := kernels.Lookup("lerp")
		call, err := kerneltest.CallOf(op, c.attrs, c.in)
		require.NoError(t, err)
		_, err = kerneltest.Infer(op, call)
		assert.EqualError(t, err, want)
	}
}
