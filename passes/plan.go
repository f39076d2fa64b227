package passes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Options configure [Run].
type Options struct {
	// Context can cancel the work; the error then has the cause of the context. Run sets it as the context of the graph
	// ([graph.Graph.Context]), where passes and strategies find it. Nil means the graph's own context.
	Context context.Context
	// Options are those of the layout problem.
	layout.Options
	// Strategy chooses layouts and implementations; nil means [layout.Propagate]. [layout.Named] finds the built-in
	// strategies by name.
	Strategy layout.Strategy
	// Profile prices work; nil means [pricing.DefaultProfile].
	Profile *pricing.Profile
	// Passes is the list of passes; nil means [Passes].
	Passes []Pass
	// MemoryLimit is the maximum memory of a run in bytes, including folded constants. 0 means the limit of the
	// process. A negative number means no limit.
	MemoryLimit int
	// Threads is the maximum number of workers that pack constants; 0 or less means GOMAXPROCS.
	Threads int
	// Check verifies the graph after every pass. For small graphs it also evaluates the graph by reference before and
	// after the pass, on generated data, and compares the outputs. Errors name the pass. [Plan.Unchecked] lists the
	// parts that could not be evaluated.
	Check bool
	// Dump, if set, receives the graph as text after every pass.
	Dump io.Writer
	// Record fills [Plan.Decisions], for plans of the same graph at other sizes.
	Record bool
	// Inferred means that the graph is inferred: pass infer does nothing.
	Inferred bool
	// Follow, if set, has decisions for the same graph at other sizes. Run applies them without a search. The graph
	// must be inferred. Run returns a [*Misfit] if the decisions do not apply.
	Follow *Decisions
	// Template records what [Plan.TemplateOver] needs. It requires Follow, and a graph of [graph.Graph.Symbolic].
	Template bool
	// FoldStore, if set, returns the results of a folded node. It may return stored results instead of the results of
	// compute. It is called from several goroutines.
	FoldStore func(n *graph.Node, compute func() ([]*tensor.Tensor, error)) ([]*tensor.Tensor, error)
	// Price means that [Plan.CostNS] and [Plan.Copies] are computed even with Follow.
	Price bool
}

// Plan is the result of [Run]: the graph that runs, and a record of the changes.
type Plan struct {
	Graph    *graph.Graph
	Strategy string
	Passes   []report.Pass    // in the order of execution
	Copies   []Copy           // inserted copies that remain
	Elided   []report.Elision // removed nodes
	Folded   []report.Folding // nodes whose results became constants
	Packed   []report.Packing // packed constants
	// PackedInRuns lists the operands that kernels pack in every run.
	PackedInRuns []report.RunPacking
	// Decomposed lists the nodes that other nodes replace.
	Decomposed []report.Decomposition
	Groups     []Group          // fused nodes
	Unfused    []report.Unfused // pairs of nodes that could be fused but are not
	CostNS     float64          // sum of Cost over all nodes
	// Placed lists the values that are written directly into other values. SavedNS is the time saved by placements that
	// the strategy did not choose. CostNS + SavedNS is thus the cost that the strategy minimized, and the cost that a
	// certificate proves.
	Placed  []report.Placed
	SavedNS float64
	// Unchecked lists the parts of the graph that [Options.Check] could not compare. It is nil if Check compared
	// everything or was not set.
	Unchecked []report.Unchecked

	// Model and Solution are the layout problem and its solution if the strategy solves it exactly, otherwise nil.
	Model    *layout.Model
	Solution *wcsp.Solution
	// Preference describes the choice among plans of nearly equal cost. It is set by strategy Optimal.
	Preference *layout.Preference

	// Decisions are recorded with [Options.Record].
	Decisions *Decisions

	options Options // with defaults instead of zero values; the strategy may adjust the profile

	profileAdjusted  bool                            // the profile is adjusted to the constants of the graph
	pins             []pinnedValue                   // the pins that the plan must meet
	pinSources       map[*graph.Value]string         // by source of a pinned copy: name of the pinned value
	template         *Template                       // what [Options.Template] records; otherwise nil
	nodesToFold      map[int]bool                    // numbers of the nodes to fold; nil: the pass decides
	foldPasses       int                             // number of fold passes that have begun
	foldBudget       foldBudget                      // memory for results of folded nodes
	packedForms      map[memoryForm]bool             // forms of constants packed in the current fold pass
	packedResults    map[*graph.Node]foldedNode      // results of packInParallel in the current fold pass
	unpackedReads    func() map[*tensor.Storage]bool // storages that discardPacked keeps in the current fold pass
	discarded        discardedMemory                 // memory of packed constants
	placementsChosen graph.ByValue[bool]             // values in another value's buffer by the strategy's choice
	nodeCosts        graph.ByValue[nodeCost]         // cost of a node, by its first output
}

// Exact reports whether passes must keep roundings: see [Options.Exact].
func (p *Plan) Exact() bool { return p.options.Exact }

// Note adds a formatted text to [report.Pass.Did] of the running pass. It ignores an empty text.
func (p *Plan) Note(format string, args ...any) {
	if len(p.Passes) == 0 {
		return
	}
	record, text := &p.Passes[len(p.Passes)-1], fmt.Sprintf(format, args...)
	if record.Did != "" && text != "" {
		record.Did += ", "
	}
	record.Did += text
}

// Copy is a copy that a pass inserted. Why is the reason of the strategy; [Explainer.Explain] adds all other reasons.
type Copy struct {
	Node *graph.Node
	report.Copy
}

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
	if g, err = plannableGraph(g); err != nil {
		return nil, err
	}
	plan := newPlan(g, options)
	defer plan.dropContexts()
	if err := plan.checkDevicePins(); err != nil {
		return nil, err
	}
	if err := plan.runPasses(options); err != nil {
		return nil, err
	}
	plan.setBases(g)
	if plan.options.Price {
		plan.summarize()
	}
	const layoutsChosen = true
	if err := plan.checkPins(layoutsChosen); err != nil {
		return nil, err
	}
	return plan, nil
}

// plannableGraph returns the graph that can be run ([graph.Graph.Runnable]), or an error if the graph is invalid or
// dynamic.
func plannableGraph(g *graph.Graph) (*graph.Graph, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	runnable, err := g.Runnable()
	if err != nil {
		return nil, err
	}
	if runnable.Dynamic() {
		return nil, errors.New("shapes depend on data: the graph can run in segments, but cannot be planned as a whole")
	}
	return runnable, nil
}

// newPlan starts a plan for a copy of a graph.
func newPlan(g *graph.Graph, options Options) *Plan {
	plan := &Plan{Graph: g.Clone(), Strategy: options.Strategy.Name(), options: options,
		foldBudget: foldBudget{limit: options.MemoryLimit}}
	plan.options.Inferred = options.Inferred || options.Follow != nil
	plan.options.Price = options.Price || options.Follow == nil
	if options.Context != nil {
		plan.Graph.SetContext(options.Context)
	}
	plan.options.Context = plan.Graph.Context()
	if plan.options.Threads = min(options.Threads, runtime.GOMAXPROCS(0)); options.Threads <= 0 {
		plan.options.Threads = runtime.GOMAXPROCS(0)
	}
	plan.pins = pinsOf(plan.Graph)
	if options.Record {
		plan.Decisions = &Decisions{}
	}
	if options.Template {
		plan.template = &Template{}
	}
	return plan
}

// runPasses applies the passes. With [Options.Check] it checks the graph before the first pass and after each pass.
func (p *Plan) runPasses(options Options) error {
	var check *checker
	if options.Check {
		if err := graph.Verify(p.Graph, graph.Sorted); err != nil {
			return err
		}
		check = newChecker(p.Graph)
		p.Unchecked = check.unchecked
	}
	properties := graph.Sorted
	for _, pass := range options.Passes {
		if err := p.apply(pass, options.Dump); err != nil {
			return err
		}
		properties = properties&^pass.Breaks | pass.Makes
		if err := p.checkAfterPass(pass, properties, check); err != nil {
			return fmt.Errorf("after pass %s: %w", pass.Name, err)
		}
	}
	return nil
}

// apply runs one pass and records its outcome.
func (p *Plan) apply(pass Pass, dumpTo io.Writer) error {
	start := time.Now()
	p.Passes = append(p.Passes, report.Pass{Pass: pass.Name, Doc: pass.Doc})
	recordCount := len(p.Passes)
	err := pass.run(p)
	if contextErr := interrupt.Err(p.options.Context); contextErr != nil { // the result of a cancelled pass is not used
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
	record.Nodes, record.MS = len(p.Graph.Nodes), float64(time.Since(start).Microseconds())/1000
	if dumpTo != nil {
		fmt.Fprintf(dumpTo, "after %s: %s\n", pass.Name, pass.Doc)
		return p.Graph.WriteText(dumpTo, "  ")
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
		layoutsChosen := properties&graph.LaidOut != 0
		return p.checkPins(layoutsChosen)
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

// Cost returns the expected time of a node in nanoseconds, by the prices of the device or of one core of the host. It
// is 0 for views and for uploads of constants.
func (p *Plan) Cost(n *graph.Node) float64 {
	if n != nil && len(n.Out) > 0 {
		if known := p.nodeCosts.At(n.Out[0]); known.node == n {
			return known.ns
		}
	}
	return p.estimatedNS(n)
}

// nodeCost is the cost of a node, computed at the end of planning.
type nodeCost struct {
	node *graph.Node // to recognize nodes of a clone of the graph, whose values have the same indices in nodeCosts
	ns   float64
}

// summarize lists the remaining copies and adds up the costs.
func (p *Plan) summarize() {
	p.nodeCosts = graph.NewByValue[nodeCost](p.Graph)
	p.listPackings()
	if !p.profileAdjusted { // the layout pass, which adjusts the profile to the sizes of constants, did not run
		p.options.Profile = layout.ProfileFor(p.options.Profile, p.Graph)
	}
	for _, n := range p.Graph.Nodes {
		interrupt.Check(p.options.Context)
		cost := p.estimatedNS(n)
		if len(n.Out) > 0 {
			p.nodeCosts.Set(n.Out[0], nodeCost{n, cost})
		}
		p.CostNS += cost
		if !layout.IsInsertedCopy(n) {
			continue
		}
		from, to := n.In[0].Value.Meta, n.Out[0].Meta
		p.Copies = append(p.Copies, Copy{n, report.Copy{Value: n.In[0].Value.Name,
			From: append([]int{}, from.Strides...), To: append([]int{}, to.Strides...), Bytes: to.Bytes(), CostNS: cost,
			Why: n.Why}})
	}
	// The rounding errors of a sum depend on the order of nodes. Rounding to a picosecond removes the difference.
	p.CostNS = math.Round(pricing.PSPerNS*p.CostNS) / pricing.PSPerNS
}

// estimatedNS returns the estimated cost of a node in nanoseconds, by the prices of the host or device that computes
// the node.
func (p *Plan) estimatedNS(n *graph.Node) float64 {
	isOnHost := n == nil || p.options.Device == nil || !n.Impl.OnDevice() // nodeCostNS of a nil node is 0
	switch {
	case isOnHost:
		ns := nodeCostNS(n, p.options.Profile)
		if profile := p.options.Profile; profile != nil && len(profile.Prices) > 0 {
			if label, ok := layout.LabelOf(n); ok {
				ns *= profile.Ratio(label.Node, label.Op, label.Implementation, label.Order).Price
			}
		}
		return ns
	case n.UploadsConstant():
		return 0
	default:
		return nodeCostNS(n, p.options.Device.Prices())
	}
}

// nodeCostNS returns the cost of a node by the prices of a profile, in nanoseconds: the cost of its own work, plus the
// cost of reading each operand in its layout. If no implementation is chosen, it is the cost of the first
// implementation.
func nodeCostNS(n *graph.Node, profile *pricing.Profile) (ns float64) {
	for _, work := range n.WorkParts() {
		ns += float64(layout.PricePS(profile, work)) / pricing.PSPerNS
	}
	return ns
}

// DeviceOf returns the name of the device that runs a node. For a transfer, this is the device that it reads or
// writes. The name is empty for the host.
func (p *Plan) DeviceOf(n *graph.Node) string {
	if p == nil || p.options.Device == nil || n == nil || !n.Impl.OnDevice() {
		return ""
	}
	return p.options.Device.Name()
}

// ConstantBytes returns the total size of the graph's constants. The profile's prices of memory accesses depend on this
// size.
func (p *Plan) ConstantBytes() float64 {
	if p == nil || p.options.Profile == nil {
		return 0
	}
	return p.options.Profile.ConstantBytes()
}
