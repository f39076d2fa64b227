package passes

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
)

// rewrite calls Rewrite of each node's op, which may replace the node and the nodes that compute its operands. Nodes
// are visited in order, so that earlier nodes are already rewritten. New nodes are visited, too. For example, an op
// replaces the product of two dequantized values by an int8 product of the quantized values:
//
//	a = dequantize(qa, ...)        a = dequantize(qa, ...)    no longer read, unless by other nodes
//	b = dequantize(qb, ...)   ->   b = dequantize(qb, ...)    no longer read, unless by other nodes
//	y = matmul(a, b)               y = the int8 product of qa and qb
//
// Nodes without readers are dropped at the end.
func rewrite(p *Plan) error {
	state := &rewriting{plan: p, unaryResults: map[*graph.Value][]*graph.Value{},
		context: graph.RewriteContext{Exact: p.exact}, readCounts: graph.NewByValue[int](p.Graph)}
	state.context.UsedOnlyHere = func(v *graph.Value) bool { return v != nil && state.readCounts.At(v) == 1 }
	state.context.ComputedFrom = func(v *graph.Value) []*graph.Value { return state.unaryResults[v] }
	hasRewrites := false
	for _, n := range p.Graph.Nodes {
		hasRewrites = hasRewrites || n.Op.Rewrite != nil
		state.context.Pinned = state.context.Pinned || n.Pin != (graph.Pin{})
		state.countReads(n, 1)
	}
	if !hasRewrites {
		return nil
	}
	for _, output := range p.Graph.Outputs {
		state.readCounts.Set(output.Value, state.readCounts.At(output.Value)+2) // an output always has other readers
	}
	for _, n := range p.Graph.Nodes {
		interrupt.Check(p.ctx)
		name := n.Name
		if err := state.rewriteNode(n); err != nil {
			return p.Graph.NodeError(n, err)
		}
		state.recordRewrite(n, name) // under the name before the rewrite
	}
	if state.rewriteCount == 0 {
		return nil
	}
	p.Graph.Nodes = state.nodes
	p.dropNodes()
	p.Note("%s rewritten", countText(state.rewriteCount, "node", "nodes"))
	return nil
}

// rewriting is the state of the pass.
type rewriting struct {
	plan               *Plan
	context            graph.RewriteContext
	readCounts         graph.ByValue[int]              // by value: number of uses as an operand of needed nodes
	nodes              []*graph.Node                   // nodes of the rewritten graph, so far
	rewriteCount       int                             // number of rewrites
	replacements       []string                        // names of the nodes that replace the current node
	reasons            []string                        // reasons of the rewrites of the current node
	unaryResults       map[*graph.Value][]*graph.Value // by value: results of new nodes with that single operand
	notRewritten       *graph.Node                     // a node that could not be rewritten together with the current node
	notRewrittenReason string                          // reason for notRewritten
}

// rewriteNode appends a node, or the nodes that replace it, to the list.
func (r *rewriting) rewriteNode(n *graph.Node) error {
	if n.Op.Rewrite == nil || n.Pin != (graph.Pin{}) {
		r.appendUnchanged(n)
		return nil
	}
	operands := n.In // before the rewrite
	substitution, newNodes, err := r.plan.Graph.Rewrite(n, r.context)
	if err != nil {
		return err
	}
	if substitution.Results == nil {
		if substitution.Why != "" {
			r.notRewritten, r.notRewrittenReason = substitution.Replaced, substitution.Why
		}
		r.appendUnchanged(n)
		return nil
	}
	r.rewriteCount++
	r.reasons = append(r.reasons, substitution.Why)
	for _, newNode := range newNodes {
		r.countReads(newNode, 1)
	}
	r.releaseOperands(operands)
	for _, newNode := range newNodes {
		if err := r.rewriteNode(newNode); err != nil {
			return err
		}
	}
	return nil
}

// appendUnchanged appends a node unchanged.
func (r *rewriting) appendUnchanged(n *graph.Node) {
	r.nodes, r.replacements = append(r.nodes, n), append(r.replacements, n.Name)
	if n.PartOf != nil && len(n.In) == 1 && len(n.Out) == 1 && n.In[0].Kind == graph.TensorArg {
		r.unaryResults[n.In[0].Value] = append(r.unaryResults[n.In[0].Value], n.Out[0])
	}
}

// countReads adds delta to the reader counts of the operands of n.
func (r *rewriting) countReads(n *graph.Node, delta int) {
	for _, a := range n.In {
		if a.Kind == graph.TensorArg {
			r.readCounts.Set(a.Value, r.readCounts.At(a.Value)+delta)
		}
	}
	for _, v := range n.AttrRefs() {
		r.readCounts.Set(v, r.readCounts.At(v)+delta)
	}
}

// releaseOperands decrements the reader counts of operands. If an operand has no readers left, releaseOperands
// continues with the operands of its node.
func (r *rewriting) releaseOperands(in []graph.Arg) {
	for _, a := range in {
		if a.Kind != graph.TensorArg {
			continue
		}
		readCount := r.readCounts.At(a.Value) - 1
		r.readCounts.Set(a.Value, readCount)
		if n := a.Value.Node; readCount == 0 && n != nil && len(n.Out) == 1 {
			r.releaseOperands(n.In)
		}
	}
}

// recordRewrite records the outcome for a node.
func (r *rewriting) recordRewrite(n *graph.Node, name string) {
	switch {
	case len(r.reasons) > 0:
		why := strings.Join(slices.Compact(r.reasons), "; ")
		r.plan.Decomposed = append(r.plan.Decomposed, Decomposition{Node: name, Op: n.Op.Name, Into: r.replacements,
			Why: why})
	case r.notRewritten != nil:
		r.plan.Unfused = append(r.plan.Unfused, Unfused{r.notRewritten.Name, name, r.notRewrittenReason})
	}
	r.replacements, r.reasons, r.notRewrittenReason, r.notRewritten = nil, nil, "", nil
}
