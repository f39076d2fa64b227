package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Difference has the differences between two plans. Values, copies and steps are matched by content, not by position.
type Difference struct {
	First   Totals  `json:"first" doc:"The totals of the first plan."`
	Second  Totals  `json:"second" doc:"The totals of the second plan."`
	Same    bool    `json:"same" doc:"Whether there is no difference."`
	DeltaNS float64 `json:"delta_ns" doc:"The estimated cost of the second plan less that of the first, in nanoseconds."`
	// Values are stored in both programs. Views are omitted, because the layouts of their operands determine theirs.
	Values      []ValueDifference `json:"values" doc:"The values with different layouts."`
	OnlyFirst   []report.Copy     `json:"copies_only_first" doc:"The copies of the first plan only."`
	OnlySecond  []report.Copy     `json:"copies_only_second" doc:"The copies of the second plan only."`
	Steps       []StepDifference  `json:"steps" doc:"The steps that differ, the greatest difference in cost first."`
	NodesFirst  []string          `json:"nodes_only_first" doc:"Nodes of the first graph without a match in the second."`
	NodesSecond []string          `json:"nodes_only_second" doc:"Nodes of the second graph without a match in the first."`
}

// Totals are the totals of a plan.
type Totals struct {
	Strategy string   `json:"strategy" doc:"The strategy that was applied."`
	BoundNS  *float64 `json:"lower_bound_ns" doc:"A lower bound on the estimated cost of any plan; null if unknown."`
	report.Costs
}

// ValueDifference is a value with different layouts.
type ValueDifference struct {
	Value  string      `json:"value" doc:"The value, by its name in the first graph."`
	Other  string      `json:"other,omitzero" doc:"Its name in the second graph, if it differs."`
	First  ValueLayout `json:"first" doc:"Its layout in the first plan."`
	Second ValueLayout `json:"second" doc:"Its layout in the second plan."`
}

// ValueLayout is the layout of a value.
type ValueLayout struct {
	Strides []int  `json:"strides" doc:"Its strides, in elements."`
	Layout  string `json:"layout" doc:"The layout in words: a memory format, or the order of its dimensions."`
}

// StepDifference is a difference between steps. Either only one plan has the step, or the steps of both plans compute
// the same nodes. They then differ in implementations, groups or costs. The tag `of` names the set of a field's values
// for JSON Schemas: "difference" is StepDifferences.
type StepDifference struct {
	What     string        `json:"what" of:"difference" doc:"The kind of difference."`
	First    []StepSummary `json:"first" doc:"The steps of the first plan; empty for none."`
	Second   []StepSummary `json:"second" doc:"The steps of the second plan; empty for none."`
	FirstNS  float64       `json:"first_ns" doc:"Their estimated cost in the first plan, in nanoseconds."`
	SecondNS float64       `json:"second_ns" doc:"Their estimated cost in the second plan, in nanoseconds."`
	DeltaNS  float64       `json:"delta_ns" doc:"The second cost less the first, in nanoseconds."`
}

// StepSummary is a step and its implementation.
type StepSummary struct {
	Name string   `json:"name" doc:"The name of the step."`
	Ops  []string `json:"ops" doc:"The nodes that it computes."`
	Impl string   `json:"impl,omitzero" doc:"The implementation of the op."`
}

// The values of [StepDifference.What].
const (
	diffImpl   = "implementation"
	diffLayout = "layout"
	diffCopy   = "copy"
	diffGroup  = "grouping"
	diffOnly   = "nodes"
)

// StepDifferences lists the values of [StepDifference.What]. They mean, in order: implementations differ; only costs
// differ, because layouts of operands or results differ; only one plan has the copy; nodes are grouped differently;
// only one graph has the nodes.
func StepDifferences() []string { return []string{diffImpl, diffLayout, diffCopy, diffGroup, diffOnly} }

// Diff compares the plans of two programs. The programs have the same graph, or two versions of a graph. The costs of
// each program are computed with its own profile. If graphs, sizes, pins, options and prices are equal, a lower bound
// that one plan proves holds for both plans. Diff fails if a program was not made by Compile. It also fails if shapes
// depend on data, because there is then no plan of the whole graph.
func Diff(a, b *graphrun.Program) (*Difference, error) {
	const resized = false
	return diff(a, b, resized)
}

// DiffSizes compares the plans of two programs of one graph with different sizes, as [Diff] does. Values and nodes are
// matched by name first. Two layouts count as equal if they have the same order of the dimensions with more than one
// element. A step that differs only in cost is not a difference, because the cost follows from the sizes.
func DiffSizes(a, b *graphrun.Program) (*Difference, error) {
	const resized = true
	return diff(a, b, resized)
}

// diff implements [Diff], and with resized [DiffSizes].
func diff(a, b *graphrun.Program, resized bool) (*Difference, error) {
	for i, p := range []*graphrun.Program{a, b} {
		switch binding, err := (*program.Program)(p).Compiled(); {
		case err != nil:
			return nil, fmt.Errorf("program %d was not made by Compile", i)
		case binding.Segmented():
			return nil, errors.New("the shapes of the graph depend on data, so there is no plan of the whole graph")
		}
	}
	first, second := comparedPlanOf(a, "first"), comparedPlanOf(b, "second")
	pairs := matchValues(first.binding.RunnableGraph, second.binding.RunnableGraph, resized)
	if resized {
		first.shapes, second.shapes = pairs.shapes()
	}
	first.assignKeys(nil, nil) // without matches: every value gets a new key
	second.assignKeys(pairs.matchInFirst, first)
	d := &Difference{First: first.totals(), Second: second.totals(), Values: differentValues(pairs, first, second),
		OnlyFirst: first.copiesOnlyHere(second), OnlySecond: second.copiesOnlyHere(first),
		Steps:       differentSteps(first, second),
		NodesFirst:  unmatchedNodes(first.binding.RunnableGraph, pairs.matchInSecond),
		NodesSecond: unmatchedNodes(second.binding.RunnableGraph, pairs.matchInFirst)}
	shareBound(&d.First, &d.Second, a, b)
	d.DeltaNS = d.Second.CostNS - d.First.CostNS
	d.Same = len(d.Values)+len(d.OnlyFirst)+len(d.OnlySecond)+len(d.Steps)+len(d.NodesFirst)+len(d.NodesSecond) == 0
	return d, nil
}

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
	name        string           // first or second
	binding     *program.Binding // the graph and its plan at the sizes for which Compile planned
	report      *report.Plan
	leafKeys    map[string]string       // keys of inputs and constants, by name
	nodeKeys    map[string]string       // keys of the nodes of the original graph, by name
	compositeOf map[string]string       // the composite node of each part of a composite node, both by name
	copies      map[string]*graph.Node  // the inserted copies, by name
	values      map[string]*graph.Value // the stored values and views, by name
	shapes      map[string][]int        // by name of a value: the shape of its match; nil unless sizes differ
}

// comparedPlanOf returns the plan of a program. name is "first" or "second". The keys of leaves and nodes are not yet
// assigned.
func comparedPlanOf(compiled *graphrun.Program, name string) *comparedPlan {
	p := &comparedPlan{name: name, binding: (*program.Program)(compiled).FirstBinding(), report: compiled.Report(),
		leafKeys: map[string]string{}, nodeKeys: map[string]string{}, compositeOf: map[string]string{},
		copies: map[string]*graph.Node{}, values: map[string]*graph.Value{}}
	for _, decomposition := range p.binding.Plan.Decomposed {
		for _, part := range decomposition.Into {
			p.compositeOf[part] = decomposition.Node
		}
	}
	for _, c := range p.binding.Plan.Copies {
		p.copies[c.Node.Name] = c.Node
	}
	p.binding.Plan.Graph.Values(func(v *graph.Value) { p.values[v.Name] = v })
	return p
}

// assignKeys gives keys to the leaves (inputs and constants) and the nodes of the original graph. A value with a match
// in the graph of the other plan gets the key of the match, other values get new keys. The first result of a node
// represents the node.
func (p *comparedPlan) assignKeys(matchInOther map[*graph.Value]*graph.Value, other *comparedPlan) {
	for i, v := range matchableValues(p.binding.RunnableGraph) {
		key := fmt.Sprintf("%s %d", p.name, i)
		switch match := matchInOther[v]; {
		case match == nil: // a new key
		case match.Node != nil:
			key = other.nodeKeys[match.Node.Name]
		default:
			key = other.leafKeys[match.Name]
		}
		if v.Node != nil {
			p.nodeKeys[v.Node.Name] = key
		} else {
			p.leafKeys[v.Name] = key
		}
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
	explainer := p.binding.Plan.Explainer()
	for _, c := range p.binding.Plan.Copies {
		if key := p.copyKey(c.Node); countByKey[key] > 0 {
			countByKey[key]--
		} else {
			list = append(list, program.CopyOf(&c, explainer.Sides(&c)))
		}
	}
	return list
}

// differentValues lists the values that are stored in both programs with different layouts.
func differentValues(pairs *pairing, a, b *comparedPlan) []ValueDifference {
	list := []ValueDifference{}
	a.binding.RunnableGraph.Values(func(v *graph.Value) {
		match := pairs.matchInSecond[v]
		if match == nil {
			return
		}
		plannedA, plannedB := a.values[v.Name], b.values[match.Name]
		isStored := func(v *graph.Value) bool { return v != nil && v.Alias == nil }
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

// unmatchedNodes lists the nodes whose first result has no match.
func unmatchedNodes(g *graph.Graph, matches map[*graph.Value]*graph.Value) []string {
	names := []string{}
	for _, n := range g.Nodes {
		if len(n.Out) > 0 && matches[n.Out[0]] == nil {
			names = append(names, n.Name)
		}
	}
	return names
}

// differentSteps lists the steps that differ, the greatest difference in cost first.
func differentSteps(a, b *comparedPlan) []StepDifference {
	list := []StepDifference{}
	for _, g := range groupsOfSteps(a, b) {
		if what := g.differenceKind(a, b); what != "" {
			list = append(list, g.difference(what))
		}
	}
	sorted.Func(list, func(first, second StepDifference) int {
		return cmp.Compare(math.Abs(second.DeltaNS), math.Abs(first.DeltaNS))
	})
	return list
}

// stepGroup has the steps of both plans that are connected by common nodes. For example, the steps {conv, relu} and
// {add} of one plan and {conv} and {relu, add} of the other plan are one group.
type stepGroup struct {
	steps [2][]report.Step // indexed by plan
	keys  [2][]string      // indexed by plan: the keys of the nodes that the steps compute
}

// groupsOfSteps returns the connected steps of two plans.
func groupsOfSteps(a, b *comparedPlan) []*stepGroup {
	union := stepUnion{owner: map[string]int{}}
	var keys [][]string // by step of both plans: the keys of its nodes
	for _, s := range []*comparedPlan{a, b} {
		for _, step := range s.report.Steps {
			stepKeys := make([]string, len(step.Ops))
			for i, op := range step.Ops {
				stepKeys[i] = s.key(op)
			}
			keys = append(keys, stepKeys)
			union.add(stepKeys)
		}
	}
	groups, groupOf := []*stepGroup{}, map[int]*stepGroup{}
	index := 0 // of the step among the steps of both plans, as in keys and union
	for plan, s := range []*comparedPlan{a, b} {
		for _, step := range s.report.Steps {
			root := union.root(index)
			group := groupOf[root]
			if group == nil {
				group = &stepGroup{}
				groupOf[root], groups = group, append(groups, group)
			}
			group.steps[plan] = append(group.steps[plan], step)
			group.keys[plan] = append(group.keys[plan], keys[index]...)
			index++
		}
	}
	return groups
}

// stepUnion is a union-find structure over the steps of both plans. It connects steps with a common node.
type stepUnion struct {
	parent []int          // indexed by step: its parent in the tree of connected steps; a root is its own parent
	owner  map[string]int // for each key of a node: a step that computes the node
}

// add adds a step that computes nodes.
func (u *stepUnion) add(keys []string) {
	step := len(u.parent)
	u.parent = append(u.parent, step)
	for _, key := range keys {
		if other, ok := u.owner[key]; ok {
			a, b := u.root(other), u.root(step)
			u.parent[max(a, b)] = min(a, b)
		} else {
			u.owner[key] = step
		}
	}
}

// root returns the representative of the steps that are connected to a step.
func (u *stepUnion) root(step int) int {
	for u.parent[step] != step {
		u.parent[step] = u.parent[u.parent[step]]
		step = u.parent[step]
	}
	return step
}

// differenceKind returns the kind of difference, or "" if there is no difference.
func (g *stepGroup) differenceKind(a, b *comparedPlan) string {
	stepsA, stepsB := g.steps[0], g.steps[1]
	switch {
	case len(stepsA) == 0 || len(stepsB) == 0:
		if a.areCopies(stepsA) && b.areCopies(stepsB) { // areCopies is true for an empty list
			return diffCopy
		}
		return diffOnly
	case len(stepsA) > 1 || len(stepsB) > 1 || !sameKeys(g.keys[0], g.keys[1]):
		return diffGroup
	case stepsA[0].Impl != stepsB[0].Impl:
		return diffImpl
	case stepsA[0].CostNS != stepsB[0].CostNS && a.shapes == nil: // shapes is nil unless sizes differ
		return diffLayout
	}
	return ""
}

// areCopies reports whether all steps are copies that the plan inserted.
func (p *comparedPlan) areCopies(steps []report.Step) bool {
	return !slices.ContainsFunc(steps, func(step report.Step) bool { return p.copies[step.Name] == nil })
}

// sameKeys reports whether two steps compute the same nodes, in any order.
func sameKeys(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	sorted.Strings(a)
	sorted.Strings(b)
	return slices.Equal(a, b)
}

// difference describes the group as a difference of the given kind.
func (g *stepGroup) difference(what string) StepDifference {
	summarize := func(steps []report.Step) (list []StepSummary, ns float64) {
		list = []StepSummary{}
		for _, s := range steps {
			list = append(list, StepSummary{s.Name, s.Ops, s.Impl})
			ns += s.CostNS
		}
		return list, ns
	}
	d := StepDifference{What: what}
	d.First, d.FirstNS = summarize(g.steps[0])
	d.Second, d.SecondNS = summarize(g.steps[1])
	d.DeltaNS = d.SecondNS - d.FirstNS
	return d
}

// totals returns the totals of the plan.
func (p *comparedPlan) totals() Totals {
	return Totals{Strategy: p.report.Strategy, BoundNS: p.report.LowerBoundNS, Costs: p.report.Costs()}
}

// shareBound copies the lower bound of one plan to the other, if both choose layouts for the same problem.
func shareBound(first, second *Totals, a, b *graphrun.Program) {
	if (first.BoundNS == nil) == (second.BoundNS == nil) {
		return
	}
	firstIdentity := identityOf((*program.Program)(a), a.Report())
	secondIdentity := identityOf((*program.Program)(b), b.Report())
	if firstIdentity.sameProblem(context.Background(), &secondIdentity) {
		first.BoundNS = cmp.Or(first.BoundNS, second.BoundNS)
		second.BoundNS = first.BoundNS
	}
}
