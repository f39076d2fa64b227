package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Tracer observes runs ([Options.Tracer]). The goroutine that does a piece of work calls one method before the work
// and another method after it. The time that the methods take is therefore part of the time of the run. Methods must
// be safe for concurrent use. If a method panics, the run returns the first panic as its error.
//
// In every run, including failed ones:
//
//   - BeginRun is the first call and EndRun the last call. The goroutine that called Run makes both calls, as worker 0.
//   - The calls of one worker nest: a step begins, its chunks begin and end one by one, the step ends. Every begin is
//     followed by its end, even if a chunk fails or the run is canceled.
//   - Several workers may work on one step at the same time, each between its own BeginStep and EndStep. Only the
//     worker that finishes the step passes done to EndStep. Other workers may leave the step before or after that.
//   - A chunk begins after the end of all chunks of the previous phase. The first chunk of a step begins after the
//     EndStep with done of each step for which it waits. No other order is guaranteed. In a pipelined group, one worker
//     alternates between steps. Each step reads the result of the previous step. A chunk then begins after the end
//     of the chunks whose results it reads. When the worker changes to another step, it calls EndStep and BeginStep.
//
// A run without an error reports a BeginStep and an EndStep with done for each step, and each chunk of each phase
// exactly once. A run that fails or is cancelled reports no chunk and no finished step twice. With KeepGoing, a step
// that fails and its dependents are reported as done although some or all of their chunks did not run. In a run in
// segments, such dependents may not be reported.
//
// A run of a graph with data-dependent shapes contains other runs. Its own steps are the nodes whose result shapes
// depend on data ([graph.Op.RunDynamic]), with one chunk each. Between these steps it contains a run for each compiled
// segment. A segment with data-dependent shapes is a run that contains further runs. A step that runs a graph, such as
// a loop, contains a run of this graph for each call. The [Run.Parent] of a contained run is the run that contains it,
// and both have the same goroutine as worker 0. Computations during compilation are not reported.
type Tracer interface {
	// BeginRun is called at the start of a run. If it returns false, no steps and chunks are reported, and the run
	// takes no longer than without a tracer; EndRun is still called.
	BeginRun(r *Run) bool
	// EndRun is called at the end of a run; err is the result of Run.
	EndRun(r *Run, err error)
	// BeginStep is called when a worker starts or joins a step. Phase and chunk are undefined.
	BeginStep(p Position)
	// EndStep is called when a worker leaves a step. done is true if the worker finished the step.
	EndStep(p Position, done bool)
	// BeginChunk is called before a chunk of a phase.
	BeginChunk(p Position)
	// EndChunk is called after a chunk; err is the error of the chunk, without the place in the graph.
	EndChunk(p Position, err error)
}

// Run describes a run to a [Tracer]. All calls of one run get the same pointer.
type Run struct {
	Graph   *graph.Graph // the graph that runs: for a program, as compiled
	Program *Program     // nil if the steps are nodes whose result shapes depend on data
	Parent  *Run         // the enclosing run; nil for a run that a caller started
	Steps   int          // number of steps; [Position.Step] counts from 0
	Workers int          // maximum number of workers; [Position.Worker] counts from 0
	// Data is for the tracer, which may set it in BeginRun.
	Data any

	tracerPanic tracerPanic
}

// Position is a position in a run.
type Position struct {
	Run    *Run
	Node   *graph.Node // the node of the step
	Step   int         // index in [Program.Steps], or among the nodes whose result shapes depend on data
	Worker int
	Phase  int // index in the step's kernel
	Chunk  int // index in the phase
}

// runWithin is [Session.RunInto] as a part of the run parent, which is nil if no enclosing run is traced.
func (s *Session) runWithin(ctx context.Context, parent *Run, in, out []*tensor.Tensor) error {
	if s.program.tracer == nil {
		return s.runUntraced(ctx, in, out)
	}
	defer func() { s.tracedRun = nil }()
	run := &Run{Graph: s.program.graph, Program: s.program, Parent: parent, Steps: len(s.program.steps),
		Workers: len(s.workers)}
	return TraceRun(s.program.tracer, run, func(observesSteps bool) error {
		if observesSteps {
			s.tracedRun = run
		}
		return s.runUntraced(ctx, in, out)
	})
}

// TraceRun calls run between BeginRun and EndRun of a tracer. observesSteps is the result of BeginRun. If a method of
// the tracer panics, and run returns no error, the panic is the error.
func TraceRun(t Tracer, r *Run, run func(observesSteps bool) error) (err error) {
	if t == nil || r == nil || run == nil {
		return errors.New("the tracer, the run or the function to run is nil")
	}
	t = SafeTracer(t)
	observesSteps := t.BeginRun(r)
	defer func() {
		t.EndRun(r, err)
		err = r.tracerPanic.errorOrPanic(err)
	}()
	return run(observesSteps)
}

// beginStep reports to the tracer that a worker begins a step, unless this was reported already.
func (s *Session) beginStep(worker *workerState, step int) {
	if s.tracedRun != nil && worker.tracedStep != step+1 {
		worker.tracedStep = step + 1
		s.program.tracer.BeginStep(s.position(worker, step, 0, 0)) // phase and chunk are unused
	}
}

// endStep reports to the tracer that a worker leaves its current step, if any. done reports whether all chunks of the
// step have finished.
func (s *Session) endStep(worker *workerState, done bool) {
	if s.tracedRun != nil && worker.tracedStep != 0 {
		step := worker.tracedStep - 1
		worker.tracedStep = 0
		s.program.tracer.EndStep(s.position(worker, step, 0, 0), done) // phase and chunk are unused
	}
}

// position returns the position of a worker.
func (s *Session) position(w *workerState, step, phase, chunk int) Position {
	return Position{Run: s.tracedRun, Node: s.program.steps[step].node, Step: step, Worker: w.index, Phase: phase,
		Chunk: chunk}
}

// runChunk runs one chunk and reports it to the tracer.
func (s *Session) runChunk(worker *workerState, step, phase, chunk int) error {
	kernelStep := &s.program.steps[step]
	if s.tracedRun == nil {
		return s.runChunkRecovering(worker, kernelStep, phase, chunk)
	}
	position := s.position(worker, step, phase, chunk)
	s.program.tracer.BeginChunk(position)
	err := s.runChunkRecovering(worker, kernelStep, phase, chunk)
	s.program.tracer.EndChunk(position, err)
	return err
}

// safeTracer wraps a tracer. If a method of the tracer panics, the panic becomes the error of the run. Otherwise a
// panic in a worker would end the process. After a panic only EndRun is called.
type safeTracer struct{ wrapped Tracer }

// SafeTracer returns a tracer that calls t until a method of t panics in a run. The panic is the error of the run, if
// [TraceRun] reports it. It returns t if t is nil or such a tracer.
func SafeTracer(t Tracer) Tracer {
	if _, already := t.(safeTracer); t == nil || already {
		return t
	}
	return safeTracer{t}
}

// tracerPanic holds the first panic of a run's tracer.
type tracerPanic struct{ err atomic.Value }

// recordPanic must be deferred. It records a panic of a tracer's method.
func (t *tracerPanic) recordPanic(method string) {
	if recovered := recover(); recovered != nil {
		t.err.CompareAndSwap(nil, fmt.Errorf("tracer: %s panicked: %v\n%s", method, recovered, debug.Stack()))
	}
}

// callGuarded calls a method of the tracer, unless a method of the tracer has panicked before.
func (t *tracerPanic) callGuarded(method string, call func()) {
	if t.err.Load() == nil {
		defer t.recordPanic(method)
		call()
	}
}

// errorOrPanic returns the error of a run. If this error is nil, it returns the panic of the run's tracer.
func (t *tracerPanic) errorOrPanic(err error) error {
	if panicErr, panicked := t.err.Load().(error); err == nil && panicked {
		return panicErr
	}
	return err
}

// BeginRun implements [Tracer].
func (tracer safeTracer) BeginRun(r *Run) bool {
	defer r.tracerPanic.recordPanic("BeginRun")
	return tracer.wrapped.BeginRun(r)
}

// EndRun implements [Tracer].
func (tracer safeTracer) EndRun(r *Run, err error) {
	defer r.tracerPanic.recordPanic("EndRun")
	tracer.wrapped.EndRun(r, err)
}

// BeginStep implements [Tracer].
func (tracer safeTracer) BeginStep(p Position) {
	p.Run.tracerPanic.callGuarded("BeginStep", func() { tracer.wrapped.BeginStep(p) })
}

// EndStep implements [Tracer].
func (tracer safeTracer) EndStep(p Position, done bool) {
	p.Run.tracerPanic.callGuarded("EndStep", func() { tracer.wrapped.EndStep(p, done) })
}

// BeginChunk implements [Tracer].
func (tracer safeTracer) BeginChunk(p Position) {
	p.Run.tracerPanic.callGuarded("BeginChunk", func() { tracer.wrapped.BeginChunk(p) })
}

// EndChunk implements [Tracer].
func (tracer safeTracer) EndChunk(p Position, err error) {
	p.Run.tracerPanic.callGuarded("EndChunk", func() { tracer.wrapped.EndChunk(p, err) })
}
