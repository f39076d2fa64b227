package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// joinAttentions groups the nodes of each attention. An attention begins with a matrix product of query and key, whose
// result is called the scores. Then come operations on the rows of the scores (scale, mask, softmax), and last a matrix
// product of their result and the value:
//
//	scores = matmul(q, kᵀ); scaled = mul(scores, 0.125); weights = softmax(scaled); y = matmul(weights, v)
//
// The fused step computes a block of rows at a time and never stores the full matrix of scores.
func (g *grouper) joinAttentions() {
	attentionCount := 0
	for i, n := range g.plan.Graph.Nodes {
		interrupt.Check(g.plan.options.Context)
		if !mayEndAttention(n) {
			continue
		}
		nodes, hasReduction := g.betweenProducts(n)
		if len(nodes) < 3 || !hasReduction { // at least two products and the softmax
			continue
		}
		if why := g.whyNoAttention(nodes); why != "" {
			g.plan.Unfused = append(g.plan.Unfused, report.Unfused{Node: nodes[0].Name, Reader: n.Name,
				Why: "as an attention it " + why})
			continue
		}
		slices.Reverse(nodes)
		g.addAttention(nodes, i)
		attentionCount++
	}
	g.plan.Note("%s", countText(attentionCount, "attention", "attentions"))
}

// mayEndAttention reports whether a node may be the last product of an attention: a matrix product of two values
// ([fusion.Attends]). A product with a weight, a constant, ends no attention.
func mayEndAttention(n *graph.Node) bool {
	return n.Op != nil && fusion.Attends(n.Op) && len(n.Out) == 1 && len(n.In) == 2 &&
		n.In[0].Kind == graph.TensorArg && n.In[1].Kind == graph.TensorArg && n.In[1].Value.Const == nil
}

// betweenProducts returns the nodes of a possible attention that ends with product n, in a valid order: the first
// product, the nodes between the two products, and n. hasReduction is true if a node between them reduces rows, as
// softmax does, and the first operand of n is the result of one of the nodes.
func (g *grouper) betweenProducts(n *graph.Node) (nodes []*graph.Node, hasReduction bool) {
	firstProduct, visited := g.firstProductOf(n)
	if firstProduct == nil {
		return nil, false
	}
	// The nodes between are the visited nodes that depend on the first product.
	nodes = []*graph.Node{firstProduct}
	selected := map[*graph.Node]bool{firstProduct: true}
	readsSelected := func(a graph.Arg) bool { return a.Kind == graph.TensorArg && selected[a.Value.Node] }
	for _, candidate := range g.plan.Graph.Nodes[g.positions.At(firstProduct.Out[0])+1 : g.positions.At(n.Out[0])] {
		if visited[candidate] && slices.ContainsFunc(candidate.In, readsSelected) {
			selected[candidate] = true
			nodes = append(nodes, candidate)
			hasReduction = hasReduction || candidate.Op.Rows != nil
		}
	}
	return append(nodes, n), hasReduction && selected[n.In[0].Value.Node]
}

// firstProductOf searches for the first product of an attention that ends with product n. It searches backwards from
// the first operand of n through pointwise nodes, row reductions and views, and returns these nodes as visited. It
// visits at most about maxNodes nodes. If it reaches several products, it returns the last one in the graph.
func (g *grouper) firstProductOf(n *graph.Node) (firstProduct *graph.Node, visited map[*graph.Node]bool) {
	visited = map[*graph.Node]bool{}
	queue := []*graph.Node{n.In[0].Value.Node}
	for len(queue) > 0 && len(visited) <= maxNodes {
		next := queue[0]
		queue = queue[1:]
		switch {
		case next == nil || next.Op == nil || visited[next] || len(next.Out) != 1 || g.group(next) != nil:
			continue // an input, a visited node, or a node that cannot be between the products
		case fusion.Attends(next.Op):
			if firstProduct == nil || g.positions.At(next.Out[0]) > g.positions.At(firstProduct.Out[0]) {
				firstProduct = next
			}
			continue
		case !isCandidate(next) && next.Out[0].Alias == nil: // neither fusable nor a view
			continue
		}
		visited[next] = true
		for _, a := range next.In {
			if a.Kind == graph.TensorArg {
				queue = append(queue, a.Value.Node)
			}
		}
	}
	return firstProduct, visited
}

// whyNoAttention returns the reason why nodes do not become one attention: an intermediate value is read by other
// nodes, a node is pinned, the nodes cost less on the device, or the fused step does not support them. It returns "" if
// there is no reason.
func (g *grouper) whyNoAttention(nodes []*graph.Node) string {
	for _, member := range nodes[:len(nodes)-1] {
		for _, v := range member.Out {
			if g.uses.isOutput[v] {
				return fmt.Sprintf("would not store %q, which is an output", v.Name)
			}
			for _, reader := range g.uses.readers.At(v) {
				if !slices.Contains(nodes, reader) {
					return fmt.Sprintf("would not store %q, which %s reads", v.Name, reader.Name)
				}
			}
		}
	}
	for _, member := range nodes {
		if member.Pin != (graph.Pin{}) {
			return fmt.Sprintf("would lose the pin of %s", member.Name)
		}
	}
	if g.costLessOnDevice(nodes) {
		return "is split, because its nodes cost less on the device"
	}
	if err := g.fuser.CheckAttention(nodes); err != nil {
		return err.Error()
	}
	return ""
}

// costLessOnDevice reports whether the device has a kernel for each node, and all nodes cost less there than on the
// host. The cost on the device includes the transfers of operands that the host certainly has, and of results that it
// certainly needs. Devices have no kernel for an attention. The estimate neglects that the attention on the host costs
// a little less than its nodes. It also neglects transfers of values whose places are chosen later.
func (g *grouper) costLessOnDevice(nodes []*graph.Node) bool {
	device := g.plan.options.Device
	if device == nil {
		return false
	}
	var devicePS, hostPS int64 // costs of all nodes in picoseconds
	addTransfer := func(impl *graph.Impl, v *graph.Value) {
		devicePS += layout.PricePS(device.Prices(), impl.Work(&graph.Call{Out: []tensor.Meta{v.Meta}}, graph.Walk{}))
	}
	uploaded := map[*graph.Value]bool{}
	for _, n := range nodes {
		for _, arg := range n.In {
			if v := arg.Value; arg.Kind == graph.TensorArg && v.Const == nil && !uploaded[v] && !g.mayComputeOnDevice(v.Node) {
				uploaded[v] = true
				addTransfer(device.Upload(), v)
			}
		}
		if n.IsView() {
			continue
		}
		call, impl := n.Call(), device.Impl(n.Op)
		walks := impl.Walks(call, nil)
		if len(walks) == 0 { // the device has no kernel for the node
			return false
		}
		devicePS += layout.PricePS(device.Prices(), impl.Work(call, walks[0]))
		hostPS += layout.PricePS(g.plan.options.Profile, n.Work())
	}
	result := nodes[len(nodes)-1].Out[0]
	isOnHost := func(reader *graph.Node) bool { return !g.mayComputeOnDevice(reader) }
	if g.uses.isOutput[result] || slices.ContainsFunc(g.uses.readers.At(result), isOnHost) {
		addTransfer(device.Download(), result)
	}
	return devicePS < hostPS
}

// mayComputeOnDevice reports whether the device has a kernel for a node, or the node is a view. It is false for the
// node of an input, which is nil.
func (g *grouper) mayComputeOnDevice(n *graph.Node) bool {
	return n != nil && (n.IsView() || n.Op != nil && len(g.plan.options.Device.Impl(n.Op).Walks(n.Call(), nil)) > 0)
}

// addAttention makes a group of the given nodes, which are in reverse order. position is the position of the group in
// the graph. No other node has the space (shape of loops) of the group, so no other node joins the group.
func (g *grouper) addAttention(nodes []*graph.Node, position int) {
	group := &nodeGroup{nodes: nodes, position: position, resultCount: 1, isAttention: true,
		space: space{shape: []int{-1}}}
	for _, member := range nodes {
		g.groupOf.Set(member.Out[0], group)
	}
	g.notJoinedReasons[nodes[0]] = "it is the last node of an attention"
	g.groups = append(g.groups, group)
}

// checkAttention returns an error if the nodes of a recorded attention cannot be an attention at the current sizes. If
// sizes are unknown, it records guards, the conditions on sizes under which the nodes are an attention: each call of
// Holds records its condition.
func (g *grouper) checkAttention(nodes []*graph.Node) error {
	last := nodes[len(nodes)-1]
	if err := g.fuser.CheckAttention(nodes); err != nil {
		return misfitError("%s: %v", last.Name, err)
	}
	for _, member := range nodes {
		operandShape, resultShape := member.In[0].Type().Shape, member.Out[0].Type.Shape
		operandRank, resultRank := len(operandShape), len(resultShape)
		if rows := g.fuser.Rows(member); rows != nil {
			fits, _ := rows.Suits(operandShape) // the other condition is whether rows are cut into pieces
			fits.Holds()
		}
		if member.Out[0].Alias != nil && operandRank >= 2 && resultRank >= 2 { // a view must keep the length of rows
			shapesEqual(operandShape[operandRank-1:], resultShape[resultRank-1:]).Holds()
		}
		member.Out[0].Type.Numel().Gt(sym.Int{}).Holds()
	}
	return nil
}
