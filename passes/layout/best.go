package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Best returns the outcomes of the k cheapest distinct plans, cheapest first. Plans are distinct if they differ in
// implementations, layouts of results, or copies. Assignments count as one plan if they differ only in layouts that no
// node reads, in the loop order of a node, or in whether a value is copied before or after a view. The list is shorter
// if there are fewer plans, or if time runs out. timedOut reports whether time ran out.
//
// If very many assignments have the same outcome, [wcsp.KBest] finds fewer than k plans. Best then adds the cheapest
// plan for each combination of implementations and layouts of results. Plans that differ only in copies are then
// missing.
func (m *Model) Best(k int) (best []*Outcome, timedOut bool, err error) {
	if err := m.check(); err != nil {
		return nil, false, err
	}
	if k < 1 {
		return nil, false, fmt.Errorf("the number of plans is %d; want at least 1", k)
	}
	comparer := &comparer{model: m, outcomes: map[string]*Outcome{}}
	options := m.Problem.options()
	// KBest examines a limited number of assignments, so dominated labels are excluded.
	problem := m.withoutDominated(nil) // nil: domination does not depend on bytes
	list, timedOut, err := wcsp.KBest(problem, k, options, comparer.samePlan)
	if err != nil {
		return nil, false, err
	}
	if len(list) < k {
		classSolutions, classesTimedOut, err := wcsp.Classes(m.WCSP, k, options, m.computedClasses())
		if err != nil {
			return nil, false, err
		}
		timedOut = timedOut || classesTimedOut
		list = comparer.appendDistinct(list, classSolutions)
	}
	outcomes := make([]*Outcome, 0, len(list))
	for _, solution := range list {
		if !solution.Optimal() && len(outcomes) == 0 { // the first solution should be the cheapest of all
			return nil, false, errors.New("the problem is too large to be solved exactly: its cheapest plans are unknown")
		}
		outcomes = append(outcomes, comparer.outcome(solution.Labels))
	}
	if comparer.err != nil {
		return nil, false, comparer.err
	}
	sorted.Func(outcomes, func(a, b *Outcome) int { return cmp.Compare(a.CostPS, b.CostPS) })
	return outcomes[:min(k, len(outcomes))], timedOut && len(outcomes) < k, nil
}

// comparer compares the plans that labels give. It caches their outcomes, because each is compared with all others.
type comparer struct {
	model    *Model
	outcomes map[string]*Outcome // by labels
	err      error
}

// outcome returns the outcome of labels. In case of an error, it sets c.err and returns an empty outcome.
func (c *comparer) outcome(labels []int) *Outcome {
	key := fmt.Sprint(labels)
	if c.outcomes[key] == nil {
		outcome, err := c.model.Outcome(labels)
		c.err = cmp.Or(c.err, err)
		c.outcomes[key] = cmp.Or(outcome, &Outcome{})
	}
	return c.outcomes[key]
}

// samePlan reports whether two assignments have the same plan.
func (c *comparer) samePlan(a, b []int) bool { return c.outcome(a).samePlan(c.outcome(b)) }

// appendDistinct appends to list each solution of added whose plan is not yet the plan of a solution in list.
func (c *comparer) appendDistinct(list, added []*wcsp.Solution) []*wcsp.Solution {
	for _, solution := range added {
		isListed := slices.ContainsFunc(list, func(other *wcsp.Solution) bool {
			return c.samePlan(other.Labels, solution.Labels)
		})
		if !isListed {
			list = append(list, solution)
		}
	}
	return list
}

// computedClasses returns, by variable and label, the class of each label of a node. Labels are in the same class if
// their descriptions ([Computed]) are equal. Variables of values have no classes.
func (m *Model) computedClasses() [][]int {
	classes := make([][]int, len(m.WCSP.Variables))
	for _, computed := range m.computedNodes {
		if computed == nil || computed.id < 0 { // no choice: the node has a single label
			continue
		}
		var known []Computed
		for i := range computed.labels {
			computation := m.describeComputation(computed, &computed.labels[i])
			class := slices.Index(known, computation)
			if class < 0 {
				class, known = len(known), append(known, computation)
			}
			classes[computed.id] = append(classes[computed.id], class)
		}
	}
	return classes
}

// withoutDominated returns the problem with dominated labels forbidden. A label is dominated if another label of the
// same implementation writes the same forms and never costs more. Without this step, n nodes with one dominated label
// each would give 2^n equivalent assignments for every plan. If bytes is not nil, it has a number of bytes for each
// node and label, and a label does not dominate labels with fewer bytes.
func (m *Model) withoutDominated(bytes [][]int64) *wcsp.Problem {
	problem := &wcsp.Problem{Version: m.WCSP.Version, Variables: m.WCSP.Variables, Factors: slices.Clone(m.WCSP.Factors)}
	for i, computed := range m.computedNodes {
		if computed == nil || computed.id < 0 {
			continue
		}
		dominates := func(better, worse int) bool {
			hasMoreBytes := bytes != nil && bytes[i] != nil && bytes[i][better] > bytes[i][worse]
			return computed.labels[better].dominates(&computed.labels[worse]) && !hasMoreBytes
		}
		if costs := forbidDominated(len(computed.labels), dominates); slices.Contains(costs, wcsp.Forbidden) {
			problem.Factors = append(problem.Factors, wcsp.Factor{Scope: []int{computed.id}, Costs: costs})
		}
	}
	return problem
}

// forbidDominated returns the costs of a factor over labelCount labels that forbids the dominated labels. If several
// labels dominate each other, the factor permits the first.
func forbidDominated(labelCount int, dominates func(better, worse int) bool) wcsp.Costs {
	costs := make(wcsp.Costs, labelCount)
	for worse := range labelCount {
		for better := range labelCount {
			if better != worse && dominates(better, worse) && (better < worse || !dominates(worse, better)) {
				costs[worse] = wcsp.Forbidden
			}
		}
	}
	return costs
}

// dominates reports whether a label has the implementation and result forms of another label, and never costs more,
// for any forms of the operands.
func (l *label) dominates(other *label) bool {
	return l.impl == other.impl && l.cost <= other.cost && slices.Equal(l.resultForms, other.resultForms) &&
		slices.EqualFunc(l.readCosts, other.readCosts, func(a, b []int64) bool {
			return slices.EqualFunc(a, b, func(x, y int64) bool { return x <= y })
		})
}
