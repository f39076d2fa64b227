package op_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// Mistakes stay in the graph, with the line of the call; what follows from them is not told.
func TestMistakes(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	y := op.Add(x, g.Input("y", tensor.Float32, 4))
	g.Output("z", op.Relu(y))
	want := `^\S*mistakes_test\.go:\d+: node "add" \(add\): The size of tensor a \(3\) must match .* dimension 1$`
	assert.Regexp(t, want, g.Err().Error())
	for want, f := range map[string]func(){
		"op: relu was given no value of a graph": func() { op.Relu(nil) },
		"op: mul was given no value of a graph":  func() { op.Mul(2, 3) },
		"op: zeros was given no graph":           func() { op.Zeros(nil, []int{2}) },
		"op: cat was given no value of a graph":  func() { op.Cat(nil) },
	} {
		assert.PanicsWithValue(t, want, f)
	}
	other := graph.New("other", func(name string) *graph.Op {
		return kernels.Lookup(map[string]string{"topk": "relu"}[name])
	})
	values, indices := op.Topk(other.Input("x", tensor.Float32, 3), 1)
	assert.NotNil(t, values)
	assert.NotNil(t, indices)
	assert.Error(t, other.Err())
}
