package exec

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// openPhase is a phase of a step with chunks left for any worker.
type openPhase struct{ step, phase int32 }

// execute runs all steps; see schedule for how.
func (s *Session) execute(ctx context.Context) error {
	if len(s.workers) == 1 {
		return s.serial(ctx)
	}
	s.reset()
	r := &schedule{s: s, ctx: ctx, left: len(s.p.steps), failed: -1}
	r.cond.L = &r.mu
	stop := context.AfterFunc(ctx, func() { r.fail(-1, context.Cause(ctx)) })
	defer stop()
	var g errgroup.Group
	g.SetLimit(len(s.workers))
	for i := 1; i < len(s.workers); i++ {
		g.Go(func() error { r.work(&s.workers[i]); return nil })
	}
	r.work(&s.workers[0])
	_ = g.Wait()
	return r.err
}

// serial runs the steps in order in this goroutine.
func (s *Session) serial(ctx context.Context) error {
	if s.losses != nil {
		return s.serialSome(ctx)
	}
	w := &s.workers[0]
	for i := range s.p.steps {
		st := &s.p.steps[i]
		s.prepare(w, st)
		s.beginStep(w, i)
		for ph := range st.kernel.Phases {
			for c := range st.kernel.Phases[ph].Chunks {
				if ctx.Err() != nil {
					s.endStep(w, false)
					return context.Cause(ctx)
				}
				if err := s.chunk(w, i, ph, c); err != nil {
					s.endStep(w, false)
					return s.p.graph.Fail(st.node, err)
				}
			}
		}
		s.endStep(w, true)
	}
	return nil
}

// serialSome is serial past steps that fail.
func (s *Session) serialSome(ctx context.Context) error {
	w := &s.workers[0]
	for i := range s.p.steps {
		s.beginStep(w, i)
		if !s.losses.reach(i) {
			err := s.whole(ctx, w, i)
			if ctx.Err() != nil {
				s.endStep(w, false)
				return context.Cause(ctx)
			}
			if err != nil {
				s.losses.add(i, err)
			}
		}
		s.endStep(w, true)
	}
	return nil
}

// whole runs one step in this goroutine.
func (s *Session) whole(ctx context.Context, w *workerState, i int) error {
	st := &s.p.steps[i]
	s.prepare(w, st)
	for ph := range st.kernel.Phases {
		for c := range st.kernel.Phases[ph].Chunks {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := s.chunk(w, i, ph, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare points the worker's memory at a step's operands.
func (s *Session) prepare(w *workerState, st *step) {
	w.mem.Ptrs = s.ptrs[st.first : st.first+len(st.refs)]
	w.mem.Scratch = nil
	if n := st.kernel.Scratch; n > 0 {
		w.mem.Scratch = s.arena.Bytes()[st.scratch : st.scratch+n]
	}
}

// call runs one chunk. A panic in a kernel comes back as an error: see panicked.
func (s *Session) call(w *workerState, st *step, phase, c int) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = panicked(x)
		}
	}()
	return st.kernel.Phases[phase].Run(&w.mem, c)
}

// schedule is a concurrent run. A worker takes a ready step, or joins an open phase whose
// chunks are not all handed out; whoever finishes the last chunk of a phase opens the
// next, and whoever finishes a step readies those that waited for it and goes on with one
// of them. Workers with nothing to do sleep.
type schedule struct {
	s      *Session
	ctx    context.Context
	mu     sync.Mutex
	cond   sync.Cond
	left   int // steps to finish
	err    error
	failed int // the step of err
	stop   atomic.Bool
}

// fail ends the run. Of several failed steps the first in the order of the program wins;
// step -1 is the context.
func (r *schedule) fail(step int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return
	}
	if r.err == nil || step < r.failed && step >= 0 {
		r.err, r.failed = err, step
	}
	r.stop.Store(true)
	r.cond.Broadcast()
}

// work is the life of a worker.
func (r *schedule) work(w *workerState) {
	for {
		step, phase := r.take()
		for step >= 0 {
			step, phase = r.run(w, step, phase)
			if w.at != int(step)+1 {
				r.s.endStep(w, false)
			}
		}
		if phase < 0 {
			return
		}
	}
}

// take waits for something to do. A negative phase ends the worker.
func (r *schedule) take() (step, phase int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case r.stop.Load() || r.left == 0:
			return -1, -1
		case len(r.s.open) > 0:
			o := r.s.open[len(r.s.open)-1]
			return o.step, o.phase
		case len(r.s.ready) > 0:
			n := len(r.s.ready) - 1
			step := r.s.ready[n]
			r.s.ready = r.s.ready[:n]
			return step, 0
		}
		r.cond.Wait()
	}
}

// run works on a phase of a step until its chunks are handed out. It returns the step to
// go on with, or a negative one to take another.
func (r *schedule) run(w *workerState, step, phase int32) (int32, int32) {
	s := r.s
	st := &s.p.steps[step]
	phases := st.kernel.Phases
	lost := phase == 0 && s.losses != nil && s.losses.reach(int(step))
	for int(phase) < len(phases) && phases[phase].Chunks == 0 {
		phase++
	}
	if int(phase) >= len(phases) || lost {
		s.beginStep(w, int(step))
		return r.finish(w, step), 0
	}
	s.prepare(w, st)
	chunks := int32(phases[phase].Chunks)
	next, done := &s.next[st.phase+int(phase)], &s.done[st.phase+int(phase)]
	for first := true; ; first = false {
		c := next.Add(1) - 1
		if c >= chunks {
			return -1, 0
		}
		if first && c == 0 && chunks > 1 {
			r.publish(openPhase{step, phase})
		}
		if c == chunks-1 && chunks > 1 {
			r.withdraw(openPhase{step, phase})
		}
		if r.ctx.Err() != nil {
			r.fail(-1, context.Cause(r.ctx))
		}
		if r.stop.Load() {
			return -1, 0
		}
		s.beginStep(w, int(step))
		if err := r.attempt(w, step, int(phase), int(c)); err != nil {
			r.fail(int(step), s.p.graph.Fail(st.node, err))
			return -1, 0
		}
		if done.Add(1) == chunks {
			if s.losses != nil && s.losses.has(int(step)) {
				return r.finish(w, step), 0
			}
			return step, phase + 1
		}
	}
}

// attempt runs a chunk. Where the run keeps going, a failure is noted and the rest of the
// step is let be.
func (r *schedule) attempt(w *workerState, step int32, phase, c int) error {
	s := r.s
	if s.losses == nil {
		return s.chunk(w, int(step), phase, c)
	}
	if !s.losses.has(int(step)) {
		if err := s.chunk(w, int(step), phase, c); err != nil {
			s.losses.add(int(step), err)
		}
	}
	return nil
}

// publish lets other workers join a phase.
func (r *schedule) publish(o openPhase) {
	r.mu.Lock()
	r.s.open = append(r.s.open, o)
	r.mu.Unlock()
	r.cond.Broadcast()
}

// withdraw ends that, once all chunks are handed out.
func (r *schedule) withdraw(o openPhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, x := range r.s.open {
		if x == o {
			r.s.open = append(r.s.open[:i], r.s.open[i+1:]...)
			return
		}
	}
}

// finish readies the steps that waited for this one and returns one of them.
func (r *schedule) finish(w *workerState, step int32) int32 {
	s := r.s
	s.endStep(w, true)
	own := int32(-1)
	woken := 0
	r.mu.Lock()
	for _, n := range s.p.steps[step].next {
		if s.deps[n].Add(-1) != 0 {
			continue
		}
		if own < 0 {
			own = n
			continue
		}
		s.ready = append(s.ready, n)
		woken++
	}
	r.left--
	if r.left == 0 || r.stop.Load() {
		own = -1
		r.cond.Broadcast()
	} else if woken > 0 {
		r.cond.Broadcast()
	}
	r.mu.Unlock()
	return own
}
