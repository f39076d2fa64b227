package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
)

// Difference has the differences between two plans. Values, copies and steps are matched by content, not by position.
type Difference struct {
	First   Totals  `json:"first" doc:"The totals of the first plan."`
	Second  Totals  `json:"second" doc:"The totals of the second plan."`
	Same    bool    `json:"same" doc:"Whether there is no difference."`
	DeltaNS float64 `json:"delta_ns" doc:"The estimated cost of the second plan less that of the first, in nanoseconds."`
	// Values are stored in both programs. Views are omitted, because the layout of a view follows from the layout of its
	// operand.
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
		switch binding, err := p.Internal().Compiled(); {
		case err != nil:
			return nil, fmt.Errorf("program %d was not made by Compile", i)
		case binding.Segmented():
			return nil, errors.New("the shapes of the graph depend on data, so there is no plan of the whole graph")
		}
	}
	first, second := comparedPlanOf(a), comparedPlanOf(b)
	pairs := matchValues(first.graph, second.graph, resized)
	if resized {
		first.shapes, second.shapes = pairs.shapes()
	}
	assignKeys(first, second, pairs)
	d := &Difference{First: first.totals(), Second: second.totals(), Values: differentValues(pairs, first, second),
		OnlyFirst: first.copiesOnlyHere(second), OnlySecond: second.copiesOnlyHere(first),
		Steps:       differentSteps(first, second),
		NodesFirst:  unmatchedNodes(first.graph, pairs.matchInSecond),
		NodesSecond: unmatchedNodes(second.graph, pairs.matchInFirst)}
	shareBound(&d.First, &d.Second, a, b)
	d.DeltaNS = d.Second.CostNS - d.First.CostNS
	d.Same = len(d.Values)+len(d.OnlyFirst)+len(d.OnlySecond)+len(d.Steps)+len(d.NodesFirst)+len(d.NodesSecond) == 0
	return d, nil
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

// totals returns the totals of the plan.
func (p *comparedPlan) totals() Totals {
	return Totals{Strategy: p.report.Strategy, BoundNS: p.report.LowerBoundNS, Costs: p.report.Costs()}
}

// shareBound copies the lower bound of one plan to the other, if both choose layouts for the same problem.
func shareBound(first, second *Totals, a, b *graphrun.Program) {
	if (first.BoundNS == nil) == (second.BoundNS == nil) {
		return
	}
	firstIdentity := identityOf(a.Internal(), a.Report())
	secondIdentity := identityOf(b.Internal(), b.Report())
	if firstIdentity.sameProblem(context.Background(), &secondIdentity) {
		first.BoundNS = cmp.Or(first.BoundNS, second.BoundNS)
		second.BoundNS = first.BoundNS
	}
}

// This part compares the steps of two plans. Steps are matched by the nodes that they compute. A node has the same key
// in both plans.

// differentSteps lists the steps that differ, the greatest difference in cost first.
func differentSteps(a, b *comparedPlan) []StepDifference {
	list := []StepDifference{}
	for _, g := range groupsOfSteps(a, b) {
		if kind := g.differenceKind(a, b); kind != "" {
			list = append(list, g.difference(kind))
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

// groupsOfSteps divides the steps of both plans into groups, in the order of their first steps.
func groupsOfSteps(a, b *comparedPlan) []*stepGroup {
	type plannedStep struct {
		report.Step
		plan int      // the index of the plan
		keys []string // the keys of its nodes
	}
	var steps []plannedStep
	stepsWith := map[string][]int{} // by key of a node: the indices of the steps that compute the node
	for plan, p := range []*comparedPlan{a, b} {
		for _, step := range p.report.Steps {
			keys := make([]string, len(step.Ops))
			for i, op := range step.Ops {
				keys[i] = p.key(op)
				stepsWith[keys[i]] = append(stepsWith[keys[i]], len(steps))
			}
			steps = append(steps, plannedStep{step, plan, keys})
		}
	}
	var groups []*stepGroup
	isGrouped := make([]bool, len(steps))
	for first := range steps {
		if isGrouped[first] {
			continue
		}
		isGrouped[first] = true
		connected := []int{first} // grows while its steps are visited
		for i := 0; i < len(connected); i++ {
			for _, key := range steps[connected[i]].keys {
				for _, other := range stepsWith[key] {
					if !isGrouped[other] {
						isGrouped[other] = true
						connected = append(connected, other)
					}
				}
				delete(stepsWith, key) // all of its steps are grouped
			}
		}
		sorted.Ints(connected)
		group := &stepGroup{}
		for _, i := range connected {
			s := steps[i]
			group.steps[s.plan] = append(group.steps[s.plan], s.Step)
			group.keys[s.plan] = append(group.keys[s.plan], s.keys...)
		}
		groups = append(groups, group)
	}
	return groups
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
	case len(stepsA) > 1 || len(stepsB) > 1 || !sameKeys(g.keys[0], g.keys[1]): // different groupings
		return diffGroup
	case stepsA[0].Impl != stepsB[0].Impl:
		return diffImpl
	// The steps have the same implementation. If the sizes are equal too, only layouts can change the cost.
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
func (g *stepGroup) difference(kind string) StepDifference {
	summarize := func(steps []report.Step) (list []StepSummary, ns float64) {
		list = []StepSummary{}
		for _, s := range steps {
			list = append(list, StepSummary{s.Name, s.Ops, s.Impl})
			ns += s.CostNS
		}
		return list, ns
	}
	d := StepDifference{What: kind}
	d.First, d.FirstNS = summarize(g.steps[0])
	d.Second, d.SecondNS = summarize(g.steps[1])
	d.DeltaNS = d.SecondNS - d.FirstNS
	return d
}
