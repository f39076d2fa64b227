package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs graphs with data-dependent shapes. A segment is a part of a graph whose shapes are known once its
// input values are known. It is either a subgraph, which is compiled to a program, or a single dynamic node: a node of
// an op with [graph.Lowerings.RunDynamic], whose result shapes depend on data.

// segmentedGraph is a graph divided into segments. It is immutable, so all runs share it.
type segmentedGraph struct {
	graph        *graph.Graph
	segments     []graph.Segment
	dynamicIndex []int // by segment: its index among the segments of dynamic nodes
	dynamicCount int   // number of segments of dynamic nodes
	// lastReads lists, by segment, the values that no later segment reads.
	lastReads [][]*graph.Value
}

// newSegmentedGraph divides a graph into segments.
func newSegmentedGraph(g *graph.Graph) *segmentedGraph {
	c := &segmentedGraph{graph: g, segments: g.Segments()}
	c.dynamicIndex = make([]int, len(c.segments))
	for i, s := range c.segments {
		c.dynamicIndex[i] = c.dynamicCount
		if s.Dynamic {
			c.dynamicCount++
		}
	}
	c.findLastReads()
	return c
}

// findLastReads finds, for each value, the last segment that reads the value. If no segment reads the value, it finds
// the segment that produces it. Outputs are kept. Inputs are kept too, because the caller holds them and their shapes
// bind symbols.
func (c *segmentedGraph) findLastReads() {
	c.lastReads = make([][]*graph.Value, len(c.segments))
	seen := graph.NewByValue[bool](c.graph)
	for _, list := range [][]*graph.Value{c.graph.Inputs, c.graph.Constants} {
		for _, v := range list {
			seen.Set(v, true)
		}
	}
	for _, o := range c.graph.Outputs {
		seen.Set(o.Value, true)
	}
	for i, s := range slices.Backward(c.segments) {
		results := s.Out
		if s.Dynamic {
			results = s.Nodes[0].Out // all outputs of a dynamic node are stored
		}
		for _, list := range [][]*graph.Value{s.In, s.Awaits, results} {
			for _, v := range list {
				if !seen.At(v) {
					seen.Set(v, true)
					c.lastReads[i] = append(c.lastReads[i], v)
				}
			}
		}
	}
}

// isSingleSegment reports whether the graph is a single compiled segment, so that a run of the graph is a run of one
// program.
func (c *segmentedGraph) isSingleSegment() bool { return len(c.segments) == 1 && c.dynamicCount == 0 }

// segmentRun is the state of one run of a graph in segments.
type segmentRun struct {
	nodeRuntime
	*segmentedGraph
	knownValues map[*graph.Value]*tensor.Tensor // inputs, and results of segments
	keepGoing   bool                            // continue after failed nodes
	// sharedConstants has the storages of constants that results of dynamic nodes share: see recordSharedConstant.
	sharedConstants map[*tensor.Storage]bool

	traced bool // the tracer observes the steps

	failed        graph.Errors
	missingValues map[*graph.Value]bool // values that are missing because of failures

	callerOutputs *callerOutputs // nil if no tensors are given for outputs
}

// runSegments runs a graph in segments and returns its outputs in order. With keepGoing, the error may be an
// [*Incomplete]. Outputs that were not computed are then nil.
func (r *Runner) runSegments(ctx context.Context, parent *Run, c *segmentedGraph, in []*tensor.Tensor,
	keepGoing bool, given *callerOutputs) (_ []*tensor.Tensor, err error) {
	p := &segmentRun{nodeRuntime: nodeRuntime{r: r, ctx: ctx, run: parent}, segmentedGraph: c,
		keepGoing: keepGoing, callerOutputs: given,
		knownValues: make(map[*graph.Value]*tensor.Tensor, 2*len(in)), missingValues: map[*graph.Value]bool{}}
	for i, v := range c.graph.Inputs {
		p.knownValues[v] = in[i]
	}
	if r.options.Tracer != nil && !c.isSingleSegment() {
		p.beginRun(parent)
		defer func() {
			r.options.Tracer.EndRun(p.run, err)
			err = p.run.tracerPanic.errorOrPanic(err)
		}()
	}
	for i := range c.segments {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s := &c.segments[i]
		switch err := p.segment(i); {
		case err == nil:
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !keepGoing:
			return nil, err
		default:
			p.fail(s, err)
		}
		for _, v := range c.lastReads[i] {
			p.dropValue(v)
		}
	}
	return p.outputs()
}

// dropValue removes a value that has no further reader. The memory returns to the pool unless another value shares it.
func (p *segmentRun) dropValue(v *graph.Value) {
	t := p.knownValues[v]
	delete(p.knownValues, v)
	if t == nil || !t.Storage().Releasable() || p.sharedConstants[t.Storage()] {
		return
	}
	for _, other := range p.knownValues {
		if other != nil && other.Storage() == t.Storage() {
			return
		}
	}
	_ = t.Release()
}

// segment runs segment i. If some operands of its nodes are missing, it runs only the nodes whose operands exist.
func (p *segmentRun) segment(i int) error {
	s, cached := &p.segments[i], true
	if len(p.missingValues) > 0 {
		rest := s.Without(p.missingValues)
		if len(rest.Nodes) == 0 {
			return nil
		}
		if len(rest.Nodes) < len(s.Nodes) {
			s, cached = &rest, false
		}
	}
	if s.Dynamic {
		return p.dynamicNode(s, p.dynamicIndex[i], cached)
	}
	return p.runCompiled(s, cached)
}

// preparedSegment returns a prepared segment. If cached is true, it takes the segment from the cache, or adds the
// segment to the cache. Otherwise it prepares the segment only for this run, for example because s is a part of a
// segment.
func (p *segmentRun) preparedSegment(s *graph.Segment, cached bool) (*prepared, error) {
	prepare := func() (*prepared, error) { return p.r.prepare(p.ctx, s, p.knownValues, p.keepGoing) }
	if !cached {
		return prepare()
	}
	return p.r.segmentCache.get(p.ctx, classKey{s, s.Class(p.knownValues)}, prepare)
}

// runCompiled runs a compiled segment and stores its results.
func (p *segmentRun) runCompiled(s *graph.Segment, cached bool) error {
	segment, err := p.preparedSegment(s, cached)
	if err != nil {
		return err
	}
	failed := slices.Clone(segment.failed)
	in := make([]*tensor.Tensor, len(s.In))
	for i, v := range s.In {
		in[i] = p.knownValues[v]
	}
	var out []*tensor.Tensor
	var outputs []graph.Output
	if segment.innerSegments != nil {
		outputs = segment.innerSegments.graph.Outputs
		out, err = p.r.runSegments(p.ctx, p.run, segment.innerSegments, in, p.keepGoing, nil)
	} else {
		outputs = segment.program.outputs
		out = p.callerOutputs.writableTensors(p.segmentedGraph, s, segment.program)
		err = segment.program.runInto(p.ctx, p.run, in, out)
	}
	var incomplete *Incomplete
	if errors.As(err, &incomplete) {
		failed = append(failed, incomplete.Failed...)
	} else if err != nil {
		return err
	}
	byName := make(map[string]*tensor.Tensor, len(out))
	for i, o := range outputs {
		byName[o.Name] = out[i]
	}
	for _, v := range s.Out {
		if t := byName[v.Name]; t != nil {
			p.knownValues[v] = t
		}
	}
	if len(failed) > 0 {
		return &Incomplete{Failed: failed}
	}
	return nil
}

// fail records the error of a segment and marks the results that the segment did not compute as missing.
func (p *segmentRun) fail(s *graph.Segment, err error) {
	var incomplete *Incomplete
	if errors.As(err, &incomplete) {
		p.failed = append(p.failed, incomplete.Failed...)
	} else if nodeErr, ok := err.(*graph.Error); ok {
		p.failed = append(p.failed, nodeErr)
	} else {
		// The error belongs to no node: all results of the segment are lost.
		p.failed = append(p.failed, &graph.Error{Err: err})
	}
	for _, v := range s.Out {
		if p.knownValues[v] == nil {
			p.missingValues[v] = true
		}
	}
}

// outputs returns the outputs in their pinned layouts.
func (p *segmentRun) outputs() (_ []*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	isComputed := map[string]bool{}
	out := make([]*tensor.Tensor, len(p.graph.Outputs))
	for i, o := range p.graph.Outputs {
		t := p.knownValues[o.Value]
		if o.Value.Const != nil {
			t = o.Value.Const
		}
		if t == nil {
			continue // the value was not computed
		}
		if p.callerOutputs != nil {
			out[i], isComputed[o.Name] = t, true // copyRemaining copies it to the caller's tensor
			continue
		}
		if !o.Pin.Holds(t.Meta) {
			m, err := o.Pin.Apply(t.Meta)
			if err != nil && p.keepGoing {
				p.failed = append(p.failed, p.graph.FailOutput(o, err))
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", o.Name, err)
			}
			m.Offset = 0
			if t, err = pooledCopy(p.ctx, p.r.options.Pool, t, m, p.r.options.Threads); err != nil {
				return nil, err
			}
		} else if o.Value.Const != nil || p.sharedConstants[t.Storage()] {
			m := t.Meta
			m.Offset = 0
			// The caller must not get the graph's own data.
			if t, err = pooledCopy(p.ctx, p.r.options.Pool, t, m, p.r.options.Threads); err != nil {
				return nil, err
			}
		}
		out[i], isComputed[o.Name] = t, true
	}
	return out, IncompleteError(p.graph, p.failed, func(name string) bool { return isComputed[name] })
}

// runDynamic runs a dynamic node.
func (p *segmentRun) runDynamic(s *graph.Segment, cached bool) (err error) {
	defer recoverPanic(&err)
	n := s.Nodes[0]
	segment, err := p.preparedSegment(s, cached)
	if err != nil {
		return err
	}
	in := make([]*tensor.Tensor, len(n.In))
	for i, a := range n.In {
		switch a.Kind {
		case graph.TensorArg:
			if in[i] = a.Value.Const; in[i] == nil {
				in[i] = p.knownValues[a.Value]
			}
		case graph.NumberArg:
			in[i] = a.Number.Tensor(a.Number.DType())
		}
	}
	out, err := n.Op.RunDynamic(p.nodeRuntime, segment.call, in)
	if err != nil {
		return err
	}
	if len(out) != len(n.Out) {
		return fmt.Errorf("the op made %d values, but \"outputs\" names %d", len(out), len(n.Out))
	}
	for i, v := range n.Out {
		if p.knownValues[v], err = p.inPinnedLayout(out[i], n.Pin); err != nil {
			return err
		}
		p.recordSharedConstant(n, p.knownValues[v])
	}
	return nil
}

// inPinnedLayout returns a tensor in its pinned layout, copied if necessary.
func (p *segmentRun) inPinnedLayout(t *tensor.Tensor, pin graph.Pin) (*tensor.Tensor, error) {
	if t == nil || pin.Holds(t.Meta) {
		return t, nil
	}
	m, err := pin.Apply(t.Meta)
	if err != nil {
		return nil, err
	}
	m.Offset = 0
	return pooledCopy(p.ctx, p.r.options.Pool, t, m, p.r.options.Threads)
}

// recordSharedConstant records a result that shares memory with a constant operand, for example because a branch
// returns its input.
func (p *segmentRun) recordSharedConstant(n *graph.Node, result *tensor.Tensor) {
	for _, a := range n.In {
		if a.Kind == graph.TensorArg && a.Value.Const != nil && result != nil && a.Value.Const.Storage() == result.Storage() {
			if p.sharedConstants == nil {
				p.sharedConstants = map[*tensor.Storage]bool{}
			}
			p.sharedConstants[result.Storage()] = true
		}
	}
}

// cause removes the node from an error that will be wrapped with the same node.
func cause(n *graph.Node, err error) error {
	if e, ok := err.(*graph.Error); ok && e.Node == n.Name {
		return e.Err
	}
	return err
}
