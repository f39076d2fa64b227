package exec

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/workerpool"
)

// maxChunks is the maximum number of chunks of a phase, which are counted in 32 bits.
const maxChunks = math.MaxInt32

// limitChunks returns a kernel with at most maxChunks chunks per phase. It joins chunks if necessary.
func limitChunks(kernel *graph.Kernel) *graph.Kernel {
	if !slices.ContainsFunc(kernel.Phases, func(ph graph.Phase) bool { return ph.Chunks > maxChunks }) {
		return kernel
	}
	joined := *kernel
	joined.Phases = slices.Clone(kernel.Phases)
	for i, ph := range kernel.Phases {
		if ph.Chunks <= maxChunks {
			continue
		}
		// A chunk of the joined phase is a group of consecutive chunks: ceil(Chunks / maxChunks) of them.
		chunksPerGroup := (ph.Chunks-1)/maxChunks + 1
		last := func(chunk int) int { return min((chunk+1)*chunksPerGroup, ph.Chunks) - 1 }
		joinedPhase := &joined.Phases[i]
		joinedPhase.Chunks = (ph.Chunks-1)/chunksPerGroup + 1
		joinedPhase.Run = func(m *graph.Mem, chunk int) error {
			for c := chunk * chunksPerGroup; c <= last(chunk); c++ {
				if err := ph.Run(m, c); err != nil {
					return err
				}
			}
			return nil
		}
		if f := ph.Flow; f != nil {
			joinedPhase.Flow = &graph.Flow{FinalElements: func(chunk int) int { return f.FinalElements(last(chunk)) },
				NeededElements: func(chunk int) int { return f.NeededElements(last(chunk)) }}
		}
	}
	return &joined
}

// openPhase is a phase of a step whose chunks any worker may take. step is an index in Program.steps, and phase is an
// index in the kernel of the step.
type openPhase struct{ step, phase int }

// sectionRun is the execution of a shared section: a range of steps that several workers run together. A worker takes
// a ready step, or joins an open phase that has chunks left. The worker that finishes the last chunk of a phase
// continues with the next phase. The worker that finishes a step continues with a step that waited for it, whose
// operands are in the worker's cache. For the same reason, each worker starts with the same part of the chunks in
// every phase, for example with the first quarter.
//
// The leader is the worker that runs the program. Helpers are workers of the pool. The leader and helpers request
// further helpers for chunks, and for ready steps that are worth passing to another worker. The leader never waits for
// helpers to start, and helpers leave when there is nothing to do.
type sectionRun struct {
	job             workerpool.Job
	ctx             context.Context
	section         *section
	unfinishedSteps atomic.Int32 // number of steps of the section that are not finished
	waitingHelpers  atomic.Int32 // number of idle helpers that wait for more work
	stop            atomic.Bool

	waitCounts     []int32          // for each step of the section: number of unfinished steps that the step waits for
	parts          workerpool.Parts // chunks to distribute: see Program.partOffsets
	finishedChunks []int32          // for each phase of the program: number of finished chunks, for shared phases

	mu         workerpool.Lock // guards the fields below
	readySteps []int32         // steps that can start
	openPhases []openPhase     // phases with chunks that no worker has taken
	idleStates []*workerState  // states without a worker
	err        error
	failedStep int // the step of err; -1 if err has no step: see fail
}

// prepare allocates the counters for the sections of a program.
func (r *sectionRun) prepare(p *Program) {
	longest := 0
	for _, sec := range p.sections {
		if sec.shared != nil {
			longest = max(longest, sec.end-sec.first)
		}
	}
	if longest > 0 {
		r.waitCounts, r.finishedChunks = make([]int32, longest), make([]int32, p.phases)
		r.parts = make(workerpool.Parts, p.partOffsets[p.phases])
	}
}

// runShared runs a section with all workers that are available.
func (s *Session) runShared(ctx context.Context, sec *section) error {
	s.reset(ctx, sec)
	s.runLeader()
	return s.sectionRun.err
}

// runLeader is the loop of the worker that runs the program. This worker starts first and leaves last.
func (s *Session) runLeader() {
	r := &s.sectionRun
	r.job.Begin()
	defer r.job.End() // also if a kernel calls runtime.Goexit
	shareable := 0
	for _, step := range r.readySteps {
		if r.isWorthSharing(int(step)) {
			shareable++
		}
	}
	if shareable > 1 {
		r.requestHelpers(min(shareable, len(s.workers))-1, r.wakePolicy(r.section.first))
	}
	for {
		eventsSeen := r.job.EventCount()
		s.runWorker(&s.workers[0])
		if r.isOver() {
			return
		}
		// No helper is left and nothing can be taken, but steps are unfinished: the goroutine that ran them has ended.
		if !r.job.Wait(eventsSeen) && r.isIdle() {
			s.fail(-1, errEnded)
		}
	}
}

var errEnded = errors.New("a kernel called runtime.Goexit")

// reset initializes the counters.
func (s *Session) reset(ctx context.Context, sec *section) {
	r, p := &s.sectionRun, s.program
	r.ctx, r.section, r.err, r.failedStep = ctx, sec, nil, -1
	r.readySteps, r.openPhases, r.idleStates = r.readySteps[:0], r.openPhases[:0], r.idleStates[:0]
	// Lists are in reverse order, because workers take the last element. Worker 0 is the leader.
	for i := len(s.workers) - 1; i > 0; i-- {
		r.idleStates = append(r.idleStates, &s.workers[i])
	}
	r.stop.Store(false)
	r.unfinishedSteps.Store(int32(sec.end - sec.first))
	copy(r.waitCounts, sec.shared.waitCounts)
	for i := sec.end - 1; i >= sec.first; i-- {
		if r.waitCounts[i-sec.first] == 0 {
			r.readySteps = append(r.readySteps, int32(i))
		}
	}
	last := &p.steps[sec.end-1]
	clear(r.finishedChunks[p.steps[sec.first].firstPhase : last.firstPhase+len(last.kernel.Phases)])
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
// the order of the program. Step -1 means that the context has ended, or that a kernel has ended its goroutine. Such an
// error neither replaces an earlier error nor is replaced.
func (s *Session) fail(step int, err error) {
	r := &s.sectionRun
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil || step < r.failedStep && step >= 0 {
		r.err, r.failedStep = err, step
	}
	r.stop.Store(true)
}

// runHelper is the loop of a helper from the worker pool.
func (s *Session) runHelper() {
	r := &s.sectionRun
	r.mu.Lock()
	n := len(r.idleStates) - 1
	if n < 0 {
		r.mu.Unlock()
		return
	}
	w := r.idleStates[n]
	r.idleStates = r.idleStates[:n]
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.idleStates = append(r.idleStates, w)
		r.mu.Unlock()
	}()
	for {
		eventsSeen := r.job.EventCount()
		s.runWorker(w)
		if r.isOver() {
			return
		}
		r.waitingHelpers.Add(1)
		hasWork := r.job.Linger(eventsSeen)
		r.waitingHelpers.Add(-1)
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
func (s *Session) runWorker(w *workerState) {
	for {
		step, phase, join := s.sectionRun.takePhase()
		if step < 0 {
			return
		}
		for step >= 0 {
			if join {
				s.prepare(w, &s.program.steps[step])
				step, phase = s.runChunks(w, openPhase{step, phase})
			} else {
				step, phase = s.runPhase(w, step, phase)
			}
			join = false
			if w.tracedStep != step+1 { // the worker goes to another step: this step is finished, or others finish it
				s.endStep(w, false)
			}
		}
	}
}

// takePhase returns an open phase to join (join is true), a step to start, or a negative step if there is neither.
// Chunks of open phases have priority over steps, because workers that compute the same part of consecutive steps
// find their operands in their caches. If one of two workers took a whole step instead, half of its operands would be
// in the cache of the other core.
func (r *sectionRun) takePhase() (step, phase int, join bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch n := len(r.readySteps) - 1; {
	case r.isOver():
		return -1, 0, false
	case len(r.openPhases) > 0:
		open := r.openPhases[len(r.openPhases)-1]
		return open.step, open.phase, true
	case n >= 0:
		step = int(r.readySteps[n])
		r.readySteps = r.readySteps[:n]
		return step, 0, false
	}
	return -1, 0, false
}

// isWorthSharing reports whether a step is worth passing to another worker.
func (r *sectionRun) isWorthSharing(step int) bool {
	return r.section.shared.costs[step-r.section.first] >= r.section.shared.minSharedNS
}

// wakePolicy returns whether to wake workers to share the steps from the given step on.
func (r *sectionRun) wakePolicy(step int) workerpool.StartPolicy {
	return r.section.shared.policies[step-r.section.first]
}

// runPhase starts a phase of a step, and works on the phase until all chunks are taken. It returns the step and phase
// to continue with, or a negative step.
func (s *Session) runPhase(w *workerState, step, phase int) (int, int) {
	st := &s.program.steps[step]
	phases := st.kernel.Phases
	// With KeepGoing, a step that reads from a failed step is not run, but counts as finished.
	isLost := phase == 0 && s.stepFailures != nil && s.stepFailures.propagate(step)
	for phase < len(phases) && phases[phase].Chunks == 0 {
		phase++
	}
	s.prepare(w, st)
	if phase >= len(phases) || isLost {
		s.beginStep(w, step)
		return s.finishStep(w, step), 0
	}
	open, chunks := openPhase{step, phase}, phases[phase].Chunks
	if parts := s.phaseParts(open); len(parts) > 0 {
		parts.Distribute(chunks)
		s.publishPhase(open, chunks)
		return s.runChunks(w, open)
	}
	for c := range chunks {
		if !s.tryChunk(w, open, c) {
			return -1, 0
		}
	}
	return s.continueAfter(w, open)
}

// phaseParts returns the parts of a phase; none if one worker runs all of its chunks.
func (s *Session) phaseParts(open openPhase) workerpool.Parts {
	offsets := s.program.partOffsets[s.program.steps[open.step].firstPhase+open.phase:]
	return s.sectionRun.parts[offsets[0]:offsets[1]]
}

// runChunks works on a shared phase until all chunks are taken. It returns the step and phase to continue with, or a
// negative step.
func (s *Session) runChunks(w *workerState, open openPhase) (int, int) {
	r, st, parts := &s.sectionRun, &s.program.steps[open.step], s.phaseParts(open)
	finishedTotal, chunkCount := &r.finishedChunks[st.firstPhase+open.phase], int32(st.kernel.Phases[open.phase].Chunks)
	ownPart := w.index % len(parts)
	// finished counts the chunks that this worker has run since it last added to finishedTotal. It adds them only when
	// its own part is empty, because the counter is shared by all workers.
	for finished := int32(0); ; finished++ {
		c := parts.Next(ownPart)
		if c < 0 && finished > 0 {
			if atomic.AddInt32(finishedTotal, finished) == chunkCount {
				r.withdrawPhase(open)
				return s.continueAfter(w, open)
			}
			finished = 0
		}
		if c < 0 {
			if c = r.stealChunk(open, parts, ownPart); c < 0 {
				return -1, 0
			}
		}
		if !s.tryChunk(w, open, c) {
			return -1, 0
		}
	}
}

// continueAfter returns the step and phase with which a worker continues after a finished phase, or a negative step.
func (s *Session) continueAfter(w *workerState, open openPhase) (int, int) {
	if s.stepFailures != nil && s.stepFailures.isLost(open.step) {
		return s.finishStep(w, open.step), 0
	}
	return open.step, open.phase + 1
}

// tryChunk runs a chunk unless the section has ended, and reports whether the section continues. With KeepGoing, a
// failure of the chunk is recorded, and the rest of the step is skipped.
func (s *Session) tryChunk(w *workerState, open openPhase, c int) bool {
	r := &s.sectionRun
	if r.ctx.Err() != nil {
		s.fail(-1, context.Cause(r.ctx))
	}
	if r.stop.Load() {
		return false
	}
	s.beginStep(w, open.step)
	if s.stepFailures != nil && s.stepFailures.isLost(open.step) {
		return true
	}
	err := s.chunk(w, open.step, open.phase, c)
	switch {
	case err == nil:
	case r.ctx.Err() != nil:
		s.fail(-1, context.Cause(r.ctx))
		return false
	case s.stepFailures != nil:
		s.stepFailures.add(open.step, err)
	default:
		s.fail(open.step, s.program.graph.NodeError(s.program.steps[open.step].node, err))
		return false
	}
	return true
}

// publishPhase lets other workers join a phase.
func (s *Session) publishPhase(open openPhase, chunks int) {
	r := &s.sectionRun
	r.mu.Lock()
	r.openPhases = append(r.openPhases, open)
	r.mu.Unlock()
	// Workers that are about to leave also receive the request.
	r.requestHelpers(min(chunks, len(s.workers))-1, r.wakePolicy(open.step))
}

// stealChunk takes a chunk from the part of another worker, and moves further chunks of that part to the worker's own
// part. If no chunk is left, it closes the phase.
func (r *sectionRun) stealChunk(open openPhase, parts workerpool.Parts, ownPart int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := parts.Steal(ownPart)
	if c < 0 {
		r.removePhase(open)
	}
	return c
}

// withdrawPhase closes a phase to other workers.
func (r *sectionRun) withdrawPhase(open openPhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removePhase(open)
}

// removePhase closes a phase. The lock must be held.
func (r *sectionRun) removePhase(open openPhase) {
	if i := slices.Index(r.openPhases, open); i >= 0 {
		r.openPhases = slices.Delete(r.openPhases, i, i+1)
	}
}

// finishStep marks a step as finished. Steps of the section that waited only for this step become ready.
// finishStep returns the first of them, which the worker runs next, and adds the others to readySteps. It returns -1 if
// there is none, or if the section is over.
func (s *Session) finishStep(w *workerState, step int) int {
	r, sec := &s.sectionRun, s.sectionRun.section
	s.endStep(w, true)
	next, newShareable, policy := -1, 0, workerpool.StartNone
	for _, waitingStep := range s.program.steps[step].waitingSteps {
		index := int(waitingStep) - sec.first
		// waitCounts of the section has the initial count. A step that waits for one step only is ready now, without an
		// atomic operation.
		if int(waitingStep) >= sec.end || sec.shared.waitCounts[index] > 1 && atomic.AddInt32(&r.waitCounts[index], -1) != 0 {
			continue
		}
		if next < 0 {
			next = int(waitingStep)
			continue
		}
		r.mu.Lock()
		r.readySteps = append(r.readySteps, waitingStep)
		r.mu.Unlock()
		if r.isWorthSharing(int(waitingStep)) {
			newShareable, policy = newShareable+1, max(policy, r.wakePolicy(int(waitingStep)))
		}
	}
	if r.unfinishedSteps.Add(-1) == 0 || r.stop.Load() {
		return -1
	}
	if newShareable > 0 {
		r.requestHelpers(newShareable, policy)
	}
	return next
}
