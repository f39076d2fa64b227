package layout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// Form is a layout in which a value may exist, in a place.
type Form struct {
	Value *graph.Value
	Meta  tensor.Meta
	Place tensor.Place
}

// Changed are changes of a [Model] for [Model.Solve]. The zero value changes nothing.
type Changed struct {
	Weights Weights // the weights in place of Model.Weights; the zero value keeps these
	// NoCopy, if its value is not nil, is a form that no copy may make. A node may still write the value in this form,
	// and the value may still be a view with this form.
	NoCopy Form
	// Input, if its value is not nil, is an input of the graph, and the form in which the caller passes it.
	Input Form
	// CopyPrice, if not 0, is a factor on the prices of all copies.
	CopyPrice float64
	// Added has additional costs in picoseconds, by variable of WCSP and label. [wcsp.Forbidden] excludes a label.
	Added map[int]wcsp.Costs
	// Fixed has the labels of some variables of WCSP.
	Fixed map[int]int
	// Limits limit the solver; nil means the limits of the problem.
	Limits *wcsp.Options
}

// Solution is a plan of least cost for a changed model.
type Solution struct {
	Model  *Model // the model with the changes of weights, copies and inputs
	Labels []int  // by variable of WCSP
	CostPS int64  // the cost in picoseconds, without weights and changes of prices
	// Cost is the cost that was minimized: the weighted cost or, with Changed.CopyPrice, Changed.Added or
	// Changed.Fixed, the time at the changed prices. Bound is a lower bound on this cost for every plan with the
	// changes.
	Cost, Bound int64
}

// Optimal reports whether it is proved that no plan costs less.
func (s *Solution) Optimal() bool { return s.Cost == s.Bound }

// Outcome describes the plan.
func (s *Solution) Outcome() (*Outcome, error) { return s.Model.Outcome(s.Labels) }

// Solve finds the cheapest plan with the given changes. All questions about plans are calls of Solve. Labels have the
// same meaning for all changes.
func (m *Model) Solve(changed Changed) (_ *Solution, err error) {
	defer interrupt.Catch(&err)
	model, err := m.with(&changed)
	if err != nil {
		return nil, err
	}
	problem, extend := model.Weighted, func(labels []int) []int { return labels }
	if changed.CopyPrice != 0 || changed.Added != nil || changed.Fixed != nil {
		if problem, err = model.repriced(&changed); err != nil {
			return nil, err
		}
	}
	if changed.Fixed != nil {
		if problem, extend, err = problem.Fix(changed.Fixed); err != nil {
			return nil, err
		}
	}
	limits := changed.Limits
	if limits == nil {
		options := m.Problem.options()
		limits = &options
	}
	found, err := wcsp.Exact.Solve(problem, *limits)
	if err != nil {
		return nil, err
	}
	solution := &Solution{Model: model, Labels: extend(found.Labels), Cost: found.Cost, Bound: found.Bound}
	solution.CostPS, err = model.WCSP.Cost(solution.Labels)
	return solution, err
}

// with returns the model with the changes that need other cost tables.
func (m *Model) with(changed *Changed) (_ *Model, err error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	model := *m
	if model.noCopy, err = m.formOf(changed.NoCopy); err != nil {
		return nil, err
	}
	if model.otherInput, err = m.formOf(changed.Input); err != nil {
		return nil, err
	}
	if changed.Weights != (Weights{}) {
		model.Weights = changed.Weights
	} else if model.noCopy == m.noCopy && model.otherInput == m.otherInput {
		return m, nil
	}
	return &model, model.build()
}

// formOf returns the index of a form. It fails if the model does not consider the form.
func (m *Model) formOf(f Form) (formOfValue, error) {
	if f.Value == nil {
		return formOfValue{}, nil
	}
	variable := m.variables.At(f.Value)
	if variable == nil || variable.value != f.Value {
		return formOfValue{}, errors.New("the value is not part of the problem")
	}
	form := variable.formAt(f.Meta, f.Place)
	if form < 0 {
		return formOfValue{}, fmt.Errorf("the model does not consider the layout %v for %q", f.Meta, f.Value.Name)
	}
	return formOfValue{variable, form}, nil
}

// repriced returns WCSP with the changes of prices. To keep costs integers with a factor on the price of copies, it
// multiplies the costs of copies by copyMultiplier and all other costs by otherMultiplier. The quotient of the
// multipliers approximates the factor as closely as the range of costs permits.
func (m *Model) repriced(changed *Changed) (*wcsp.Problem, error) {
	problem := &wcsp.Problem{Version: wcsp.Version, Variables: m.WCSP.Variables, Factors: slices.Clone(m.WCSP.Factors)}
	for variable := range m.WCSP.Variables {
		if costs := changed.Added[variable]; costs != nil {
			problem.Factors = append(problem.Factors, wcsp.Factor{Scope: []int{variable}, Costs: costs})
		}
	}
	if changed.CopyPrice == 0 {
		return problem, nil
	}
	var sumOfLargest float64
	for _, f := range problem.Factors {
		sumOfLargest += largest(f.Costs)
	}
	// A quarter of Forbidden leaves room for rounding: sums of multiplied costs stay below Forbidden.
	headroom := float64(wcsp.Forbidden) / 4 / (sumOfLargest + 1) / max(1, changed.CopyPrice)
	otherMultiplier := int64(min(headroom, 1<<24)) // with 2^24 the quotient is accurate to a few millionths
	copyMultiplier := int64(float64(float64(otherMultiplier)*changed.CopyPrice) + 0.5)
	if copyMultiplier < 1 || otherMultiplier < 1 {
		return nil, fmt.Errorf("the costs are too large to be multiplied by %g", changed.CopyPrice)
	}
	for i, f := range problem.Factors {
		multiplier := otherMultiplier
		if i < len(m.isCopyFactor) && m.isCopyFactor[i] {
			multiplier = copyMultiplier
		}
		scaled := slices.Clone(f.Costs)
		for k, c := range scaled {
			if c < wcsp.Forbidden {
				scaled[k] = c * multiplier
			}
		}
		problem.Factors[i].Costs = scaled
	}
	return problem, nil
}

// Best returns the outcomes of the k cheapest distinct plans, cheapest first. Plans are distinct if they differ in
// implementations, layouts of results, or copies. Assignments of labels count as one plan if they differ only in
// layouts that no node reads, in the loop order of a node, or in whether a value is copied before or after a view. The
// list is shorter if there are fewer plans, or if time runs out. timedOut reports whether time ran out.
//
// If very many assignments have the same outcome, [wcsp.KBest] finds fewer than k plans. Best then adds the cheapest
// plan for each combination of implementations and layouts of results ([Model.bestOfClasses]). Plans that differ only
// in copies are then missing.
func (m *Model) Best(k int) (best []*Outcome, timedOut bool, err error) {
	if err := m.check(); err != nil {
		return nil, false, err
	}
	if k < 1 {
		return nil, false, fmt.Errorf("the number of plans is %d; want at least 1", k)
	}
	limits := m.Problem.options()
	deadline := time.Now().Add(limits.TimeLimit)
	list, best, timedOut, err := m.distinctPlans(m.WCSP, nil, k, limits)
	if err != nil {
		return nil, false, err
	}
	if !list[0].Optimal() {
		return nil, false, errors.New("the problem is too large to be solved exactly: its cheapest plans are unknown")
	}
	if len(best) < k {
		byClass, classesTimedOut, err := m.bestOfClasses(k, limits, deadline)
		if err != nil {
			return nil, false, err
		}
		timedOut = timedOut || classesTimedOut
		for _, solution := range byClass {
			added, err := solution.Outcome()
			if err != nil {
				return nil, false, err
			}
			if !slices.ContainsFunc(best, added.samePlan) {
				best = append(best, added)
			}
		}
	}
	sorted.Func(best, func(a, b *Outcome) int { return cmp.Compare(a.CostPS, b.CostPS) })
	return best[:min(k, len(best))], timedOut && len(best) < k, nil
}

// distinctPlans returns the k cheapest solutions with distinct plans, and these plans. The problem is WCSP with other
// costs; bytes is as in dominatedFactors.
func (m *Model) distinctPlans(problem *wcsp.Problem, bytes [][]int64, k int,
	limits wcsp.Options) (list []*wcsp.Solution, plans []*Outcome, timedOut bool, err error) {
	reduced := *problem
	reduced.Factors = slices.Concat(problem.Factors, m.dominatedFactors(bytes))
	outcomes := map[string]*Outcome{} // by labels, because each is compared with all others
	var outcomeErr error
	outcomeOf := func(labels []int) *Outcome {
		key := fmt.Sprint(labels)
		if outcomes[key] == nil {
			outcome, err := m.Outcome(labels)
			outcomeErr = cmp.Or(outcomeErr, err)
			outcomes[key] = cmp.Or(outcome, &Outcome{})
		}
		return outcomes[key]
	}
	list, timedOut, err = wcsp.KBest(&reduced, k, limits, func(a, b []int) bool {
		return outcomeOf(a).samePlan(outcomeOf(b))
	})
	for _, solution := range list {
		plans = append(plans, outcomeOf(solution.Labels))
	}
	return list, plans, timedOut, cmp.Or(err, outcomeErr)
}

// bestOfClasses returns the cheapest plan for each of the k cheapest combinations of classes. Labels of a node are in
// the same class if they have the same implementation and layouts of results.
//
// It divides the combinations that are not listed yet into parts, as in Lawler's algorithm, and solves the problem
// again for each part. If the cheapest plan of a part has the classes (0,1), the new parts are (not 0, any) and (0, not
// 1). timedOut reports whether a part had no solution before the deadline.
func (m *Model) bestOfClasses(k int, limits wcsp.Options, deadline time.Time) (list []*Solution, timedOut bool,
	err error) {
	type part struct {
		added    map[int]wcsp.Costs // excludes the labels of other parts
		bound    int64              // on the cost; exact if there is a solution
		solution *Solution          // nil until it is needed
	}
	classes, variables := m.computedClasses()
	for parts := []part{{added: map[int]wcsp.Costs{}}}; len(list) < k && len(parts) > 0; {
		next := 0 // the first part of least bound
		for i := range parts {
			if parts[i].bound < parts[next].bound {
				next = i
			}
		}
		cheapest := parts[next]
		parts = slices.Delete(parts, next, next+1)
		if cheapest.solution == nil {
			if limits.TimeLimit > 0 {
				if limits.TimeLimit = time.Until(deadline); limits.TimeLimit <= 0 {
					return list, true, nil
				}
			}
			cheapest.solution, err = m.Solve(Changed{Added: cheapest.added, Limits: &limits})
			switch {
			case errors.Is(err, wcsp.ErrNotFound):
				timedOut = true
			case errors.As(err, new(*wcsp.InfeasibleError)): // the part is empty
			case err != nil:
				return nil, false, err
			default:
				cheapest.bound = cheapest.solution.Cost
				parts = append(parts, cheapest)
			}
			continue
		}
		list = append(list, cheapest.solution)
		added := cheapest.added
		for _, v := range variables {
			class := classes[v][cheapest.solution.Labels[v]]
			// exclude returns the added costs that also exclude the labels of the class, or all labels of other
			// classes.
			exclude := func(ofClass bool) map[int]wcsp.Costs {
				costs := slices.Clone(added[v])
				if costs == nil {
					costs = make(wcsp.Costs, len(classes[v]))
				}
				for label := range costs {
					if (classes[v][label] == class) == ofClass {
						costs[label] = wcsp.Forbidden
					}
				}
				excluding := maps.Clone(added)
				excluding[v] = costs
				return excluding
			}
			if excluding := exclude(true); slices.ContainsFunc(excluding[v], isAllowed) {
				parts = append(parts, part{added: excluding, bound: cheapest.bound})
			}
			added = exclude(false)
		}
	}
	return list, timedOut, nil
}

// isAllowed reports whether a cost is not [wcsp.Forbidden].
func isAllowed(cost int64) bool { return cost < wcsp.Forbidden }

// computedClasses returns the class of each label of a node, by variable of WCSP, and the variables of nodes with
// several classes, ascending. Labels are in the same class if their descriptions ([Computed]) are equal.
func (m *Model) computedClasses() (classes map[int][]int, variables []int) {
	classes = map[int][]int{}
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
		if len(known) > 1 {
			variables = append(variables, computed.id)
		}
	}
	return classes, variables
}

// dominatedFactors returns factors that forbid dominated labels. A label is dominated if another label of the same
// implementation writes the same forms and never costs more; of several labels that dominate each other, the first
// remains. Without this step, n nodes with one dominated label each would give 2^n equivalent assignments for every
// plan. If bytes is not nil, it has a number of bytes for each node and label, and a label does not dominate labels
// with fewer bytes.
func (m *Model) dominatedFactors(bytes [][]int64) (factors []wcsp.Factor) {
	for i, computed := range m.computedNodes {
		if computed == nil || computed.id < 0 {
			continue
		}
		dominates := func(better, worse int) bool {
			hasMoreBytes := bytes != nil && bytes[i] != nil && bytes[i][better] > bytes[i][worse]
			return computed.labels[better].dominates(&computed.labels[worse]) && !hasMoreBytes
		}
		costs := make(wcsp.Costs, len(computed.labels))
		for worse := range costs {
			for better := range costs {
				if better != worse && dominates(better, worse) && (better < worse || !dominates(worse, better)) {
					costs[worse] = wcsp.Forbidden
				}
			}
		}
		if slices.Contains(costs, wcsp.Forbidden) {
			factors = append(factors, wcsp.Factor{Scope: []int{computed.id}, Costs: costs})
		}
	}
	return factors
}

// dominates reports whether a label has the implementation and result forms of another label, and never costs more,
// for any forms of the operands.
func (l *label) dominates(other *label) bool {
	return l.impl == other.impl && l.cost <= other.cost && slices.Equal(l.resultForms, other.resultForms) &&
		slices.EqualFunc(l.readCosts, other.readCosts, func(a, b []int64) bool {
			return slices.EqualFunc(a, b, func(x, y int64) bool { return x <= y })
		})
}

// Sensitivity states how much the price of copies can change before another plan becomes the cheapest.
type Sensitivity struct {
	CopyNS      float64 `json:"copy_ns" doc:"The time of the copies in the cheapest plan, in nanoseconds."`
	CopiedBytes int     `json:"copied_bytes" doc:"The size of these copies, in bytes."`
	// Slower and Faster are the nearest breakpoints; nil if there is none within a factor of 1024.
	Slower *Breakpoint `json:"slower" doc:"The nearest factor above 1 at which another plan becomes the cheapest; null if there is none up to 1024."`
	Faster *Breakpoint `json:"faster" doc:"The nearest factor below 1 at which another plan becomes the cheapest; null if there is none down to 1/1024."`
}

// Breakpoint is a factor on the price of copies at which another plan becomes the cheapest.
type Breakpoint struct {
	Factor float64 `json:"factor" doc:"The factor on the price of all copies."`
	// The bandwidths refer to the copies of the cheapest plan or, if it has none, to the copies added at the
	// breakpoint.
	WasGBps float64 `json:"was_gb_per_s" doc:"The bandwidth of copies as priced, in GB/s: bytes copied per time."`
	GBps    float64 `json:"gb_per_s" doc:"The bandwidth of copies at which the other plan gets cheaper."`
	Change  Change  `json:"change" doc:"The difference between the plans."`
}

// maxFactor is the largest factor on the price of copies that is examined; the smallest is 1/maxFactor.
const maxFactor = 1024

// Sensitive finds the nearest factors on the price of all copies, above and below 1, at which the cheapest plan
// changes. Factors are accurate to a few millionths.
//
// The cost of a plan is a linear function of the factor: a line. Sensitive first solves the problem
// at the extreme factor. It then repeatedly moves to the factor at which the solution's line crosses the line of the
// cheapest plan (the plan for factor 1), and solves the problem at this factor. It ends when no line is below the
// line of the cheapest plan. For example, of the lines 12+f and 10+4f the first is the cheapest at f=1. They cross at
// f=2/3, which is the breakpoint below 1; there is none above 1.
func (m *Model) Sensitive() (*Sensitivity, error) {
	cheapest, err := m.cheapestAt(0)
	if err != nil {
		return nil, err
	}
	sensitivity := &Sensitivity{CopyNS: float64(cheapest.CopyCostPS) / pricing.PSPerNS,
		CopiedBytes: copiedBytes(cheapest.Copies)}
	if sensitivity.Slower, err = m.breakpoint(cheapest, maxFactor); err != nil {
		return nil, err
	}
	sensitivity.Faster, err = m.breakpoint(cheapest, 1.0/maxFactor)
	return sensitivity, err
}

// breakpoint finds the factor nearest to 1, between 1 and the given factor, at which another line falls below the line
// of the cheapest plan. It returns nil if there is no such factor.
func (m *Model) breakpoint(cheapest *Outcome, factor float64) (*Breakpoint, error) {
	var other *Outcome // the last plan found whose line is below the line of the cheapest plan
	for factor != 1 {  // two plans cost the same at factor 1
		found, err := m.cheapestAt(factor)
		if err != nil {
			return nil, err
		}
		// If no line is below the cheapest plan's line at this factor, this factor is the breakpoint. At the extreme
		// factor, there is then no breakpoint. Lines of equal slope do not cross.
		if found.CopyCostPS == cheapest.CopyCostPS || found.cost(factor) >= cheapest.cost(factor) {
			break
		}
		crossing := (found.cost(0) - cheapest.cost(0)) / float64(cheapest.CopyCostPS-found.CopyCostPS)
		if other != nil && (crossing-1)/(factor-1) >= 1-1e-9 {
			break // the next crossing is at the same factor, except for rounding
		}
		other, factor = found, crossing
	}
	if other == nil {
		return nil, nil
	}
	result := &Breakpoint{Factor: factor, Change: other.ChangesSince(cheapest)}
	copyPS, copies := cheapest.CopyCostPS, cheapest.Copies
	if copyPS == 0 { // the cheapest plan has no copies
		copyPS, copies = other.CopyCostPS, result.Change.Added
	}
	if copyPS > 0 && factor > 0 {
		result.WasGBps = float64(copiedBytes(copies)) / float64(copyPS) * pricing.PSPerNS // GB/s: bytes per nanosecond
		result.GBps = result.WasGBps / factor
	}
	return result, nil
}

// cost returns the cost of a plan with a factor on the price of copies, in picoseconds.
func (o *Outcome) cost(factor float64) float64 {
	return float64(o.CostPS-o.CopyCostPS) + float64(factor*float64(o.CopyCostPS))
}

// copiedBytes returns the total size of copies.
func copiedBytes(copies []Copied) (sum int) {
	for _, copied := range copies {
		sum += copied.Bytes
	}
	return sum
}

// cheapestAt returns the plan that is cheapest at a factor. With 0, it returns the plan that strategy Optimal finds.
func (m *Model) cheapestAt(factor float64) (*Outcome, error) {
	solution, err := m.Solve(Changed{CopyPrice: factor})
	if err != nil {
		return nil, err
	}
	if !solution.Optimal() {
		return nil, errors.New("the problem is too large to be solved exactly: its sensitivity is unknown")
	}
	return solution.Outcome()
}

// Advice lists changes of the layouts of a graph's inputs and outputs that would make its plan cheaper.
type Advice struct {
	Tried    int    `json:"tried" doc:"The number of changes that were priced."`
	Possible int    `json:"possible" doc:"The number of possible changes."`
	Hints    []Hint `json:"hints" doc:"The changes, the largest saving first."`
}

// Hint proposes another dimension order for an input or an output.
type Hint struct {
	Input   bool    `json:"input" doc:"Whether the hint is for an input; if false, it is for an output."`
	Name    string  `json:"name" doc:"The input or the output."`
	Order   string  `json:"order" doc:"The proposed dimension order."`
	SavedNS float64 `json:"saved_ns" doc:"The saving, in nanoseconds."`
	Part    float64 `json:"saved_part" doc:"The saving as a fraction of the plan's cost."`
	Change  Change  `json:"change" doc:"The difference between the plans."`
}

// Limits of [Advise].
const (
	maxTrials      = 32      // maximum number of priced changes
	maxCostEntries = 1 << 23 // maximum total number of entries in the cost tables of all priced problems
	minSavedPart   = 0.001   // minimum reported saving, as a fraction of the plan's cost
)

// maxTrialNodes is the maximum number of nodes in the search tree of the solver for one change. Most networks need only
// a few nodes; with this limit, the largest problems take some tenths of a second. The limit is not a time, so that
// the advice does not depend on the machine.
const maxTrialNodes = 64

// inputTrial is the output of a trial that changes an input.
const inputTrial = -1

// trial is a candidate change: another dense form for one input or one output.
type trial struct {
	name   string // of the input or the output
	output int    // index of the output; inputTrial for an input
	value  *graph.Value
	form   *form
}

// Advise prices changes of the dimension order of a single input or output. It tries the order of each dense layout
// that [Model] considers for the value, and solves each changed problem exactly. Changes of large values are tried
// first. The number of changes depends only on the size of the problem.
func Advise(p *Problem) (*Advice, error) {
	m, err := NewModel(p)
	if err != nil {
		return nil, err
	}
	trials := m.trials()
	advice := &Advice{Possible: len(trials), Hints: []Hint{}}
	entries := 1 // of all cost tables; at least 1, because entries is a divisor
	for _, factor := range m.WCSP.Factors {
		entries += len(factor.Costs)
	}
	trials = trials[:min(len(trials), maxTrials, maxCostEntries/entries)]
	if len(trials) == 0 {
		return advice, nil
	}
	const noLimit = -1
	limits := &wcsp.Options{Context: p.Context(), TimeLimit: noLimit, MaxNodes: maxTrialNodes}
	cheapest := func(m *Model, changed Changed) (*Outcome, error) {
		changed.Limits = limits
		solution, err := m.Solve(changed)
		if err != nil {
			return nil, err
		}
		if !solution.Optimal() {
			return nil, errors.New("the problem is too large to be solved exactly")
		}
		return solution.Outcome()
	}
	current, err := cheapest(m, Changed{})
	if err != nil {
		return nil, err
	}
	for _, tried := range trials {
		if err := interrupt.Err(p.Context()); err != nil {
			return nil, err
		}
		model, changed := m, Changed{}
		if tried.output == inputTrial {
			changed.Input = Form{Value: tried.value, Meta: tried.form.meta}
		} else if model, err = NewModel(p.withOutputPin(tried.output, graph.Pin{Order: tried.form.order})); err != nil {
			continue // infeasible
		}
		other, err := cheapest(model, changed)
		if err != nil {
			continue // infeasible or too large
		}
		advice.Tried++
		savedPS := current.CostPS - other.CostPS
		if float64(savedPS) >= minSavedPart*float64(current.CostPS) && savedPS > 0 {
			advice.Hints = append(advice.Hints, Hint{Input: tried.output == inputTrial, Name: tried.name,
				Order: tried.form.text(), SavedNS: float64(savedPS) / pricing.PSPerNS,
				Part: float64(savedPS) / float64(current.CostPS), Change: other.ChangesSince(current)})
		}
	}
	sorted.Func(advice.Hints, func(a, b Hint) int { return cmp.Compare(b.SavedNS, a.SavedNS) })
	return advice, nil
}

// trials lists the possible changes. Changes of larger values come first. The forms of a value are the layouts that it
// may have. Form 0 of an input is its declared layout.
func (m *Model) trials() []trial {
	var list []trial
	add := func(v *graph.Value, output int, name string, currentForm int) {
		variable := m.variables.At(v)
		for i := range variable.forms {
			if form := &variable.forms[i]; i != currentForm && form.dense {
				list = append(list, trial{name: name, output: output, value: v, form: form})
			}
		}
	}
	for _, v := range m.Problem.Graph.Inputs {
		// A fixed input must keep its layout, and an input that is also an output would change the output, too.
		if !m.Problem.fixed[v] && !m.Problem.outputs[v] {
			add(v, inputTrial, v.Name, 0)
		}
	}
	for i, output := range m.Problem.Graph.Outputs {
		if output.Value.Const == nil {
			add(output.Value, i, output.Name, m.outputForm(m.variables.At(output.Value), output))
		}
	}
	sorted.Func(list, func(a, b trial) int { return cmp.Compare(b.value.Meta.Numel(), a.value.Meta.Numel()) })
	return list
}

// withOutputPin returns the problem with a pin of an output. It does not modify p.
func (p *Problem) withOutputPin(output int, pin graph.Pin) *Problem {
	g := *p.Graph
	g.Outputs = slices.Clone(g.Outputs)
	g.Outputs[output].Pin = pin
	other := NewProblem(&g, p.Profile)
	other.Exact, other.SolveLimit, other.Device, other.Slack = p.Exact, p.SolveLimit, p.Device, p.Slack
	return other
}
