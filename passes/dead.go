package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

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
		if p.Decisions == nil && p.decisionsToFollow == nil {
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
