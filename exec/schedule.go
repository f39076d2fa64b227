package exec

import (
	"context"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/workerpool"
	"github.com/graphrun/graphrun/tensor"
)

// execute runs all sections in order. If no other worker is available, a shared section runs as a serial one. At the
// start of the last serial section before a shared section, execute asks the pool to wake workers for the shared one.
func (s *Session) execute(ctx context.Context) error {
	for i := range s.program.sections {
		sec := &s.program.sections[i]
		var err error
		if sec.nextPolicy != workerpool.StartNone {
			workerpool.Expect(len(s.workers)-1, sec.nextPolicy)
		}
		switch {
		case sec.shared != nil && workerpool.Ready(sec.shared.maxPolicy):
			err = s.runShared(ctx, sec)
		case s.stepFailures != nil || s.tracedRun != nil:
			err = s.runSerialObserved(ctx, sec)
		default:
			err = s.runSerial(ctx, sec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runSerial runs the steps of a section in order in the calling goroutine. For a step of one chunk, the overhead is a
// check of the context and a function call.
func (s *Session) runSerial(ctx context.Context, sec *section) (err error) {
	i, w := sec.first, &s.workers[0]
	defer func() {
		if x := recover(); x != nil {
			err = s.failure(ctx, i, panicError(x))
		}
	}()
	w.mem.Scratch = nil
	for ; i < sec.end; i++ {
		c := &s.program.calls[i]
		if groupEnd := s.program.steps[i].pipelineEnd; c.run == nil && groupEnd > 0 {
			if err := s.runPipelined(ctx, w, i, groupEnd); err != nil {
				return err
			}
			w.mem.Scratch = nil
			i = groupEnd - 1 // the loop continues with the step after the group
			continue
		}
		if c.run == nil { // several chunks, or scratch memory
			if err := s.runStepSerially(ctx, w, i); err != nil {
				return err
			}
			w.mem.Scratch = nil
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.mem.Ptrs = s.ptrs[c.firstPtr : c.firstPtr+c.ptrCount]
		if s.device != nil {
			w.mem.Addresses = s.device.addresses[c.firstPtr : c.firstPtr+c.ptrCount]
		}
		if err := c.run(&w.mem, 0); err != nil {
			return s.failure(ctx, i, err)
		}
	}
	return nil
}

// failure returns the error for a failed chunk of step i. If the context has ended, the result is the cause of the
// context.
func (s *Session) failure(ctx context.Context, i int, err error) error {
	if ended := interrupt.Err(ctx); ended != nil {
		return ended
	}
	return s.program.graph.NodeError(s.program.steps[i].node, err)
}

// runSerialObserved does what [Session.runSerial] does, for runs that have a tracer, and for runs that continue after a
// failed step.
func (s *Session) runSerialObserved(ctx context.Context, sec *section) error {
	w := &s.workers[0]
	for i := sec.first; i < sec.end; i++ {
		if groupEnd := s.program.steps[i].pipelineEnd; groupEnd > 0 {
			if err := s.runPipelined(ctx, w, i, groupEnd); err != nil {
				return err
			}
			i = groupEnd - 1
			continue
		}
		s.beginStep(w, i)
		if s.stepFailures == nil || !s.stepFailures.propagate(i) {
			if err := s.runStepSerially(ctx, w, i); err != nil {
				s.endStep(w, false)
				return err
			}
		}
		s.endStep(w, true)
	}
	return nil
}

// runStepSerially runs all chunks of a step in the calling goroutine.
func (s *Session) runStepSerially(ctx context.Context, w *workerState, i int) error {
	st := &s.program.steps[i]
	s.prepare(w, st)
	for ph := range st.kernel.Phases {
		for c := range st.kernel.Phases[ph].Chunks {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := s.chunk(w, i, ph, c); err != nil {
				if s.stepFailures == nil || ctx.Err() != nil {
					return s.failure(ctx, i, err)
				}
				s.stepFailures.add(i, err)
				return nil
			}
		}
	}
	return nil
}

// prepare sets the addresses and scratch memory of a step for a worker.
func (s *Session) prepare(w *workerState, st *step) {
	w.mem.Ptrs = s.ptrs[st.firstPtr : st.firstPtr+len(st.addresses)]
	w.mem.Scratch = nil
	n := st.kernel.Scratch
	switch {
	case s.device != nil:
		w.mem.Addresses = s.device.addressesOf(st)
		if n > 0 && st.kernel.Place == tensor.Host {
			w.mem.Scratch = s.arena.Bytes()[st.scratch : st.scratch+n]
		}
	case n > 0:
		w.mem.Scratch = s.arena.Bytes()[st.scratch : st.scratch+n]
	}
}

// call runs one chunk. A panic in a kernel becomes an error: see panicError.
func (s *Session) call(w *workerState, st *step, phase, c int) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = panicError(x)
		}
	}()
	return st.kernel.Phases[phase].Run(&w.mem, c)
}
