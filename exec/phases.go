package exec

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/graphrun/graphrun/internal/workerpool"
)

// This file runs the steps of a shared section ([sectionRun]). A step runs the phases of its kernel, one after another.
// If a phase has parts, several workers run its chunks: each worker starts with the chunks of its own part, and then
// steals chunks of other parts. Otherwise one worker runs all chunks. When a step is finished, steps that wait for it
// may become ready.

// runPhase starts a phase of a step, and works on the phase until all chunks are taken. It returns the phase to
// continue with, or noPhase. It skips phases without chunks. If no phase of the step is left, it finishes the step.
func (s *Session) runPhase(worker *workerState, current stepPhase) (next stepPhase) {
	kernelStep := &s.program.steps[current.step]
	phases := kernelStep.kernel.Phases
	// With [Options.KeepGoing], a run continues after a failed step. A step that reads from the failed step counts as
	// finished, but is not run.
	isOperandLost := current.phase == 0 && s.stepFailures != nil && s.stepFailures.markIfSourceLost(current.step)
	for current.phase < len(phases) && phases[current.phase].Chunks == 0 {
		current.phase++
	}
	s.setAddresses(worker, kernelStep)
	if current.phase >= len(phases) || isOperandLost {
		s.beginStep(worker, current.step)
		return s.finishStep(worker, current.step)
	}
	chunks := phases[current.phase].Chunks
	if parts := s.phaseParts(current); len(parts) > 0 {
		parts.Distribute(chunks)
		s.publishPhase(current, chunks)
		return s.runChunks(worker, current)
	}
	for chunk := range chunks {
		if !s.tryChunk(worker, current, chunk) {
			return noPhase
		}
	}
	return s.continueAfter(worker, current)
}

// phaseParts returns the parts of a phase; none if one worker runs all of its chunks. The parts of the i-th phase of
// the program are parts[partOffsets[i]:partOffsets[i+1]].
func (s *Session) phaseParts(current stepPhase) workerpool.Parts {
	offsets := s.program.partOffsets[s.program.steps[current.step].firstPhase+current.phase:]
	return s.sectionRun.parts[offsets[0]:offsets[1]]
}

// runChunks works on a phase with parts until all chunks are taken. The worker that finishes the last chunk gets the
// phase to continue with. The other workers get noPhase.
func (s *Session) runChunks(worker *workerState, current stepPhase) (next stepPhase) {
	run, kernelStep, parts := &s.sectionRun, &s.program.steps[current.step], s.phaseParts(current)
	finishedByAll := &run.finishedChunks[kernelStep.firstPhase+current.phase]
	chunkCount := int32(kernelStep.kernel.Phases[current.phase].Chunks)
	ownPart := worker.index % len(parts) // a phase may have fewer parts than there are workers
	// finishedHere counts the chunks that this worker has run since it last added to finishedByAll. All workers write to
	// finishedByAll, so a worker adds to it only when its own part is empty.
	for finishedHere := int32(0); ; finishedHere++ {
		chunk := parts.Next(ownPart)
		if chunk < 0 && finishedHere > 0 {
			if atomic.AddInt32(finishedByAll, finishedHere) == chunkCount {
				run.withdrawPhase(current)
				return s.continueAfter(worker, current)
			}
			finishedHere = 0
		}
		if chunk < 0 {
			chunk = run.stealChunk(current, parts, ownPart)
			if chunk < 0 {
				return noPhase
			}
		}
		if !s.tryChunk(worker, current, chunk) {
			return noPhase
		}
	}
}

// continueAfter returns the phase with which a worker continues after a finished phase, or noPhase. If the step has no
// further phase, runPhase finishes the step.
func (s *Session) continueAfter(worker *workerState, finished stepPhase) (next stepPhase) {
	if s.stepFailures != nil && s.stepFailures.isLost(finished.step) {
		return s.finishStep(worker, finished.step)
	}
	return stepPhase{finished.step, finished.phase + 1}
}

// tryChunk runs a chunk unless the section has ended, and reports whether the section continues. With KeepGoing, a
// failure of the chunk is recorded, and the rest of the step is skipped.
func (s *Session) tryChunk(worker *workerState, current stepPhase, chunk int) bool {
	run := &s.sectionRun
	if run.ctx.Err() != nil {
		s.fail(noStep, context.Cause(run.ctx))
	}
	if run.stop.Load() {
		return false
	}
	s.beginStep(worker, current.step)
	if s.stepFailures != nil && s.stepFailures.isLost(current.step) {
		return true
	}
	err := s.runChunk(worker, current.step, current.phase, chunk)
	switch {
	case err == nil:
	case run.ctx.Err() != nil:
		s.fail(noStep, context.Cause(run.ctx))
		return false
	case s.stepFailures != nil:
		s.stepFailures.add(current.step, err)
	default:
		s.fail(current.step, s.program.graph.NodeError(s.program.steps[current.step].node, err))
		return false
	}
	return true
}

// publishPhase lets other workers join a phase.
func (s *Session) publishPhase(open stepPhase, chunks int) {
	run := &s.sectionRun
	run.mu.Lock()
	run.openPhases = append(run.openPhases, open)
	run.mu.Unlock()
	// Workers that are about to leave also receive the request.
	run.requestHelpers(min(chunks, len(s.workers))-1, run.wakePolicy(open.step))
}

// stealChunk takes a chunk from the part of another worker, and moves further chunks of that part to the worker's own
// part. If no chunk is left, it closes the phase.
func (r *sectionRun) stealChunk(open stepPhase, parts workerpool.Parts, ownPart int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	chunk := parts.Steal(ownPart)
	if chunk < 0 {
		r.removePhase(open)
	}
	return chunk
}

// withdrawPhase closes a phase to other workers.
func (r *sectionRun) withdrawPhase(open stepPhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removePhase(open)
}

// removePhase closes a phase. The lock must be held.
func (r *sectionRun) removePhase(open stepPhase) {
	if i := slices.Index(r.openPhases, open); i >= 0 {
		r.openPhases = slices.Delete(r.openPhases, i, i+1)
	}
}

// finishStep marks a step as finished. Steps of the section that waited only for this step become ready. finishStep
// returns the first phase of one such step, with which the worker continues, and adds the other steps to readySteps. It
// returns noPhase if no step becomes ready, or if the section is over.
func (s *Session) finishStep(worker *workerState, step int) (continued stepPhase) {
	run := &s.sectionRun
	const done = true
	s.endStep(worker, done)
	next, newShareable := noStep, 0 // newShareable: number of new steps worth sharing
	policy := workerpool.StartNone  // whether to wake workers for the new steps
	for _, waitingStep := range s.program.steps[step].waitingSteps {
		if !run.becomesReady(int(waitingStep)) {
			continue
		}
		if next == noStep {
			next = int(waitingStep)
			continue
		}
		run.mu.Lock()
		run.readySteps = append(run.readySteps, waitingStep)
		run.mu.Unlock()
		if run.isWorthSharing(int(waitingStep)) {
			newShareable, policy = newShareable+1, max(policy, run.wakePolicy(int(waitingStep)))
		}
	}
	if run.unfinishedSteps.Add(-1) == 0 || run.stop.Load() {
		return noPhase
	}
	if newShareable > 0 {
		run.requestHelpers(newShareable, policy)
	}
	return stepPhase{step: next} // noPhase if next is noStep
}

// becomesReady records that a step for which waitingStep waits has finished. It reports whether waitingStep is now
// ready. A step of a later section is never ready.
func (r *sectionRun) becomesReady(waitingStep int) bool {
	if waitingStep >= r.section.end {
		return false
	}
	index := waitingStep - r.section.first
	waitsForOne := r.section.shared.waitCounts[index] <= 1 // at the start; such a step needs no atomic operation
	return waitsForOne || atomic.AddInt32(&r.waitCounts[index], -1) == 0
}
