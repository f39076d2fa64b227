package op_test

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// A block of a network. Attributes that are left out have aten's defaults.
func Example() {
	g := graph.New("block", kernels.Lookup)
	x := g.InputFormat("x", tensor.Float32, tensor.ChannelsLast, 1, 6, 32, 32)
	w := g.Input("w", tensor.Float32, 6, 2, 3, 3)
	y := op.Conv2d(x, w, nil, op.Conv2dAttrs{Padding: []int{1, 1}, Groups: new(3)})
	y = op.Relu(op.Add(y, x)).Named("y")
	best, _ := op.Topk(op.Flatten(y, op.FlattenAttrs{StartDim: 1}), 5)
	g.Output("y", op.Mul(op.Sum(y, op.SumAttrs{Dim: []int{2, 3}, Keepdim: true}), 0.5)).Output("best", best)
	fmt.Println(g.Err())
	fmt.Println(y.Meta)
	for _, o := range g.Outputs {
		fmt.Println(o.Name, o.Value.Meta.Shape)
	}
	// Output:
	// <nil>
	// float32[1,6,32,32]@(6144,1,192,6)
	// y [1 6 1 1]
	// best [1 5]
}

// Attributes may be computed by the graph.
func ExampleReshape() {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3, 4)
	fmt.Println(op.Reshape(x, []int{6, -1}).Meta.Shape)
	y := op.Reshape(x, g.Input("shape", tensor.Int64, 2))
	fmt.Println(y.Dynamic, g.Err())
	// Output:
	// [6 4]
	// true <nil>
}
