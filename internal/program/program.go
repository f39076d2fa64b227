// Package program compiles graphs to programs. It implements the root package's Program.
//
// A [Program] has a [Binding] for each set of sizes of inputs: the graph with these sizes, its plan, and the compiled
// steps. Planning is expensive, so plans are shared. A [Specialization] has the decisions of one plan, and the
// conditions on sizes (guards) under which the decisions apply. For sizes that satisfy the guards, a binding applies
// the decisions without a search. The sizes of a run alone determine the specialization, and therefore the bits of
// results; earlier runs have no effect.
//
// If shapes depend on data, the graph has several parts, and a program has bindings for each part and for the sizes of
// the values that it reads. The bodies of loops and branches are run in the same way.
//
// The packages inspect and experiment use the exports of this package to describe and compare programs. Users of the
// module see only the methods of the root package's Program.
package program

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/lru"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/printable"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// ErrNoContext is the error of a nil context.
var ErrNoContext = errors.New("the context is nil: pass context.Background() if there is no other")

// ErrNotCompiled is the error of a nil or zero program.
var ErrNotCompiled = errors.New("the program was not made by Compile")

// Program is a compiled graph. It may be used from several goroutines at once.
//
// The dimensions of inputs may be symbols, such as N in a graph with an input of shape Nx3. A symbol is fixed if the
// options or the graph give its size for all runs. Otherwise it is open: each run takes its size from its inputs, and
// the program has a [Binding] for each set of sizes. If no input gives the size of an open symbol, its assumed size is
// used. A hint is a set of typical sizes of open symbols; Compile makes a plan for each hint.
type Program struct {
	graph           *graph.Graph              // the graph with the pins of the options; nil when nothing more is planned
	origin          weak.Pointer[graph.Graph] // the caller's graph: see SameOrigin
	options         Options
	device          graph.Device         // nil for the host
	hasOwnPasses    bool                 // whether Options.Passes was set
	needsInference  bool                 // the graph must be inferred again before planning
	fixedSizes      map[string]int       // sizes of symbols for all runs
	openSymbols     []string             // symbols whose sizes come from the inputs of runs, sorted
	assumedSizes    []int                // sizes of the open symbols where no input gives one
	strideHints     map[string]int       // hints of symbols that are not open: see checkHints
	hints           [][]int              // Options.Hints, by open symbol
	anchors         [][]int              // of the open program of a part, for which it is planned: see anchorsOf
	sharedSymbol    string               // see ShareSpecializations
	symbolicIndices []int                // indices of the inputs that have symbols
	symbolDims      []inputSymbols       // their dimensions, for runs
	refusedHints    []report.RefusedHint // hints, other than the first one, for which planning failed
	firstBinding    *Binding             // of the first hint, or of the assumed sizes

	planCount *atomic.Int64 // see Usage

	uploads  *exec.Uploads // the constants on the device
	pool     *tensor.Pool  // recycles the memory of results; they refer to the pool, not to the program
	bindings bindings      // of the whole graph and of its parts

	partsLock sync.Mutex                 // guards the fields below
	parts     *partList                  // the graph in parts: see sharedParts; nil if its shapes are known
	bodies    map[*graph.Graph]*partList // the bodies of loops and branches, in parts

	planningLock    interrupt.Mutex // guards specializations and regions; held while a specialization is planned
	specializations []*Specialization
	regions         []*region // sets of sizes at which inference takes the same branches

	nondegenerateLock  interrupt.Mutex // guards the fields below: see NondegenerateSizes
	nondegenerateFound bool
	nondegenerateSizes []int

	defaults        []*graph.Value // the inputs with defaults
	scalars         []string       // names of the inputs that are declared as scalars
	portsOnce       sync.Once      // guards inputs and outputs: see Ports
	inputs, outputs []graph.Port

	overridable *overridable // nil if no default is a constant of the program

	copyPricesOnce sync.Once
	copyPrices     *copyPrices // see WithoutCopy
}

// Compile plans a graph for the hints, or for its assumed sizes, and prepares it to be run.
func Compile(ctx context.Context, g *graph.Graph, options Options) (*Program, error) {
	if ctx == nil {
		return nil, ErrNoContext
	}
	program, err := New(g, options)
	if err != nil {
		return nil, err
	}
	hints := program.options.Hints
	if len(hints) == 0 {
		hints = []map[string]int{nil}
	}
	for i, hint := range hints {
		isFirst := i == 0
		if err := program.compileHint(ctx, hint, isFirst); err != nil {
			return nil, err
		}
	}
	if len(program.openSymbols) == 0 { // there are no other sizes to plan for
		program.graph = nil
		program.firstBinding.release()
	}
	return program, nil
}

// compileHint compiles the binding for a hint; nil stands for the assumed sizes. If planning fails for a hint other
// than the first one, compileHint adds the hint to refusedHints.
func (p *Program) compileHint(ctx context.Context, hint map[string]int, isFirst bool) error {
	const isHint = true
	binding, err := p.bindingForSizes(ctx, hint, isHint)
	switch {
	case err == nil:
		if isFirst {
			p.firstBinding = binding
		}
		return nil
	case interrupt.Err(ctx) != nil:
		return fmt.Errorf("compiling the graph: %w", err)
	case !isFirst:
		p.refusedHints = append(p.refusedHints, report.RefusedHint{Sizes: hint, Why: err.Error()})
		return nil
	case len(hint) > 0:
		return fmt.Errorf("for %s: %w", SizesText(hint), err)
	}
	return err
}

// New checks the options and finds the open symbols. It plans nothing; the first run does.
func New(g *graph.Graph, options Options) (*Program, error) {
	if g == nil {
		return nil, errors.New("the graph to compile is nil")
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	if constants := g.WithConstantDefaults(); constants != g {
		p, err := newProgram(constants, options)
		if err == nil {
			p.origin, p.overridable = weak.Make(g), newOverridable(g, options)
		}
		return p, err
	}
	return newProgram(g, options)
}

// newProgram is [New] for a graph whose defaults are not to be replaced by constants.
func newProgram(g *graph.Graph, options Options) (*Program, error) {
	if err := options.complete(g); err != nil {
		return nil, err
	}
	hasOwnPasses := options.Passes != nil
	if options.NoFusion {
		options.removeGroupPass()
	}
	program := &Program{graph: g, origin: weak.Make(g), options: options, fixedSizes: options.fixedSizes(g),
		strideHints: map[string]int{}, hasOwnPasses: hasOwnPasses, pool: new(tensor.Pool), uploads: new(exec.Uploads),
		planCount: new(atomic.Int64)}
	if err := program.storeCaches(); err != nil {
		return nil, err
	}
	g = program.graph
	var err error
	if program.device, err = options.openDevice(); err != nil {
		return nil, err
	}
	program.bindings = lru.NewWithIdle[bindingKey](maxBindings, program.maxBindingBytes(), maxArenas,
		(*Binding).dropSessions)
	program.defaults = slices.DeleteFunc(slices.Clone(g.Inputs), func(v *graph.Value) bool { return v.Default == nil })
	for _, v := range g.Inputs {
		if v.Meta.Rank() == 0 && !v.Dynamic {
			program.scalars = append(program.scalars, v.Name)
		}
	}
	program.findOpenSymbols()
	if err := program.checkHints(); err != nil {
		return nil, err
	}
	program.needsInference = len(g.Symbols) > 0 || len(options.Pins) > 0 || options.KeepGoing || !isInferred(g)
	if program.needsInference || g.Dynamic() || options.Cache != nil {
		program.graph = g.Clone() // runs read it, and the caller may change the original
	}
	if len(g.Symbols) > 0 { // also if all sizes are fixed: certificates are verified at fixed sizes
		program.graph.ReadPacked()
	}
	program.shareConstants()
	return program, program.addPins()
}

// isInferred reports whether the types of all values are known. A type that depends on data counts as known.
func isInferred(g *graph.Graph) bool {
	return !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		return len(n.Out) == 0 || !n.Out[0].Dynamic && !n.Out[0].Meta.DType.Valid()
	})
}

// addPins adds the pins of the options to the graph.
func (p *Program) addPins() error {
	for _, name := range sorted.Keys(p.options.Pins) {
		pin := p.options.Pins[name]
		if err := p.graph.Pin(name, pin); err != nil {
			return &graph.PinError{Name: name, Pin: pin, Err: err}
		}
	}
	return nil
}

// Run runs the program on inputs by name and returns the outputs by name. The root package documents it.
func (p *Program) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	defer machine.CollectIfDue()
	p, in, err := p.forInputs(in)
	if err == nil {
		in, err = p.withOwnCodes(in)
	}
	if err != nil {
		return nil, err
	}
	binding, err := p.bindingForInputs(ctx, in)
	if err != nil {
		return nil, err
	}
	texts := p.textsOf(in)
	var out map[string]*tensor.Tensor
	if binding.parts != nil {
		out, err = p.runInParts(ctx, binding, texts, in, nil /* new tensors */)
	} else {
		out, err = binding.Program.Run(ctx, in)
	}
	p.setTexts(in, out, texts)
	return out, binding.withFailed(err)
}

// withOwnCodes returns the inputs, with codes of this graph in place of those of another one, such as the model whose
// output the input was.
func (p *Program) withOwnCodes(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	g := p.sourceGraph()
	if g == nil || g.Texts == nil { // a nil graph: the program was not compiled, and the run fails
		return in, nil
	}
	var own map[string]*tensor.Tensor // a copy, once an input differs
	for name, t := range in {
		labels := g.Labels[name]
		if !labels.IsText() || t.Texts() == nil || g.Texts.HasListOf(t.Texts()) {
			continue
		}
		list, err := graph.Labels{Texts: t.Texts()}.Decode(t)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
		if own == nil {
			own = maps.Clone(in)
		}
		if own[name], err = labels.Encode(list, t.Shape...); err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
	}
	if own == nil {
		own = in
	}
	return own, nil
}

// textsOf returns the strings of a run with the given inputs: those of the graph, and those of the inputs. It returns
// nil if the graph has none.
func (p *Program) textsOf(in map[string]*tensor.Tensor) *tensor.Texts {
	texts := p.sourceGraph().Texts
	if texts == nil {
		return nil
	}
	return texts.With(slices.Collect(maps.Values(in))...)
}

// setTexts records the strings of a run in the outputs that are codes of strings: those of their elements or, for
// outputs in the memory of an input, all strings, because the input may have further elements.
func (p *Program) setTexts(in, out map[string]*tensor.Tensor, texts *tensor.Texts) {
	if texts == nil {
		return
	}
	byStorage := map[*tensor.Storage][]*tensor.Tensor{}
	for name, labels := range p.sourceGraph().Labels {
		if t := out[name]; t != nil && labels.IsText() {
			byStorage[t.Storage()] = append(byStorage[t.Storage()], t)
		}
	}
	for _, t := range in {
		if t == nil {
			continue // the default is used
		}
		if list := byStorage[t.Storage()]; len(list) > 0 {
			t.SetTexts(texts)
			delete(byStorage, t.Storage())
		}
	}
	for _, list := range byStorage {
		list[0].SetTexts(texts.Keep(list...))
	}
}

// RunInto runs the program like [Program.Run], and writes outputs into the caller's tensors. The root package documents
// it.
func (p *Program) RunInto(ctx context.Context, in, out map[string]*tensor.Tensor) error {
	defer machine.CollectIfDue()
	p, in, err := p.forInputs(in)
	if err == nil {
		in, err = p.withOwnCodes(in)
	}
	if err != nil {
		return err
	}
	binding, err := p.bindingForInputs(ctx, in)
	if err != nil {
		return err
	}
	outputs := binding.outputs()
	if p.options.KeepGoing { // some may be omitted
		outputs = binding.Graph.Outputs
	}
	if err := exec.CheckOutputs(outputs, out); err != nil {
		return err
	}
	texts := p.textsOf(in)
	defer p.setTexts(in, out, texts)
	if binding.parts == nil {
		return binding.withFailed(binding.Program.RunIntoNamed(ctx, in, out))
	}
	if out == nil {
		out = map[string]*tensor.Tensor{} // otherwise runInParts makes new tensors
	}
	_, err = p.runInParts(ctx, binding, texts, in, out)
	return binding.withFailed(err)
}

// Ports describes the inputs and outputs of a run: those of the graph as the caller gave it, with defaults as inputs.
// It infers the graph for unknown sizes. It returns nil for a program that was not compiled.
func (p *Program) Ports() (inputs, outputs []graph.Port) {
	g := p.sourceGraph()
	if g == nil {
		return nil, nil
	}
	if p.overridable != nil {
		g = p.overridable.graph
	}
	p.portsOnce.Do(func() { p.inputs, p.outputs, _ = g.Ports(p.options.Sizes) }) // the program was made with these sizes
	return slices.Clone(p.inputs), slices.Clone(p.outputs)
}

// Metadata returns the metadata of the graph. It returns nil for a program that was not compiled.
func (p *Program) Metadata() map[string]string {
	if g := p.sourceGraph(); g != nil {
		return maps.Clone(g.Metadata)
	}
	return nil
}

// Planned returns the graph with the layouts, copies and implementations of the plan, for the sizes of
// [Program.FirstBinding]. For a graph that runs in segments, it returns the inferred graph. The result must not be
// changed. It is nil for a nil program.
func (p *Program) Planned() *graph.Graph {
	switch binding := p.FirstBinding(); {
	case binding == nil:
		return nil
	case binding.Segmented():
		return binding.RunnableGraph
	default:
		return binding.Plan.Graph
	}
}

// Need returns the memory of a run at the sizes of [Program.FirstBinding]. For a segmented graph it returns the memory
// of the compiled segment.
func (p *Program) Need() exec.Need {
	if binding := p.FirstBinding(); binding != nil && binding.Program != nil {
		return binding.Program.Need()
	}
	return exec.Need{}
}

// CheckDevice returns an [*exec.MemoryError] if a run, for the sizes of [Program.Need], exceeds the memory of the
// device.
func (p *Program) CheckDevice() error {
	if binding := p.FirstBinding(); binding != nil && binding.Program != nil {
		return binding.Program.CheckDevice()
	}
	return nil
}

// CombinedNeed returns the memory of simultaneous runs of programs of one graph, which share inputs and constants.
func CombinedNeed(programs ...*Program) exec.Need {
	var list []*exec.Program
	for _, p := range programs {
		if binding := p.FirstBinding(); binding != nil && binding.Program != nil {
			list = append(list, binding.Program)
		}
	}
	return exec.CombinedNeed(list...)
}

// Options returns the options with their defaults. It is nil for a program that was not compiled.
func (p *Program) Options() *Options {
	if p == nil || p.options.Strategy == nil {
		return nil
	}
	return &p.options
}

// RefusedHints lists the hints, other than the first one, for which planning failed.
func (p *Program) RefusedHints() []report.RefusedHint { return slices.Clone(p.refusedHints) }

// HasOwnPasses reports whether the options had a list of passes.
func (p *Program) HasOwnPasses() bool { return p.hasOwnPasses }

// SameOrigin reports whether two programs were compiled from one graph in memory, which may have changed in between.
func (p *Program) SameOrigin(other *Program) bool {
	return p.origin == other.origin && p.FirstBinding() != nil && other.FirstBinding() != nil
}

// FirstBinding returns the binding that Compile made, for the first hint or the assumed sizes. It is nil for a nil or
// zero program.
func (p *Program) FirstBinding() *Binding {
	if p == nil {
		return nil
	}
	return p.firstBinding
}

// Compiled returns [Program.FirstBinding], or [ErrNotCompiled] if that is nil.
func (p *Program) Compiled() (*Binding, error) {
	if binding := p.FirstBinding(); binding != nil {
		return binding, nil
	}
	return nil, ErrNotCompiled
}

// SizesText lists sizes of symbols: "H=224, N=8".
func SizesText(sizes map[string]int) string {
	var list []string
	for _, name := range sorted.Keys(sizes) {
		list = append(list, fmt.Sprintf("%s=%d", printable.Text(name), sizes[name]))
	}
	return strings.Join(list, ", ")
}

// Infer infers the types of a graph. If nodes are rejected, the error is a [graph.Errors], without the nodes that are
// rejected only because they depend on another rejected node. Otherwise the error has the pins that do not fit the
// types. Infer stops when ctx ends.
func Infer(ctx context.Context, g *graph.Graph) error {
	if g == nil {
		return errors.New("there is no graph to infer: it is nil")
	}
	g.SetContext(ctx)
	defer g.SetContext(context.Background())
	rejected := g.InferAll()
	if ended := interrupt.Err(ctx); ended != nil {
		return fmt.Errorf("inferring types: %w", ended)
	}
	if len(rejected) > 0 {
		return g.RootErrors(rejected)
	}
	if errs := g.PinErrors(nil); len(errs) > 0 {
		return errs
	}
	return nil
}

// WithFile adds the path of a graph file to an error, unless the error already names a place in the file.
func WithFile(path string, err error) error {
	var located *graph.Error
	if errors.As(err, &located) && located.File != "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
