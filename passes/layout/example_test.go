package layout_test

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// A wish for one value; what follows from it for the others, and what has to be copied, is the solver's.
func ExampleSolve() {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 1, 4, 8, 8)
	y := op.Conv2d(x, g.Input("w", tensor.Float32, 4, 4, 3, 3), nil)
	g.Output("z", op.Relu(y))

	last, err := tensor.ChannelsLast.Order(4)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := layout.NewProblem(g, nil)
	a, err := layout.Solve(p, func(v *graph.Value) (tensor.Order, string) {
		if v != x {
			return "", ""
		}
		return last, "photos are wanted so"
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the image may lie", p.Orders(x))
	for _, c := range a.Inputs {
		fmt.Println("copy", c.Value.Name, c.Order, c.Why)
	}
	for i, c := range a.Nodes {
		n := g.Nodes[i]
		written, _ := tensor.OrderOf(c.Walk.ResultLayout(0, n.Out[0].Meta))
		fmt.Println(n.Op.Name, "writes", written)
	}
	fmt.Println("output copied:", a.Outputs[0] != nil)
	// Output:
	// the image may lie [contiguous channels_last]
	// copy x channels_last photos are wanted so
	// conv2d writes channels_last
	// relu writes contiguous
	// output copied: false
}
