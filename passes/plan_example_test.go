package passes_test

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// A plan is the graph that will run, and what was done to the graph as written: here an image that a convolution
// reads otherwise, and a copy that nobody needs.
func ExampleRun() {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 1, 4, 8, 8)
	y := op.Conv2d(x, g.Input("w", tensor.Float32, 4, 4, 3, 3), nil).Named("y")
	same := op.Contiguous(op.MaxPool2d(y, []int{2}).Named("z")).Named("same")
	g.Output("out", op.Sum(same))
	p, err := passes.Run(g, passes.Options{Strategy: layout.ChannelsLast, Check: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range p.Copies {
		fmt.Println("copies", c.Value, "from", c.From, "to", c.To)
	}
	for _, e := range p.Elided {
		fmt.Println("drops", e.Node)
	}
	fmt.Println(len(g.Nodes), "nodes as written,", len(p.Graph.Nodes), "as run")
	// Output:
	// copies x from [256 64 8 1] to [256 1 32 4]
	// drops same
	// 4 nodes as written, 4 as run
}
