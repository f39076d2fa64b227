package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Problem returns the layout problem of a program's graph, for the sizes that Compile planned. It does not depend on
// the program's strategy. [layout.Given] applies the solution of another solver.
func Problem(p *graphrun.Program) (*wcsp.Problem, error) {
	model, err := p.Internal().Model()
	if err != nil {
		return nil, err
	}
	return model.WCSP, nil
}

// ProblemFile is the file of the layout problem of a graph: the problem, and what its labels stand for. It is also a file
// of prices: see [pricing.ReadPrices].
type ProblemFile struct {
	wcsp.Problem
	Prices []pricing.LabelPrice `json:"prices" doc:"The labels of nodes and the copies of values, with predicted prices and, where they are known, measured ones. With measured_ns added, --prices reads the file."`
}

// Write writes the file as JSON.
func (f *ProblemFile) Write(w io.Writer) error {
	if f == nil || w == nil {
		return errors.New("the problem or the writer is nil")
	}
	if err := f.Validate(); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(f)
}

// PricedProblem is [Problem] with the prices of its labels.
func PricedProblem(p *graphrun.Program) (*ProblemFile, error) {
	model, err := p.Internal().Model()
	if err != nil {
		return nil, err
	}
	file := &ProblemFile{Problem: *model.WCSP, Prices: model.LabelPrices()}
	file.Version = wcsp.Version
	return file, nil
}

// LowerBound returns a lower bound on the cost of any plan of a graph, in nanoseconds. Strategy Optimal proves the
// bound; the Strategy of the options is ignored. LowerBound returns nil if Optimal proves no bound, and an error if
// the graph cannot be planned.
func LowerBound(g *graph.Graph, options graphrun.Options) (*float64, error) {
	options.Strategy, options.Tracer, options.Check, options.Dump = graphrun.Optimal, nil, false, nil
	p, err := graphrun.Compile(context.Background(), g, options)
	if err != nil {
		return nil, err
	}
	return p.Report().LowerBoundNS, nil
}

// Choice is one of the cheapest plans.
type Choice struct {
	CostNS float64       `json:"cost_ns" doc:"Its estimated cost, in nanoseconds."`
	MoreNS float64       `json:"more_ns" doc:"By how much its cost exceeds the cost of the cheapest plan, in nanoseconds."`
	Change layout.Change `json:"change" doc:"Its differences from the cheapest plan."`

	rank     int
	solution *wcsp.Solution
}

// Strategy returns a strategy that makes the plan of the choice. The strategy is valid for the graph and the options
// of the program that was given to [Best]; it rejects graphs with another layout problem. The strategy of the zero
// Choice rejects all graphs.
func (c Choice) Strategy() graphrun.Strategy {
	return rankedStrategy{Strategy: layout.Given(c.solution), rank: c.rank}
}

// rankedStrategy is a strategy that applies a choice.
type rankedStrategy struct {
	graphrun.Strategy
	rank int // position in the list of [Best], from 1; 0 for a choice of [CheapestWithin]
}

// Name returns the rank of the plan, or its origin if it has no rank.
func (r rankedStrategy) Name() string {
	if r.rank == 0 {
		return "optimal within memory"
	}
	return fmt.Sprintf("optimal plan %d", r.rank)
}

// Best returns the k cheapest plans that differ in implementations or copies, the cheapest first: see
// [layout.Model.Best]. timedOut reports whether the time limit ended the search, so that the list is shorter than k.
func Best(p *graphrun.Program, k int) (choices []Choice, timedOut bool, err error) {
	model, err := p.Internal().Model()
	if err != nil {
		return nil, false, err
	}
	list, timedOut, err := model.Best(k)
	if err != nil {
		return nil, false, err
	}
	choices = make([]Choice, len(list))
	for i, outcome := range list {
		choices[i] = Choice{CostNS: float64(outcome.CostPS) / pricing.PSPerNS,
			MoreNS: float64(outcome.CostPS-list[0].CostPS) / pricing.PSPerNS, Change: outcome.ChangesSince(list[0]), rank: i + 1,
			solution: &wcsp.Solution{Version: wcsp.Version, Labels: outcome.Labels}}
	}
	return choices, timedOut, nil
}

// Repeated returns a strategy that makes the plan of a program again, at other prices. The strategy of the program must
// state the layout problem, as Optimal does. It rejects graphs with another layout problem.
func Repeated(p *graphrun.Program) (graphrun.Strategy, error) {
	model, err := p.Internal().Model()
	if err != nil {
		return nil, err
	}
	solution := p.Internal().FirstBinding().Plan.Solution
	if solution == nil {
		return nil, fmt.Errorf("strategy %s does not state the problem of layouts", p.Report().Strategy)
	}
	return layout.GivenNames(program.LabelNames(model.WCSP, solution.Labels)), nil
}

// MemorySearch is the result of [CheapestWithin].
type MemorySearch struct {
	LowerBoundNS float64 // a lower bound on the cost of the plans within the limit
	LeastBytes   int     // a lower bound on the bytes that a run of any plan needs
	Rejected     int     // the number of examined plans that need more memory
}

// CheapestWithin looks for the cheapest plan whose run needs at most limit bytes. For each candidate, it calls need,
// which returns the bytes that a run of the plan needs: see [layout.Model.CheapestWithin]. knownNS is the cost of a
// known plan within the limit, or infinite. A nil need is an error. The search ends with ctx. The result
// does not contain the plan: the caller keeps the cheapest candidate that fits.
func CheapestWithin(ctx context.Context, p *graphrun.Program, limit int, knownNS float64,
	need func(Choice) (int, error)) (*MemorySearch, error) {
	if need == nil {
		return nil, errors.New("experiment: CheapestWithin: need is nil")
	}
	model, err := p.Internal().Model()
	if err != nil {
		return nil, err
	}
	// Forbidden exceeds the cost of every plan.
	known := wcsp.Forbidden
	if ps := math.Ceil(knownNS * pricing.PSPerNS); ps < float64(known) { // rounded up, to exclude no cheaper plan
		known = int64(ps)
	}
	found, err := model.CheapestWithin(ctx, int64(limit), known, func(outcome *layout.Outcome) (int64, error) {
		solution := &wcsp.Solution{Version: wcsp.Version, Labels: outcome.Labels}
		choice := Choice{CostNS: float64(outcome.CostPS) / pricing.PSPerNS, solution: solution}
		bytes, err := need(choice)
		return int64(bytes), err
	})
	if err != nil {
		return nil, err
	}
	return &MemorySearch{float64(found.BoundPS) / pricing.PSPerNS, int(found.LeastBytes), found.Rejected}, nil
}

// Sensitivity returns the factors by which the price of copies must rise or fall until another plan becomes the
// cheapest.
func Sensitivity(p *graphrun.Program) (*layout.Sensitivity, error) {
	model, err := p.Internal().Model()
	if err != nil {
		return nil, err
	}
	return model.Sensitive()
}

// Advise prices other layouts of inputs and outputs, which the caller can change without a change to the graph. It plans
// the graph up to 32 times.
func Advise(p *graphrun.Program) (*layout.Advice, error) {
	problem, err := p.Internal().Problem()
	if err != nil {
		return nil, err
	}
	return layout.Advise(problem)
}

// SizeRanges lists ranges of sizes. All sizes of a range have the same plan.
type SizeRanges struct {
	Ranges []SizeRange `json:"sweep" doc:"The ranges in ascending order; all sizes of a range have the same plan."`
	Plans  int         `json:"plans" doc:"The number of sizes that were planned."`
	// Complete is false if the limit of plans ended the search. Sizes between two ranges may then belong to either
	// range.
	Complete bool `json:"complete" doc:"Whether every range begins where the one before it ends."`
}

// SizeRange is a range of sizes with the same plan.
type SizeRange struct {
	From     int          `json:"from" doc:"The smallest planned size with this plan."`
	To       int          `json:"to" doc:"The greatest planned size with this plan."`
	CostNS   float64      `json:"cost_ns" doc:"The estimated cost of the plan at the smallest size, in nanoseconds."`
	CostToNS float64      `json:"cost_to_ns" doc:"The estimated cost of the plan at the greatest size, in nanoseconds."`
	Copies   int          `json:"copies" doc:"The number of inserted copies."`
	Planned  []int        `json:"planned" doc:"The sizes that were planned; the plans of other sizes in the range are assumed to be equal."`
	Rejected string       `json:"rejected,omitzero" doc:"Why the graph cannot be planned for the smallest size of the range."`
	Changes  []PlanChange `json:"changes" doc:"The differences from the plan of the range before."`
}

// PlanChange is one difference between the plans of two sizes. The values of field What are listed by
// [StepDifferences]; the tag `of` names this list.
type PlanChange struct {
	What   string `json:"what" of:"difference" doc:"The kind of difference."`
	Name   string `json:"name" doc:"The value or the nodes that it concerns."`
	Before string `json:"before" doc:"The layout, copy or implementations of the range before; empty for none."`
	After  string `json:"after" doc:"The layout, copy or implementations of this range; empty for none."`
}

// maxSize is the maximum size for [PlansBySize].
const maxSize = 1 << 47

// PlansBySize finds the sizes from `from` to `to` at which the plan of a graph changes. plan returns the program for a
// size; it is called for at most limit sizes. PlansBySize starts with the ends and the powers of two between them. It
// then bisects between neighbours whose plans differ ([DiffSizes]), the greatest ratio of sizes first.
//
// PlansBySize does not plan sizes between two neighbours with equal plans. If the costs of all plans were affine
// functions of the size, a plan that costs least at both neighbours would also cost least between them. But blocking
// and caches cause steps in the costs, so PlansBySize may miss a short range with another plan. [SizeRange].Planned
// lists the sizes with a known plan.
//
// An error of plan is recorded in the range of the size, and PlansBySize continues unless the context ended.
func PlansBySize(ctx context.Context, from, to, limit int,
	plan func(ctx context.Context, size int) (*graphrun.Program, error)) (*SizeRanges, error) {
	switch {
	case ctx == nil:
		return nil, errors.New("PlansBySize: the context is nil")
	case plan == nil:
		return nil, errors.New("PlansBySize: the function plan is nil")
	case from < 0 || to < from || int64(to) > maxSize:
		return nil, fmt.Errorf("the sizes %d to %d are invalid: they must be in ascending order, from 0 to 2^47", from, to)
	case limit < 2:
		return nil, fmt.Errorf("the limit of %d plans is too low: at least 2 plans are needed", limit)
	}
	bisection := bisection{plan: plan}
	for _, size := range startSizes(from, to, limit) {
		if err := bisection.add(ctx, len(bisection.points), size); err != nil {
			return nil, err
		}
	}
	for len(bisection.points) < limit {
		i := bisection.widestOpenPair()
		if i < 0 {
			break
		}
		low, high := bisection.points[i-1].size, bisection.points[i].size
		if err := bisection.add(ctx, i, low+(high-low)/2); err != nil {
			return nil, err
		}
	}
	return bisection.ranges(), nil
}

// startSizes lists the ends and the powers of two between them. If these are more than limit sizes, it lists only every
// k-th power.
func startSizes(from, to, limit int) []int {
	var powers []int
	for size := 1; size < to; size *= 2 {
		if size > from {
			powers = append(powers, size)
		}
	}
	sizes := []int{from}
	step := len(powers)/max(limit-2, 1) + 1 // k; the two ends are not counted in limit-2
	for i := step - 1; i < len(powers) && len(sizes) < limit-1; i += step {
		sizes = append(sizes, powers[i])
	}
	if to > from {
		sizes = append(sizes, to)
	}
	return sizes
}

// plannedSize is a size with the result of planning the graph for it. In a bisection it is called a point.
type plannedSize struct {
	size        int
	program     *graphrun.Program // nil if the size is rejected, or if no further comparison needs it
	cost        float64           // in nanoseconds
	copies      int               // number of inserted copies
	rejection   error             // the reason why the size cannot be planned, or nil
	hasSamePlan bool              // whether the plan equals the plan of the previous point
	changes     []PlanChange      // the differences from the plan of the previous point
}

// bisection is the state of [PlansBySize]. points has the planned sizes in ascending order.
type bisection struct {
	plan   func(context.Context, int) (*graphrun.Program, error)
	points []*plannedSize
}

// add plans a size and inserts it as point i. It compares the new point and the point after it with their predecessors.
func (bisection *bisection) add(ctx context.Context, i, size int) error {
	point := &plannedSize{size: size}
	point.program, point.rejection = bisection.plan(ctx, size)
	if err := context.Cause(ctx); err != nil {
		return cmp.Or(point.rejection, err)
	}
	if point.rejection == nil {
		plan := point.program.Report()
		if plan == nil {
			return fmt.Errorf("size %d: there is no plan of the whole graph", size)
		}
		point.cost, point.copies = plan.CostNS, len(plan.Copies)
	}
	bisection.points = slices.Insert(bisection.points, i, point)
	last := len(bisection.points) - 1
	for k := max(i, 1); k <= min(i+1, last); k++ { // point 0 has no predecessor
		if err := bisection.points[k].compare(bisection.points[k-1]); err != nil {
			return err
		}
	}
	// Free the programs of the new point and its neighbours that no further comparison needs. A comparison needs the
	// program of a point if one of the two pairs with this point is open. The end points keep their programs. The program
	// of the last point is needed for the comparison with the next start size.
	for k := max(i-1, 1); k <= min(i+1, last-1); k++ {
		if !bisection.isOpen(k) && !bisection.isOpen(k+1) {
			bisection.points[k].program = nil
		}
	}
	return nil
}

// compare sets hasSamePlan and changes: the differences from the previous point.
func (p *plannedSize) compare(before *plannedSize) error {
	p.changes = []PlanChange{}
	if p.rejection != nil || before.rejection != nil {
		p.hasSamePlan = p.rejection != nil && before.rejection != nil
		return nil
	}
	difference, err := DiffSizes(before.program, p.program)
	if err != nil {
		return err
	}
	p.hasSamePlan, p.changes = difference.Same, difference.changes()
	return nil
}

// isOpen reports whether the pair of points i-1 and i is open: the plans differ, and the plan changes at an unknown
// size between the two. It returns false if one of the points does not exist.
func (bisection *bisection) isOpen(i int) bool {
	if i <= 0 || i >= len(bisection.points) {
		return false
	}
	before, point := bisection.points[i-1], bisection.points[i]
	return !point.hasSamePlan && point.size-before.size > 1
}

// widestOpenPair returns the index i of the open pair of points i-1 and i with the greatest ratio of sizes. It returns
// -1 if no pair is open.
func (bisection *bisection) widestOpenPair() int {
	best, bestRatio := -1, 0.0
	for i := range bisection.points {
		if !bisection.isOpen(i) {
			continue
		}
		ratio := float64(bisection.points[i].size) / float64(max(bisection.points[i-1].size, 1))
		if ratio > bestRatio {
			best, bestRatio = i, ratio
		}
	}
	return best
}

// ranges joins consecutive points with the same plan to ranges.
func (bisection *bisection) ranges() *SizeRanges {
	result := &SizeRanges{Plans: len(bisection.points), Complete: bisection.widestOpenPair() < 0}
	for i, point := range bisection.points {
		if i == 0 || !point.hasSamePlan {
			result.Ranges = append(result.Ranges, SizeRange{From: point.size, CostNS: point.cost, Copies: point.copies,
				Changes: program.NotNil(point.changes)})
			if point.rejection != nil {
				result.Ranges[len(result.Ranges)-1].Rejected = point.rejection.Error()
			}
		}
		last := &result.Ranges[len(result.Ranges)-1]
		last.To, last.CostToNS = point.size, point.cost
		last.Planned = append(last.Planned, point.size)
	}
	return result
}

// changes lists the differences. Copies are listed once, not also as steps.
func (d *Difference) changes() []PlanChange {
	list := []PlanChange{}
	for _, v := range d.Values {
		list = append(list, PlanChange{What: diffLayout, Name: v.Value, Before: v.First.Layout, After: v.Second.Layout})
	}
	copyText := func(copied report.Copy) string {
		return "copy " + tensor.ListString(copied.From) + " to " + tensor.ListString(copied.To)
	}
	for _, copied := range d.OnlyFirst {
		list = append(list, PlanChange{What: diffCopy, Name: copied.Value, Before: copyText(copied)})
	}
	for _, copied := range d.OnlySecond {
		list = append(list, PlanChange{What: diffCopy, Name: copied.Value, After: copyText(copied)})
	}
	for _, step := range d.Steps {
		if step.What == diffCopy {
			continue
		}
		list = append(list, PlanChange{What: step.What, Name: cmp.Or(nodesOf(step.First), nodesOf(step.Second)),
			Before: stepsText(step.First), After: stepsText(step.Second)})
	}
	return list
}

// nodesOf lists the nodes of steps.
func nodesOf(steps []StepSummary) string {
	var names []string
	for _, step := range steps {
		names = append(names, strings.Join(step.Ops, "+"))
	}
	return strings.Join(names, ", ")
}

// stepsText returns the implementation of a single step, or the groups of nodes of several steps.
func stepsText(steps []StepSummary) string {
	if len(steps) == 1 && steps[0].Impl != "" {
		return steps[0].Impl
	}
	return nodesOf(steps)
}

const (
	warmUpRuns       = 2           // runs before the measured rounds
	defaultRuns      = 20          // default of Options.Runs
	defaultTurn      = 3           // default of Options.Turn
	maxRunsWithUntil = 1000        // maximum number of runs with Options.Until
	maxTimeWithUntil = time.Minute // maximum time with Options.Until
)

// session measures contenders in rounds. In each round, every contender has one turn: several runs in succession. The
// first round only warms up. With Options.Until, the measurement ends when the half-width of each contender's
// confidence interval is at most this fraction of its median.
type session struct {
	Options
	contenders           []*contender // the contenders to measure
	hasSeveralCandidates bool         // whether there are several candidates, even if all have the same plan
	inputs               map[string]*tensor.Tensor
	random               *rand.Rand
	start                time.Time
	runs                 int // number of measured runs of each contender so far
	nextCheck            int // number of runs at which Until is checked again
	load                 *environment.LoadMeter
}

// measure measures until the last round or until ctx ends.
func (s *session) measure(ctx context.Context) (interrupted bool, err error) {
	s.start = time.Now()
	runsPerTurn := s.runsPerTurn()
	totalRounds := 0 // number of rounds; 0 if it is unknown
	if s.Until == 0 {
		totalRounds = 1 + (s.Runs+runsPerTurn-1)/runsPerTurn
	}
	for i := 0; i == 0 || !s.isComplete(); i++ {
		s.Progress(i, totalRounds)
		s.load.Sample()
		unmeasuredRuns, runs := warmUpRuns, warmUpRuns // the first round only warms up
		if i > 0 {
			measured := min(runsPerTurn, s.maxRuns()-s.runs) // the last turn has only the missing runs
			unmeasuredRuns = s.Turn - runsPerTurn            // the first run of a turn, unless it is the only one
			runs = unmeasuredRuns + measured
			s.runs += measured
		}
		for _, k := range s.random.Perm(len(s.contenders)) {
			contender := s.contenders[k]
			switch err := contender.runTurn(ctx, s.inputs, unmeasuredRuns, runs); {
			case ctx.Err() != nil:
				return true, nil
			case err != nil && s.hasSeveralCandidates:
				return false, fmt.Errorf("%w (strategy %s)", err, contender.name)
			case err != nil:
				return false, err
			}
		}
	}
	return false, nil
}

// runsPerTurn returns the number of measured runs in a turn.
func (s *session) runsPerTurn() int { return max(1, s.Turn-1) }

// maxRuns returns the greatest number of measured runs.
func (s *session) maxRuns() int {
	if s.Runs > 0 {
		return s.Runs
	}
	return maxRunsWithUntil
}

// isComplete reports whether the measurement is complete. It also sets nextCheck.
func (s *session) isComplete() bool {
	if s.runs >= s.maxRuns() {
		return true
	}
	if s.Until == 0 {
		return false
	}
	if s.Runs <= 0 && time.Since(s.start) > maxTimeWithUntil {
		return true
	}
	if s.runs < max(defaultRuns, s.nextCheck) {
		return false
	}
	s.nextCheck = s.runs + s.runs/10 // checks are rare, because each check sorts all times
	return len(s.wideIntervals()) == 0
}

// wideIntervals returns the names of the contenders whose confidence interval is unknown or has a half-width of more
// than Until. It returns none if Until is 0.
func (s *session) wideIntervals() []string {
	var names []string
	for _, contender := range s.contenders {
		spread := SpreadOf(contender.times)
		if halfWidth := spread.halfWidth(); s.Until > 0 && (halfWidth == nil || *halfWidth > s.Until) {
			names = append(names, contender.name)
		}
	}
	return names
}

// runTurn runs the program `runs` times in succession. It does not measure the first unmeasuredRuns.
func (contender *contender) runTurn(ctx context.Context, in map[string]*tensor.Tensor, unmeasuredRuns, runs int) error {
	for i := range runs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		out, took, err := contender.run(ctx, in)
		if err != nil {
			return err
		}
		contender.out = out
		if i >= unmeasuredRuns {
			contender.times = append(contender.times, float64(took))
		}
	}
	if measured := runs - unmeasuredRuns; measured > 0 {
		timesOfTurn := contender.times[len(contender.times)-measured:]
		contender.turnMedians = append(contender.turnMedians, *SpreadOf(timesOfTurn).Median)
	}
	return nil
}
