package passes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// Pass is one rewrite of the graph. [Run] checks that earlier passes have established the properties that a pass needs.
// With [Options.Check] the verifier checks the properties after every pass. For example, pass infer makes the graph
// typed, and pass layout needs a typed graph and makes it laid out. A pass that breaks graph.Typed may be inserted only
// where a later pass makes the graph typed again, before a pass that needs it.
type Pass struct {
	Name string
	Doc  string // the effect, in one sentence
	// Needs are the properties of a graph that the pass requires, Makes the properties that it establishes, and Breaks
	// the properties that it invalidates. The pass preserves all other properties.
	Needs, Makes, Breaks graph.Props
	// Rounds means that the pass may change the rounding of results. [Options.Check] then compares values with a
	// tolerance.
	Rounds bool
	// ChangesQuantized is for a pass with Rounds. It means that quantized values may change to an adjacent level. The
	// tolerance of [Options.Check] is then one level for quantized values, and a twentieth of the largest value for
	// other values.
	ChangesQuantized bool
	Run              func(p *Plan) error
}

// requiredProps is the set of properties of a graph that can run.
const requiredProps = graph.Sorted | graph.Typed | graph.LaidOut

// pipeline is the default list of passes.
var pipeline = []Pass{
	{Name: "infer", Doc: "computes dtype, shape and layout of every value as eager PyTorch does",
		Needs: graph.Sorted, Makes: graph.Typed, Run: inferTypes},
	{Name: "rewrite", Doc: "replaces costly nodes by cheaper ones: quantized products by int8 products, movement of " +
		"quantized values by movement of bytes, products of 16-bit floats by float32 products, einsum by matrix products, " +
		"products with repeated matrices by products that read each distinct matrix once",
		Needs: graph.Typed, Rounds: true, ChangesQuantized: true, Run: rewrite},
	{Name: "decompose", Doc: "replaces composite ops by nodes of other ops",
		Needs: graph.Typed, Rounds: true, Run: decompose},
	{Name: "fold", Doc: "computes nodes that depend on constants alone",
		Needs: graph.Typed, Rounds: true, Run: foldConstants},
	{Name: "group", Doc: "fuses nodes that iterate over the same elements",
		Needs: graph.Typed, Run: groupNodes},
	{Name: "dead", Doc: "removes nodes and constants that no output needs",
		Needs: graph.Sorted, Run: dropDead},
	{Name: "layout", Doc: "chooses layouts and implementations by the strategy, inserts the necessary copies, and " +
		"removes needless copies and inverse permutations",
		Needs: graph.Typed, Makes: graph.LaidOut, Run: layOut},
	{Name: "fold", Doc: "computes the copies of constants",
		Needs: graph.Typed | graph.LaidOut, Rounds: true, Run: foldConstants},
	{Name: "lower", Doc: "inserts nodes that pack constants for the chosen implementations",
		Needs: graph.Typed | graph.LaidOut, Run: packConstants},
	{Name: "fold", Doc: "packs constants",
		Needs: graph.Typed | graph.LaidOut, Rounds: true, Run: foldConstants},
	{Name: "dead", Doc: "removes nodes and constants that no output needs", Needs: graph.Sorted, Run: dropDead},
	{Name: "place", Doc: "writes operands of concatenations directly into the results",
		Needs: graph.Typed | graph.LaidOut, Run: placeResults},
}

// Passes returns a copy of the list that [Run] applies if [Options.Passes] is nil. The caller may change it: see
// [Before] and [After].
func Passes() []Pass { return slices.Clone(pipeline) }

// Before returns a copy of the list with p inserted before the first pass with that name, or an error if there is none.
func Before(list []Pass, name string, p Pass) ([]Pass, error) {
	i := slices.IndexFunc(list, func(p Pass) bool { return p.Name == name })
	return insertPass(list, i, i, name, p)
}

// After returns a copy of the list with p inserted after the last pass with that name, or an error if there is none.
func After(list []Pass, name string, p Pass) ([]Pass, error) {
	i := len(list) - 1
	for i >= 0 && list[i].Name != name {
		i--
	}
	return insertPass(list, i, i+1, name, p)
}

// insertPass inserts a pass at an index. found is the index of the pass with the given name. If it is negative,
// insertPass returns an error.
func insertPass(list []Pass, found, index int, name string, added Pass) ([]Pass, error) {
	if found >= 0 {
		return slices.Insert(slices.Clone(list), index, added), nil
	}
	names := make([]string, len(list))
	for i, pass := range list {
		names[i] = pass.Name
	}
	hint := ""
	if nearest := suggest.Nearest(name, slices.Values(names)); nearest != "" {
		hint = "; did you mean " + nearest + "?"
	}
	return nil, fmt.Errorf("the list has no pass %q%s", name, hint)
}

// checkList returns an error if a pass needs a property that does not hold when it runs, or if the final graph lacks a
// property.
func checkList(list []Pass) error {
	properties, brokenBy := graph.Sorted, map[graph.Props]string{} // brokenBy: by property, the last pass that broke it
	for i, pass := range list {
		switch {
		case pass.Name == "":
			return fmt.Errorf("pass %d has no name", i)
		case pass.Run == nil:
			return fmt.Errorf("pass %s does nothing: its Run is nil", pass.Name)
		}
		if unknown := (pass.Needs | pass.Makes | pass.Breaks) &^ requiredProps; unknown != 0 {
			return fmt.Errorf("pass %s names unknown properties: %#x", pass.Name, uint(unknown))
		}
		if missing := pass.Needs &^ properties; missing != 0 {
			return fmt.Errorf("pass %s needs a graph that is %v%s", pass.Name, missing, breakingPass(missing, brokenBy))
		}
		properties = properties&^pass.Breaks | pass.Makes
		for _, property := range pass.Breaks.Each() {
			brokenBy[property] = pass.Name
		}
	}
	if missing := requiredProps &^ properties; missing != 0 {
		return fmt.Errorf("after all passes the graph is not %v%s", missing, breakingPass(missing, brokenBy))
	}
	return nil
}

// breakingPass returns the end of an error message: the pass that last broke one of the missing properties, if any.
func breakingPass(missing graph.Props, brokenBy map[graph.Props]string) string {
	for _, property := range missing.Each() {
		if name := brokenBy[property]; name != "" {
			return fmt.Sprintf(": pass %s broke it, and no later pass restores it", name)
		}
	}
	return ": no earlier pass establishes it"
}

// Options configure [Run].
type Options struct {
	// Context can cancel the work; the error then has the cause of the context. Run sets it as the context of the graph
	// ([graph.Graph.Context]), where passes and strategies find it. Nil means the graph's own context.
	Context context.Context
	// Strategy chooses layouts and implementations; nil means [layout.Propagate]. [layout.Named] finds the built-in
	// strategies by name.
	Strategy layout.Strategy
	// Profile prices work; nil means [layout.DefaultProfile].
	Profile *layout.Profile
	// Passes is the list of passes; nil means [Passes].
	Passes []Pass
	// MemoryLimit is the maximum memory of a run in bytes, including folded constants. 0 means the limit of the process.
	// A negative number means no limit.
	MemoryLimit int
	// Threads is the maximum number of workers that pack constants; 0 or less means GOMAXPROCS.
	Threads int
	// Check verifies the graph after every pass. For small graphs it also evaluates the graph by reference before and
	// after the pass, on generated data, and compares the outputs. Errors name the pass. [Plan.Unchecked] lists the parts
	// that could not be evaluated.
	Check bool
	// Dump, if set, receives the graph as text after every pass.
	Dump io.Writer
	// Record fills [Plan.Decisions], for plans of the same graph at other sizes.
	Record bool
	// Exact excludes implementations that are [graph.Impl.Inexact], so that every node is computed by the formula of
	// its definition.
	Exact bool
	// SolveLimit is the maximum time of a strategy's search after variable elimination: [layout.Problem.SolveLimit].
	SolveLimit time.Duration
	// Device may compute nodes: [layout.Problem.Device].
	Device graph.Device
	// Slack is the additional cost that is acceptable for fewer copies: [layout.Problem.Slack].
	Slack float64
	// Follow, if set, has decisions for the same graph at other sizes. Run applies them without a search. The graph must
	// be inferred. Run returns a [*Misfit] if the decisions do not apply.
	Follow *Decisions
	// FoldStore, if set, returns the results of a folded node. It may return stored results instead of the results of
	// compute. It is called from several goroutines.
	FoldStore func(n *graph.Node, compute func() ([]*tensor.Tensor, error)) ([]*tensor.Tensor, error)
	// Price means that [Plan.CostNS] and [Plan.Copies] are computed even with Follow.
	Price bool
	// KeepGoing removes nodes that fail, with their dependents, instead of returning the first error: see
	// [Plan.Failed].
	KeepGoing bool
}

// Plan is the result of [Run]: the graph that runs, and a record of the changes.
type Plan struct {
	Graph    *graph.Graph
	Strategy string
	Passes   []PassRecord // in the order of execution
	Copies   []Copy       // inserted copies that remain
	Elided   []Elision    // removed nodes
	Folded   []Folding    // nodes whose results became constants
	Packed   []Packing    // packed constants
	// PackedInRuns lists the operands that kernels pack in every run.
	PackedInRuns []RunPacking
	// Decomposed lists the nodes that other nodes replace.
	Decomposed []Decomposition
	Groups     []Group   // fused nodes
	Unfused    []Unfused // pairs of nodes that could be fused but are not
	CostNS     float64   // sum of Cost over all nodes
	// Placed lists the values that are written directly into other values. SavedNS is the time saved by placements that
	// the strategy did not choose. CostNS + SavedNS is thus the cost that the strategy minimized, and the cost that a
	// certificate proves.
	Placed  []Placed
	SavedNS float64
	// Failed lists the errors of the nodes that were removed with [Options.KeepGoing]. Nodes that only depend on failed
	// nodes have no error.
	Failed graph.Errors
	// Unchecked lists the parts of the graph that [Options.Check] could not compare. It is nil if Check compared
	// everything or was not set.
	Unchecked []Unchecked

	// Model and Solution are the layout problem and its solution if the strategy solves it exactly, otherwise nil.
	Model    *layout.Model
	Solution *wcsp.Solution
	// Preference describes the choice among plans of nearly equal cost. It is set by strategy Optimal.
	Preference *layout.Preference

	// Decisions are recorded with [Options.Record].
	Decisions *Decisions

	ctx                 context.Context
	decisionsToFollow   *Decisions              // see [Options.Follow]
	nodesToFold         map[int]bool            // numbers of the nodes to fold; nil: the pass decides
	foldPasses          int                     // number of fold passes that have begun
	strategyChoseCopies bool                    // the strategy has decided which copies of the graph are removed
	placementsChosen    graph.ByValue[bool]     // values that are part of another value's buffer by the strategy's choice
	pins                []pinned                // the pins that the plan must meet
	unpinned            map[*graph.Value]string // by the source of a pinned copy: name of the copy
	strategy            layout.Strategy
	profile             *layout.Profile
	profileAdjusted     bool          // the profile is adjusted to the constants of the graph
	keepGoing           bool          // see [Options.KeepGoing]
	exact               bool          // see [Options.Exact]
	solveLimit          time.Duration // see [Options.SolveLimit]
	slack               float64       // see [Options.Slack]
	device              graph.Device  // see [Options.Device]
	foldBudget          foldBudget    // memory for results of folded nodes
	threads             int           // see [Options.Threads]
	// foldStore is [Options.FoldStore].
	foldStore func(n *graph.Node, compute func() ([]*tensor.Tensor, error)) ([]*tensor.Tensor, error)
	packed    map[*graph.Node]foldedNode // results of packInParallel in the current fold pass
	costs     graph.ByValue[nodeCost]    // cost of a node, by its first output
}

// PassRecord is the record of one pass.
type PassRecord struct {
	Name, Doc string        // see [Pass]
	Summary   string        // summary of the changes; empty if there are none
	Nodes     int           // number of nodes after the pass
	Duration  time.Duration // duration of the pass
}

// Exact reports whether passes must keep roundings: see [Options.Exact].
func (p *Plan) Exact() bool { return p.exact }

// Note adds text to [PassRecord.Summary] of the running pass.
func (p *Plan) Note(format string, args ...any) {
	if len(p.Passes) == 0 {
		return
	}
	record, text := &p.Passes[len(p.Passes)-1], fmt.Sprintf(format, args...)
	if record.Summary != "" && text != "" {
		text = record.Summary + ", " + text
	}
	record.Summary = text
}

// Copy is a copy that a pass inserted.
type Copy struct {
	Node     *graph.Node
	Value    string  // name of the source
	From, To []int   // strides of source and copy in elements
	Bytes    int     // size of the copy
	CostNS   float64 // see [Plan.Cost]
	Why      string  // reason
}

// Elision is a removed node, and the reason.
type Elision struct{ Node, Why string }

// Run plans a graph, which must be sorted and is not modified. The plan shares the data of its constants. Run returns
// the error of the first pass or check that fails.
func Run(g *graph.Graph, options Options) (_ *Plan, err error) {
	defer panics.Recover(&err)
	if g == nil {
		return nil, errors.New("the graph to plan is nil")
	}
	if options.Strategy == nil {
		options.Strategy = layout.Propagate
	}
	if options.Passes == nil {
		options.Passes = pipeline
	}
	if err := checkList(options.Passes); err != nil {
		return nil, err
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	if g, err = g.WithInlinedControlFlow(); err != nil {
		return nil, err
	}
	if g.Dynamic() {
		return nil, errors.New("shapes depend on data: the graph can run in segments, but cannot be planned as a whole")
	}
	plan := newPlan(g, options)
	defer plan.dropContexts()
	var check *checker
	if options.Check {
		if err := graph.Verify(plan.Graph, graph.Sorted); err != nil {
			return nil, err
		}
		check = newChecker(plan.Graph)
		check.partialOutputs = options.KeepGoing
		plan.Unchecked = check.unchecked
	}
	properties := graph.Sorted
	for _, pass := range options.Passes {
		if err := plan.apply(pass, options.Dump); err != nil {
			return nil, err
		}
		properties = properties&^pass.Breaks | pass.Makes
		if err := plan.checkAfterPass(pass, properties, check); err != nil {
			return nil, fmt.Errorf("after pass %s: %w", pass.Name, err)
		}
	}
	plan.separateOutputs(g)
	if options.Follow == nil || options.Price {
		plan.summarize()
	}
	return plan.checkedPlan()
}

// newPlan starts a plan for a copy of a graph.
func newPlan(g *graph.Graph, options Options) *Plan {
	plan := &Plan{Graph: g.Clone(), Strategy: options.Strategy.Name(), strategy: options.Strategy,
		profile: options.Profile, keepGoing: options.KeepGoing, exact: options.Exact,
		solveLimit: options.SolveLimit, slack: options.Slack, device: options.Device,
		foldBudget: foldBudget{limit: options.MemoryLimit}, decisionsToFollow: options.Follow,
		foldStore: options.FoldStore}
	if options.Context != nil {
		plan.Graph.SetContext(options.Context)
	}
	plan.ctx = plan.Graph.Context()
	if plan.threads = min(options.Threads, runtime.GOMAXPROCS(0)); options.Threads <= 0 {
		plan.threads = runtime.GOMAXPROCS(0)
	}
	plan.pins = pinsOf(plan.Graph)
	if options.Record {
		plan.Decisions = &Decisions{}
	}
	return plan
}

// apply runs one pass and records its outcome.
func (p *Plan) apply(pass Pass, dumpTo io.Writer) error {
	start := time.Now()
	p.Passes = append(p.Passes, PassRecord{Name: pass.Name, Doc: pass.Doc})
	recordCount := len(p.Passes)
	err := pass.run(p)
	if contextErr := interrupt.Err(p.ctx); contextErr != nil { // the result of a cancelled pass is not used
		return fmt.Errorf("pass %s: %w", pass.Name, contextErr)
	}
	switch {
	case err != nil:
		return err
	case p.Graph == nil:
		return fmt.Errorf("pass %s set the graph to nil", pass.Name)
	case len(p.Passes) != recordCount:
		return fmt.Errorf("pass %s changed the record of applied passes", pass.Name)
	}
	record := &p.Passes[len(p.Passes)-1]
	record.Nodes, record.Duration = len(p.Graph.Nodes), time.Since(start)
	if dumpTo != nil {
		fmt.Fprintf(dumpTo, "after %s: %s\n", pass.Name, pass.Doc)
		writeGraph(dumpTo, p.Graph)
	}
	return nil
}

// checkAfterPass verifies the graph after a pass. properties are the properties that hold. check is nil without
// [Options.Check].
func (p *Plan) checkAfterPass(pass Pass, properties graph.Props, check *checker) error {
	if check != nil {
		if err := check.checkAfter(p.Graph, properties, pass); err != nil {
			return err
		}
		return p.checkPins(properties&graph.LaidOut != 0)
	}
	if !pass.isBuiltin() { // an invalid node of a caller's pass could read unwritten memory
		return graph.Verify(p.Graph, graph.Sorted&properties)
	}
	return nil
}

// dropContexts removes the context from the graphs that the plan keeps.
func (p *Plan) dropContexts() {
	if p.Graph != nil {
		p.Graph.SetContext(context.Background())
	}
	if p.Model != nil && p.Model.Problem != nil && p.Model.Problem.Graph != nil {
		p.Model.Problem.Graph.SetContext(context.Background())
	}
}

// isBuiltin reports whether the pass is one of this package. A caller's pass may have the name of such a pass.
func (p Pass) isBuiltin() bool {
	run := reflect.ValueOf(p.Run).Pointer()
	return slices.ContainsFunc(pipeline, func(builtin Pass) bool {
		return builtin.Name == p.Name && reflect.ValueOf(builtin.Run).Pointer() == run
	})
}

// withName adds the name of a caller's pass to its error. An error that names a node or output is returned unchanged.
func (p Pass) withName(err error) error {
	var nodeErr *graph.Error
	var nodeErrs graph.Errors
	if err == nil || p.isBuiltin() || errors.As(err, &nodeErr) || errors.As(err, &nodeErrs) {
		return err
	}
	return fmt.Errorf("pass %s: %w", p.Name, err)
}

// run calls Run. It converts a panic to an error that names the pass, because the pass may be the caller's code.
func (p Pass) run(plan *Plan) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("pass %s: %w", p.Name, panics.Error(panicked))
		}
	}()
	return p.withName(p.Run(plan))
}

// inferTypes infers the graph.
func inferTypes(plan *Plan) error {
	if plan.decisionsToFollow != nil {
		return nil
	}
	if !plan.keepGoing {
		return plan.Graph.Infer()
	}
	if rejected := plan.Graph.InferAll(); len(rejected) > 0 {
		plan.Failed = append(plan.Failed, plan.Graph.RootErrors(rejected)...)
		plan.Graph = plan.Graph.WithoutRejected(rejected)
		plan.Note("%s", countText(len(rejected), "node refused", "nodes refused"))
	}
	return nil
}

// countText returns a number with its noun in the singular or plural. It returns "" for 0.
// It is not inlined, to save compile time: it has many callers, none of them hot.
//
//go:noinline
func countText(count int, singular, plural string) string {
	switch count {
	case 0:
		return ""
	case 1:
		return "1 " + singular
	}
	return fmt.Sprintf("%d %s", count, plural)
}
