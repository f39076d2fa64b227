package control

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type ifSizesAttrs struct {
	Condition sym.Bool     `attr:"condition" doc:"comparison of sizes, or several joined by & and |: Lt(100, N)"`
	Then      *graph.Graph `attr:"then_branch" doc:"graph to run if condition holds; its inputs are the first operands"`
	Else      *graph.Graph `attr:"else_branch" doc:"graph to run otherwise; its inputs are the remaining operands"`
}

// IfSizes is If with a condition on sizes instead of data.
var IfSizes = kit.Define[*ifSizesAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "if_sizes",
		Doc: "Runs `then_branch` or `else_branch`. The results are the outputs of that graph. The choice depends only " +
			"on sizes. When the sizes are known, the nodes of the chosen branch replace the node.",
		Params: []graph.Param{{Name: "values", Variadic: true, Optional: true}}, VariadicResults: true,
		Infer: inferIfSizes,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			body, _ := chooseBranch(c)
			if attrs := kit.Attrs[*ifSizesAttrs](c); body == attrs.Else {
				return graph.Reference{}.Run(body, in[len(attrs.Then.Inputs):])
			}
			return graph.Reference{}.Run(body, in[:len(body.Inputs)])
		},
	},
	Lowerings: graph.Lowerings{TakenBranch: chooseBranch},
})

// chooseBranch returns the branch that the sizes select, and the operands of the branch.
func chooseBranch(c *graph.Call) (*graph.Graph, []graph.Arg) {
	attrs := kit.Attrs[*ifSizesAttrs](c)
	thenInputs := min(len(attrs.Then.Inputs), len(c.In))
	if attrs.Condition.Holds() {
		return attrs.Then, c.In[:thenInputs]
	}
	return attrs.Else, c.In[thenInputs:]
}

// inferIfSizes infers the results of the branch that the sizes select.
func inferIfSizes(call *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*ifSizesAttrs](call)
	if len(attrs.Then.Outputs) != len(attrs.Else.Outputs) {
		return nil, fmt.Errorf("then_branch gives %d values, else_branch %d", len(attrs.Then.Outputs),
			len(attrs.Else.Outputs))
	}
	if len(call.In) != len(attrs.Then.Inputs)+len(attrs.Else.Inputs) {
		return nil, fmt.Errorf("the branches take %d and %d values, got %d", len(attrs.Then.Inputs), len(attrs.Else.Inputs),
			len(call.In))
	}
	body, args := chooseBranch(call)
	metas := make([]tensor.Meta, len(args))
	for i, arg := range args {
		if metas[i] = arg.Meta(); arg.Kind != graph.TensorArg {
			return nil, fmt.Errorf("operand %q of a branch is missing", body.Inputs[i].Name)
		}
	}
	return body.ResultsFor(metas)
}
