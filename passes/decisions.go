package passes

import (
	"fmt"
	"strconv"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Decisions are the results of the searches of one planning run: folded nodes, whose results became constants; groups
// of nodes that became one step; layouts, implementations and copies; and values that are stored inside other values.
// [Options.Follow] applies them to the same graph at other sizes, with the same list of passes. Decisions are
// immutable.
//
// A decision refers to nodes and values by their numbers, which are the same at all sizes. For example, a plan for
// batches of 8 folded node 3, and fused nodes 5, 6 and 7. A plan for batches of 1 that follows these decisions does the
// same without a search. It fails with a [Misfit] if the nodes do not iterate over the same elements at this size.
type Decisions struct {
	foldedNodes  []map[int]bool  // numbers of folded nodes, by fold pass
	groups       []groupDecision // fused groups
	nodes        []signature     // signatures of the nodes for which layouts were chosen
	results      [][]tensor.Meta // results of these nodes
	layout       *storedLayout   // chosen layouts, implementations and copies
	placedValues map[int]bool    // numbers of values that are stored inside other values
}

// groupDecision is a group of nodes that become one step.
type groupDecision struct {
	Nodes     []int  // numbers of the nodes, in a valid order of execution
	Anchor    bool   // whether the first node, the anchor, has its own loop: see [nodeGroup]
	Attention bool   // whether the nodes compute an attention
	Mask      []bool `json:",omitempty"` // marks the dimensions that the group reduces; nil if it reduces none
	Split     int    // if not 0, the number of parts into which dimension 1 is split before the reduction
}

// signature identifies a node independently of sizes. It has the op, the number of the node, the number of its results,
// and the numbers of its operands, such as "add 5 1 2 4". The number of an operand that is not a tensor is -1. If the
// signatures of all nodes are equal, the decisions were made for the same graph.
type signature string

// signatureOf returns the signature of a node.
func signatureOf(n *graph.Node) signature {
	text := append(make([]byte, 0, 64), n.Op.Name...)
	for _, number := range []int{n.Number(), len(n.Out)} {
		text = strconv.AppendInt(append(text, ' '), int64(number), 10)
	}
	for _, arg := range n.In {
		number := -1
		if arg.Kind == graph.TensorArg {
			number = arg.Value.Number()
		}
		text = strconv.AppendInt(append(text, ' '), int64(number), 10)
	}
	return signature(text)
}

// Misfit is the error for decisions that do not apply to a graph at its sizes: other nodes would run, or values would
// have other layouts. The graph must then be planned without these decisions.
type Misfit struct{ Why string }

// Error gives the reason.
func (e *Misfit) Error() string { return "the decisions do not fit: " + e.Why }

// misfitError returns a [*Misfit] with a formatted reason. It is not inlined, to save compile time.
//
//go:noinline
func misfitError(format string, args ...any) error { return &Misfit{fmt.Sprintf(format, args...)} }

// decidedFolds begins a fold pass, and returns the numbers of the nodes that it must fold. It returns nil if there are
// no decisions to follow.
func (p *Plan) decidedFolds() map[int]bool {
	pass := p.foldPasses
	p.foldPasses++
	if p.Decisions != nil {
		p.Decisions.foldedNodes = append(p.Decisions.foldedNodes, map[int]bool{})
	}
	followed := p.decisionsToFollow
	switch {
	case followed == nil:
		return nil
	case pass < len(followed.foldedNodes):
		return followed.foldedNodes[pass]
	}
	return map[int]bool{}
}

// noteFolded records that a node was folded. Decisions are recorded only if [Options.Record] is set; otherwise
// p.Decisions is nil.
func (p *Plan) noteFolded(n *graph.Node) {
	if p.Decisions != nil {
		p.Decisions.foldedNodes[p.foldPasses-1][n.Number()] = true
	}
}

// noteGroups records the groups of the group pass.
func (p *Plan) noteGroups(groups []fusion.Group) {
	if p.Decisions == nil {
		return
	}
	for _, group := range groups {
		decision := groupDecision{Nodes: make([]int, len(group.Nodes)), Anchor: group.Anchor,
			Attention: group.Attention, Mask: group.Mask, Split: group.Split}
		for i, n := range group.Nodes {
			decision.Nodes[i] = n.Number()
		}
		p.Decisions.groups = append(p.Decisions.groups, decision)
	}
}

// noteLayouts records an assignment before it is applied.
func (p *Plan) noteLayouts(assignment *layout.Assignment) {
	if p.Decisions == nil {
		return
	}
	p.Decisions.layout = encodeLayout(assignment)
	for _, n := range p.Graph.Nodes {
		results := make([]tensor.Meta, len(n.Out))
		for i, v := range n.Out {
			results[i] = v.Meta
		}
		p.Decisions.nodes = append(p.Decisions.nodes, signatureOf(n))
		p.Decisions.results = append(p.Decisions.results, results)
	}
}
