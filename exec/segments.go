package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs graphs with data-dependent shapes. A segment is a part of a graph whose shapes are known once its
// input values are known. It is either a subgraph, which is compiled to a program, or a single dynamic node. The op of
// a dynamic node has a [graph.Lowerings.RunDynamic], because its result shapes depend on data. A run (runSegments)
// executes the segments in order: by runCompiled, or by runDynamicNode for a dynamic node. Both prepare the segment for
// the values that are known at this time, and store the results. The run then drops the values that no later segment
// reads. For example, the graph neg(nonzero(relu(x))) has three segments: relu; nonzero, a dynamic node; and neg.
//
// A prepared segment is a program, the call of a dynamic node or, if shapes inside the segment are still unknown, its
// inner segments. Runs share it in a cache. With keepGoing, a run continues after failures. It then runs only the nodes
// of a segment whose operands exist, and this part of a segment is not cacheable.

// segmentedGraph is a graph divided into segments. It is immutable, so all runs share it.
type segmentedGraph struct {
	graph        *graph.Graph
	segments     []graph.Segment
	dynamicIndex []int // indexed by segment: number of earlier segments of dynamic nodes
	dynamicCount int   // number of segments of dynamic nodes
	// lastReads[i] lists the values that segment i reads and no later segment reads.
	lastReads [][]*graph.Value
}

// newSegmentedGraph divides a graph into segments.
func newSegmentedGraph(g *graph.Graph) *segmentedGraph {
	segmented := &segmentedGraph{graph: g, segments: g.Segments()}
	segmented.dynamicIndex = make([]int, len(segmented.segments))
	for i, segment := range segmented.segments {
		segmented.dynamicIndex[i] = segmented.dynamicCount
		if segment.Dynamic {
			segmented.dynamicCount++
		}
	}
	segmented.findLastReads()
	return segmented
}

// findLastReads finds, for each value, the last segment that reads the value. If no segment reads the value, it finds
// the segment that produces it. Outputs are kept. Inputs are kept too, because the caller holds them and their shapes
// bind symbols.
func (segmented *segmentedGraph) findLastReads() {
	segmented.lastReads = make([][]*graph.Value, len(segmented.segments))
	isKeptOrReadLater := graph.NewByValue[bool](segmented.graph)
	for _, list := range [][]*graph.Value{segmented.graph.Inputs, segmented.graph.Constants} {
		for _, v := range list {
			isKeptOrReadLater.Set(v, true)
		}
	}
	for _, output := range segmented.graph.Outputs {
		isKeptOrReadLater.Set(output.Value, true)
	}
	for i, segment := range slices.Backward(segmented.segments) {
		results := segment.Out
		if segment.Dynamic {
			results = segment.Nodes[0].Out // all outputs of a dynamic node are stored
		}
		// AttrInputs are the values that the attributes of the segment's nodes mention.
		for _, list := range [][]*graph.Value{segment.In, segment.AttrInputs, results} {
			for _, v := range list {
				if !isKeptOrReadLater.At(v) {
					isKeptOrReadLater.Set(v, true)
					segmented.lastReads[i] = append(segmented.lastReads[i], v)
				}
			}
		}
	}
}

// isSingleSegment reports whether the graph is a single compiled segment, so that a run of the graph is a run of one
// program.
func (segmented *segmentedGraph) isSingleSegment() bool {
	return len(segmented.segments) == 1 && segmented.dynamicCount == 0
}

// segmentRun is the state of one run of a graph in segments.
type segmentRun struct {
	nodeRuntime
	*segmentedGraph
	knownValues map[*graph.Value]*tensor.Tensor // inputs, and results of segments
	keepGoing   bool                            // whether the run continues after failed nodes
	// sharedConstants has the storages of constants that results of dynamic nodes share: see recordSharedConstant.
	sharedConstants map[*tensor.Storage]bool

	callerOutputs *callerOutputs // nil if no tensors are given for outputs
	traced        bool           // whether the tracer observes the steps: set by beginRun

	failed        graph.Errors
	missingValues map[*graph.Value]bool // values that are missing because of failures
}

// runSegments runs a graph in segments and returns its outputs in order. With keepGoing, the error may be an
// [*Incomplete]. Outputs that were not computed are then nil.
func (r *Runner) runSegments(ctx context.Context, parent *Run, segmented *segmentedGraph, inputs []*tensor.Tensor,
	keepGoing bool, caller *callerOutputs) (_ []*tensor.Tensor, err error) {
	run := &segmentRun{nodeRuntime: nodeRuntime{runner: r, ctx: ctx, tracedRun: parent}, segmentedGraph: segmented,
		keepGoing: keepGoing, callerOutputs: caller,
		knownValues: make(map[*graph.Value]*tensor.Tensor, 2*len(inputs)), missingValues: map[*graph.Value]bool{}}
	for i, v := range segmented.graph.Inputs {
		run.knownValues[v] = inputs[i]
	}
	if r.options.Tracer != nil && !segmented.isSingleSegment() {
		run.beginRun(parent)
		defer func() {
			r.options.Tracer.EndRun(run.tracedRun, err)
			err = run.tracedRun.tracerPanic.errorOrPanic(err)
		}()
	}
	for i := range segmented.segments {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		segment := &segmented.segments[i]
		switch err := run.runSegment(i); {
		case err == nil:
		case ctx.Err() != nil: // the cause replaces the error of the segment
			return nil, context.Cause(ctx)
		case !keepGoing:
			return nil, err
		default: // the run continues
			run.recordFailure(segment, err)
		}
		for _, v := range segmented.lastReads[i] {
			run.dropValue(v)
		}
	}
	return run.outputs()
}

// runSegment runs segment i. If some operands of its nodes are missing, it runs only the nodes whose operands exist.
func (run *segmentRun) runSegment(i int) error {
	segment, isCacheable := &run.segments[i], true
	if len(run.missingValues) > 0 {
		remaining := segment.Without(run.missingValues)
		if len(remaining.Nodes) == 0 {
			return nil
		}
		if len(remaining.Nodes) < len(segment.Nodes) {
			segment, isCacheable = &remaining, false
		}
	}
	if segment.Dynamic {
		return run.runDynamicNode(segment, run.dynamicIndex[i], isCacheable)
	}
	return run.runCompiled(segment, isCacheable)
}

// runCompiled runs a segment that is not a dynamic node, and stores its results.
func (run *segmentRun) runCompiled(segment *graph.Segment, isCacheable bool) error {
	prepared, err := run.prepareSegment(segment, isCacheable)
	if err != nil {
		return err
	}
	failed := slices.Clone(prepared.failed)
	resultsByName, err := run.runPrepared(segment, prepared)
	var incomplete *Incomplete
	if errors.As(err, &incomplete) {
		failed = append(failed, incomplete.Failed...)
	} else if err != nil {
		return err
	}
	for _, v := range segment.Out {
		if result := resultsByName[v.Name]; result != nil {
			run.knownValues[v] = result
		}
	}
	if len(failed) > 0 {
		return &Incomplete{Failed: failed}
	}
	return nil
}

// runPrepared runs the program or the inner segments of a segment. It returns the results by name.
func (run *segmentRun) runPrepared(segment *graph.Segment, prepared *preparedSegment) (
	byName map[string]*tensor.Tensor, err error) {
	inputs := make([]*tensor.Tensor, len(segment.In))
	for i, v := range segment.In {
		inputs[i] = run.knownValues[v]
	}
	var outputs []graph.Output
	var results []*tensor.Tensor
	if prepared.innerSegments != nil {
		var caller *callerOutputs // nil: copyRemaining copies the results to the caller's tensors later
		outputs = prepared.innerSegments.graph.Outputs
		results, err = run.runner.runSegments(run.ctx, run.tracedRun, prepared.innerSegments, inputs, run.keepGoing,
			caller)
	} else {
		outputs = prepared.program.outputs
		results = run.callerOutputs.writableTensors(run.segmentedGraph, segment, prepared.program)
		err = prepared.program.runInto(run.ctx, run.tracedRun, inputs, results)
	}
	byName = make(map[string]*tensor.Tensor, len(results))
	for i, result := range results {
		byName[outputs[i].Name] = result
	}
	return byName, err
}

// prepareSegment returns a prepared segment. If isCacheable is true, prepareSegment uses the cache, whose key is the
// segment and its class. The class is a text with the dtypes, shapes and strides of the operands, and with all other
// known values on which the shapes of the segment depend. If isCacheable is false, the segment lacks some nodes, and
// prepareSegment prepares it for this run alone.
func (run *segmentRun) prepareSegment(segment *graph.Segment, isCacheable bool) (*preparedSegment, error) {
	prepare := func() (*preparedSegment, error) {
		return run.runner.prepare(run.ctx, segment, run.knownValues, run.keepGoing)
	}
	if !isCacheable {
		return prepare()
	}
	return run.runner.segmentCache.getOrPrepare(run.ctx, classKey{segment, segment.Class(run.knownValues)}, prepare)
}

// runDynamicUntraced runs a dynamic node; runDynamicNode also traces it.
func (run *segmentRun) runDynamicUntraced(segment *graph.Segment, isCacheable bool) (err error) {
	defer panics.Recover(&err)
	n := segment.Nodes[0]
	prepared, err := run.prepareSegment(segment, isCacheable)
	if err != nil {
		return err
	}
	results, err := n.Op.RunDynamic(run.nodeRuntime, prepared.call, run.operandsOf(n))
	if err != nil {
		return err
	}
	if len(results) != len(n.Out) {
		return fmt.Errorf("the op returned %d values, but \"outputs\" names %d", len(results), len(n.Out))
	}
	for i, v := range n.Out {
		if run.knownValues[v], err = run.inPinnedLayout(results[i], n.Pin); err != nil {
			return err
		}
		run.recordSharedConstant(n, run.knownValues[v])
	}
	return nil
}

// operandsOf returns the operands of a dynamic node. A number becomes a tensor with one element.
func (run *segmentRun) operandsOf(n *graph.Node) []*tensor.Tensor {
	operands := make([]*tensor.Tensor, len(n.In))
	for i, arg := range n.In {
		switch arg.Kind {
		case graph.TensorArg:
			operands[i] = arg.Value.Const
			if operands[i] == nil {
				operands[i] = run.knownValues[arg.Value]
			}
		case graph.NumberArg:
			operands[i] = arg.Number.Tensor(arg.Number.DType())
		}
	}
	return operands
}

// recordSharedConstant records a result that shares memory with a constant operand, such as the result of a branch that
// returns its input. The run must neither release this memory nor return it as an output.
func (run *segmentRun) recordSharedConstant(n *graph.Node, result *tensor.Tensor) {
	sharesMemory := func(arg graph.Arg) bool {
		return arg.Kind == graph.TensorArg && arg.Value.Const != nil && arg.Value.Const.Storage() == result.Storage()
	}
	if result == nil || !slices.ContainsFunc(n.In, sharesMemory) {
		return
	}
	if run.sharedConstants == nil {
		run.sharedConstants = map[*tensor.Storage]bool{}
	}
	run.sharedConstants[result.Storage()] = true
}

// inPinnedLayout returns a tensor in its pinned layout, which the user demands, copied if necessary.
func (run *segmentRun) inPinnedLayout(t *tensor.Tensor, pin graph.Pin) (*tensor.Tensor, error) {
	if t == nil || pin.Matches(t.Meta) {
		return t, nil
	}
	meta, err := pin.Apply(t.Meta)
	if err != nil {
		return nil, err
	}
	return run.copyOf(t, meta)
}

// copyOf returns a copy of a tensor with the layout meta, from the start of new memory.
func (run *segmentRun) copyOf(t *tensor.Tensor, meta tensor.Meta) (*tensor.Tensor, error) {
	meta.Offset = 0
	return pooledCopy(run.ctx, run.runner.options.Pool, t, meta, run.runner.options.Threads)
}

// recordFailure records the error of a segment and marks the results that the segment did not compute as missing.
func (run *segmentRun) recordFailure(segment *graph.Segment, err error) {
	var incomplete *Incomplete
	if errors.As(err, &incomplete) {
		run.failed = append(run.failed, incomplete.Failed...)
	} else if nodeErr, ok := err.(*graph.Error); ok {
		run.failed = append(run.failed, nodeErr)
	} else {
		run.failed = append(run.failed, &graph.Error{Err: err}) // the error concerns the whole segment
	}
	for _, v := range segment.Out {
		if run.knownValues[v] == nil {
			run.missingValues[v] = true
		}
	}
}

// dropValue removes a value that has no further reader. The memory returns to the pool unless another value shares it.
func (run *segmentRun) dropValue(v *graph.Value) {
	dropped := run.knownValues[v]
	delete(run.knownValues, v)
	if dropped == nil || !dropped.Storage().Releasable() || run.sharedConstants[dropped.Storage()] {
		return
	}
	for _, other := range run.knownValues {
		if other != nil && other.Storage() == dropped.Storage() {
			return
		}
	}
	_ = dropped.Release()
}

// outputs returns the outputs in their pinned layouts.
func (run *segmentRun) outputs() (_ []*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	isComputed := map[string]bool{}
	out := make([]*tensor.Tensor, len(run.graph.Outputs))
	for i, output := range run.graph.Outputs {
		if out[i], err = run.output(output); err != nil {
			return nil, err
		}
		isComputed[output.Name] = out[i] != nil
	}
	return out, IncompleteError(run.graph, run.failed, func(name string) bool { return isComputed[name] })
}

// output returns an output in its pinned layout. With callerOutputs, it returns the output as computed, because
// copyRemaining copies it to the caller's tensor. It returns nil for an output that was not computed. With keepGoing,
// it also returns nil for an output that cannot have its pinned layout.
func (run *segmentRun) output(output graph.Output) (*tensor.Tensor, error) {
	result := run.knownValues[output.Value]
	if output.Value.Const != nil {
		result = output.Value.Const
	}
	if result == nil || run.callerOutputs != nil {
		return result, nil
	}
	isGraphData := output.Value.Const != nil || run.sharedConstants[result.Storage()]
	if output.Pin.Matches(result.Meta) {
		if isGraphData { // the caller must not get the graph's own data
			return run.copyOf(result, result.Meta)
		}
		return result, nil
	}
	meta, err := output.Pin.Apply(result.Meta)
	switch {
	case err == nil:
		return run.copyOf(result, meta)
	case run.keepGoing:
		run.failed = append(run.failed, run.graph.OutputError(output, err))
		return nil, nil
	}
	return nil, fmt.Errorf("output %q: %w", output.Name, err)
}

// withoutNode removes the node from an error that will be wrapped with the same node.
func withoutNode(n *graph.Node, err error) error {
	if nodeErr, ok := err.(*graph.Error); ok && nodeErr.Node == n.Name {
		return nodeErr.Err
	}
	return err
}
