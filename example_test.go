package graphrun_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A graph file is loaded, compiled and run. Its batch size is a symbol, which takes its size from the
// inputs of each run.
func Example() {
	g, err := graphrun.Load(ctx, "examples/models/residual.json")
	check(err)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	check(err)
	for _, n := range []int{1, 3} {
		out, err := p.Run(context.Background(), map[string]*tensor.Tensor{
			"image": tensor.Zeros(tensor.Float32, n, 8, 16, 16),
			"skip":  tensor.Zeros(tensor.Float32, n, 8, 16, 16),
		})
		check(err)
		fmt.Println(out["y"].Meta)
	}
	// Output:
	// float32[1,8,16,16]@(2048,256,16,1)
	// float32[3,8,16,16]@(2048,256,16,1)
}

// A graph that runs once needs no program.
func ExampleRun() {
	g := graphrun.New("once")
	x := g.Input("x", tensor.Float32, 3)
	g.Output("y", op.Relu(x))
	out, err := graphrun.Run(context.Background(), g, map[string]*tensor.Tensor{
		"x": tensor.Must(tensor.FromSlice([]float32{-1, 0, 1}, 3)),
	})
	check(err)
	fmt.Println(tensor.ToSlice[float32](out["y"]))
	// Output: [0 0 1] <nil>
}

// Options choose a strategy, demand layouts and fix sizes.
func ExampleCompile() {
	g, err := graphrun.Load(ctx, "examples/models/residual.json")
	check(err)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{
		Strategy: graphrun.ChannelsLast,
		Sizes:    map[string]int{"N": 4},
		Pins:     map[string]graph.Pin{"conv2": {Format: tensor.Contiguous}},
		Threads:  2,
	})
	check(err)
	for _, c := range p.Report().Copies {
		fmt.Println(c.Value, c.Bytes, c.To)
	}
	// Output:
	// conv2.unpinned 32768 [2048 256 16 1]
	// act2 32768 [2048 256 16 1]
}

// rowMajorImages is a strategy of one's own: images are row-major, and everything else is as in eager
// PyTorch. It states a wish for each value and leaves the rest, what that means for neighbours and
// copies, to the solver that the strategies of package layout use.
type rowMajorImages struct{}

func (rowMajorImages) Name() string { return "row_major_images" }

func (rowMajorImages) Choose(p *layout.Problem) (*layout.Assignment, error) {
	return layout.Solve(p, func(v *graph.Value) (tensor.Order, string) {
		if !p.Image(v) {
			return "", ""
		}
		return tensor.RowMajorOrder(v.Meta.Rank()), "images are row-major"
	})
}

// A strategy is an interface: anybody's own is as good as those that are always there.
func ExampleOptions_strategy() {
	g, err := graphrun.Load(ctx, "examples/models/residual.json")
	check(err)
	for _, s := range []graphrun.Strategy{graphrun.Propagate, graphrun.Optimal, rowMajorImages{}} {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: s, NoFusion: true})
		check(err)
		fmt.Printf("%s: %d copies\n", s.Name(), len(p.Report().Copies))
	}
	// Output:
	// propagate: 1 copies
	// optimal: 0 copies
	// row_major_images: 2 copies
}

// The report lists the steps, the copies and the dropped nodes, with reasons.
func ExampleProgram_Report() {
	g, err := graphrun.Load(ctx, "examples/models/residual.json")
	check(err)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: graphrun.Propagate, NoFusion: true})
	check(err)
	r := p.Report()
	for _, s := range r.Steps {
		fmt.Println(s.Name, s.Ops, s.Strides)
	}
	for _, e := range r.Elided {
		fmt.Println(e.Node, "does not run:", e.Why)
	}
	fmt.Println("assumed:", r.Assumed)
	// Output:
	// conv1 [conv1] [2048 1 128 8]
	// act1 [act1] [2048 1 128 8]
	// conv2 [conv2] [2048 1 128 8]
	// shortcut [shortcut] [2048 256 16 1]
	// joined [joined] [2048 1 128 8]
	// act2 [act2] [2048 1 128 8]
	// act2.contiguous [act2.contiguous] [2048 256 16 1]
	// tidy does not run: "conv2" already has the layout asked for, strides [2048, 1, 128, 8]
	// assumed: map[N:2]
}

// swish returns an op of one's own, x * sigmoid(beta * x) element by element. Its iteration is that of
// any op of one operand: layouts, strides and promotion of dtypes follow from it.
func swish() *graph.Op {
	type attrs struct {
		Beta float64 `attr:"beta" default:"1" doc:"steepness of the sigmoid"`
	}
	o, err := fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name:   "swish",
			Doc:    "Gives x * sigmoid(beta * x).",
			Params: []graph.Param{{Name: "x"}},
			Schema: graph.SchemaOf[attrs](),
			NoRef:  "an example",
		},
		Lowerings: graph.Lowerings{
			Pointwise: &graph.Pointwise{
				Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
					return rule.UnaryFloat(outs[0], c.In[0].Operand()), nil
				},
				Body: func(c *graph.Call, _ *rule.Rule) (rule.Kernel, error) {
					beta := c.Attrs.(*attrs).Beta
					return iter.Map1(func(x float32) float32 {
						return float32(float64(x) / (1 + math.Exp(-beta*float64(x))))
					}), nil
				},
			},
		},
	})
	check(err)
	return o
}

// Ops of one's own are put beside those of package kernels.
func ExampleLookup() {
	lookup, err := graphrun.Lookup(swish())
	check(err)
	g := graph.New("own", lookup)
	x := g.Input("x", tensor.Float32, 3)
	g.Output("y", g.Apply("swish", graph.Attrs{"beta": 2}, x)[0])
	out, err := graphrun.Run(context.Background(), g, map[string]*tensor.Tensor{
		"x": tensor.Must(tensor.FromSlice([]float32{-1, 0, 1}, 3)),
	})
	check(err)
	fmt.Println(out["y"].At(2))
	// Output: 0.8807970881462097
}
