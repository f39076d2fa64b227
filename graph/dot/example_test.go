package dot_test

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/dot"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// Graphviz draws the text: dot -Tsvg g.dot.
func ExampleMarshal() {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	g.Output("y", g.Apply("mul", nil, x, 2)[0].Named("twice"))
	text, err := dot.Marshal(g)
	fmt.Printf("%s%v\n", text, err)
	// Output:
	// digraph "g" {
	//   node [shape=box, fontname=Helvetica];
	//   edge [fontname=Helvetica, fontsize=10];
	//   0 [label="x\ninput\nfloat32[2,3]@(3,1)", style=filled, fillcolor="#dbe9f6"];
	//   1 [label="twice\nmul other=2\nfloat32[2,3]@(3,1)"];
	//   0 -> 1 [label="self"];
	//   2 [label="y\noutput", style=filled, fillcolor="#dff0d8"];
	//   1 -> 2;
	// }
	// <nil>
}
