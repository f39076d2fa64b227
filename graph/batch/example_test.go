package batch_test

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/batch"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// A graph for one row is changed to four rows. A softmax over the rows forbids it.
func ExampleFollow() {
	for _, dim := range []int{1, 0} {
		g := graph.New("g", kernels.Lookup)
		x := g.Input("x", tensor.Float32, 1, 3)
		g.Output("y", op.Softmax(x, dim).Named("y"))
		if err := g.Infer(); err != nil {
			fmt.Println(err)
			return
		}
		p, err := batch.Follow(g, map[string]int{"x": 0})
		if err != nil {
			fmt.Println(err)
			continue
		}
		h, err := p.Resize(4)
		fmt.Println(h.Outputs[0].Value.Meta.Shape, err)
	}
	// Output:
	// [4 3] <nil>
	// node "y" (softmax): it combines rows: the rows are in "x" (dimension 0 of [1 3])
}
