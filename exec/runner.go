package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/lru"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/tensor"
)

// Planner chooses layouts and inserts copies before compilation (passes.Run). With KeepGoing, it may return a graph
// without the nodes that it rejects, together with a [graph.Errors] for these nodes.
type Planner func(*graph.Graph) (*graph.Graph, error)

// Runner runs any graph. A graph with known shapes is compiled once. A graph with data-dependent shapes is divided
// into segments once ([graph.Graph.Segments]). A segment is planned and compiled once for each class of input values
// ([graph.Segment.Class]), when it first runs with values of this class. The bodies of loops and branches are
// compiled in the same way.
//
// For example, the graph neg(nonzero(relu(x))) has three segments: relu, then nonzero, whose result shape depends on
// data, and then neg. The segment neg is compiled once for each number of nonzero elements that occurs.
//
// A Runner is safe for concurrent use. It caches the most recently used programs. The cache is limited to
// [Options.MemoryLimit] bytes or, without such a limit, to half of the memory available to the process.
type Runner struct {
	graph   *graph.Graph
	planner Planner
	options Options

	// For a static graph: one whose shapes do not depend on data.
	staticProgram *Program     // nil for other graphs
	rejectedNodes graph.Errors // errors of the nodes that planning rejected

	// For other graphs.
	segmented    *segmentedGraph // nil for a static graph
	segmentCache segmentCache
	mu           sync.Mutex                       // guards bodies
	bodies       map[*graph.Graph]*segmentedGraph // segments of the bodies of loops and branches
}

// NewRunner prepares a graph, which must be sorted and inferred.
func NewRunner(g *graph.Graph, plan Planner, options Options) (*Runner, error) {
	if g == nil || plan == nil {
		return nil, errors.New("the graph or the planner is nil")
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	g, err := g.Runnable()
	if err != nil {
		return nil, err
	}
	if options.Pool == nil {
		options.Pool = new(tensor.Pool)
	}
	runner := &Runner{graph: g, planner: plan, options: options, bodies: map[*graph.Graph]*segmentedGraph{}}
	runner.options.Context = nil // it limits only the compilation below, not the preparation of segments in runs
	runner.options.Tracer = newSafeTracer(options.Tracer)
	runner.segmentCache.entries = lru.New[classKey, *cacheEntry](maxEntries, max(options.MemoryLimit, 0))
	if g.Dynamic() {
		runner.segmented = newSegmentedGraph(g)
		return runner, nil
	}
	runner.staticProgram, runner.rejectedNodes, err = runner.planAndCompile(g, options)
	if len(runner.rejectedNodes) == 0 {
		runner.graph = nil // otherwise the Runner would keep the original data of packed constants alive
	}
	return runner, err
}

// RunnerOf returns a runner of a compiled program.
func RunnerOf(program *Program) *Runner { return &Runner{staticProgram: program} }

// Program returns the compiled program, or nil for a graph that runs in segments.
func (r *Runner) Program() *Program { return r.staticProgram }

// PrepareBeforeRun prepares the first segment whose shapes are known before a run ([graph.Segment.GraphBeforeRun]), for
// inputs in the declared layouts. It returns the index of the segment and its program. It returns -1 and nil if the
// graph has no segments, or if no segment has known shapes. It stops when ctx ends.
func (r *Runner) PrepareBeforeRun(ctx context.Context) (index int, program *Program, err error) {
	if r.segmented == nil {
		return -1, nil, nil
	}
	for i := range r.segmented.segments {
		segment := &r.segmented.segments[i]
		if err := interrupt.Err(ctx); err != nil {
			return -1, nil, err
		}
		if segmentGraph, err := segment.GraphBeforeRun(ctx); err != nil || segmentGraph == nil || segmentGraph.Dynamic() {
			continue // the segment depends on data, or runs report the error
		}
		known := make(map[*graph.Value]*tensor.Tensor, len(r.graph.Inputs)+len(segment.In))
		for _, v := range slices.Concat(r.graph.Inputs, segment.In) {
			known[v] = &tensor.Tensor{Meta: v.Meta} // only the meta of the tensor is read
		}
		key := classKey{segment, segment.Class(known)}
		prepared, err := r.segmentCache.getOrPrepare(ctx, key, func() (*preparedSegment, error) {
			return r.prepare(ctx, segment, known, r.options.KeepGoing)
		})
		if err != nil {
			return -1, nil, err
		}
		return i, prepared.program, nil
	}
	return -1, nil, nil
}

// planAndCompile plans and compiles a graph. With KeepGoing, rejected has the errors of the nodes that planning
// rejected.
func (r *Runner) planAndCompile(g *graph.Graph, options Options) (_ *Program, rejected graph.Errors, err error) {
	planned, err := r.planner(g)
	isPartial := options.KeepGoing && planned != nil && errors.As(err, &rejected) // planned lacks the rejected nodes
	if err != nil && !isPartial {
		return nil, nil, err
	}
	program, err := Compile(planned, options)
	if ctxErr := interrupt.Err(options.Context); ctxErr != nil && err != nil {
		return nil, nil, ctxErr
	}
	return program, rejected, err
}

// prepare prepares a segment for known values. The result is a program, the call of the segment's dynamic node, or, if
// shapes inside the segment are still unknown, its inner segments. With keepGoing, the nodes that inference or planning
// rejects are omitted. prepare stops when ctx ends.
func (r *Runner) prepare(ctx context.Context, segment *graph.Segment, known map[*graph.Value]*tensor.Tensor,
	keepGoing bool) (_ *preparedSegment, err error) {
	defer panics.Recover(&err)
	segmentGraph, err := segment.At(ctx, known)
	defer func() {
		if segmentGraph != nil { // the graph is cached, and must not keep the context of this run
			segmentGraph.SetContext(context.Background())
		}
	}()
	prepared := &preparedSegment{}
	if ctxErr := interrupt.Err(ctx); ctxErr != nil {
		return nil, ctxErr
	}
	if err != nil { // inference has rejected a node
		if !keepGoing || segmentGraph == nil || segment.Dynamic {
			return nil, err
		}
		segmentGraph, prepared.failed = inferWithOmissions(segmentGraph)
	}
	switch {
	case segment.Dynamic: // a single dynamic node
		prepared.call = segmentGraph.Nodes[0].Call()
		return prepared, nil
	case segmentGraph.Dynamic(): // shapes inside the segment are still unknown
		prepared.innerSegments = newSegmentedGraph(segmentGraph)
		return prepared, nil
	}
	options := r.options
	options.Context, options.InputsInMemory, options.KeepGoing = ctx, true, keepGoing
	program, rejected, err := r.planAndCompile(segmentGraph, options)
	prepared.program, prepared.failed = program, append(prepared.failed, rejected...)
	return prepared, err
}

// inferWithOmissions returns a segment without the nodes that inference rejects, and the errors of these nodes. A node
// that is removed only because it depends on a rejected node has no error.
func inferWithOmissions(segmentGraph *graph.Graph) (*graph.Graph, graph.Errors) {
	rejected := segmentGraph.InferAll()
	return segmentGraph.WithoutRejected(rejected), segmentGraph.RootErrors(rejected)
}

// Run runs the graph on inputs by name, like [Program.Run].
func (r *Runner) Run(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if r.staticProgram != nil {
		outputs, err := r.staticProgram.Run(ctx, inputs)
		return outputs, r.addRejectedNodes(err)
	}
	var caller *callerOutputs // no tensors are given for the outputs
	results, err := r.runInSegments(ctx, inputs, caller)
	if err != nil && !errors.As(err, new(*Incomplete)) {
		return nil, err
	}
	outputs := map[string]*tensor.Tensor{}
	for i, result := range results {
		if result != nil {
			outputs[r.graph.Outputs[i].Name] = result
		}
	}
	return outputs, err
}

// RunInto runs the graph like [Runner.Run], and writes each output into the tensor that out holds under its name.
// Such a tensor must have the dtype and shape of the output. Its strides are arbitrary, but no two elements may
// overlap. If the program would give the output the same strides, the last kernel writes the tensor directly.
// Otherwise the output is copied into the tensor. Bytes between the elements are not written. Outputs without a
// tensor in out are dropped.
//
// A tensor may be the tensor of an input, which the run then overwrites. This is not permitted if the graph runs in
// segments, or if an output is a view of the input. A tensor may not share memory with an input in any other way, with
// a constant or with another tensor. If it does, RunInto writes nothing and returns an error that names the tensor.
// After other errors the contents of the tensors are arbitrary. With [Options.KeepGoing], only the contents of outputs
// that the [*Incomplete] lists are arbitrary. Unknown names in out are then ignored, because the graph may be a part of
// a larger graph.
func (r *Runner) RunInto(ctx context.Context, in, out map[string]*tensor.Tensor) error {
	outputs := r.outputs()
	if !r.options.KeepGoing {
		if err := CheckOutputs(outputs, out); err != nil {
			return err
		}
	}
	if r.staticProgram != nil {
		return r.addRejectedNodes(r.staticProgram.runNamedInto(ctx, in, out))
	}
	given := make([]*tensor.Tensor, len(outputs))
	for i, output := range outputs {
		given[i] = out[output.Name]
	}
	_, err := r.runInSegments(ctx, in, newCallerOutputs(outputs, given))
	return err
}

// outputs returns the outputs of the graph that planning did not remove.
func (r *Runner) outputs() []graph.Output {
	if r.staticProgram != nil {
		return r.staticProgram.outputs
	}
	return r.graph.Outputs
}

// runInSegments checks the inputs, puts them in their declared layouts, and calls runSegments. It returns the outputs
// in order. If caller is not nil, it writes the outputs to the tensors that the caller gave.
func (r *Runner) runInSegments(ctx context.Context, inputs map[string]*tensor.Tensor, caller *callerOutputs) (
	results []*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	if ctx == nil {
		return nil, errNoContext
	}
	inputs = graph.FillDefaults(r.graph.Inputs, inputs) // makeReleasable must know them
	orderedInputs := make([]*tensor.Tensor, len(r.graph.Inputs))
	if err := orderInputs(r.graph.Inputs, inputs, orderedInputs); err != nil {
		return nil, err
	}
	for i, v := range r.graph.Inputs {
		if err := checkInput(v, orderedInputs[i]); err != nil {
			return nil, err
		}
	}
	if err := caller.check(r.graph, orderedInputs); err != nil {
		return nil, err
	}
	if err := r.putInLayout(ctx, orderedInputs); err != nil {
		return nil, err
	}
	var parent *Run // nil: a caller started this run
	results, err = r.runSegments(ctx, parent, r.segmented, orderedInputs, r.options.KeepGoing, caller)
	if err != nil && !errors.As(err, new(*Incomplete)) {
		return nil, err
	}
	if caller == nil {
		if ownErr := r.ownOutputs(ctx, results, orderedInputs); ownErr != nil {
			return nil, ownErr
		}
		r.makeReleasable(results, inputs)
		return results, err
	}
	if copyErr := caller.copyRemaining(ctx, results, r.options.Threads); copyErr != nil {
		return nil, copyErr
	}
	return results, err
}

// putInLayout replaces the inputs by tensors with the declared layouts, copied if necessary.
func (r *Runner) putInLayout(ctx context.Context, inputs []*tensor.Tensor) (err error) {
	for i, v := range r.graph.Inputs {
		input := inputs[i]
		if !input.SameAddresses(v.Meta) || input.Offset != v.Meta.Offset {
			if input, err = pooledCopy(ctx, r.options.Pool, input, v.Meta, r.options.Threads); err != nil {
				return err
			}
		}
		inputs[i] = tensor.Must(input.View(v.Meta))
	}
	return nil
}

// makeReleasable makes it possible to release the memory of outputs ([tensor.Tensor.Release]), except outputs in the
// memory of an input. Without this call, memory that RunDynamic of an op allocated could not be released.
func (r *Runner) makeReleasable(outputs []*tensor.Tensor, inputs map[string]*tensor.Tensor) {
	adopted := map[*tensor.Storage]*tensor.Storage{} // the pool's storage for each storage; inputs keep their own
	for _, input := range inputs {
		adopted[input.Storage()] = input.Storage()
	}
	for i, output := range outputs {
		if output == nil || output.Storage().Releasable() {
			continue
		}
		pooled := adopted[output.Storage()]
		if pooled == nil {
			pooled = r.options.Pool.Adopt(output.Storage())
			adopted[output.Storage()] = pooled
		}
		outputs[i] = tensor.Must(tensor.FromStorage(output.Meta, pooled))
	}
}

// addRejectedNodes adds the nodes that planning rejected to the error of a static run.
func (r *Runner) addRejectedNodes(err error) error {
	if len(r.rejectedNodes) == 0 {
		return err
	}
	return AddFailures(err, r.graph, r.rejectedNodes, r.staticProgram.outputs)
}

// AddFailures returns err, the error of a run, together with failed, the errors of nodes that failed before the run.
// whole is the graph that contains the failed nodes. outputs are the outputs of the run. Outputs that err lists as
// missing count as not computed.
func AddFailures(err error, whole *graph.Graph, failed graph.Errors, outputs []graph.Output) error {
	var incomplete *Incomplete
	if err != nil && !errors.As(err, &incomplete) {
		return err
	}
	computed := map[string]bool{}
	for _, output := range outputs {
		computed[output.Name] = true
	}
	failed = slices.Clone(failed)
	if incomplete != nil {
		failed = append(failed, incomplete.Failed...)
		for _, missing := range incomplete.MissingOutputs {
			delete(computed, missing.Output)
		}
	}
	return IncompleteError(whole, failed, func(name string) bool { return computed[name] })
}

// nodeRuntime implements [graph.Runtime]: it gives an op with RunDynamic access to the run that calls the op.
type nodeRuntime struct {
	runner    *Runner
	ctx       context.Context
	tracedRun *Run // nil without a tracer
}

// Context returns the context of the run.
func (rt nodeRuntime) Context() context.Context { return rt.ctx }

// Run runs a subgraph. The inputs are in the order of the subgraph. Run fails if any node of the subgraph fails.
func (rt nodeRuntime) Run(subgraph *graph.Graph, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if rt.ctx.Err() != nil {
		return nil, context.Cause(rt.ctx)
	}
	segmented, err := rt.runner.segmentsOfBody(subgraph)
	if err != nil {
		return nil, err
	}
	if len(inputs) != len(subgraph.Inputs) {
		return nil, fmt.Errorf("the graph has %d inputs, but %d tensors were given", len(subgraph.Inputs), len(inputs))
	}
	for i, input := range inputs {
		if err := input.Check(); err != nil {
			return nil, fmt.Errorf("input %q: %w", subgraph.Inputs[i].Name, err)
		}
	}
	const keepGoing = false   // the subgraph fails as a whole
	var caller *callerOutputs // no tensors are given for the outputs
	return rt.runner.runSegments(rt.ctx, rt.tracedRun, segmented, inputs, keepGoing, caller)
}

// maxBodies is the maximum number of cached bodies. Only an op that creates graphs at run time can need more.
const maxBodies = 1024

// segmentsOfBody returns a subgraph in segments, from the cache if possible.
func (r *Runner) segmentsOfBody(subgraph *graph.Graph) (*segmentedGraph, error) {
	if subgraph == nil {
		return nil, errors.New("the graph to run is nil")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if segmented := r.bodies[subgraph]; segmented != nil {
		return segmented, nil
	}
	if err := subgraph.Err(); err != nil {
		return nil, err
	}
	if len(r.bodies) >= maxBodies {
		clear(r.bodies)
	}
	segmented := newSegmentedGraph(subgraph)
	r.bodies[subgraph] = segmented
	return segmented, nil
}
