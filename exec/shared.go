package exec

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/team"
)

// maxChunks bounds the chunks of a phase, which are counted in 32 bits.
const maxChunks = math.MaxInt32

// countable returns the kernel with at most maxChunks chunks in each phase: chunks of longer phases are joined.
func countable(k *graph.Kernel) *graph.Kernel {
	if !slices.ContainsFunc(k.Phases, func(ph graph.Phase) bool { return ph.Chunks > maxChunks }) {
		return k
	}
	joined := *k
	joined.Phases = slices.Clone(k.Phases)
	for i, ph := range k.Phases {
		if ph.Chunks <= maxChunks {
			continue
		}
		per := (ph.Chunks-1)/maxChunks + 1
		last := func(chunk int) int { return min((chunk+1)*per, ph.Chunks) - 1 }
		to := &joined.Phases[i]
		to.Chunks = (ph.Chunks-1)/per + 1
		to.Run = func(m *graph.Mem, chunk int) error {
			for c := chunk * per; c <= last(chunk); c++ {
				if err := ph.Run(m, c); err != nil {
					return err
				}
			}
			return nil
		}
		if f := ph.Flow; f != nil {
			to.Flow = &graph.Flow{Made: func(chunk int) int { return f.Made(last(chunk)) },
				Needs: func(chunk int) int { return f.Needs(last(chunk)) }}
		}
	}
	return &joined
}

// openPhase is a phase of a step with chunks left for any worker.
type openPhase struct{ step, phase int }

// round is the run of a section whose steps are shared. A worker takes a ready step, or joins an open phase whose
// chunks are not all handed out; whoever finishes the last chunk of a phase goes on with the next, and whoever
// finishes a step goes on with one that waited for it: what was written last is in that worker's cache. So are the
// chunks of a phase that are a worker's own part: those of the phase before had the same place. Others are
// called to chunks, and to steps that are worth as much. The worker who runs the program never depends on others to
// come; they leave when they find nothing to do.
type round struct {
	job  team.Job
	ctx  context.Context
	sec  *section
	left atomic.Int32 // steps to finish
	near atomic.Int32 // hands that found nothing to do, and wait for more
	stop atomic.Bool

	deps  []int32    // by step of the section: steps still to wait for
	parts team.Parts // chunks to hand out: see Program.parts
	done  []int32    // by phase of the program: chunks finished, of those that have parts

	mu     team.Lock // of what follows
	ready  []int32   // steps
	open   []openPhase
	free   []*workerState
	err    error
	failed int // the step of err; -1 for the context
}

// prepare makes room for the sections of a program.
func (r *round) prepare(p *Program) {
	longest := 0
	for _, sec := range p.sections {
		if sec.shared != nil {
			longest = max(longest, sec.end-sec.first)
		}
	}
	if longest > 0 {
		r.deps, r.done = make([]int32, longest), make([]int32, p.phases)
		r.parts = make(team.Parts, p.parts[p.phases])
	}
}

// share runs a section with all workers that come.
func (s *Session) share(ctx context.Context, sec *section) error {
	s.reset(ctx, sec)
	s.lead()
	return s.round.err
}

// lead is the round of the worker who runs the program: the first to begin and the last to go.
func (s *Session) lead() {
	r := &s.round
	r.job.Begin()
	defer r.job.End() // also where a kernel ends this goroutine
	worthy := 0
	for _, step := range r.ready {
		if r.worthy(int(step)) {
			worthy++
		}
	}
	if worthy > 1 {
		r.call(min(worthy, len(s.workers))-1, r.worth(r.sec.first))
	}
	for {
		seen := r.job.Seen()
		s.serve(&s.workers[0])
		if r.over() {
			return
		}
		if !r.job.Wait(seen) && r.idle() {
			s.fail(-1, errEnded)
		}
	}
}

var errEnded = errors.New("a kernel ended its goroutine")

// reset readies the counters.
func (s *Session) reset(ctx context.Context, sec *section) {
	r, p := &s.round, s.p
	r.ctx, r.sec, r.err, r.failed = ctx, sec, nil, -1
	r.ready, r.open, r.free = r.ready[:0], r.open[:0], r.free[:0]
	for i := len(s.workers) - 1; i > 0; i-- {
		r.free = append(r.free, &s.workers[i])
	}
	r.stop.Store(false)
	r.left.Store(int32(sec.end - sec.first))
	copy(r.deps, sec.shared.deps)
	for i := sec.end - 1; i >= sec.first; i-- {
		if r.deps[i-sec.first] == 0 {
			r.ready = append(r.ready, int32(i))
		}
	}
	last := &p.steps[sec.end-1]
	clear(r.done[p.steps[sec.first].phase : last.phase+len(last.kernel.Phases)])
}

// over reports whether there is nothing more to do.
func (r *round) over() bool { return r.stop.Load() || r.left.Load() == 0 }

// idle reports whether nobody can take anything.
func (r *round) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ready)+len(r.open) == 0 && !r.over()
}

// fail ends the round. Of several failed steps the first in the order of the program wins; step -1 is the context.
func (s *Session) fail(step int, err error) {
	r := &s.round
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil || step < r.failed && step >= 0 {
		r.err, r.failed = err, step
	}
	r.stop.Store(true)
}

// help is what a hand of the team does for the session.
func (s *Session) help() {
	r := &s.round
	r.mu.Lock()
	n := len(r.free) - 1
	if n < 0 {
		r.mu.Unlock()
		return
	}
	w := r.free[n]
	r.free = r.free[:n]
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.free = append(r.free, w)
		r.mu.Unlock()
	}()
	for {
		seen := r.job.Seen()
		s.serve(w)
		if r.over() {
			return
		}
		r.near.Add(1)
		again := r.job.Linger(seen)
		r.near.Add(-1)
		if !again {
			return
		}
	}
}

// call tells others that there is work for so many of them: those that are near, and others for the rest.
func (r *round) call(n int, worth team.Worth) { r.job.Call(max(0, n-int(r.near.Load())), worth) }

// serve goes on until a worker finds nothing to do.
func (s *Session) serve(w *workerState) {
	for {
		step, phase, join := s.round.take()
		if step < 0 {
			return
		}
		for step >= 0 {
			if join {
				s.prepare(w, &s.p.steps[step])
				step, phase = s.chunks(w, openPhase{step, phase})
			} else {
				step, phase = s.advance(w, step, phase)
			}
			join = false
			if w.at != step+1 {
				s.endStep(w, false)
			}
		}
	}
}

// take returns the open phase of a step to join, or a step to begin, or a negative step. Chunks come before steps:
// workers that do the same part of each step find in their caches what they wrote, where one that has a step of its own
// fetches half of its operands from the other's, and leaves half of its results to be fetched.
func (r *round) take() (step, phase int, join bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch n := len(r.ready) - 1; {
	case r.over():
		return -1, 0, false
	case len(r.open) > 0:
		o := r.open[len(r.open)-1]
		return o.step, o.phase, true
	case n >= 0:
		step = int(r.ready[n])
		r.ready = r.ready[:n]
		return step, 0, false
	}
	return -1, 0, false
}

// worthy reports whether a step is worth handing to another worker.
func (r *round) worthy(step int) bool {
	return r.sec.shared.costs[step-r.sec.first] >= r.sec.shared.share
}

// worth is what there is to share from a step on.
func (r *round) worth(step int) team.Worth { return r.sec.shared.worth[step-r.sec.first] }

// advance begins a phase of a step, and works on it until its chunks are handed out. It returns the step to go on
// with, or a negative one to take another.
func (s *Session) advance(w *workerState, step, phase int) (int, int) {
	st := &s.p.steps[step]
	phases := st.kernel.Phases
	lost := phase == 0 && s.losses != nil && s.losses.reach(step)
	for phase < len(phases) && phases[phase].Chunks == 0 {
		phase++
	}
	s.prepare(w, st)
	if phase >= len(phases) || lost {
		s.beginStep(w, step)
		return s.finish(w, step), 0
	}
	o, chunks := openPhase{step, phase}, phases[phase].Chunks
	if parts := s.parts(o); len(parts) > 0 {
		parts.Deal(chunks)
		s.publish(o, chunks)
		return s.chunks(w, o)
	}
	for c := range chunks {
		if !s.attempt(w, o, c) {
			return -1, 0
		}
	}
	return s.goOn(w, o)
}

// parts are what the chunks of a phase are handed out by; there are none where one worker does them all.
func (s *Session) parts(o openPhase) team.Parts {
	at := s.p.parts[s.p.steps[o.step].phase+o.phase:]
	return s.round.parts[at[0]:at[1]]
}

// chunks works on a phase that has parts until its chunks are handed out.
func (s *Session) chunks(w *workerState, o openPhase) (int, int) {
	r, st, parts := &s.round, &s.p.steps[o.step], s.parts(o)
	done, all, own := &r.done[st.phase+o.phase], int32(st.kernel.Phases[o.phase].Chunks), w.index%len(parts)
	for finished := int32(0); ; finished++ {
		c := parts.Next(own)
		if c < 0 && finished > 0 {
			if atomic.AddInt32(done, finished) == all {
				r.withdraw(o)
				return s.goOn(w, o)
			}
			finished = 0
		}
		if c < 0 {
			if c = r.steal(o, parts, own); c < 0 {
				return -1, 0
			}
		}
		if !s.attempt(w, o, c) {
			return -1, 0
		}
	}
}

// goOn tells what comes after a phase whose chunks are finished.
func (s *Session) goOn(w *workerState, o openPhase) (int, int) {
	if s.losses != nil && s.losses.has(o.step) {
		return s.finish(w, o.step), 0
	}
	return o.step, o.phase + 1
}

// attempt runs a chunk, unless the round has ended. Where the run keeps going, a failure is noted and the rest of the
// step is let be. It reports whether the round goes on.
func (s *Session) attempt(w *workerState, o openPhase, c int) bool {
	r := &s.round
	if r.ctx.Err() != nil {
		s.fail(-1, context.Cause(r.ctx))
	}
	if r.stop.Load() {
		return false
	}
	s.beginStep(w, o.step)
	if s.losses != nil && s.losses.has(o.step) {
		return true
	}
	err := s.chunk(w, o.step, o.phase, c)
	switch {
	case err == nil:
	case r.ctx.Err() != nil:
		s.fail(-1, context.Cause(r.ctx))
		return false
	case s.losses != nil:
		s.losses.add(o.step, err)
	default:
		s.fail(o.step, s.p.graph.Fail(s.p.steps[o.step].node, err))
		return false
	}
	return true
}

// publish lets other workers join a phase.
func (s *Session) publish(o openPhase, chunks int) {
	r := &s.round
	r.mu.Lock()
	r.open = append(r.open, o)
	r.mu.Unlock()
	// Those that are leaving are called back.
	r.call(min(chunks, len(s.workers))-1, r.worth(o.step))
}

// steal takes a chunk of another worker's part, and more of them as the worker's own. Where none is left nobody joins
// the phase any more.
func (r *round) steal(o openPhase, parts team.Parts, own int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := parts.Steal(own)
	if c < 0 {
		r.remove(o)
	}
	return c
}

// withdraw ends that others join a phase.
func (r *round) withdraw(o openPhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(o)
}

func (r *round) remove(o openPhase) {
	if i := slices.Index(r.open, o); i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
}

// finish readies the steps that waited for this one and returns one of them.
func (s *Session) finish(w *workerState, step int) int {
	r, sec := &s.round, s.round.sec
	s.endStep(w, true)
	own, others, worth := -1, 0, team.Little
	for _, n := range s.p.steps[step].next {
		k := int(n) - sec.first
		if int(n) >= sec.end || sec.shared.deps[k] > 1 && atomic.AddInt32(&r.deps[k], -1) != 0 {
			continue
		}
		if own < 0 {
			own = int(n)
			continue
		}
		r.mu.Lock()
		r.ready = append(r.ready, n)
		r.mu.Unlock()
		if r.worthy(int(n)) {
			others, worth = others+1, max(worth, r.worth(int(n)))
		}
	}
	if r.left.Add(-1) == 0 || r.stop.Load() {
		return -1
	}
	if others > 0 {
		r.call(others, worth)
	}
	return own
}
