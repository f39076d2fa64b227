package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// elideCopies removes the copy nodes that copy nothing: views in the layout of their operand. For example, the node
// contiguous is such a view if its operand is contiguous already. The strategy has decided about all other copies.
func elideCopies(plan *Plan) {
	var valueUses *uses // created at the first such node, because many graphs have none
	plan.Graph.Nodes = slices.DeleteFunc(plan.Graph.Nodes, func(n *graph.Node) bool {
		interrupt.Check(plan.options.Context)
		if !n.Op.Identity || n.Pin.SetsLayout() || n.Out[0].Alias == nil {
			return false
		}
		v, source := n.Out[0], n.Out[0].Alias
		if v.Meta.DType != source.Meta.DType || !v.Meta.SameLayout(source.Meta) {
			return false
		}
		if valueUses == nil {
			valueUses = usesOf(plan.Graph)
		}
		valueUses.redirect(plan.Graph, v, source)
		plan.Elided = append(plan.Elided, report.Elision{Node: n.Name, Why: whyRedundant(source)})
		return true
	})
}

// whyRedundant returns the reason for the removal of a copy node that is a view of source in its layout.
func whyRedundant(source *graph.Value) string {
	return fmt.Sprintf("%q already has the layout asked for, strides %v", source.Name,
		tensor.ListString(source.Meta.Strides))
}

// cancelPermutes removes the second of two consecutive permutations that are inverses. It keeps both permutations if
// one of them, or the operand of the first, is pinned to a layout. The readers of the second permutation then read the
// operand of the first.
func cancelPermutes(plan *Plan) error {
	g := plan.Graph
	var valueUses *uses // created at the first pair
	removed := map[*graph.Node]bool{}
	for _, n := range g.Nodes {
		if n.Pin.SetsLayout() || n.Op.Permutes == nil || n.In[0].Kind != graph.TensorArg {
			continue
		}
		first := n.In[0].Value.Node
		if first == nil || first.Op.Permutes == nil || first.Pin.SetsLayout() {
			continue
		}
		source := first.In[0].Value
		// A reader of the source must read its pinned layout, but a reader of n need not.
		if source.EffectivePin().SetsLayout() {
			continue
		}
		if !areInverse(first.Op.Permutes(first.Call()), n.Op.Permutes(n.Call())) || !n.Out[0].Meta.SameLayout(source.Meta) {
			continue
		}
		if valueUses == nil {
			valueUses = usesOf(g)
		}
		valueUses.redirect(g, n.Out[0], source)
		removed[n] = true
		plan.Elided = append(plan.Elided, report.Elision{Node: n.Name,
			Why: fmt.Sprintf("undoes %q: its readers read %q", first.Name, source.Name)})
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool { return removed[n] })
	return nil
}

// areInverse reports whether permutation first followed by permutation second is the identity.
func areInverse(first, second []int) bool {
	for i, dim := range second {
		if first[dim] != i {
			return false
		}
	}
	return len(first) == len(second)
}

// setBases sets the bases of outputs. original is the graph before all passes.
func (p *Plan) setBases(original *graph.Graph) {
	bases := map[string]string{} // by name of the output
	for _, output := range original.Outputs {
		bases[output.Name] = output.Value.Root().Name
	}
	for i := range p.Graph.Outputs {
		output := &p.Graph.Outputs[i]
		output.Base = bases[output.Name]
	}
}
