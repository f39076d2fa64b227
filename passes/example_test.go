package passes_test

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// A pass of one's own is in the list like any other: it says what it needs, and the plan shows what
// it did.
func ExampleAfter() {
	count := passes.Pass{Name: "count", Doc: "counts the nodes that compute", Needs: graph.Typed}
	count.Run = func(p *passes.Plan) error {
		n := 0
		for _, node := range p.Graph.Nodes {
			if !node.IsView() {
				n++
			}
		}
		p.Note("%d of %d nodes compute", n, len(p.Graph.Nodes))
		return nil
	}
	list, err := passes.After(passes.Passes(), "decompose", count)
	if err != nil {
		panic(err)
	}
	g := graph.New("g", kernels.Lookup)
	x, y := g.Input("x", tensor.Float32, 3), g.Input("y", tensor.Float32, 4)
	g.Output("z", op.Outer(x, y).Named("z"))
	p, err := passes.Run(g, passes.Options{Passes: list, Check: true})
	if err != nil {
		panic(err)
	}
	for _, done := range p.Passes {
		if done.Did != "" {
			fmt.Println(done.Pass+":", done.Did)
		}
	}
	// Output:
	// decompose: 1 node decomposed
	// count: 1 of 2 nodes compute
	// layout: 1 layout and 1 implementation chosen, 0 copies inserted
}
