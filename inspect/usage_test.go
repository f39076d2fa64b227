package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// After runs with several lengths, usage has the plans and classes of these lengths, which further lengths leave as
// they are.
func TestUsage(t *testing.T) {
	g := graphrun.New("lengths")
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "L"}, graph.Dim{Size: 8})
	g.Output("y", op.Softmax(op.Matmul(x, op.Transpose(x, 0, 1)), 1))
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
	require.NoError(t, err)
	run := func(length int) {
		_, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, length, 8)})
		require.NoError(t, err)
	}
	for _, length := range []int{1, 2, 30} {
		run(length)
	}
	warm := UsageOf(p)
	require.NotEmpty(t, warm.Classes)
	assert.Positive(t, warm.Plans)
	bindings := func(usage report.Usage) (sum int) {
		for _, class := range usage.Classes {
			assert.Len(t, class.Anchor, 1)
			sum += class.Bindings
		}
		return sum
	}
	for length := 31; length < 41; length++ {
		run(length)
		run(length)
	}
	later := UsageOf(p)
	assert.Equal(t, warm.Plans, later.Plans)
	assert.Equal(t, bindings(warm)+10, bindings(later))
	assert.Zero(t, UsageOf(nil))
}
