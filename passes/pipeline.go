package passes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Pass is one rewrite of the graph. [Run] checks that what a pass needs was made before it and not
// broken since; under [Options.Check] the verifier holds what was made after every pass.
type Pass struct {
	Name string
	Doc  string // what it does, in one sentence
	// Needs must hold before the pass. Breaks may not hold after it, so that another pass must make it
	// again for those that need it; Makes holds after it, and all else that held before.
	Needs, Makes, Breaks graph.Props
	// Rounds says that results may be rounded otherwise after the pass: where values are compared under
	// Check, they need only be near.
	Rounds bool
	// Levels says, of a pass that Rounds, that quantised numbers may come to neighbouring levels after it: near is what
	// differs by one, or by a twentieth of the largest value.
	Levels bool
	Run    func(p *Plan) error
}

// final is what must hold of the graph that runs.
const final = graph.Sorted | graph.Typed | graph.LaidOut

// pipeline is the way from the graph as written to the graph as run.
var pipeline = []Pass{
	{Name: "infer", Doc: "gives every value eager PyTorch's dtype, shape and layout",
		Needs: graph.Sorted, Makes: graph.Typed, Run: inferTypes},
	{Name: "restate", Doc: "states products of quantised numbers as products of bytes, and moves such numbers as bytes, " +
		"states products of 16-bit floats as those of float32, equations of labels as products, and products by repeated " +
		"matrices by each of them once",
		Needs: graph.Typed, Rounds: true, Levels: true, Run: restate},
	{Name: "decompose", Doc: "states composite ops as nodes of other ops",
		Needs: graph.Typed, Rounds: true, Run: decompose},
	{Name: "fold", Doc: "computes what depends on constants alone", Needs: graph.Typed, Rounds: true, Run: foldConstants},
	{Name: "group", Doc: "makes one loop of pointwise nodes that go over the same elements",
		Needs: graph.Typed, Run: groupNodes},
	{Name: "dead", Doc: "drops nodes and constants that no output needs, so that no layout is chosen for their sake",
		Needs: graph.Sorted, Run: dropDead},
	{Name: "layout", Doc: "chooses layouts and implementations by the strategy, inserts the copies that these " +
		"need, and drops " +
		"those that nobody needs, with permutations that undo one another",
		Needs: graph.Typed, Makes: graph.LaidOut, Run: layOut},
	{Name: "fold", Doc: "computes the copies of constants",
		Needs: graph.Typed | graph.LaidOut, Rounds: true, Run: foldConstants},
	{Name: "lower", Doc: "has constants packed into the forms in which the chosen implementations read them",
		Needs: graph.Typed | graph.LaidOut, Run: packConstants},
	{Name: "fold", Doc: "packs constants",
		Needs: graph.Typed | graph.LaidOut, Rounds: true, Run: foldConstants},
	{Name: "dead", Doc: "drops nodes and constants that no output needs", Needs: graph.Sorted, Run: dropDead},
	{Name: "place", Doc: "has values written where the results of nodes that join them have them",
		Needs: graph.Typed | graph.LaidOut, Run: placeResults},
}

// Passes returns the list of passes that [Run] applies where [Options.Passes] gives none. The list is the
// caller's to change: see [Before] and [After].
func Passes() []Pass { return slices.Clone(pipeline) }

// Before returns a list with a pass inserted before the first one of a name. The error tells that the
// list has none of that name.
func Before(list []Pass, name string, p Pass) ([]Pass, error) {
	i := slices.IndexFunc(list, func(p Pass) bool { return p.Name == name })
	return inserted(list, i, i, name, p)
}

// After returns a list with a pass inserted after the last one of a name. The error tells that the list
// has none of that name.
func After(list []Pass, name string, p Pass) ([]Pass, error) {
	i := len(list) - 1
	for i >= 0 && list[i].Name != name {
		i--
	}
	return inserted(list, i, i+1, name, p)
}

// inserted inserts a pass at a place, which was found where found is not negative.
func inserted(list []Pass, found, at int, name string, p Pass) ([]Pass, error) {
	if found >= 0 {
		return slices.Insert(slices.Clone(list), at, p), nil
	}
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
	}
	hint := ""
	if near := words.Nearest(name, slices.Values(names)); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return nil, fmt.Errorf("there is no pass %q in the list%s", name, hint)
}

// checkList reports where a list of passes cannot do: a pass that needs what does not hold when it
// comes, or a graph that could not be run at the end.
func checkList(list []Pass) error {
	props, broken := graph.Sorted, map[graph.Props]string{}
	for i, p := range list {
		switch {
		case p.Name == "":
			return fmt.Errorf("pass %d has no name", i)
		case p.Run == nil:
			return fmt.Errorf("pass %s does nothing: its Run is nil", p.Name)
		}
		if unknown := (p.Needs | p.Makes | p.Breaks) &^ final; unknown != 0 {
			return fmt.Errorf("pass %s tells of properties that there are not: %#x", p.Name, uint(unknown))
		}
		if missing := p.Needs &^ props; missing != 0 {
			return fmt.Errorf("pass %s needs a graph that is %v%s", p.Name, missing, whoBroke(missing, broken))
		}
		props = props&^p.Breaks | p.Makes
		for _, one := range p.Breaks.Each() {
			broken[one] = p.Name
		}
	}
	if missing := final &^ props; missing != 0 {
		return fmt.Errorf("after all passes the graph is not %v%s", missing, whoBroke(missing, broken))
	}
	return nil
}

// whoBroke names the pass that broke a property last.
func whoBroke(missing graph.Props, broken map[graph.Props]string) string {
	for _, one := range missing.Each() {
		if name := broken[one]; name != "" {
			return fmt.Sprintf(": pass %s broke it, and no pass makes it again", name)
		}
	}
	return ": no pass before makes it so"
}

// Options choose what Run does.
type Options struct {
	// Context ends the work when it ends: the error has its cause. Passes and strategies find it as the context of the
	// graph ([graph.Graph.Context]). Nil: the graph's own.
	Context context.Context
	// Strategy chooses layouts and implementations; nil means [layout.Propagate]. [layout.Named] finds
	// those that are always there.
	Strategy layout.Strategy
	// Profile prices work; nil means [layout.DefaultProfile].
	Profile *layout.Profile
	// Passes is the list that is applied; nil means [Passes].
	Passes []Pass
	// MemoryLimit bounds the bytes that a run may need, as it does for the program: constants are
	// computed ahead only as far as there is room for them. 0 means what the process may have,
	// negative that nobody asks.
	MemoryLimit int
	// Threads bounds the workers that pack constants; 0 or less means GOMAXPROCS.
	Threads int
	// Check verifies the graph after every pass, and evaluates small graphs by reference
	// before and after it, on data that is made up. An error names the pass; what could not
	// be evaluated, and why, is in [Plan.Unchecked].
	Check bool
	// Dump, if set, receives the graph after every pass as text.
	Dump io.Writer
	// Record has [Plan.Decisions] noted, for plans of the same graph with other sizes.
	Record bool
	// Exact has all nodes computed by the formulas of their definitions: implementations that are
	// [graph.Impl.Inexact] are left out.
	Exact bool
	// SolveLimit is how long strategies search for what elimination does not settle: [layout.Problem.SolveLimit].
	SolveLimit time.Duration
	// Follow, if set, are decisions of the same graph with other sizes, which are taken instead of being made: nothing
	// is searched for, and nothing priced unless Price says so. The graph must be inferred. The error is a [*Misfit]
	// where they do not fit.
	Follow *Decisions
	Price  bool
	// KeepGoing drops nodes that are refused, and what depends on them, instead of failing
	// on the first: see Plan.Failed.
	KeepGoing bool
}

// Plan is the outcome: the graph as it will run, and what was done to it.
type Plan struct {
	Graph    *graph.Graph
	Strategy string
	Passes   []Done    // what each pass did, in their order
	Copies   []Copy    // inserted copies that are left
	Elided   []Elision // nodes that were dropped
	Folded   []Folding // nodes whose results are constants now
	Packed   []Packing // constants in the forms of implementations
	// PackedInRuns lists the operands that implementations want in a form and are packed in every run.
	PackedInRuns []RunPacking
	// Decomposed lists the nodes of composite ops, for which others run.
	Decomposed []Decomposition
	Groups     []Group // nodes that run as one
	Apart      []Apart // nodes that could, and do not, though one reads the other
	CostNS     float64 // sum of Cost over all nodes
	// Placed lists the values that are written within others. SavedNS is what that saves where the strategy did not
	// know of it: what it chose, and certificates are of, costs CostNS + SavedNS.
	Placed  []Placed
	SavedNS float64
	// Failed lists the nodes that were refused, each for a reason of its own, where the
	// passes were to keep going.
	Failed graph.Errors
	// Unchecked is what Options.Check could not compare; nil where it compared everything,
	// or was not asked.
	Unchecked []Unchecked

	// Model and Solution are the problem of layouts and what solves it, of a strategy that states it exactly; nil of
	// others.
	Model    *layout.Model
	Solution *wcsp.Solution

	// Decisions are what was decided, where [Options.Record] asked for them.
	Decisions *Decisions

	ctx       context.Context
	follow    *Decisions
	only      map[int]bool        // numbers of the nodes that may fold; nil: those that are worth it
	foldings  int                 // how many passes that fold have begun
	weighed   bool                // the strategy has weighed the copies in the graph, too
	within    graph.ByValue[bool] // the values that are written within others in the strategy's costs
	pins      []pinned
	unpinned  map[*graph.Value]string // the sources of pinned copies, and the names of those copies
	strategy  layout.Strategy
	profile   *layout.Profile
	priced    bool // the profile is that of the problem of layouts, for its constants
	keepGoing bool
	exact     bool
	// solveLimit is [Options.SolveLimit].
	solveLimit time.Duration
	room       foldBudget
	threads    int
	packed     map[*graph.Node]foldedNode // of the pass that folds: see packAhead
	costs      graph.ByValue[costOf]      // by the first output
}

// Done is what a pass did: Did in a few words, empty for nothing; the nodes that the graph has after it;
// and the time that it took.
type Done struct {
	Name, Doc string
	Did       string
	Nodes     int
	Took      time.Duration
}

// Note says what the pass that is running did, in a few words: what the plan shows of it.
func (p *Plan) Note(format string, args ...any) {
	if len(p.Passes) == 0 {
		return
	}
	d, text := &p.Passes[len(p.Passes)-1], fmt.Sprintf(format, args...)
	if d.Did != "" && text != "" {
		text = d.Did + ", " + text
	}
	d.Did = text
}

// Copy is a copy that a pass inserted: of which value, between which strides (in
// elements), the bytes of the value, what it costs by [Plan.Cost], and why.
type Copy struct {
	Node     *graph.Node
	Value    string
	From, To []int
	Bytes    int
	CostNS   float64
	Why      string
}

// Elision is a node that was dropped, and why.
type Elision struct{ Node, Why string }

// Run plans a graph, which must be sorted and is not changed. Constants are shared with it, but for those
// that are computed.
func Run(g *graph.Graph, o Options) (_ *Plan, err error) {
	defer recovered(&err)
	if g == nil {
		return nil, errors.New("there is no graph to plan: it is nil")
	}
	if o.Strategy == nil {
		o.Strategy = layout.Propagate
	}
	if o.Passes == nil {
		o.Passes = pipeline
	}
	if err := checkList(o.Passes); err != nil {
		return nil, err
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	if g, err = g.Settled(); err != nil {
		return nil, err
	}
	if g.Dynamic() {
		return nil, errors.New("shapes depend on data: the graph can be run, piece by piece, but not planned as a whole")
	}
	p := newPlan(g, o)
	defer p.settle()
	var check *checker
	if o.Check {
		if err := graph.Verify(p.Graph, graph.Sorted); err != nil {
			return nil, err
		}
		check = newChecker(g)
		check.some = o.KeepGoing
		p.Unchecked = check.unchecked
	}
	props := graph.Sorted
	for _, pass := range o.Passes {
		if err := p.apply(pass, o.Dump); err != nil {
			return nil, err
		}
		props = props&^pass.Breaks | pass.Makes
		var err error
		switch {
		case o.Check:
			err = check.after(p.Graph, props, pass)
		case !pass.known(): // a graph with parts that do not belong to it would run, on memory that nobody wrote
			err = graph.Verify(p.Graph, graph.Sorted&props)
		}
		if err == nil && o.Check {
			err = p.checkPins(props&graph.LaidOut != 0)
		}
		if err != nil {
			return nil, fmt.Errorf("after pass %s: %w", pass.Name, err)
		}
	}
	if o.Follow == nil || o.Price {
		p.summarise()
	}
	return p.checked()
}

// newPlan begins a plan of a graph.
func newPlan(g *graph.Graph, o Options) *Plan {
	p := &Plan{Graph: g.Clone(), Strategy: o.Strategy.Name(), strategy: o.Strategy, profile: o.Profile,
		keepGoing: o.KeepGoing, exact: o.Exact, solveLimit: o.SolveLimit,
		room: foldBudget{limit: o.MemoryLimit}, follow: o.Follow}
	if o.Context != nil {
		p.Graph.SetContext(o.Context)
	}
	p.ctx = p.Graph.Context()
	if p.threads = min(o.Threads, runtime.GOMAXPROCS(0)); o.Threads <= 0 {
		p.threads = runtime.GOMAXPROCS(0)
	}
	p.pins = pinsOf(p.Graph)
	if o.Record {
		p.Decisions = &Decisions{}
	}
	return p
}

// apply runs one pass and notes what it did.
func (p *Plan) apply(pass Pass, w io.Writer) error {
	start := time.Now()
	p.Passes = append(p.Passes, Done{Name: pass.Name, Doc: pass.Doc})
	at := len(p.Passes)
	err := pass.run(p)
	if ended := ends.Err(p.ctx); ended != nil { // the result of the pass does not matter
		return fmt.Errorf("pass %s: %w", pass.Name, ended)
	}
	if err != nil {
		return pass.named(err)
	}
	switch {
	case p.Graph == nil:
		return fmt.Errorf("pass %s leaves no graph", pass.Name)
	case len(p.Passes) != at:
		return fmt.Errorf("pass %s changed the list of passes that were applied", pass.Name)
	}
	d := &p.Passes[len(p.Passes)-1]
	d.Nodes, d.Took = len(p.Graph.Nodes), time.Since(start)
	if w != nil {
		fmt.Fprintf(w, "after %s: %s\n", pass.Name, pass.Doc)
		dump(w, p.Graph)
	}
	return nil
}

// settle removes the context from the graphs that the plan keeps.
func (p *Plan) settle() {
	if p.Graph != nil {
		p.Graph.SetContext(context.Background())
	}
	if p.Model != nil && p.Model.Problem != nil && p.Model.Problem.Graph != nil {
		p.Model.Problem.Graph.SetContext(context.Background())
	}
}

// known reports whether a pass is one of those of package passes.
func (p Pass) known() bool {
	return slices.ContainsFunc(pipeline, func(q Pass) bool { return q.Name == p.Name })
}

// named puts the name of somebody's own pass before its error, unless that begins with a place.
func (p Pass) named(err error) error {
	var one *graph.Error
	var many graph.Errors
	if p.known() || errors.As(err, &one) || errors.As(err, &many) {
		return err
	}
	return fmt.Errorf("pass %s: %w", p.Name, err)
}

// run is Run, of which a panic is an error too: passes are people's own code.
func (p Pass) run(plan *Plan) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = panicked(x)
		}
	}()
	return p.Run(plan)
}

func inferTypes(p *Plan) error {
	if p.follow != nil {
		return nil
	}
	if !p.keepGoing {
		return p.Graph.Infer()
	}
	if refused := p.Graph.InferAll(); len(refused) > 0 {
		p.Failed = append(p.Failed, p.Graph.RootErrors(refused)...)
		p.Graph = p.Graph.Drop(refused)
		p.Note("%s", counted(len(refused), "node refused", "nodes refused"))
	}
	return nil
}

// counted is a number with its noun; empty for none.
func counted(n int, one, many string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// summarise lists the inserted copies that are left and adds the costs up.
func (p *Plan) summarise() {
	p.costs = graph.NewByValue[costOf](p.Graph)
	p.packings()
	if !p.priced {
		p.profile = layout.For(p.profile, p.Graph)
	}
	for _, n := range p.Graph.Nodes {
		ends.Look(p.ctx)
		cost := cost(n, p.profile)
		if len(n.Out) > 0 {
			p.costs.Set(n.Out[0], costOf{n, cost})
		}
		p.CostNS += cost
		if n.Why == "" || n.IsView() || n.Packing() != nil || len(n.In) == 0 || n.In[0].Kind != graph.TensorArg {
			continue
		}
		from, to := n.In[0].Value.Meta, n.Out[0].Meta
		p.Copies = append(p.Copies, Copy{Node: n, Value: n.In[0].Value.Name, From: from.Strides, To: to.Strides,
			Bytes: to.Bytes(), CostNS: cost, Why: n.Why})
	}
	p.CostNS = math.Round(1000*p.CostNS) / 1000 // whole picoseconds, in whatever order the nodes are
}
