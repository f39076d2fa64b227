package kernels

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

type swishAttrs struct {
	Beta tensor.Scalar `attr:"beta" default:"1" doc:"steepness"`
}

// swish defines an op by a formula. Config is PyTorch's iteration over one operand. Body types the formula for the
// dtypes of the loop, when the kernel first runs.
func swish() (*graph.Op, error) {
	f, err := expr.Parse("x * sigmoid(beta * x)", "x")
	if err != nil {
		return nil, err
	}
	return fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "swish", Doc: "Multiplies each element by the sigmoid of beta times it.",
			Params: []graph.Param{{Name: "self"}}, Schema: graph.SchemaOf[swishAttrs](), NoRef: "an example",
		},
		Lowerings: graph.Lowerings{
			Pointwise: &graph.Pointwise{
				Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
					return rule.UnaryFloat(outs[0], c.In[0].Operand()), nil
				},
				Body: func(c *graph.Call, r *rule.Rule) (rule.Kernel, error) {
					out, in := r.DType(0), r.DType(1)
					return rule.ExprOf(func() (*expr.Code, error) {
						return f.Code([]tensor.DType{in}, expr.Typing{Out: []tensor.DType{out},
							Attrs: map[string]tensor.Scalar{"beta": c.Attrs.(*swishAttrs).Beta}})
					}, 1, out, in), nil
				},
			},
		},
	})
}

// An op defined by a formula, and the same computation without a definition: op.Pointwise takes the formula as text.
func Example_formula() {
	own, err := swish()
	check(err)
	lookup, err := graphrun.Lookup(own)
	check(err)
	g := graph.New("net", lookup)
	x := g.Input("x", tensor.Int32, 3) // integers are computed as float32
	named := g.Apply("swish", graph.Attrs{"beta": 2}, x)[0]
	text := op.Pointwise([]*graph.Value{x}, "x * sigmoid(beta * x)",
		op.PointwiseAttrs{Numbers: map[string]tensor.Scalar{"beta": op.Scalar(2)}})[0]
	g.Output("same", op.Eq(named, text)).Output("y", op.Add(named, 1))
	check(g.Err())
	out, err := graphrun.Run(context.Background(), g, map[string]*tensor.Tensor{
		"x": tensor.Must(tensor.FromSlice([]int32{-1, 0, 2}, 3))})
	check(err)
	fmt.Println(out["y"].Meta)
	for i := range 3 {
		fmt.Printf("%.4f %v\n", out["y"].At(i).Float(), out["same"].At(i))
	}
	// Output:
	// float32[3]@(1)
	// 0.8808 true
	// 1.0000 true
	// 2.9640 true
}
