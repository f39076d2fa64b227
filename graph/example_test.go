package graph_test

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// A graph knows the layouts of its values as soon as it is built, and what they hold by the definitions of its
// ops. A mistake is kept for Err, with the line of the call.
func Example() {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	t := g.Apply("transpose", graph.Attrs{"dim0": 0, "dim1": 1}, x)[0]
	y := g.Apply("add", graph.Attrs{"alpha": 10}, t, 1)[0].Named("y")
	g.Output("y", y)
	for _, v := range []*graph.Value{x, t, y} {
		fmt.Println(v.Kind(), v.Meta, "a view:", v.Alias != nil)
	}
	out, err := graph.Evaluate(g, map[string]*tensor.Tensor{
		"x": tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))})
	fmt.Println(err, out["y"].At(2, 1))
	// Output:
	// input float32[2,3]@(3,1) a view: false
	// transpose float32[3,2]@(1,3) a view: true
	// add float32[3,2]@(1,3) a view: false
	// <nil> 16
}

// Sizes without a number stay unknown: sizes and strides are expressions, and the guards say what they hold for.
func ExampleGraph_Symbolic() {
	g := graph.New("g", kernels.Lookup)
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3},
		graph.Dim{Symbol: "H"}, graph.Dim{Expr: "H*2"})
	p := g.Apply("max_pool2d", graph.Attrs{"kernel_size": 2}, x)[0].Named("p")
	g.Output("y", g.Apply("reshape", graph.Attrs{"shape": []any{"N*3", -1}}, p)[0].Named("y"))
	s, err := g.Symbolic(map[string]int{"N": 8, "H": 6})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Graph.Value("p").Type.Simplify())
	fmt.Println(s.Graph.Value("y").Type.Simplify())
	for _, guard := range s.Guards {
		fmt.Println(guard.Cond, "for", guard.Node.Op.Name)
	}
	fmt.Println(s.Holds(map[string]int{"N": 1, "H": 2}), s.Holds(map[string]int{"N": 1, "H": 1}))
	// Output:
	// float32[N,3,H//2,H]@(3*H*(H//2),H*(H//2),H,1)
	// float32[3*N,H*(H//2)]@(H*(H//2),1)
	// Ne(H, 0) for max_pool2d
	// Le(1, H//2) for max_pool2d
	// Ne(N, 0) for reshape
	// true false
}

// Symbols stand for sizes that are bound later.
func ExampleGraph_Bind() {
	g := graph.New("g", kernels.Lookup)
	x := g.InputDims("x", tensor.Float32, tensor.ChannelsLast, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3},
		graph.Dim{Size: 8}, graph.Dim{Size: 8})
	y := g.Apply("relu", nil, x)[0]
	g.Output("y", y)
	for _, n := range []int{1, 4} {
		if err := g.Bind(map[string]int{"N": n}); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(y.Meta)
	}
	// Output:
	// float32[1,3,8,8]@(192,1,24,3)
	// float32[4,3,8,8]@(192,1,24,3)
}
