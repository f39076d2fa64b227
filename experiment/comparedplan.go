package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// comparedPlan is the plan of one of the two compared programs. Every part of a program has a key; matching parts of
// the two programs have equal keys. A pairing (see matchValues) matches the values of the two graphs. For example:
//
//	first 3                  value 3 of the first graph, and its match in the second graph
//	second 5                 value 5 of the second graph, which has no match
//	first 3#0 as <order>     a copy of the first result of the node "first 3", in an order of dimensions
//	first 3/conv             the part conv of a composite node
//
// Parts with equal keys may still differ in layout, implementation, grouping or cost: these are the differences that
// [Difference] lists.
type comparedPlan struct {
	graph       *graph.Graph // the original graph
	plan        *passes.Plan // its plan at the sizes for which Compile planned
	report      *report.Plan
	leafKeys    map[string]string       // keys of inputs and constants, by name
	nodeKeys    map[string]string       // keys of the nodes of the original graph, by name
	compositeOf map[string]string       // the composite node of each part of a composite node, both by name
	copies      map[string]*graph.Node  // the inserted copies, by name
	values      map[string]*graph.Value // the stored values and views, by name
	shapes      map[string][]int        // by name of a value: the shape of its match; nil unless sizes differ
}

// comparedPlanOf returns the plan of a program. The keys of leaves and nodes are not yet assigned.
func comparedPlanOf(compiled *graphrun.Program) *comparedPlan {
	binding := (*program.Program)(compiled).FirstBinding()
	p := &comparedPlan{graph: binding.RunnableGraph, plan: binding.Plan, report: compiled.Report(),
		leafKeys: map[string]string{}, nodeKeys: map[string]string{}, compositeOf: map[string]string{},
		copies: map[string]*graph.Node{}, values: map[string]*graph.Value{}}
	for _, decomposition := range p.plan.Decomposed {
		for _, part := range decomposition.Into {
			p.compositeOf[part] = decomposition.Node
		}
	}
	for _, c := range p.plan.Copies {
		p.copies[c.Node.Name] = c.Node
	}
	p.plan.Graph.Values(func(v *graph.Value) { p.values[v.Name] = v })
	return p
}

// assignKeys gives keys to the leaves (inputs and constants) and the nodes of both original graphs. A value of the
// second graph with a match gets the key of its match. The first result of a node represents the node.
func assignKeys(first, second *comparedPlan, pairs *pairing) {
	keys := map[*graph.Value]string{} // keys of the values of the first graph
	for i, v := range matchableValues(first.graph) {
		keys[v] = fmt.Sprintf("first %d", i)
		first.setKey(v, keys[v])
	}
	for i, v := range matchableValues(second.graph) {
		second.setKey(v, cmp.Or(keys[pairs.matchInFirst[v]], fmt.Sprintf("second %d", i)))
	}
}

// setKey sets the key of a leaf, or of the node that computes v.
func (p *comparedPlan) setKey(v *graph.Value, key string) {
	if v.Node != nil {
		p.nodeKeys[v.Node.Name] = key
	} else {
		p.leafKeys[v.Name] = key
	}
}

// key returns the key of a node of the plan by its name. The node may be from the original graph, a part of a composite
// node, a copy of a value, or another inserted node.
func (p *comparedPlan) key(name string) string {
	if key := p.nodeKeys[name]; key != "" {
		return key
	}
	if composite := p.compositeOf[name]; composite != "" {
		return p.key(composite) + "/" + strings.TrimPrefix(name, composite)
	}
	if n := p.copies[name]; n != nil {
		return p.copyKey(n)
	}
	return "inserted " + name
}

// copyKey returns the key of a copy: the key of the copied value, and the order of dimensions of the copy.
func (p *comparedPlan) copyKey(n *graph.Node) string {
	value := n.In[0].Value
	order := p.orderText(value, n.Out[0].Meta)
	if value.Node == nil {
		return fmt.Sprintf("%s as %s", cmp.Or(p.leafKeys[value.Name], value.Name), order)
	}
	return fmt.Sprintf("%s#%d as %s", p.key(value.Node.Name), value.Index, order)
}

// orderText returns the order of dimensions of a copy of value. If sizes differ between the programs, it has only the
// dimensions that are longer than 1 in both. For a copy that is not dense, it returns the strides.
func (p *comparedPlan) orderText(value *graph.Value, copied tensor.Meta) string {
	if shape := p.shapes[value.Name]; shape != nil {
		return tensor.ListString(longDims(copied, shape))
	}
	if order, isDense := tensor.OrderOf(copied); isDense {
		return order.String()
	}
	return tensor.ListString(copied.Strides)
}

// longDims lists the dimensions whose size exceeds 1 in both the layout meta and the shape other, which have the same
// rank. The dimensions are in the order of meta, the slowest first. For a layout that is not dense, the list ends
// with -1.
func longDims(meta tensor.Meta, other []int) []int {
	dims := []int{}
	for dim, size := range meta.Shape {
		if size > 1 && dim < len(other) && other[dim] > 1 {
			dims = append(dims, dim)
		}
	}
	sorted.Func(dims, func(a, b int) int { return cmp.Compare(meta.Strides[b], meta.Strides[a]) })
	if !meta.IsNonOverlappingAndDense() {
		dims = append(dims, -1)
	}
	return dims
}

// copiesOnlyHere lists the copies that the other plan does not have.
func (p *comparedPlan) copiesOnlyHere(other *comparedPlan) []report.Copy {
	countByKey := map[string]int{}
	for _, n := range other.copies {
		countByKey[other.copyKey(n)]++
	}
	list := []report.Copy{}
	explainer := p.plan.Explainer()
	for _, c := range p.plan.Copies {
		if key := p.copyKey(c.Node); countByKey[key] > 0 {
			countByKey[key]--
		} else {
			list = append(list, explainer.Explain(&c))
		}
	}
	return list
}

// differentValues lists the values that are stored in both programs with different layouts.
func differentValues(pairs *pairing, a, b *comparedPlan) []ValueDifference {
	list := []ValueDifference{}
	isStored := func(v *graph.Value) bool { return v != nil && v.Alias == nil }
	a.graph.Values(func(v *graph.Value) {
		match := pairs.matchInSecond[v]
		if match == nil {
			return
		}
		plannedA, plannedB := a.values[v.Name], b.values[match.Name] // the values in the plans
		if !isStored(plannedA) || !isStored(plannedB) || !a.layoutsDiffer(plannedA.Meta, plannedB.Meta) {
			return
		}
		d := ValueDifference{Value: v.Name, First: layoutOf(plannedA.Meta), Second: layoutOf(plannedB.Meta)}
		if match.Name != v.Name {
			d.Other = match.Name
		}
		list = append(list, d)
	})
	return list
}

// layoutsDiffer reports whether two matching values have different layouts. For graphs of equal sizes and values of
// equal shapes, these are different strides. Otherwise they are different orders of dimensions, or layout names.
func (p *comparedPlan) layoutsDiffer(a, b tensor.Meta) bool {
	if p.shapes != nil && len(a.Shape) == len(b.Shape) {
		return !slices.Equal(longDims(a, b.Shape), longDims(b, a.Shape))
	}
	if slices.Equal(a.Shape, b.Shape) {
		return !slices.Equal(a.Strides, b.Strides)
	}
	return inspect.LayoutName(a) != inspect.LayoutName(b)
}

// layoutOf describes a layout.
func layoutOf(meta tensor.Meta) ValueLayout {
	return ValueLayout{Strides: program.NotNil(meta.Strides), Layout: inspect.LayoutName(meta)}
}
