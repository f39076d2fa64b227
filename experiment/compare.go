package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Candidate is a program to be measured. If Name is empty, the candidate has the name of the program's strategy.
type Candidate struct {
	Name    string
	Program *graphrun.Program
}

// Options configure [Compare]. The zero value measures 20 runs of each program.
type Options struct {
	// Runs is the number of measured runs of each program; 0 means 20. Before the first measured run, two more runs warm
	// up caches and buffers.
	Runs int
	// Until, if set, is the precision at which the measurement ends. The precision is the half-width of the 95% confidence
	// interval of a median, as a fraction of the median (0.01 is 1%). Every median must reach it. At least 20 runs are
	// measured, and at most Runs. If Runs is 0, the measurement ends after at most 1000 runs or a minute.
	// [Ranking.Unreached] lists the programs that did not reach the precision.
	Until float64
	// Turn is the number of consecutive runs of a program; 0 means 3. The first run of a turn is not measured, because
	// the caches contain data of another program; the other runs measure the steady state. If Turn is 1, every run is
	// measured.
	Turn int
	// Seed determines the order of the programs in each round.
	Seed uint64
	// BoundNS, if set, is a lower bound on the cost of any plan, in nanoseconds: see [LowerBound]. All programs must then
	// have the same graph, pins and prices. If BoundNS is nil, the bound of a candidate is the greatest bound in the
	// reports of all candidates with the same graph, sizes, pins, options and prices.
	BoundNS *float64
	// Progress, if set, is called before each round with the number of finished rounds and the number of all rounds. The
	// number of all rounds is 0 if Until is set.
	Progress func(done, total int)

	measureEqualPlans bool // measures equal plans separately, for tests of the statistics
}

// complete checks the options and sets defaults.
func (o *Options) complete() error {
	if math.IsNaN(o.Until) || o.Until < 0 || o.Until >= 1 {
		return fmt.Errorf("Options.Until is %v: it must be a fraction of the median between 0 and 1, such as 0.01", o.Until)
	}
	if o.Runs <= 0 && o.Until == 0 {
		o.Runs = defaultRuns
	}
	if o.Turn <= 0 {
		o.Turn = defaultTurn
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	return nil
}

// Comparison is the result of [Compare].
type Comparison struct {
	// Rows are the candidates, in their order. The first is the base.
	Rows []Measurement
	// Interrupted means that the context ended before all runs were measured. Rows then have fewer runs.
	Interrupted bool
	// Differences lists, in words, outputs whose values differ from the outputs of the base.
	Differences []string
	// HasOutputs means that all candidates returned outputs. Their values were then compared.
	HasOutputs bool
	// Verdict ranks the candidates by time. It is nil if a candidate was not measured.
	Verdict *Ranking
}

// Measurement has the times of a program and the costs of its plan.
type Measurement struct {
	Name       string `json:"strategy" doc:"The strategy that was applied, or the name of a candidate."`
	MeasuredAs string `json:"measured_as,omitzero" doc:"The candidate with an equal plan that was measured instead; left out if the candidate was measured itself."`
	Spread
	Versus
	report.Costs
	BoundNS *float64 `json:"lower_bound_ns" doc:"A lower bound on the estimated cost of any plan; null if unknown."`
	Gap     *float64 `json:"gap" doc:"The estimated cost less the bound, divided by the bound; null if unknown."`
	// Regret is 0 for the fastest. The fastest is chosen by the same measurement, so that a regret is rather too great.
	Regret            *float64  `json:"measured_regret" doc:"The median less the least median of the compared plans, divided by the least median; null without measurement."`
	RegretSignificant bool      `json:"measured_regret_significant" doc:"Whether the difference from the plan of least median is significant, with Holm's correction."`
	Samples           []float64 `json:"samples_ns" doc:"The time of each run in nanoseconds, in the order of the runs."`
}

// Compare measures programs of one graph on the same inputs, which the programs must not change. Each round
// runs every program, in a random order, so that disturbances affect all programs in the same way. Compare measures the
// steady state of a program on an otherwise idle machine: see [Options.Turn]. Programs may be compiled in any way: with
// the caller's strategies, costs or passes, with or without pins. Programs with equal plans are measured once.
//
// Every pair of plans is tested for a difference: see [Ranking]. Outputs are compared with the outputs of the first
// program. Integers and bools must be equal. If both programs are exact (graphrun.Options.Exact), only the order of
// summation differs, and floats must agree within a few units in the last place. Otherwise they must agree within 2e-5
// (float32) of the output's largest value. Differences are not an error: they are listed in [Comparison.Differences].
//
// If ctx ends, Compare returns the measurements so far and no error. It fails if a run fails, if there are no
// candidates, or if two candidates have the same name. It returns a [*graphrun.MemoryError] if memory does not suffice
// for all programs at the same time.
func Compare(ctx context.Context, candidates []Candidate, inputs map[string]*tensor.Tensor,
	options Options) (*Comparison, error) {
	if ctx == nil {
		return nil, errors.New("Compare needs a context: it is nil")
	}
	if err := options.complete(); err != nil {
		return nil, err
	}
	allContenders, err := contenders(candidates)
	if err != nil {
		return nil, err
	}
	if !options.measureEqualPlans {
		joinEqualPlans(ctx, allContenders)
	}
	return compare(ctx, allContenders, inputs, options, new(environment.LoadMeter))
}

// compare measures contenders and summarizes the measurements. If load is not nil, it also samples the load of the
// machine.
func compare(ctx context.Context, allContenders []*contender, in map[string]*tensor.Tensor, options Options,
	load *environment.LoadMeter) (*Comparison, error) {
	session := &session{contenders: measuredContenders(allContenders), hasSeveralCandidates: len(allContenders) > 1,
		inputs: in, Options: options, random: rand.New(rand.NewPCG(options.Seed, 0)), load: load}
	comparison := &Comparison{}
	var err error
	if comparison.Interrupted, err = session.measure(ctx); err != nil {
		return nil, err
	}
	comparison.addRows(allContenders, bounds(ctx, allContenders, options.BoundNS))
	comparison.setVerdict(allContenders, session)
	return comparison, nil
}

// contender is a candidate with its measurements.
type contender struct {
	name            string
	report          *report.Plan
	exact           bool
	measuredInstead *contender // an earlier contender with an equal plan; nil if this contender is measured
	identity                   // identity of the plan and of its layout problem
	run             timedRun

	times       []float64                 // by measured run: its time in nanoseconds
	turnMedians []float64                 // by turn: the median time of its measured runs, in nanoseconds
	out         map[string]*tensor.Tensor // outputs of the last run, by name
}

// timedRun runs a program once and returns its outputs and the time of the run.
type timedRun func(ctx context.Context, in map[string]*tensor.Tensor) (out map[string]*tensor.Tensor,
	took time.Duration, err error)

// contenders returns the candidates as contenders. It checks that memory suffices for all of them together. Each
// program keeps its arena and the outputs of its last run while another run allocates new outputs.
func contenders(candidates []Candidate) ([]*contender, error) {
	if len(candidates) == 0 {
		return nil, errors.New("Compare needs at least one candidate")
	}
	var allContenders []*contender
	var programs []*graphrun.Program
	names, maxOutputs := map[string]bool{}, 0
	for i, candidate := range candidates {
		plan := candidate.Program.Report()
		if plan == nil {
			return nil, fmt.Errorf("candidate %d was not made by Compile", i)
		}
		candidate.Name = cmp.Or(candidate.Name, plan.Strategy)
		if names[candidate.Name] {
			return nil, fmt.Errorf("two candidates are called %q", candidate.Name)
		}
		names[candidate.Name] = true
		allContenders = append(allContenders, &contender{name: candidate.Name, report: plan, exact: plan.Exact,
			run: timedRunOf(candidate.Program), identity: identityOf(candidate.Program.Internal(), plan)})
		programs = append(programs, candidate.Program)
		maxOutputs = max(maxOutputs, candidate.Program.Need().Outputs)
	}
	need := Together(programs...)
	need.Outputs += maxOutputs
	const limit = 0                   // the memory that is available to the process
	held := need.Held() + need.Inputs // the inputs are in memory, too
	if err := need.Check(limit, held); err != nil {
		return nil, fmt.Errorf("%d programs do not fit into memory together: %w", len(allContenders), err)
	}
	return allContenders, nil
}

// timedRunOf returns the timedRun of a program.
func timedRunOf(compiled *graphrun.Program) timedRun {
	return func(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, time.Duration, error) {
		start := time.Now()
		out, err := compiled.Run(ctx, in)
		return out, time.Since(start), err
	}
}

// joinEqualPlans sets measuredInstead of contenders with equal plans.
func joinEqualPlans(ctx context.Context, allContenders []*contender) {
	for i, contender := range allContenders {
		for _, earlier := range measuredContenders(allContenders[:i]) {
			if contender.samePlan(ctx, &earlier.identity) {
				contender.measuredInstead = earlier
				break
			}
		}
	}
}

// measuredContenders returns the contenders that are measured, one for each group with equal plans.
func measuredContenders(allContenders []*contender) []*contender {
	return slices.DeleteFunc(slices.Clone(allContenders), func(c *contender) bool { return c.measuredInstead != nil })
}

// bounds returns, for each contender, a lower bound on the cost of any plan. It is callerBound or, if that is nil, the
// greatest bound that a plan of the same layout problem proves. An entry is nil if no bound is known.
func bounds(ctx context.Context, allContenders []*contender, callerBound *float64) []*float64 {
	list := make([]*float64, len(allContenders))
	for i, contender := range allContenders {
		list[i] = cmp.Or(callerBound, contender.report.LowerBoundNS)
		for _, other := range allContenders {
			bound := other.report.LowerBoundNS
			isGreater := bound != nil && (list[i] == nil || *bound > *list[i])
			if callerBound == nil && isGreater && contender.sameProblem(ctx, &other.identity) {
				list[i] = bound
			}
		}
	}
	return list
}

// addRows makes the rows, and compares the outputs of the last runs with the outputs of the base. bounds has the lower
// bound of each contender, or nil.
func (c *Comparison) addRows(allContenders []*contender, bounds []*float64) {
	c.HasOutputs = true
	for i, contender := range allContenders {
		row := Measurement{Name: contender.name, Costs: contender.report.Costs()}
		row.setBound(bounds[i])
		if contender.measuredInstead != nil {
			row.MeasuredAs = contender.measuredInstead.name
			contender = contender.measuredInstead
		}
		row.Spread, row.Samples = SpreadOf(contender.times), program.NotNil(contender.times)
		if i > 0 {
			row.Base = allContenders[0].name
			if contender != allContenders[0] && row.MeasuredAs == "" {
				c.Differences = append(c.Differences, outputDifferences(allContenders[0], contender)...)
			}
		}
		c.HasOutputs = c.HasOutputs && contender.out != nil
		c.Rows = append(c.Rows, row)
	}
}

// setBound sets the lower bound and the gap if the bound is known, positive and finite.
func (m *Measurement) setBound(bound *float64) {
	if bound == nil || !(*bound > 0) || math.IsInf(*bound, 0) {
		return
	}
	gap := m.CostNS / *bound - 1
	if math.Abs(gap) < 1e-12 { // rounding of sums can make a gap of 0 appear as a tiny gap
		gap = 0
	}
	m.BoundNS, m.Gap = bound, &gap
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
	binding := compiled.Internal().FirstBinding()
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

// tolerances has, by dtype, the tolerated difference of two elements, divided by a scale. Exact programs
// (graphrun.Options.Exact) differ only in the order of summation. For them, the scale of an element is 1 + |element|.
// Other programs may use other formulas, such as Winograd convolutions, with errors proportional to the largest value
// of a tensor. The scale is then 1 plus the largest finite magnitude in the tensor.
var tolerances = map[tensor.DType]float64{
	tensor.Float16: 2e-3, tensor.BFloat16: 2e-2, tensor.Float32: 2e-5, tensor.Float64: 1e-11,
	tensor.Complex64: 5e-5, tensor.Complex128: 1e-10,
}

// outputDifferences describes the outputs that differ between the last runs of two contenders. The list is empty if one
// of the contenders has not run.
func outputDifferences(base, contender *contender) []string {
	if base.out == nil || contender.out == nil {
		return nil
	}
	var list []string
	for _, name := range sorted.Keys(base.out) {
		text := "the output is missing in one of them"
		if contender.out[name] != nil {
			text = difference(base.out[name], contender.out[name], base.exact && contender.exact)
		}
		if text != "" {
			list = append(list, fmt.Sprintf("output %q under %s and %s: %s", name, base.name, contender.name, text))
		}
	}
	return list
}

// difference describes how the elements of two results differ. It returns "" if the elements agree within the tolerance
// of their dtype. exact chooses the scale of the tolerance: see tolerances. Layouts may differ, and NaN equals NaN.
func difference(a, b *tensor.Tensor, exact bool) string {
	if a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) {
		return fmt.Sprintf("%v%s and %v%s", a.DType, tensor.ListString(a.Shape), b.DType, tensor.ListString(b.Shape))
	}
	if a.Numel() == 0 {
		return ""
	}
	bound, inexact := tolerances[a.DType]
	if !inexact {
		return exactDifference(a, b)
	}
	elementsA, elementsB := asComplex(a), asComplex(b)
	scale, worst := 0.0, 0.0 // scale remains 0 if exact is true: each element then has its own scale
	for _, v := range elementsB {
		if magnitude := cmplx.Abs(v); !exact && magnitude <= math.MaxFloat64 { // infinite values do not count
			scale = max(scale, magnitude)
		}
	}
	for i := range elementsA {
		if elementsA[i] == elementsB[i] || cmplx.IsNaN(elementsA[i]) && cmplx.IsNaN(elementsB[i]) {
			continue
		}
		relative := cmplx.Abs(elementsA[i]-elementsB[i]) / (1 + max(scale, cmplx.Abs(elementsB[i])))
		if math.IsNaN(relative) { // an element is NaN or infinite
			relative = math.Inf(1)
		}
		worst = max(worst, relative)
	}
	if worst <= bound {
		return ""
	}
	reference := " to the largest value"
	if exact {
		reference = ""
	}
	return fmt.Sprintf("the relative difference%s is %.3g, but only %.3g is tolerated", reference, worst, bound)
}

// asComplex returns the elements in logical order as complex numbers.
func asComplex(t *tensor.Tensor) []complex128 {
	c := t.CopyTo(tensor.New(tensor.Complex128, t.Shape...))
	return unsafe.Slice((*complex128)(c.Pointer()), c.Numel())
}

// exactDifference describes how many elements of two results differ in their bits. It returns "" if no element differs.
func exactDifference(a, b *tensor.Tensor) string {
	bytesA, bytesB := a.CopyTo(tensor.New(a.DType, a.Shape...)).Storage().Bytes(),
		b.CopyTo(tensor.New(b.DType, b.Shape...)).Storage().Bytes()
	count := 0
	for size := a.DType.Size(); len(bytesA) > 0; bytesA, bytesB = bytesA[size:], bytesB[size:] {
		if !slices.Equal(bytesA[:size], bytesB[:size]) {
			count++
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d elements differ", count, a.Numel())
}

// pairing matches values of two graphs by content: equal operands and ops, or equal readers. Names distinguish values
// of equal content, and match the remaining values. For example, in the graphs
//
//	first graph:  a = conv(x, w)   b = relu(a)   c = add(b, x)
//	second graph: p = conv(x, w)   q = gelu(p)   r = add(q, x)
//
// a matches p, because both are computed in the same way. c matches r, because both are sums with the same uses. b and
// q have no match.
type pairing struct {
	matchInSecond map[*graph.Value]*graph.Value // for each value of the first graph: its match
	matchInFirst  map[*graph.Value]*graph.Value // for each value of the second graph: its match
}

// matchValues matches the values of two sorted graphs in three passes. It matches values that are computed in the same
// way from matching operands, then values with equal uses, then values with equal name and op. Names come last because
// exporters number values, so that the same name may denote different values. For two sizes of one graph (resized),
// names come first.
func matchValues(a, b *graph.Graph, resized bool) *pairing {
	p := &pairing{map[*graph.Value]*graph.Value{}, map[*graph.Value]*graph.Value{}}
	ids := interner{} // shared by both graphs, so that equal contents have equal numbers
	numberings := []func(*graph.Graph, interner) map[*graph.Value]int{byComputation, byUse, byName}
	if resized {
		numberings = []func(*graph.Graph, interner) map[*graph.Value]int{byName, byComputation, byUse}
	}
	for _, number := range numberings {
		contentA, contentB := number(a, ids), number(b, ids)
		p.matchBy(a, b, func(v *graph.Value) string { return v.Name }, contentA, contentB)
		p.matchBy(a, b, func(*graph.Value) string { return "" }, contentA, contentB) // under any name
	}
	return p
}

// matchBy matches values of equal content and equal name, in order. nameKey returns the name that is compared. contentA
// and contentB map each value to the number that identifies its content.
func (p *pairing) matchBy(a, b *graph.Graph, nameKey func(*graph.Value) string,
	contentA, contentB map[*graph.Value]int) {
	type key struct {
		content int
		name    string
	}
	unmatched := map[key][]*graph.Value{}
	for _, v := range matchableValues(b) {
		if p.matchInFirst[v] == nil {
			k := key{contentB[v], nameKey(v)}
			unmatched[k] = append(unmatched[k], v)
		}
	}
	for _, v := range matchableValues(a) {
		k := key{contentA[v], nameKey(v)}
		if p.matchInSecond[v] != nil || len(unmatched[k]) == 0 {
			continue
		}
		match := unmatched[k][0]
		unmatched[k] = unmatched[k][1:]
		p.match(v, match)
	}
}

// match matches two values, and all results of their nodes.
func (p *pairing) match(v, match *graph.Value) {
	p.matchInSecond[v], p.matchInFirst[match] = match, v
	if v.Node == nil || match.Node == nil {
		return
	}
	for i := range min(len(v.Node.Out), len(match.Node.Out)) {
		p.matchInSecond[v.Node.Out[i]], p.matchInFirst[match.Node.Out[i]] = match.Node.Out[i], v.Node.Out[i]
	}
}

// matchableValues lists inputs, constants, and the first result of each node. The first result represents all results
// of the node.
func matchableValues(g *graph.Graph) []*graph.Value {
	list := slices.Concat(g.Inputs, g.Constants)
	for _, n := range g.Nodes {
		if len(n.Out) > 0 {
			list = append(list, n.Out[0])
		}
	}
	return list
}

// interner maps texts to numbers from 1.
type interner map[string]int

// id returns the number of a text. Equal texts have equal numbers.
func (ids interner) id(text string) int {
	if ids[text] == 0 {
		ids[text] = len(ids) + 1
	}
	return ids[text]
}

// byComputation numbers values by their computation: leaves by dtype and shape, results by op, attributes and operands.
func byComputation(g *graph.Graph, interned interner) map[*graph.Value]int {
	ids := map[*graph.Value]int{}
	for _, v := range slices.Concat(g.Inputs, g.Constants) {
		ids[v] = interned.id(leafText(v))
	}
	for _, n := range g.Nodes {
		var b strings.Builder
		b.WriteString(callText(n, func(v *graph.Value) string { return strconv.Itoa(ids[v]) }))
		for _, a := range n.In {
			switch a.Kind {
			case graph.TensorArg:
				fmt.Fprintf(&b, " %d", ids[a.Value])
			case graph.NumberArg:
				fmt.Fprintf(&b, " %v:%v", a.Number.DType(), a.Number)
			default:
				b.WriteString(" -")
			}
		}
		for i, v := range n.Out {
			ids[v] = interned.id("made " + b.String() + "#" + strconv.Itoa(i))
		}
	}
	return ids
}

// byUse numbers values by their uses: the ops that read them, the operand index, and the uses of the results.
func byUse(g *graph.Graph, interned interner) map[*graph.Value]int {
	readers := map[*graph.Value][]string{}
	for i, output := range g.Outputs {
		readers[output.Value] = append(readers[output.Value], fmt.Sprintf("output %d", i))
	}
	ids := map[*graph.Value]int{}
	uses := func(v *graph.Value) string {
		sorted.Strings(readers[v])
		return strings.Join(readers[v], ";")
	}
	for _, n := range slices.Backward(g.Nodes) {
		text := "used " + callText(n, func(*graph.Value) string { return "" })
		for _, v := range n.Out {
			text += " > " + strconv.Itoa(interned.id(uses(v)))
		}
		id := interned.id(text)
		for _, v := range n.Out {
			ids[v] = id
		}
		for i, a := range n.In {
			if a.Kind == graph.TensorArg {
				readers[a.Value] = append(readers[a.Value], fmt.Sprintf("%d at %d", id, i))
			}
		}
	}
	for _, v := range slices.Concat(g.Inputs, g.Constants) {
		ids[v] = interned.id("used " + leafText(v) + " > " + uses(v))
	}
	return ids
}

// byName numbers values by name and kind.
func byName(g *graph.Graph, interned interner) map[*graph.Value]int {
	ids := map[*graph.Value]int{}
	for _, v := range matchableValues(g) {
		ids[v] = interned.id("called " + v.Kind() + " " + v.Name)
	}
	return ids
}

// leafText describes an input or a constant without its name.
func leafText(v *graph.Value) string {
	return fmt.Sprintf("%s %v%s", v.Kind(), v.Meta.DType, tensor.ListString(v.Meta.Shape))
}

// callText describes the op and the attributes of a node. describeValue describes a value that an attribute is read
// from.
func callText(n *graph.Node, describeValue func(*graph.Value) string) string {
	var b strings.Builder
	b.WriteString(n.Op.Name)
	for name, attribute := range n.AttrsAsGiven() {
		switch attribute := attribute.(type) {
		case graph.ValueRef:
			fmt.Fprintf(&b, " %s=value %s", name, describeValue(attribute.Value))
		case *graph.Graph: // a body is identified by its name
			fmt.Fprintf(&b, " %s=graph %s", name, attribute.Name)
		default:
			if v := reflect.ValueOf(attribute); v.Kind() == reflect.Pointer && !v.IsNil() {
				attribute = v.Elem().Interface()
			}
			fmt.Fprintf(&b, " %s=%v", name, attribute)
		}
	}
	return b.String()
}

// shapes returns two maps, one for each graph: by name of a value, the shape of its match in the other graph.
func (p *pairing) shapes() (first, second map[string][]int) {
	first, second = map[string][]int{}, map[string][]int{}
	for v, match := range p.matchInSecond {
		first[v.Name], second[match.Name] = program.NotNil(match.Meta.Shape), program.NotNil(v.Meta.Shape)
	}
	return first, second
}
