package exec

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/graphrun/graphrun/internal/workerpool"
)

// This file runs shared sections: ranges of steps that several workers run together ([sectionRun]).
//
//   - A step runs a kernel. The phases of a kernel run one after another. The chunks of a phase are independent.
//   - A step is ready when all steps for which it waits have finished.
//   - A phase is open while it has chunks that any worker may take.
//   - A part is the group of consecutive chunks with which one worker starts. With 8 chunks and 4 workers, worker 1
//     starts with chunks 2 and 3. When its part is empty, it steals chunks of other parts.
//
// Each worker runs [Session.runWorker], which takes work (takePhase) until there is none. The worker that starts a
// phase calls runPhase, and the workers that join the phase call runChunks (phases.go).

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
