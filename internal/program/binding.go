package program

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/lru"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Binding is a program for one set of sizes: the graph with these sizes, its plan, and the compiled steps. Its fields
// must not be changed.
//
// A run gets its binding from bindingForInputs. If input x has the dimensions N and 3, a tensor of shape 8x3 gives the
// sizes N=8. The binding for N=8 is in a cache of the program, or bindingForSizes makes it: infer sets the sizes and
// types of the graph, and prepare plans and compiles it.
//
// Here N is an open symbol: each run takes its size from the inputs. A fixed symbol has one size for all runs. The
// lists of sizes in this file have one size for each open symbol, in the order of Program.openSymbols.
//
// A [Specialization] is a plan for many sets of sizes. The bindings for these sizes repeat its decisions.
//
// A graph whose shapes depend on data is not planned as a whole: runs find a binding for each of its parts (see
// bindingForPart), which are in the same cache. Only the fields Plan, Program, failed and those that the cache needs
// are set in the binding of a part, and call or parts.
type Binding struct {
	// Graph has sizes and is inferred. RunnableGraph is Graph without the nodes that failed before the run, or Graph
	// itself if there are none. Both are nil in a binding that follows the decisions of a specialization (unless
	// Options.KeepGoing is set), to save memory.
	Graph, RunnableGraph *graph.Graph
	// Plan is the plan of the graph. If shapes depend on data, Plan is the plan of the part that is compiled before the
	// first run, or nil if no part can be. It is nil in bindings of parts that runs compile, to save memory.
	Plan *passes.Plan
	// Program has the compiled steps of Plan, and is nil if no part was compiled before the first run.
	Program *exec.Program
	// Segment is the index of the part that Plan plans. It is negative if no part can be compiled before the first run.
	Segment     int
	CompileTime time.Duration // of inference, planning and compilation

	// sizes has the given sizes of open symbols. Open symbols without a given size have their assumed sizes.
	sizes         map[string]int
	isHint        bool            // the sizes are typical, and the plan becomes a Specialization for other sizes
	decisionsFrom *Specialization // the specialization with the decisions of Plan; nil if Plan is not shared
	failed        graph.Errors    // of the nodes that failed before the run, with Options.KeepGoing
	isPart        bool            // the binding of a part, whose inputs are in memory
	parts         *partList       // nil if all shapes are known
	graphOfParts  *graph.Graph    // the whole graph that runs in parts, at these sizes
	call          *graph.Call     // of a part that is a dynamic node: the call of its op; otherwise nil
	done          chan struct{}   // closed when compilation has ended and all other fields are set
	err           error           // error of compilation
	interrupted   bool            // whether compilation ended because the context of its caller ended

	// packedConstants maps names of constants in Graph to the packed constants of the plan. The unpacked data was
	// released from Graph: see release.
	packedConstants map[string]*graph.Value

	implsOnce sync.Once
	impls     map[string]*graph.Impl // see Implementations

	problemOnce sync.Once // guards the fields below: see ProblemOf
	problem     *layout.Problem
	problemErr  error
}

// Segmented reports whether shapes depend on data, so that the graph is planned in parts during runs.
func (b *Binding) Segmented() bool { return b.parts != nil }

// outputs returns the outputs of a run that planning did not remove.
func (b *Binding) outputs() []graph.Output {
	if b.parts != nil {
		return b.parts.graph.Outputs
	}
	return b.Program.Outputs()
}

// sourceGraph returns the graph that was compiled. If that graph was released, it returns the graph of the only
// binding. It returns nil for nil and for a program that was not compiled.
func (p *Program) sourceGraph() *graph.Graph {
	switch {
	case p == nil || p.graph == nil && p.firstBinding == nil:
		return nil
	case p.graph == nil:
		return p.firstBinding.Graph
	}
	return p.graph
}

// bindingForSizes returns the binding for the given sizes of open symbols. Symbols without a given size have their
// assumed sizes.
func (p *Program) bindingForSizes(ctx context.Context, given map[string]int, isHint bool) (*Binding, error) {
	sizes := p.listOfSizes(given)
	created := &Binding{sizes: given, isHint: isHint, done: make(chan struct{})}
	return p.cachedBinding(ctx, keyOf(sizes), created, func() error { return created.compile(ctx, p, sizes) })
}

// bindingForPart returns the binding of a part for the values that a run knows: [graph.Segment.Class] is the key. If
// isWhole is false, the part lacks some nodes, and the binding is for this run alone.
func (p *Program) bindingForPart(run *partsRun, part *graph.Segment, isWhole bool) (*Binding, error) {
	key := bindingKey{part: part}
	if isWhole {
		key.text = part.Class(run.knownValues)
		if found := p.findBinding(run.ctx, key); found != nil {
			return found, nil
		}
	}
	created := &Binding{isPart: true, done: make(chan struct{})}
	compile := func() error { return created.compilePart(run, part) }
	if !isWhole {
		return created, compile()
	}
	return p.cachedBinding(run.ctx, key, created, compile)
}

// cachedBinding returns the binding of a key. The first caller compiles it: it is `created`. Other callers wait until
// it is compiled or their own contexts end. If the context of the first caller ends, another caller compiles. If memory
// is short, cachedBinding empties the cache and compiles once more.
func (p *Program) cachedBinding(ctx context.Context, key bindingKey, created *Binding, compile func() error) (*Binding,
	error) {
	for {
		existing := p.bindings.Put(key, created) // the cached binding; if there is none, Put adds and returns created
		if existing == created {
			break // compile it
		}
		if err := interrupt.Wait(ctx, existing.done); err != nil {
			return nil, fmt.Errorf("waiting for the plan of another run: %w", err)
		}
		if !existing.interrupted {
			return existing, existing.err
		}
		// The context of the compiling caller has ended: try to become the caller that compiles.
	}
	created.err = errors.New("compilation ended in a panic") // replaced if there is none
	defer p.endCompilation(key, created)
	created.err = compile()
	isShortage := errors.As(created.err, new(*exec.MemoryError)) || errors.As(created.err, new(*tensor.MemoryError))
	if isShortage && p.bindings.Clear() {
		debug.FreeOSMemory() // collects the removed bindings now; otherwise their memory would still count as used
		created.err = compile()
	}
	created.interrupted = created.err != nil && interrupt.Err(ctx) != nil
	return created, created.err
}

// endCompilation updates the cache after the compilation of a binding, and releases the callers that wait for it. The
// next run tries again after an error, or if nodes of a part were omitted, because the reason may be transient, such as
// a lack of memory.
func (p *Program) endCompilation(key bindingKey, compiled *Binding) {
	if compiled.err != nil || compiled.isPart && len(compiled.failed) > 0 {
		p.bindings.Drop(key, compiled)
	} else {
		p.bindings.SetSize(key, compiled, compiled.estimatedBytes())
	}
	close(compiled.done)
}

// compile infers, plans and compiles the program's graph for the sizes of all open symbols.
func (b *Binding) compile(ctx context.Context, owner *Program, sizes []int) (err error) {
	defer tensor.CatchMemory(&err)
	defer interrupt.Catch(&err) // converts the panic of interrupt.Check to an error
	interrupt.Check(ctx)
	start := time.Now()
	defer func() { b.CompileTime = time.Since(start) }()
	if bound, err := b.bind(ctx, owner, sizes); bound || err != nil {
		return err
	}
	b.Graph, b.RunnableGraph = owner.graph, owner.graph
	if owner.needsInference {
		if err := b.infer(ctx, owner); err != nil {
			return err
		}
	}
	return b.prepare(ctx, owner, sizes)
}

// compilePart infers, plans and compiles a part of a graph for the values that a run knows.
func (b *Binding) compilePart(run *partsRun, part *graph.Segment) (err error) {
	defer panics.Recover(&err)
	if open, sizes := run.openProgram(part); open != nil {
		if bound, err := b.bindPart(run.ctx, open, sizes); bound || err != nil {
			return err
		}
	}
	partGraph, err := part.At(run.ctx, run.knownValues)
	if ended := interrupt.Err(run.ctx); ended != nil {
		return ended
	}
	defer func() {
		if partGraph != nil {
			partGraph.SetContext(context.Background()) // the graph is cached, and must not keep the context of this run
		}
	}()
	if err != nil { // inference has rejected a node
		if !run.keepGoing || partGraph == nil || part.Dynamic {
			return err
		}
		partGraph, b.failed = inferRest(partGraph)
	}
	switch {
	case part.Dynamic: // a single dynamic node
		b.call = partGraph.Nodes[0].Call()
		return nil
	case partGraph.Dynamic(): // shapes inside the part are still unknown
		b.parts = newPartList(partGraph)
		return nil
	}
	return b.plan(run.ctx, run.owner, partGraph, planMode{inRun: !run.beforeRun,
		keepGoing: run.keepGoing})
}

// infer sets Graph to a copy of the program's graph with sizes and types, and sets RunnableGraph.
func (b *Binding) infer(ctx context.Context, owner *Program) error {
	b.Graph = owner.graph.Clone()
	b.Graph.SetContext(ctx)
	defer b.Graph.SetContext(context.Background())
	if err := owner.bind(b.Graph, b.sizes); err != nil {
		return err
	}
	if err := b.Graph.InlineControlFlow(); err != nil {
		return err
	}
	b.RunnableGraph = b.Graph
	if !owner.options.KeepGoing {
		return b.Graph.PinCause(Infer(ctx, b.Graph))
	}
	b.RunnableGraph, b.failed = inferRest(b.Graph)
	interrupt.Check(ctx)
	b.RunnableGraph.SetContext(context.Background())
	return nil
}

// bind gives sizes to the symbols of a copy of the program's graph: the sizes in openSizes, the fixed sizes, and the
// assumed sizes for the remaining symbols. Assumed sizes stay marked as assumed.
func (p *Program) bind(g *graph.Graph, openSizes map[string]int) error {
	sizes := g.BoundSizes()
	if sizes == nil {
		return nil
	}
	assumed := g.Assumed()
	maps.Copy(assumed, p.strideHints)
	maps.Copy(sizes, p.strideHints)
	maps.Copy(sizes, p.fixedSizes)
	maps.Copy(sizes, openSizes)
	if err := g.BindWithoutInference(sizes); err != nil {
		return err
	}
	for name, n := range assumed {
		_, fixed := p.fixedSizes[name]
		if _, given := openSizes[name]; !given && !fixed {
			g.Assume(name, n)
		}
	}
	return nil
}

// withFailed adds the nodes that failed before the run to err, the error of the run. Outputs that err lists as missing
// count as not computed.
func (b *Binding) withFailed(err error) error {
	if len(b.failed) == 0 {
		return err
	}
	var incomplete *exec.Incomplete // it escapes to the heap
	if err != nil && !errors.As(err, &incomplete) {
		return err
	}
	computed := map[string]bool{}
	for _, output := range b.outputs() {
		computed[output.Name] = true
	}
	failed := slices.Clone(b.failed)
	if incomplete != nil {
		failed = append(failed, incomplete.Failed...)
		for _, missing := range incomplete.MissingOutputs {
			delete(computed, missing.Output)
		}
	}
	return exec.IncompleteError(b.Graph, failed, func(name string) bool { return computed[name] })
}

// Implementations describes runs with given sizes of the open symbols. It returns the implementations of all nodes, by
// name, and the specialization whose decisions the runs follow. An implementation may differ from the choice of the
// specialization, for example if that choice supports only few rows. Both results are nil if runs with these sizes have
// a plan of their own. Implementations compiles the program for the sizes if necessary.
func (p *Program) Implementations(ctx context.Context, sizes []int) (map[string]*graph.Impl, *Specialization, error) {
	const isHint = false
	binding, err := p.bindingForSizes(ctx, p.SizesByName(sizes), isHint)
	if err != nil || binding.decisionsFrom == nil {
		return nil, nil, err
	}
	binding.implsOnce.Do(func() { binding.impls = ImplsOf(binding.Plan.Graph) })
	return binding.impls, binding.decisionsFrom, nil
}

// FoldOrders returns the orders of sums in runs with given sizes of the open symbols: see [exec.Program.FoldOrders].
// The program is compiled for the sizes if necessary.
func (p *Program) FoldOrders(ctx context.Context, sizes []int) (map[string]string, error) {
	const isHint = false
	binding, err := p.bindingForSizes(ctx, p.SizesByName(sizes), isHint)
	if err != nil || binding.Program == nil {
		return nil, err
	}
	return binding.Program.FoldOrders(), nil
}

// ImplsOf returns the implementations of the nodes of a planned graph, by name.
func ImplsOf(g *graph.Graph) map[string]*graph.Impl {
	impls := make(map[string]*graph.Impl, len(g.Nodes))
	for _, n := range g.Nodes {
		impls[n.Name] = n.Impl
	}
	return impls
}

// Unplanned returns a binding for the fixed and assumed sizes whose graph is inferred but not planned. Callers may use
// only Graph, RunnableGraph and [Program.ProblemOf].
func (p *Program) Unplanned(ctx context.Context) (*Binding, error) {
	binding := new(Binding)
	return binding, binding.infer(ctx, p)
}

// bindings is a cache of bindings, bounded in their number and in the memory that they hold in addition to their
// specializations.
type bindings = lru.Cache[bindingKey, *Binding]

// maxBindings bounds the number of bindings, because the limit on memory alone would admit very many bindings of a
// small graph.
const maxBindings = 1024

// maxArenas is the number of bindings that keep the memory of their runs: the most recently used ones. The memory of
// others is in the pool of the program, where the next binding finds it.
const maxArenas = 4

// minBindingBytes is the least bound on the memory of all bindings.
const minBindingBytes = 16 << 20

// maxBindingBytes returns the bound on the memory of all bindings, without the memory of runs: a sixteenth of the
// memory of the constants, because a large graph has large bindings. For a graph in parts, the bound includes the
// memory of runs; 0 stands for a half of the memory of the machine.
func (p *Program) maxBindingBytes() int {
	if p.graph.Dynamic() {
		return max(p.options.MemoryLimit, 0)
	}
	constants := 0
	for _, v := range p.graph.Constants {
		constants += v.Meta.Bytes()
	}
	return max(minBindingBytes, constants/16)
}

// estimatedBytes estimates the memory of a binding, without the memory of its runs and without the constants that it
// shares with its specialization.
func (b *Binding) estimatedBytes() int {
	const stepBytes = 2 << 10               // approximate size of the data structures of a step
	if b.Program == nil || b.parts != nil { // the parts have their own bindings
		return stepBytes
	}
	bytes := stepBytes * b.Program.StepCount()
	if need := b.Program.Need(); b.isPart { // bindings of parts keep the memory of their runs: see dropSessions
		bytes += need.Arena + need.Scratch
		if b.decisionsFrom == nil {
			bytes += need.Packed
		}
	}
	return bytes
}

// dropSessions frees the sessions of the binding: the memory that it keeps for later runs. Each run of a graph in parts
// uses the sessions of all parts, so bindings of parts keep them until they are evicted.
func (b *Binding) dropSessions(isEvicted bool) {
	select {
	case <-b.done:
		if b.Program != nil && (isEvicted || !b.isPart && b.parts == nil) {
			b.Program.DropSessions()
		}
	default: // it is being compiled
	}
}

// release frees the data of weights if runs read only their packed copies. The binding's graph then lacks this data;
// [Binding.WithAllConstants] unpacks it on request. The caller's graph is not changed. release is called only if the
// program makes no further plans, because a plan needs the data.
func (b *Binding) release() {
	if b.Plan == nil || b.RunnableGraph != b.Graph || b.Segmented() {
		return
	}
	packed, keptStorages := b.packedWeights()
	g, freedBytes := b.Graph.Clone(), 0
	b.packedConstants = map[string]*graph.Value{}
	for _, v := range g.Constants {
		packedConstant, storage := packed[v.Name], v.Const.Storage()
		if packedConstant == nil || v.Packed != nil || keptStorages[storage] {
			continue
		}
		if !sameAddresses(packedConstant.Packed.Meta, v.Const.Meta) {
			continue
		}
		freedBytes += storage.Len()
		b.packedConstants[v.Name], v.Const = packedConstant, &tensor.Tensor{Meta: v.Const.Meta}
	}
	b.Graph, b.RunnableGraph = g, g
	if freedBytes >= minReturnedBytes {
		debug.FreeOSMemory()
	}
}

// packedWeights returns the packed constants of the plan by the name of the weight, and the storages that the plan
// needs.
func (b *Binding) packedWeights() (packed map[string]*graph.Value, keptStorages map[*tensor.Storage]bool) {
	packed, keptStorages = map[string]*graph.Value{}, map[*tensor.Storage]bool{}
	for _, v := range b.Plan.Graph.Constants {
		keptStorages[v.Const.Storage()] = true
		switch original := v.Packed.Kept(); {
		case original != nil: // it cannot be restored from the packed data
			keptStorages[original.Storage()] = true
		case v.Packed != nil:
			packed[v.Packed.Of] = v
		}
	}
	return packed, keptStorages
}

// sameAddresses reports whether two metas have each element at the same address in a storage.
func sameAddresses(a, b tensor.Meta) bool {
	return a.DType == b.DType && a.Offset == b.Offset && a.SameLayout(b)
}

// minReturnedBytes is a minimum: if at least this many bytes were freed, memory is returned to the system immediately.
// This takes some milliseconds, less than reading the weights. Otherwise the process would keep the memory for minutes,
// because the garbage collector rarely runs in a process that hardly allocates.
const minReturnedBytes = 16 << 20

// WithAllConstants returns the graph with the data of all constants.
func (b *Binding) WithAllConstants() *graph.Graph {
	if len(b.packedConstants) == 0 {
		return b.Graph
	}
	g := b.Graph.Clone()
	for _, v := range g.Constants {
		if packed := b.packedConstants[v.Name]; packed != nil {
			v.Const = packed.Data()
		}
	}
	return g
}
