package indices_test

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/indices"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// Words are numbered from 1: the graph subtracts 1 and looks the results up in a table of four rows. The input x is not
// used as an index.
func ExampleValid() {
	g := graph.New("g", kernels.Lookup)
	table := g.Input("table", tensor.Float32, 4, 8)
	words, x := g.Input("words", tensor.Int64, 10), g.Input("x", tensor.Int64, 10)
	rows := g.Apply("embedding", nil, table, g.Apply("sub", nil, words, 1)[0])[0]
	g.Output("rows", rows).Output("sum", g.Apply("add", nil, words, x)[0])
	valid := indices.Valid(g, []int64{-1, 0, 1, 2, 3, 4, 5})
	fmt.Println(valid[words], valid[x], g.Err())
	// Output:
	// [1 2 3 4] [] <nil>
}
