package graphrun

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Difference is what two plans do differently. Values, copies and steps are matched by content, not by their places.
type Difference struct {
	First   PlanTotals `json:"first" doc:"The first plan as a whole."`
	Second  PlanTotals `json:"second" doc:"The second plan as a whole."`
	Same    bool       `json:"same" doc:"Whether nothing differs."`
	DeltaNS float64    `json:"delta_ns" doc:"What the second plan is estimated to cost more, in nanoseconds."`
	// Values that are stored in both programs, views aside: they follow what they are views of.
	Values      []ValueDifference `json:"values" doc:"The values that are laid out differently."`
	OnlyFirst   []CopyReport      `json:"copies_only_first" doc:"The copies that only the first plan makes."`
	OnlySecond  []CopyReport      `json:"copies_only_second" doc:"The copies that only the second plan makes."`
	Steps       []StepDifference  `json:"steps" doc:"The steps that differ, the greatest difference in cost first."`
	NodesFirst  []string          `json:"nodes_only_first" doc:"Nodes as written that the second graph has no like of."`
	NodesSecond []string          `json:"nodes_only_second" doc:"Nodes as written that the first graph has no like of."`
}

// PlanTotals are the totals of a plan.
type PlanTotals struct {
	Strategy string   `json:"strategy" doc:"The strategy that was applied."`
	BoundNS  *float64 `json:"lower_bound_ns" doc:"What any plan costs at least by the model; null where unknown."`
	PlanCosts
}

// ValueDifference is a value that is laid out differently.
type ValueDifference struct {
	Value  string       `json:"value" doc:"The value, by its name in the first graph."`
	Other  string       `json:"other,omitzero" doc:"Its name in the second graph, where that is another."`
	First  LayoutInPlan `json:"first" doc:"How it is laid out in the first plan."`
	Second LayoutInPlan `json:"second" doc:"How it is laid out in the second plan."`
}

// LayoutInPlan is how a value is laid out.
type LayoutInPlan struct {
	Strides []int  `json:"strides" doc:"Its strides, in elements."`
	Layout  string `json:"layout" doc:"The layout in words: a memory format, or the order of its dimensions."`
}

// StepDifference are steps of two plans that compute the same nodes, by other implementations, in other groups or at
// another cost; or steps that only one plan has.
type StepDifference struct {
	What     string        `json:"what" of:"difference" doc:"What differs."`
	First    []StepSummary `json:"first" doc:"The steps of the first plan; empty for none."`
	Second   []StepSummary `json:"second" doc:"The steps of the second plan; empty for none."`
	FirstNS  float64       `json:"first_ns" doc:"What they are estimated to cost in the first plan, in nanoseconds."`
	SecondNS float64       `json:"second_ns" doc:"What they are estimated to cost in the second plan, in nanoseconds."`
	DeltaNS  float64       `json:"delta_ns" doc:"What the second plan spends more on them, in nanoseconds."`
}

// StepSummary names a step, and tells how it is computed.
type StepSummary struct {
	Name string   `json:"name" doc:"The name of the step."`
	Ops  []string `json:"ops" doc:"The nodes that it computes."`
	Impl string   `json:"impl,omitzero" doc:"The implementation of the op that computes it."`
}

// What may differ of steps.
const (
	diffImpl  = "implementation"
	diffCost  = "layout"
	diffCopy  = "copy"
	diffGroup = "grouping"
	diffOnly  = "nodes"
)

// StepDifferences lists what [StepDifference.What] may be: the implementation; the cost alone, as operands or results
// are laid out otherwise; a copy that one plan makes; which nodes are one step; nodes that one graph has.
func StepDifferences() []string { return []string{diffImpl, diffCost, diffCopy, diffGroup, diffOnly} }

// Diff compares the plans of two programs, of one graph or of two versions of it: what the second does differently.
// Costs are those of each program's own profile. The error is that one of them was not made by [Compile], or that its
// shapes depend on data, so that it has no plan as a whole.
func Diff(a, b *Program) (*Difference, error) {
	for i, p := range []*Program{a, b} {
		switch {
		case p == nil || p.first == nil:
			return nil, fmt.Errorf("program %d was not made by Compile", i)
		case p.first.runner.Program() == nil:
			return nil, errors.New("shapes depend on data: there is no plan of the whole graph")
		}
	}
	first, second := sideOf(a, "first"), sideOf(b, "second")
	pairs := pair(a.first.runs, b.first.runs)
	first.number(a.first.runs, nil, nil)
	second.number(b.first.runs, pairs, first)
	d := &Difference{First: first.totals(), Second: second.totals(), Values: differentValues(pairs, first, second),
		Steps: differentSteps(first, second), NodesFirst: []string{}, NodesSecond: []string{}}
	d.OnlyFirst, d.OnlySecond = first.copiesBeside(second), second.copiesBeside(first)
	for _, n := range a.first.runs.Nodes {
		if len(n.Out) > 0 && pairs.to[n.Out[0]] == nil {
			d.NodesFirst = append(d.NodesFirst, n.Name)
		}
	}
	for _, n := range b.first.runs.Nodes {
		if len(n.Out) > 0 && pairs.from[n.Out[0]] == nil {
			d.NodesSecond = append(d.NodesSecond, n.Name)
		}
	}
	d.DeltaNS = d.Second.CostNS - d.First.CostNS
	d.Same = len(d.Values)+len(d.OnlyFirst)+len(d.OnlySecond)+len(d.Steps)+len(d.NodesFirst)+len(d.NodesSecond) == 0
	return d, nil
}

// side is a program of the two. Keys tell what is the same in both.
type side struct {
	name   string
	p      *compiled
	report *Report
	leaves map[string]string       // keys of inputs and constants, by name
	nodes  map[string]string       // keys of the nodes as written, by name
	parts  map[string]string       // for parts of composite nodes, the composite's name
	copies map[string]*graph.Node  // that were inserted, by name
	values map[string]*graph.Value // that are stored or are views, by name
}

func sideOf(p *Program, name string) *side {
	s := &side{name: name, p: p.first, report: p.Report(), leaves: map[string]string{}, nodes: map[string]string{},
		parts: map[string]string{}, copies: map[string]*graph.Node{}, values: map[string]*graph.Value{}}
	for _, d := range s.p.plan.Decomposed {
		for _, part := range d.Into {
			s.parts[part] = d.Node
		}
	}
	for _, c := range s.p.plan.Copies {
		s.copies[c.Node.Name] = c.Node
	}
	s.p.plan.Graph.Values(func(v *graph.Value) { s.values[v.Name] = v })
	return s
}

// number gives the nodes and leaves of the graph as written their keys: those of their partners in the other graph.
func (s *side) number(g *graph.Graph, pairs *pairing, other *side) {
	for i, v := range pairable(g) {
		key := fmt.Sprintf("%s %d", s.name, i)
		if pairs != nil && pairs.from[v] != nil {
			w := pairs.from[v]
			if key = other.leaves[w.Name]; w.Node != nil {
				key = other.nodes[w.Node.Name]
			}
		}
		if v.Node != nil {
			s.nodes[v.Node.Name] = key
		} else {
			s.leaves[v.Name] = key
		}
	}
}

// key tells which node of both plans one is: a node as written, a part of one, a copy of a value, or whatever a pass
// inserted, by its name.
func (s *side) key(name string) string {
	if key := s.nodes[name]; key != "" {
		return key
	}
	if whole := s.parts[name]; whole != "" {
		return s.key(whole) + "/" + strings.TrimPrefix(name, whole)
	}
	if n := s.copies[name]; n != nil {
		return s.copyKey(n)
	}
	return "inserted " + name
}

// copyKey tells which copy one is: of which value, in which order.
func (s *side) copyKey(n *graph.Node) string {
	of, to := n.In[0].Value, n.Out[0].Meta
	order := tensor.ListString(to.Strides)
	if o, dense := tensor.OrderOf(to); dense {
		order = o.String()
	}
	if of.Node == nil {
		return fmt.Sprintf("%s as %s", cmp.Or(s.leaves[of.Name], of.Name), order)
	}
	return fmt.Sprintf("%s#%d as %s", s.key(of.Node.Name), of.Index, order)
}

func (s *side) totals() PlanTotals {
	return PlanTotals{Strategy: s.report.Strategy, BoundNS: s.report.LowerBoundNS, PlanCosts: s.report.Costs()}
}

// copiesBeside lists the copies that the other plan does not make.
func (s *side) copiesBeside(other *side) []CopyReport {
	there := map[string]int{}
	for _, n := range other.copies {
		there[other.copyKey(n)]++
	}
	list := []CopyReport{}
	for _, c := range s.p.plan.Copies {
		if k := s.copyKey(c.Node); there[k] > 0 {
			there[k]--
		} else {
			list = append(list, copyOf(c))
		}
	}
	return list
}

// differentValues lists the values that are stored in both programs, in different layouts: by other strides or, where
// the graphs give them other shapes, in another order.
func differentValues(pairs *pairing, a, b *side) []ValueDifference {
	list := []ValueDifference{}
	a.p.runs.Values(func(v *graph.Value) {
		w := pairs.to[v]
		if w == nil {
			return
		}
		x, y := a.values[v.Name], b.values[w.Name]
		if x == nil || y == nil || x.Alias != nil || y.Alias != nil || !liesOtherwise(x.Meta, y.Meta) {
			return
		}
		d := ValueDifference{Value: v.Name, First: layoutInPlan(x.Meta), Second: layoutInPlan(y.Meta)}
		if w.Name != v.Name {
			d.Other = w.Name
		}
		list = append(list, d)
	})
	return list
}

// liesOtherwise reports whether two values have different layouts.
func liesOtherwise(x, y tensor.Meta) bool {
	if slices.Equal(x.Shape, y.Shape) {
		return !slices.Equal(x.Strides, y.Strides)
	}
	return LayoutName(x) != LayoutName(y)
}

func layoutInPlan(m tensor.Meta) LayoutInPlan { return LayoutInPlan{filled(m.Strides), LayoutName(m)} }

// stepGroup are steps of both plans that are joined by the nodes that they compute, and the keys of these.
type stepGroup struct {
	steps [2][]StepReport
	keys  [2][]string
}

// joins tells which steps compute some of the same nodes: a forest over the steps of both plans.
type joins struct {
	parent []int
	owner  map[string]int // of a key, one of the steps that have it
}

// add adds a step that computes nodes.
func (j *joins) add(keys []string) {
	step := len(j.parent)
	j.parent = append(j.parent, step)
	for _, key := range keys {
		if other, ok := j.owner[key]; ok {
			a, b := j.root(other), j.root(step)
			j.parent[max(a, b)] = min(a, b)
		} else {
			j.owner[key] = step
		}
	}
}

// root is the first of the steps that are joined to one.
func (j *joins) root(step int) int {
	for j.parent[step] != step {
		j.parent[step] = j.parent[j.parent[step]]
		step = j.parent[step]
	}
	return step
}

// groupsOfSteps sets the steps of two plans side by side, those that compute some of the same nodes together.
func groupsOfSteps(a, b *side) []*stepGroup {
	j := joins{owner: map[string]int{}}
	var keys [][]string
	for _, s := range []*side{a, b} {
		for _, step := range s.report.Steps {
			list := mapped(step.Ops, s.key)
			keys = append(keys, list)
			j.add(list)
		}
	}
	of, groups, at := map[int]*stepGroup{}, []*stepGroup{}, 0
	for i, s := range []*side{a, b} {
		for _, step := range s.report.Steps {
			root := j.root(at)
			g := of[root]
			if g == nil {
				g = &stepGroup{}
				of[root], groups = g, append(groups, g)
			}
			g.steps[i], g.keys[i] = append(g.steps[i], step), append(g.keys[i], keys[at]...)
			at++
		}
	}
	return groups
}

// differentSteps lists the steps that differ, those with the greatest difference in cost first.
func differentSteps(a, b *side) []StepDifference {
	list := []StepDifference{}
	for _, g := range groupsOfSteps(a, b) {
		if what := g.what(a, b); what != "" {
			list = append(list, g.difference(what))
		}
	}
	slices.SortStableFunc(list, func(x, y StepDifference) int {
		return cmp.Compare(math.Abs(y.DeltaNS), math.Abs(x.DeltaNS))
	})
	return list
}

// what tells what differs; empty for nothing.
func (g *stepGroup) what(a, b *side) string {
	x, y := g.steps[0], g.steps[1]
	if len(x) == 0 || len(y) == 0 {
		for i, s := range []*side{a, b} {
			for _, step := range g.steps[i] {
				if s.copies[step.Name] == nil {
					return diffOnly
				}
			}
		}
		return diffCopy
	}
	switch {
	case len(x) > 1 || len(y) > 1 || !sameKeys(g.keys[0], g.keys[1]):
		return diffGroup
	case x[0].Impl != y[0].Impl:
		return diffImpl
	case x[0].CostNS != y[0].CostNS:
		return diffCost
	}
	return ""
}

// sameKeys reports whether two steps compute the same nodes, in whatever order.
func sameKeys(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func (g *stepGroup) difference(what string) StepDifference {
	sum := func(steps []StepReport) (list []StepSummary, ns float64) {
		list = []StepSummary{}
		for _, s := range steps {
			list = append(list, StepSummary{s.Name, s.Ops, s.Impl})
			ns += s.CostNS
		}
		return list, ns
	}
	d := StepDifference{What: what}
	d.First, d.FirstNS = sum(g.steps[0])
	d.Second, d.SecondNS = sum(g.steps[1])
	d.DeltaNS = d.SecondNS - d.FirstNS
	return d
}
