package exec

import (
	"context"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/internal/workerpool"
	"github.com/graphrun/graphrun/tensor"
)

// execute runs all sections of the program in order. The work is divided on four levels:
//
//	section  a range of steps; one worker runs a serial section, several workers run a shared one
//	step     a call of a kernel
//	phase    a part of a step; it begins when the previous phase has ended
//	chunk    a part of a phase; the chunks of a phase are independent, so that different workers can run them
//
// If no other worker is available, a shared section runs as a serial one. At the start of the last serial section
// before a shared section, execute may ask the pool to wake workers for the shared one.
func (s *Session) execute(ctx context.Context) error {
	for i := range s.program.sections {
		section := &s.program.sections[i]
		var err error
		if section.nextPolicy != workerpool.StartNone {
			workerpool.Expect(len(s.workers)-1, section.nextPolicy)
		}
		switch {
		case section.shared != nil && workerpool.Ready(section.shared.maxPolicy): // other workers are available
			err = s.runShared(ctx, section)
		case s.stepFailures != nil || s.tracedRun != nil: // the run continues after failed steps, or has a tracer
			err = s.runSerialObserved(ctx, section)
		default:
			err = s.runSerial(ctx, section)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runSerial runs the steps of a section in order in the calling goroutine. There are three cases: a group of pipelined
// steps; a step with several chunks or scratch memory; and a step of one chunk, whose overhead is a check of the
// context and a function call.
func (s *Session) runSerial(ctx context.Context, section *section) (err error) {
	i, worker := section.first, &s.workers[0]
	defer func() {
		if recovered := recover(); recovered != nil {
			err = s.chunkError(ctx, i, panics.Error(recovered))
		}
	}()
	worker.mem.Scratch = nil
	for ; i < section.end; i++ {
		call := &s.program.calls[i]
		if call.run == nil { // a group, or a step with several chunks or scratch memory
			groupEnd := s.program.steps[i].pipelineEnd
			if groupEnd > 0 {
				err = s.runPipelined(ctx, worker, i, groupEnd)
				i = groupEnd - 1 // the loop continues with the step after the group
			} else {
				err = s.runStepSerially(ctx, worker, i)
			}
			if err != nil {
				return err
			}
			worker.mem.Scratch = nil // reset for the next calls, which have no scratch memory
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		worker.mem.Ptrs = s.ptrs[call.firstPtr : call.firstPtr+call.ptrCount]
		if s.device != nil {
			worker.mem.Addresses = s.device.addresses[call.firstPtr : call.firstPtr+call.ptrCount]
		}
		if err := call.run(&worker.mem, 0); err != nil {
			return s.chunkError(ctx, i, err)
		}
	}
	return nil
}

// runSerialObserved does what [Session.runSerial] does, for runs that have a tracer, and for runs that continue after a
// failed step.
func (s *Session) runSerialObserved(ctx context.Context, section *section) error {
	worker := &s.workers[0]
	for i := section.first; i < section.end; i++ {
		if groupEnd := s.program.steps[i].pipelineEnd; groupEnd > 0 {
			if err := s.runPipelined(ctx, worker, i, groupEnd); err != nil {
				return err
			}
			i = groupEnd - 1
			continue
		}
		s.beginStep(worker, i)
		if s.stepFailures == nil || !s.stepFailures.markIfSourceLost(i) {
			if err := s.runStepSerially(ctx, worker, i); err != nil {
				s.endStep(worker, false) // not done
				return err
			}
		}
		s.endStep(worker, true) // done
	}
	return nil
}

// runStepSerially runs all chunks of a step in the calling goroutine.
func (s *Session) runStepSerially(ctx context.Context, worker *workerState, i int) error {
	step := &s.program.steps[i]
	s.setAddresses(worker, step)
	for phase := range step.kernel.Phases {
		for chunk := range step.kernel.Phases[phase].Chunks {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := s.runChunk(worker, i, phase, chunk); err != nil {
				if s.stepFailures == nil || ctx.Err() != nil {
					return s.chunkError(ctx, i, err)
				}
				s.stepFailures.add(i, err)
				return nil
			}
		}
	}
	return nil
}

// setAddresses sets the addresses and the scratch memory of a step for a worker.
func (s *Session) setAddresses(worker *workerState, step *step) {
	worker.mem.Ptrs = s.ptrs[step.firstPtr : step.firstPtr+len(step.addresses)]
	worker.mem.Scratch = nil
	scratchBytes := step.kernel.Scratch
	switch {
	case s.device != nil: // a kernel on the device has its scratch memory there: addressesOf has the address
		worker.mem.Addresses = s.device.addressesOf(step)
		if scratchBytes > 0 && step.kernel.Place == tensor.Host {
			worker.mem.Scratch = s.arena.Bytes()[step.scratchOffset : step.scratchOffset+scratchBytes]
		}
	case scratchBytes > 0:
		worker.mem.Scratch = s.arena.Bytes()[step.scratchOffset : step.scratchOffset+scratchBytes]
	}
}

// chunkError returns the error for a failed chunk of step i. If the context has ended, the result is the cause of the
// context.
func (s *Session) chunkError(ctx context.Context, i int, err error) error {
	if ended := interrupt.Err(ctx); ended != nil {
		return ended
	}
	return s.program.graph.NodeError(s.program.steps[i].node, err)
}

// runChunkRecovering runs one chunk of a step. A panic in a kernel becomes an error: see [panics.Error].
func (s *Session) runChunkRecovering(worker *workerState, step *step, phase, chunk int) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = panics.Error(recovered)
		}
	}()
	return step.kernel.Phases[phase].Run(&worker.mem, chunk)
}
