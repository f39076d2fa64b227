package fusion_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/graphtest"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// A kernel of another type than the iteration's would write past its operands: it is
// refused when the node is compiled, as are one of another arity and none at all.
func TestPointwiseRefusesKernelsThatDoNotFit(t *testing.T) {
	m := tensor.New(tensor.Float32, 4)
	for _, c := range []struct {
		of   rule.Kernel
		want string
	}{
		{iter.Slice1(func(d, a []float64) {}),
			"iter: the kernel (float64) -> float64 has output 0 as float64, but the iteration (float32[4]@(1)) has it as " +
				"float32"},
		{iter.Slice2(func(d, a, b []float32) {}),
			"iter: the kernel (float32, float32) -> float32 has 1 results and 2 operands, but the iteration has 1 and 1"},
		{rule.Kernel{},
			"iter: the zero Kernel computes nothing"},
	} {
		k, want := c.of, c.want
		p := &graph.Pointwise{Config: graphtest.Unary, Body: func(*graph.Call, *rule.Rule) (rule.Kernel, error) {
			return k, nil
		}}
		c := &graph.Call{In: []graph.Arg{{Kind: graph.TensorArg, Value: &graph.Value{Meta: m}}}}
		res, err := p.Infer(c)
		require.NoError(t, err)
		c.Out = []tensor.Meta{res[0].Meta()}
		_, err = fusion.CompileLoop(p, c)
		assert.EqualError(t, err, want)
	}
}
