package exec

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Tracer sees what runs do, as they do it ([Options.Tracer]). Every method is called by the
// goroutine that does the work, before it and after it, so what a method takes the run takes
// longer. Methods must be safe for concurrent use. The first panic of one is the error of the run.
//
// In a run, and whatever becomes of it:
//
//   - BeginRun comes first and EndRun last, from the goroutine that called Run. That is worker 0.
//   - What one worker calls nests: a step begins, its chunks begin and end one by one, the step
//     ends. Every begin has its end, also where a chunk fails or the run is cancelled.
//   - Several workers may be at one step at the same time, each between a BeginStep and an
//     EndStep of its own. The one that finishes the step, and it alone, says so to EndStep (done).
//     Others leave it before that or after it.
//   - A chunk that begins after another has ended by the rules of the graph also begins after
//     that in time: the chunks of a phase after all of the phase before, the first chunk of a
//     step after EndStep (done) of each step that it waits for. Nothing else is ordered. One worker
//     may run some steps by turns, chunk by chunk, of which each reads what the one before makes:
//     a chunk then begins after those have ended that it needs, and each turn is between a BeginStep
//     and an EndStep.
//
// A run without an error has one BeginStep and EndStep (done) at least of each step, and each
// chunk of each phase once. A run that fails or is cancelled has none of either twice. One that
// keeps going has steps that are done without some of their chunks, or without any: those that
// fail, and those that depend on them. In segments it may tell of none that depend on them.
//
// A graph whose shapes depend on data is a run of its own, whose steps are the ops that decide
// shapes ([graph.Op.Eager]), each of one chunk. In it, between those steps, there is a run of each
// segment that is compiled (itself such a run, where shapes within depend on data); and within a
// step that runs a graph, such as a loop, there is a run of that graph for each call. These have the
// first as their [Run.Parent]; their worker 0 is the goroutine that is worker 0 of the parent. What is
// computed when a graph is compiled is no run.
type Tracer interface {
	// BeginRun tells of a run. Where it returns false, no steps and chunks are told of it, which
	// then costs what a run without a tracer does; EndRun is called in any case.
	BeginRun(r *Run) bool
	// EndRun tells that a run is over; err is what Run returns.
	EndRun(r *Run, err error)
	// BeginStep tells that a worker takes up a step, or joins others at it. Phase and chunk mean
	// nothing.
	BeginStep(w Work)
	// EndStep tells that a worker leaves a step; done that it is finished by that.
	EndStep(w Work, done bool)
	// BeginChunk tells that a worker begins a chunk of a phase.
	BeginChunk(w Work)
	// EndChunk tells that a chunk is over; err is why it failed, without the place in the graph.
	EndChunk(w Work, err error)
}

// Run is a run as a [Tracer] sees it. Its address tells it from others, at the same time or
// later.
type Run struct {
	Graph   *graph.Graph // as it is run: of a program as [Compile] left it
	Program *Program     // what runs; nil where the steps are ops that decide shapes
	Parent  *Run         // the run within which this one is; nil for one that a caller asked for
	Steps   int          // how many there are; [Work.Step] counts from 0
	Workers int          // how many there may be; [Work.Worker] counts from 0
	// Data is the tracer's: it may set it in BeginRun, and finds it in all that it is told of the run.
	Data any

	broken broken
}

// Work is a place in a run.
type Work struct {
	Run    *Run
	Node   *graph.Node // what the step computes
	Step   int         // its place in [Program.Steps], or among the ops that decide shapes
	Worker int
	Phase  int // of the step's kernel
	Chunk  int // of the phase
}

// runInto is [Session.RunInto] within another run, or nil, that a tracer has been told of.
func (s *Session) runInto(ctx context.Context, parent *Run, in, out []*tensor.Tensor) error {
	if s.p.tracer == nil {
		return s.fill(ctx, in, out)
	}
	return s.traced(ctx, parent, in, out)
}

// traced is fill under the program's tracer.
func (s *Session) traced(ctx context.Context, parent *Run, in, out []*tensor.Tensor) (err error) {
	t, r := s.p.tracer, &Run{Graph: s.p.graph, Program: s.p, Parent: parent, Steps: len(s.p.steps),
		Workers: len(s.workers)}
	if t.BeginRun(r) {
		s.run = r
	}
	defer func() {
		s.run = nil
		t.EndRun(r, err)
		err = r.broken.or(err)
	}()
	return s.fill(ctx, in, out)
}

// beginStep tells the tracer that a worker is at a step, unless it has been told so.
func (s *Session) beginStep(w *workerState, step int) {
	if s.run != nil && w.at != step+1 {
		w.at = step + 1
		s.p.tracer.BeginStep(s.work(w, step, 0, 0))
	}
}

// endStep tells the tracer that a worker leaves the step that it is at, if it is at one.
func (s *Session) endStep(w *workerState, done bool) {
	if s.run != nil && w.at != 0 {
		step := w.at - 1
		w.at = 0
		s.p.tracer.EndStep(s.work(w, step, 0, 0), done)
	}
}

func (s *Session) work(w *workerState, step, phase, chunk int) Work {
	return Work{Run: s.run, Node: s.p.steps[step].node, Step: step, Worker: w.index, Phase: phase, Chunk: chunk}
}

// chunk runs one chunk and tells the tracer.
func (s *Session) chunk(w *workerState, step, phase, c int) error {
	st := &s.p.steps[step]
	if s.run == nil {
		return s.call(w, st, phase, c)
	}
	at := s.work(w, step, phase, c)
	s.p.tracer.BeginChunk(at)
	err := s.call(w, st, phase, c)
	s.p.tracer.EndChunk(at, err)
	return err
}

// beginRun tells the tracer of a run in segments, within another or nil.
func (p *pieces) beginRun(parent *Run) {
	p.run = &Run{Graph: p.graph, Parent: parent, Steps: p.steps, Workers: 1}
	p.traced = p.r.options.Tracer.BeginRun(p.run)
}

// step runs an op that decides shapes, and tells the tracer. The error names its node.
func (p *pieces) step(s *graph.Segment, number int, kept bool) error {
	n := s.Nodes[0]
	var err error
	if p.traced {
		t, at := p.r.options.Tracer, Work{Run: p.run, Node: n, Step: number}
		t.BeginStep(at)
		t.BeginChunk(at)
		err = p.call(s, kept)
		t.EndChunk(at, err)
		t.EndStep(at, err == nil || p.keep && p.ctx.Err() == nil)
	} else {
		err = p.call(s, kept)
	}
	if err != nil {
		return p.graph.Fail(n, cause(n, err))
	}
	return nil
}
