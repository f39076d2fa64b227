package exec

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/graphrun/graphrun/graph"
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

// This part runs the steps of a shared section ([sectionRun]). A step runs the phases of its kernel, one after another.
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

// This part runs shared sections: ranges of steps that several workers run together ([sectionRun]).
//
//   - A step runs a kernel. The phases of a kernel run one after another. The chunks of a phase are independent.
//   - A step is ready when all steps for which it waits have finished.
//   - A phase is open while it has chunks that any worker may take.
//   - A part is the group of consecutive chunks with which one worker starts. With 8 chunks and 4 workers, worker 1
//     starts with chunks 2 and 3. When its part is empty, it steals chunks of other parts.
//
// Each worker runs [Session.runWorker], which takes work (takePhase) until there is none. The worker that starts a
// phase calls runPhase, and the workers that join the phase call runChunks (above).

// sectionRun is the execution of a shared section. A worker joins an open phase, or takes a ready step. The worker that
// finishes the last chunk of a phase continues with the next phase. The worker that finishes a step continues with a
// step that waited for it, because the operands of the waiting step are in the worker's cache. For the same reason,
// each worker starts with the same part in every phase.
//
// The leader is the worker that runs the program. Helpers are workers of the pool. The leader and helpers request
// further helpers for chunks, and for ready steps that are worth passing to another worker. The leader never waits for
// helpers to start, and helpers leave when there is nothing to do.
type sectionRun struct {
	job             workerpool.Job // the helpers of the section; counts events, such as requests for helpers
	ctx             context.Context
	section         *section
	unfinishedSteps atomic.Int32 // number of steps of the section that are not finished
	waitingHelpers  atomic.Int32 // number of idle helpers that wait for more work
	stop            atomic.Bool  // the section has failed, or its context has ended

	waitCounts     []int32          // for each step of the section: number of unfinished steps that the step waits for
	parts          workerpool.Parts // the parts of all phases of the program, in order: see phaseParts
	finishedChunks []int32          // for each phase of the program: number of finished chunks, for phases with parts

	mu         workerpool.Lock // guards the fields below
	readySteps []int32         // steps that can start
	openPhases []stepPhase     // phases whose chunks any worker may take
	idleStates []*workerState  // states without a worker
	err        error
	failedStep int // the step of err, or noStep: see fail
}

// stepPhase identifies a phase of a step: step is an index in Program.steps, and phase an index in the step's kernel.
type stepPhase struct{ step, phase int }

// noStep is used instead of a step if a worker has no step to continue with, or if an error has no step.
const noStep = -1

// noPhase is the next phase of a worker that has none to continue with.
var noPhase = stepPhase{step: noStep}

// prepare allocates the counters for the sections of a program.
func (r *sectionRun) prepare(program *Program) {
	longest := 0
	for _, section := range program.sections {
		if section.shared != nil {
			longest = max(longest, section.end-section.first)
		}
	}
	if longest > 0 {
		r.waitCounts, r.finishedChunks = make([]int32, longest), make([]int32, program.phaseCount)
		r.parts = make(workerpool.Parts, program.partOffsets[program.phaseCount])
	}
}

// runShared runs a section with all workers that are available.
func (s *Session) runShared(ctx context.Context, section *section) error {
	s.resetSection(ctx, section)
	s.runLeader()
	return s.sectionRun.err
}

// runLeader is the loop of the worker that runs the program. This worker starts first and leaves last.
func (s *Session) runLeader() {
	run := &s.sectionRun
	run.job.Begin()
	defer run.job.End() // also if a kernel calls runtime.Goexit

	shareableSteps := 0 // number of shareable steps that are ready at the start
	for _, step := range run.readySteps {
		if run.isWorthSharing(int(step)) {
			shareableSteps++
		}
	}
	if shareableSteps > 1 {
		run.requestHelpers(min(shareableSteps, len(s.workers))-1, run.wakePolicy(run.section.first))
	}

	for {
		eventsSeen := run.job.EventCount()
		s.runWorker(&s.workers[0])
		if run.isOver() {
			return
		}
		// No helper is left and nothing can be taken, but steps are unfinished: the goroutine that ran them has ended.
		if !run.job.Wait(eventsSeen) && run.isIdle() {
			s.fail(noStep, errGoexit)
		}
	}
}

var errGoexit = errors.New("a kernel called runtime.Goexit")

// resetSection prepares the counters and the lists for a section.
func (s *Session) resetSection(ctx context.Context, section *section) {
	run, program := &s.sectionRun, s.program
	run.ctx, run.section, run.err, run.failedStep = ctx, section, nil, noStep
	run.readySteps, run.openPhases, run.idleStates = run.readySteps[:0], run.openPhases[:0], run.idleStates[:0]
	// Lists are in reverse order, because workers take the last element. Worker 0 is the leader.
	for i := len(s.workers) - 1; i > 0; i-- {
		run.idleStates = append(run.idleStates, &s.workers[i])
	}
	run.stop.Store(false)
	run.unfinishedSteps.Store(int32(section.end - section.first))
	copy(run.waitCounts, section.shared.waitCounts)
	for i := section.end - 1; i >= section.first; i-- {
		if run.waitCounts[i-section.first] == 0 {
			run.readySteps = append(run.readySteps, int32(i))
		}
	}
	last := &program.steps[section.end-1]
	clear(run.finishedChunks[program.steps[section.first].firstPhase : last.firstPhase+len(last.kernel.Phases)])
}

// isOver reports whether the section is finished or has failed.
func (r *sectionRun) isOver() bool { return r.stop.Load() || r.unfinishedSteps.Load() == 0 }

// isIdle reports whether there is no step or chunk to take.
func (r *sectionRun) isIdle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.readySteps)+len(r.openPhases) == 0 && !r.isOver()
}

// fail ends the section with an error. If several steps fail, the section keeps the error of the step that is first in
// the order of the program. If the context has ended, or a kernel has ended its goroutine, the error has noStep. The
// section keeps such an error if it is the first error, and ignores it otherwise.
func (s *Session) fail(step int, err error) {
	run := &s.sectionRun
	run.mu.Lock()
	defer run.mu.Unlock()
	isOfEarlierStep := step >= 0 && step < run.failedStep // false if either of the two is noStep, which is -1
	if run.err == nil || isOfEarlierStep {
		run.err, run.failedStep = err, step
	}
	run.stop.Store(true)
}

// runHelper is the loop of a helper from the worker pool.
func (s *Session) runHelper() {
	run := &s.sectionRun
	run.mu.Lock()
	last := len(run.idleStates) - 1
	if last < 0 {
		run.mu.Unlock()
		return
	}
	worker := run.idleStates[last]
	run.idleStates = run.idleStates[:last]
	run.mu.Unlock()
	defer func() {
		run.mu.Lock()
		run.idleStates = append(run.idleStates, worker)
		run.mu.Unlock()
	}()
	for {
		eventsSeen := run.job.EventCount()
		s.runWorker(worker)
		if run.isOver() {
			return
		}
		run.waitingHelpers.Add(1)
		hasWork := run.job.Linger(eventsSeen) // waits a short time for new steps or chunks
		run.waitingHelpers.Add(-1)
		if !hasWork {
			return
		}
	}
}

// requestHelpers requests up to count helpers. Idle helpers of this section are woken first.
func (r *sectionRun) requestHelpers(count int, policy workerpool.StartPolicy) {
	r.job.RequestWorkers(max(0, count-int(r.waitingHelpers.Load())), policy)
}

// runWorker works until there is nothing to take.
func (s *Session) runWorker(worker *workerState) {
	for {
		current, joinsPhase := s.sectionRun.takePhase()
		if current == noPhase {
			return
		}
		for current != noPhase {
			if joinsPhase {
				s.setAddresses(worker, &s.program.steps[current.step])
				current = s.runChunks(worker, current)
			} else {
				current = s.runPhase(worker, current)
			}
			joinsPhase = false // the worker starts its next phases itself
			// The worker has reported the begin of step tracedStep-1 to the tracer. If it continues with another step,
			// or with none, endStep reports that it leaves this step unfinished. If it has finished the step,
			// tracedStep is 0, and endStep does nothing.
			if worker.tracedStep != current.step+1 {
				const done = false
				s.endStep(worker, done)
			}
		}
	}
}

// takePhase returns an open phase to join (joinsPhase is true), the first phase of a ready step, or noPhase if there is
// neither. Chunks of open phases have priority over steps, because workers that compute the same part of consecutive
// steps find their operands in their caches. If one of two workers took a whole step instead, half of its operands
// would be in the cache of the other core.
func (r *sectionRun) takePhase() (taken stepPhase, joinsPhase bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch last := len(r.readySteps) - 1; {
	case r.isOver():
		return noPhase, false
	case len(r.openPhases) > 0:
		return r.openPhases[len(r.openPhases)-1], true
	case last >= 0:
		step := int(r.readySteps[last])
		r.readySteps = r.readySteps[:last]
		return stepPhase{step: step}, false
	}
	return noPhase, false
}

// isWorthSharing reports whether a step is worth passing to another worker.
func (r *sectionRun) isWorthSharing(step int) bool {
	return r.section.shared.costsNS[step-r.section.first] >= r.section.shared.minSharedNS
}

// wakePolicy returns whether to wake workers to share the steps from the given step on.
func (r *sectionRun) wakePolicy(step int) workerpool.StartPolicy {
	return r.section.shared.policies[step-r.section.first]
}

// This part joins chunks of kernels. Each phase of a kernel has independent chunks, which workers run concurrently.

// maxChunks is the maximum number of chunks of a phase, which are counted in 32 bits.
const maxChunks = math.MaxInt32

// joinChunks returns a kernel with fewer chunks. In phases that it changes, a chunk is a group of consecutive chunks of
// the given kernel. It changes phases with more than maxChunks chunks, and phases whose RunRange runs the chunks of a
// group faster than calls of Run.
func joinChunks(kernel *graph.Kernel, workers int) *graph.Kernel {
	limit := func(phase graph.Phase) int {
		if phase.RunRange != nil {
			return min(workers, maxChunks)
		}
		return maxChunks
	}
	if !slices.ContainsFunc(kernel.Phases, func(phase graph.Phase) bool { return phase.Chunks > limit(phase) }) {
		return kernel
	}
	joined := *kernel
	joined.Phases = slices.Clone(kernel.Phases)
	for i, phase := range kernel.Phases {
		if maxGroups := limit(phase); phase.Chunks > maxGroups {
			joined.Phases[i] = joinPhase(phase, maxGroups)
		}
	}
	return &joined
}

// joinPhase returns a phase with at most maxGroups chunks, each a group of consecutive chunks of the given phase. For
// example, 10 chunks in at most 4 groups become the groups 0-2, 3-5, 6-8 and 9.
func joinPhase(phase graph.Phase, maxGroups int) graph.Phase {
	chunksPerGroup := (phase.Chunks-1)/maxGroups + 1 // ceil(Chunks / maxGroups)
	last := func(group int) int { return min((group+1)*chunksPerGroup, phase.Chunks) - 1 }
	joined := phase
	joined.Chunks = (phase.Chunks-1)/chunksPerGroup + 1
	joined.Run = func(mem *graph.Mem, group int) error {
		if phase.RunRange != nil {
			return phase.RunRange(mem, group*chunksPerGroup, last(group)+1)
		}
		for chunk := group * chunksPerGroup; chunk <= last(group); chunk++ {
			if err := phase.Run(mem, chunk); err != nil {
				return err
			}
		}
		return nil
	}
	if flow := phase.Flow; flow != nil {
		joined.Flow = &graph.Flow{FinalElements: func(group int) int { return flow.FinalElements(last(group)) },
			NeededElements: func(group int) int { return flow.NeededElements(last(group)) }}
	}
	return joined
}
