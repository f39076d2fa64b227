package product

import (
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/view"
)

// maxVisitedNodes bounds the number of nodes that mayBeWeights visits.
const maxVisitedNodes = 32

// mayBeWeights reports whether a value may be the weights of an attention: x depends on a product, which computes the
// scores, and between the two is an op that folds (reduces) rows of the scores, such as softmax. All other nodes in
// between are pointwise ops or views.
func mayBeWeights(x graph.Arg) bool {
	type step struct {
		from  graph.Arg // a value on which x depends
		folds bool      // whether a node between from and x folds rows
	}
	seen := map[step]bool{}
	for queue := []step{{x, false}}; len(queue) > 0 && len(seen) < maxVisitedNodes; queue = queue[1:] {
		current := queue[0]
		if seen[current] || current.from.Kind != graph.TensorArg || current.from.Value.Node == nil ||
			current.from.Value.Node.Op == nil {
			continue
		}
		seen[current] = true
		switch node := current.from.Value.Node; {
		case fusion.Attends(node.Op) && current.folds:
			return true
		case node.Op.Rows != nil, node.Op.Expression != nil, node.Op.Pointwise != nil, current.from.Value.Alias != nil:
			for _, operand := range node.In {
				queue = append(queue, step{operand, current.folds || node.Op.Rows != nil})
			}
		}
	}
	return false
}

// rewriteTransposedWeights rewrites valuesᵀ @ weightsᵀ as (weights @ values)ᵀ. Attention is recognized only if the
// weights are the first operand.
func rewriteTransposedWeights(parts *graph.Parts, c *graph.Call) (rewrite graph.Rewrite, err error) {
	x, y := c.In[0], c.In[1]
	weights, ok := untransposed(y)
	if !ok || x.Kind != graph.TensorArg || x.Type().Rank() != y.Type().Rank() || !mayBeWeights(weights) ||
		mayBeWeights(x) {
		return rewrite, nil
	}
	builder := compose.NewBuilder(parts, c)
	transposed := func(x graph.Arg) graph.Arg {
		return builder.Add(view.Transpose, graph.Attrs{"dim0": -2, "dim1": -1}, x)
	}
	values := transposed(x)
	if _, err = builder.Result(); err != nil {
		return rewrite, err
	}
	product, err := parts.Repeat(parts.ReplacedNode(), weights, values)
	if err != nil {
		return rewrite, err
	}
	rewrite.Results, err = builder.Result(transposed(graph.ArgOf(product[0])))
	rewrite.Why = "weights multiply values"
	return rewrite, err
}

// untransposed returns the operand of x and true if x is a view that exchanges the last two dimensions.
func untransposed(x graph.Arg) (operand graph.Arg, ok bool) {
	if x.Kind != graph.TensorArg || x.Value.Node == nil || x.Value.Node.Op == nil || x.Value.Node.Op.Permutes == nil {
		return operand, false
	}
	node := x.Value.Node
	rank := x.Type().Rank()
	for i, d := range node.Op.Permutes(node.Call()) {
		wanted := i
		if i >= rank-2 {
			wanted = 2*rank - 3 - i // rank-2 and rank-1 are exchanged
		}
		if d != wanted {
			return operand, false
		}
	}
	return node.In[0], rank >= 2 && len(node.Out) == 1
}
