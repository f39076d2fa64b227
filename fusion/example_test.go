package fusion_test

import (
	"fmt"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
)

// A pointwise op states an iteration and a kernel. Its kind, inference and implementation follow.
func ExampleDefine() {
	op, err := fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "twice", Doc: "Multiplies by 2.", Params: []graph.Param{{Name: "self"}}, NoRef: "an example",
		},
		Lowerings: graph.Lowerings{
			Pointwise: &graph.Pointwise{
				Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
					return rule.Unary(outs[0], c.In[0].Operand()), nil
				},
				Body: func(*graph.Call, *rule.Rule) (rule.Kernel, error) {
					return iter.Map1(func(x float32) float32 { return 2 * x }), nil
				},
			},
		},
	})
	fmt.Println(op.Kind, op.Impls[0].Name, err)
	// Output: follows loop <nil>
}
