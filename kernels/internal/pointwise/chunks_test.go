package pointwise_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// TestChunksOfMachineCode checks the sizes of chunks: with machine code, chunks have the size of a plain loop's, or
// less for expensive expressions; without it, functions have smaller chunks. The arithmetic that kernels report is
// proportional to the work.
func TestChunksOfMachineCode(t *testing.T) {
	compiles := loops.CodeAvailable
	if !compiles() {
		t.Skip("no machine code here")
	}
	defer func() { loops.CodeAvailable = compiles }()
	const n = 1 << 20
	kernel := func(op string, attrs graph.Attrs, n int) *graph.Kernel {
		g := graphrun.New("g")
		v := g.Apply(op, attrs, g.Input("x", tensor.Float32, n))[0]
		require.NoError(t, g.Err())
		k, err := v.Node.Op.Compile(v.Node.Call())
		require.NoError(t, err)
		return k
	}
	chunks := func(k *graph.Kernel) int { return k.Phases[0].Chunks }
	plain, exp := kernel("neg", nil, n), kernel("exp", nil, n)
	much := kernel("pointwise", graph.Attrs{"expr": "exp(sin(exp(sin(exp(sin(exp(sin(tanh(x)))))))))"}, n)
	assert.Equal(t, n/machine.MoveGrain, chunks(plain))
	if machine.HostFeatures().Has(machine.AVX2) { // arm64 computes fewer elements in the time of a chunk
		assert.Less(t, chunks(exp), n/machine.FunctionGrain)
	}
	assert.Greater(t, chunks(much), chunks(exp))
	assert.Greater(t, exp.Arithmetic, 4*plain.Arithmetic)
	assert.Greater(t, much.Arithmetic, 4*exp.Arithmetic)
	assert.InEpsilon(t, exp.Arithmetic, 2*kernel("exp", nil, n/2).Arithmetic, 1e-9)
	rows := kernel("softmax", graph.Attrs{"dim": 0}, n)
	assert.Greater(t, rows.Arithmetic, exp.Arithmetic/2)

	loops.CodeAvailable = func() bool { return false }
	inGo := kernel("exp", nil, n)
	assert.Equal(t, n/machine.FunctionGrain, chunks(inGo))
	assert.Zero(t, inGo.Arithmetic)
}
