package experiment

import (
	"cmp"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
)

// This file compares the steps of two plans. Steps are matched by the nodes that they compute. A node has the same key
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
