package passes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
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
		interrupt.Check(p.options.Context)
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
		context: graph.RewriteContext{Exact: p.options.Exact}, readCounts: graph.NewByValue[int](p.Graph)}
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

// dropDead removes nodes and constants that no output depends on.
func dropDead(plan *Plan) error {
	plan.dropNodes()
	if droppedCount := plan.dropConstants(); droppedCount > 0 {
		plan.Note("%s", countText(droppedCount, "constant dropped", "constants dropped"))
	}
	return nil
}

// dropNodes removes the nodes that no output depends on.
func (p *Plan) dropNodes() {
	live, oldCount := liveValues(p.Graph), len(p.Graph.Nodes)
	p.Graph.Nodes = slices.DeleteFunc(p.Graph.Nodes, func(n *graph.Node) bool {
		if slices.ContainsFunc(n.Out, live.At) {
			return false
		}
		p.Elided = append(p.Elided, report.Elision{Node: n.Name, Why: "no output depends on it"})
		return true
	})
	if droppedCount := oldCount - len(p.Graph.Nodes); droppedCount > 0 {
		p.Note("%s", countText(droppedCount, "node dropped", "nodes dropped"))
	}
}

// dropConstants removes constants without readers and returns their number. Their memory is freed unless the caller's
// graph keeps it alive.
func (p *Plan) dropConstants() int {
	g := p.Graph
	if len(g.Constants) == 0 {
		return 0
	}
	isRead := graph.NewByValue[bool](g)
	for _, n := range g.Nodes {
		for _, arg := range n.In {
			isRead.Set(arg.Value, true)
		}
		for _, v := range n.AttrRefs() {
			isRead.Set(v, true)
		}
	}
	for _, output := range g.Outputs {
		isRead.Set(output.Value, true)
	}
	countBefore := len(g.Constants)
	g.Constants = slices.DeleteFunc(g.Constants, func(v *graph.Value) bool {
		if isRead.At(v) {
			return false
		}
		// A plan that records or follows decisions keeps the data: plans for other sizes reuse results computed from
		// it.
		if p.Decisions == nil && p.options.Follow == nil {
			v.Const = &tensor.Tensor{Meta: v.Const.Meta} // the layout problem may refer to the value
		}
		return true
	})
	return countBefore - len(g.Constants)
}

// liveValues marks the values on which outputs depend through operands.
func liveValues(g *graph.Graph) graph.ByValue[bool] {
	live := graph.NewByValue[bool](g)
	for _, output := range g.Outputs {
		live.Set(output.Value, true)
	}
	for _, n := range slices.Backward(g.Nodes) { // readers come after their operands
		if !slices.ContainsFunc(n.Out, live.At) {
			continue
		}
		for _, arg := range n.In {
			if arg.Kind == graph.TensorArg {
				live.Set(arg.Value, true)
			}
		}
	}
	return live
}

// isComposite reports whether the op of a node consists of other ops.
func isComposite(n *graph.Node) bool { return n.Op.Decompose != nil }

// decompose replaces each composite node by the nodes that its op's Decompose returns, recursively. For example, it
// replaces a node batch_norm by nodes sqrt, div, mul, add and so on.
func decompose(p *Plan) error {
	firstComposite := slices.IndexFunc(p.Graph.Nodes, isComposite)
	if firstComposite < 0 {
		return nil
	}
	nodes := slices.Clone(p.Graph.Nodes[:firstComposite])
	for _, n := range p.Graph.Nodes[firstComposite:] {
		interrupt.Check(p.options.Context)
		var newNames []string
		name := n.Name // Decompose may rename n
		if err := addDecomposed(p.Graph, n, &nodes, &newNames); err != nil {
			return p.Graph.NodeError(n, err)
		}
		if isComposite(n) {
			p.Decomposed = append(p.Decomposed, report.Decomposition{Node: name, Op: n.Op.Name, Into: newNames})
		}
	}
	p.Graph.Nodes = nodes
	if n := len(p.Decomposed); n > 0 {
		p.Note("%s decomposed", countText(n, "node", "nodes"))
	}
	return nil
}

// addDecomposed appends n, or the nodes that replace a composite n, to nodes, and their names to names. After an error,
// some of them may be missing.
func addDecomposed(g *graph.Graph, n *graph.Node, nodes *[]*graph.Node, names *[]string) error {
	if !isComposite(n) {
		*names = append(*names, n.Name)
		*nodes = append(*nodes, n)
		return nil
	}
	newNodes, err := g.Decompose(n)
	if err != nil {
		return err
	}
	for _, newNode := range newNodes {
		if err := addDecomposed(g, newNode, nodes, names); err != nil {
			return err
		}
	}
	return nil
}

// space is the iteration space of a node or group. The shape is nil if the nodes have no common space. For example, a
// relu of [8, 100] has the shape [8, 100] and no mask. A mean over the last dimension of [8, 100] has the same shape
// and the mask [false, true]: a row has 100 elements, and there are 8 rows.
type space struct {
	shape    []int
	mask     []bool // marks the dimensions that are reduced (a row is a run along them); nil if none is reduced
	split    int    // if not 0, the number of parts into which dimension 1 is split before mask applies
	inPieces bool   // rows are too long for one loop: they are processed in pieces, in a single pass
}

// reducedShape returns the shape after the reduction, with size 1 in the row dimensions. The space must not be split.
func (s space) reducedShape() []int {
	shape := slices.Clone(s.shape)
	for dim, isReduced := range s.mask {
		if isReduced {
			shape[dim] = 1
		}
	}
	return shape
}

// commonSpace returns the space of the union of two groups with the given spaces. The second group reads results of the
// first group. The returned space has no shape if neither space covers both groups.
func commonSpace(first, second space) space {
	sameShape := slices.Equal(first.shape, second.shape)
	switch {
	case first.mask == nil && second.mask == nil && sameShape: // neither reduces rows
		return first
	case first.mask == nil && second.mask != nil && second.covers(first): // only the second reduces rows
		return second
	case first.mask != nil && second.mask == nil && first.covers(second): // only the first reduces rows
		return first
	case first.mask != nil && second.mask != nil && sameShape && first.split == second.split &&
		slices.Equal(first.mask, second.mask): // both reduce the same rows
		return first
	}
	return space{}
}

// covers reports whether a space that reduces rows covers a space that does not. The other space must have the elements
// of the rows, or one element for each row.
func (s space) covers(other space) bool {
	return slices.Equal(s.shape, other.shape) || s.split == 0 && slices.Equal(other.shape, s.reducedShape())
}

// mergedSpace returns the space of the union of two groups. The first group (or node) is given by its space. The second
// group reads results of the first group. The returned space has no shape if the groups cannot be merged. The function
// inFirst reports whether the first group computes a value.
//
// In addition to the cases of commonSpace, the second group may iterate over the first group's results without their
// reduced dimensions, such as [8] if the first group reduces rows of [8, 100]. All its other operands must then have
// one element, because larger operands would be indexed by other dimensions.
func mergedSpace(first space, second *nodeGroup, inFirst func(*graph.Value) bool) space {
	if common := commonSpace(first, second.space); common.shape != nil {
		return common
	}
	if first.mask == nil || first.split != 0 || second.space.mask != nil ||
		!slices.Equal(second.space.shape, first.withoutReduced()) {
		return space{}
	}
	for v := range second.operands {
		if !inFirst(v) && v.Meta.Numel() != 1 {
			return space{}
		}
	}
	return first
}

// withoutReduced returns the shape after the reduction, without the row dimensions. The space must not be split.
func (s space) withoutReduced() []int {
	shape := []int{}
	for dim, size := range s.shape {
		if !s.mask[dim] {
			shape = append(shape, size)
		}
	}
	return shape
}

// reportUnfused lists the pairs of a node and a reader of its results that run in different steps, ordered by the first
// node. The reader is a candidate: it is pointwise, a row reduction, or an op that states why it is never fused
// ([graph.Op.UnfusableReason]). The node is a candidate, too, or a product or a convolution, which may compute readers
// of its result in the same step, as its epilogue. It is then the anchor of a group.
func (g *grouper) reportUnfused() {
	reported := map[*graph.Node]*graph.Node{} // by reader: the last reported n, because a reader may read n several times
	for _, n := range g.plan.Graph.Nodes {
		if !isCandidate(n) && !fusion.TakesEpilogue(n.Op) {
			continue
		}
		for _, v := range n.Out {
			for _, reader := range g.uses.readers.At(v) {
				if reported[reader] == n || !isCandidate(reader) {
					continue
				}
				reported[reader] = n
				group := g.group(n)
				if group == nil || group != g.group(reader) {
					g.plan.Unfused = append(g.plan.Unfused, report.Unfused{Node: n.Name, Reader: reader.Name,
						Why: g.whyUnfused(n, reader)})
				}
			}
		}
	}
}

// isCandidate reports whether the op of a node can be fused with others, or states why it is never fused.
func isCandidate(n *graph.Node) bool {
	isFusable := n.Op.Pointwise != nil || n.Op.Expression != nil || n.Op.Rows != nil
	return len(n.Out) > 0 && (isFusable || n.Op.UnfusableReason != "")
}

// whyUnfused returns why n is not in the group of its reader, or "" if no reason is known. A reason in
// g.noGroupReasons holds for every group. A reason in g.notJoinedReasons holds for the group that n tried to join,
// which may be the group of another reader.
func (g *grouper) whyUnfused(n, reader *graph.Node) string {
	notJoined := g.notJoinedReasons[n]
	for _, node := range []*graph.Node{n, reader} {
		// A product or a convolution is in noGroupReasons, because it has no expression, but it may be an anchor. The
		// reason why it did not become the anchor of its readers' group says more.
		hasBetterReason := !isCandidate(node) && g.notJoinedReasons[node] != ""
		if why := g.noGroupReasons[node]; why != "" && !hasBetterReason {
			return node.Name + " " + why
		}
	}
	shape, readerShape := n.Out[0].Meta.Shape, reader.Out[0].Meta.Shape
	isAboutRows := notJoined == reasonDimsDiffer || notJoined == reasonSecondPass // says more than the shapes
	if !isCandidate(n) || slices.Equal(shape, readerShape) || isAboutRows {
		return notJoined
	}
	// The shapes differ. This is the reason if no other reason is known, or if the shapes exclude a common loop:
	// notJoined may then be about the group of another reader.
	if notJoined == "" || !g.haveCommonSpace(shape, reader) {
		return fmt.Sprintf("%s iterates over %s, %s over %s", n.Name, tensor.ListString(shape), reader.Name,
			tensor.ListString(readerShape))
	}
	return notJoined
}

// haveCommonSpace reports whether one loop can compute a pointwise node of the given shape and the group of the reader.
// The reader must be in a group, as every node without a reason in g.noGroupReasons is.
func (g *grouper) haveCommonSpace(shape []int, reader *graph.Node) bool {
	return commonSpace(space{shape: shape}, g.group(reader).space).shape != nil
}
