package product

import (
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/view"
)

// Passes recognize an attention in a graph only if the attention weights are the first operand of the product with the
// values. This file recognizes weights, and exchanges the operands of a product with transposed weights.

// maxVisitedNodes bounds the number of nodes that mayBeWeights visits.
const maxVisitedNodes = 32

// mayBeWeights reports whether a value may be the weights of an attention. The value must depend on a product, which
// computes the scores. Between the product and the value there must be an op that folds (reduces) rows, such as
// softmax. All other nodes in between must be pointwise ops or views.
func mayBeWeights(value graph.Arg) bool {
	type dependency struct {
		operand  graph.Arg // a value on which the given value depends
		isFolded bool      // whether a node between operand and the given value folds rows
	}
	visited := map[dependency]bool{}
	for queue := []dependency{{value, false}}; len(queue) > 0 && len(visited) < maxVisitedNodes; queue = queue[1:] {
		current := queue[0]
		node := nodeOf(current.operand)
		if visited[current] || node == nil {
			continue
		}
		visited[current] = true
		switch {
		case fusion.Attends(node.Op) && current.isFolded: // node computes the scores
			return true
		case node.Op.Rows != nil, node.Op.Expression != nil, node.Op.Pointwise != nil,
			current.operand.Value.Alias != nil:
			for _, operand := range node.In {
				queue = append(queue, dependency{operand, current.isFolded || node.Op.Rows != nil})
			}
		}
	}
	return false
}

// nodeOf returns the node whose op computes a value. It returns nil for numbers, constants and inputs of the graph.
func nodeOf(value graph.Arg) *graph.Node {
	if value.Kind != graph.TensorArg || value.Value.Node == nil || value.Value.Node.Op == nil {
		return nil
	}
	return value.Value.Node
}

// rewriteTransposedWeights rewrites valuesᵀ @ weightsᵀ as (weights @ values)ᵀ.
func rewriteTransposedWeights(parts *graph.Parts, c *graph.Call) (rewrite graph.Rewrite, err error) {
	left, right := c.In[0], c.In[1]
	weights, ok := untransposed(right)
	if !ok || left.Kind != graph.TensorArg || left.Type().Rank() != right.Type().Rank() || !mayBeWeights(weights) ||
		mayBeWeights(left) {
		return rewrite, nil
	}
	builder := compose.NewBuilder(parts, c)
	transposed := func(value graph.Arg) graph.Arg {
		return builder.Add(view.Transpose, graph.Attrs{"dim0": -2, "dim1": -1}, value)
	}
	values := transposed(left)
	if _, err = builder.Result(); err != nil { // the first error of the builder
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

// untransposed returns the operand of a view that exchanges the last two dimensions. ok is false if the value is no
// such view.
func untransposed(value graph.Arg) (operand graph.Arg, ok bool) {
	node := nodeOf(value)
	if node == nil || node.Op.Permutes == nil {
		return operand, false
	}
	rank := value.Type().Rank()
	for i, dim := range node.Op.Permutes(node.Call()) { // dimension i of the value is dimension dim of the operand
		wanted := i
		if i >= rank-2 {
			wanted = 2*rank - 3 - i // rank-2 and rank-1 are exchanged
		}
		if dim != wanted {
			return operand, false
		}
	}
	return node.In[0], rank >= 2 && len(node.Out) == 1
}
