package passes

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/report"
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
	if !slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool { return n.Op.Rewrite != nil }) {
		return nil
	}
	state := newRewriting(p)
	for _, n := range p.Graph.Nodes {
		interrupt.Check(p.ctx)
		name := n.Name // before the rewrite
		state.outcome = rewriteOutcome{}
		if err := state.rewriteNode(n); err != nil {
			return p.Graph.NodeError(n, err)
		}
		state.recordOutcome(n, name)
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
	plan         *Plan
	context      graph.RewriteContext
	nodes        []*graph.Node                   // nodes of the rewritten graph, so far
	readCounts   graph.ByValue[int]              // by value: number of uses as an operand of needed nodes
	unaryResults map[*graph.Value][]*graph.Value // by value: results of new nodes with that single operand
	rewriteCount int                             // number of rewrites
	outcome      rewriteOutcome                  // of the current node
}

// rewriteOutcome is the outcome for a node of the graph before the pass: set by rewriteNode, read by recordOutcome.
type rewriteOutcome struct {
	replacements       []string    // names of the nodes that replace the node
	reasons            []string    // reasons of the rewrites
	notRewritten       *graph.Node // a node that could not be rewritten together with the node
	notRewrittenReason string      // reason for notRewritten
}

// newRewriting returns the state before the first rewrite.
func newRewriting(p *Plan) *rewriting {
	r := &rewriting{plan: p, unaryResults: map[*graph.Value][]*graph.Value{},
		context: graph.RewriteContext{Exact: p.exact}, readCounts: graph.NewByValue[int](p.Graph)}
	r.context.UsedOnlyHere = func(v *graph.Value) bool { return v != nil && r.readCounts.At(v) == 1 }
	r.context.ComputedFrom = func(v *graph.Value) []*graph.Value { return r.unaryResults[v] }
	for _, n := range p.Graph.Nodes {
		r.context.Pinned = r.context.Pinned || n.Pin != (graph.Pin{})
		r.countReads(n, 1)
	}
	for _, output := range p.Graph.Outputs {
		r.readCounts.Set(output.Value, r.readCounts.At(output.Value)+2) // an output always has other readers
	}
	return r
}

// rewriteNode appends a node, or the nodes that replace it, to the list. It adds to the outcome.
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
			r.outcome.notRewritten, r.outcome.notRewrittenReason = substitution.Replaced, substitution.Why
		}
		r.appendUnchanged(n)
		return nil
	}
	r.rewriteCount++
	r.outcome.reasons = append(r.outcome.reasons, substitution.Why)
	// Count the reads of all new nodes first, so that no operand that they read is released.
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
	r.nodes, r.outcome.replacements = append(r.nodes, n), append(r.outcome.replacements, n.Name)
	isReplacement := n.PartOf != nil // it replaces the node PartOf, alone or with others
	if isReplacement && len(n.In) == 1 && len(n.Out) == 1 && n.In[0].Kind == graph.TensorArg {
		r.unaryResults[n.In[0].Value] = append(r.unaryResults[n.In[0].Value], n.Out[0])
	}
}

// countReads adds delta to the read counts of the operands of n.
func (r *rewriting) countReads(n *graph.Node, delta int) {
	for _, a := range n.In {
		if a.Kind == graph.TensorArg {
			r.readCounts.Set(a.Value, r.readCounts.At(a.Value)+delta)
		}
	}
	for _, v := range n.AttrRefs() { // values that attributes refer to
		r.readCounts.Set(v, r.readCounts.At(v)+delta)
	}
}

// releaseOperands decrements the read counts of operands. If an operand has no reads left, releaseOperands
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

// recordOutcome adds the outcome for a node with the given name to the plan.
func (r *rewriting) recordOutcome(n *graph.Node, name string) {
	outcome := &r.outcome
	switch {
	case len(outcome.reasons) > 0:
		why := strings.Join(slices.Compact(outcome.reasons), "; ")
		r.plan.Decomposed = append(r.plan.Decomposed, report.Decomposition{Node: name, Op: n.Op.Name,
			Into: append([]string{}, outcome.replacements...), Why: why})
	case outcome.notRewritten != nil:
		r.plan.Unfused = append(r.plan.Unfused, report.Unfused{Node: outcome.notRewritten.Name, Reader: name,
			Why: outcome.notRewrittenReason})
	}
}
