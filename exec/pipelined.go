package exec

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
)

// A pipelined group is a sequence of steps in which each step reads the result of the previous step. One worker runs
// the chunks of the steps interleaved: the next chunk of a step runs as soon as enough chunks of the previous step
// have run. The values between the steps are then read from the L2 cache instead of from memory. The results do not
// depend on the order of chunks. For example, if chunk c of step b needs the chunks c and c+1 of step a, the order is
//
//	a0 a1 b0 a2 b1 a3 b2 ...
//
// Groups are used only with one worker. With several workers, each worker computes only a part of the rows, which is
// more likely to fit into its cache. In a group, a worker would also have to wait for rows of other workers at the
// boundaries of its part.
//
// The [graph.Flow] of a phase states the progress of its chunks. FinalElements is the number of elements of the result
// that are final after a chunk. NeededElements is the number of elements of the first operand that a chunk needs.

const (
	// minPipelinedBytes is the minimum size in bytes of a value between pipelined steps. Smaller values stay in the
	// cache anyway.
	minPipelinedBytes = machine.L2Bytes
	// maxBufferedBytes is the maximum number of bytes that are computed but not yet read, summed over all values
	// between the steps of a group.
	maxBufferedBytes = machine.L2Bytes
	// maxGroupSteps is the maximum number of steps in a group.
	maxGroupSteps = 16
)

// findPipelines finds the groups and sets pipelineEnd of their first steps. The memory plan depends on the groups.
func (p *Program) findPipelines() {
	for i := 0; i < len(p.steps); {
		end, buffered := i+1, 0
		for end < min(len(p.steps), i+maxGroupSteps) {
			bytes := p.bufferedBytes(end)
			if bytes < 0 || buffered+bytes > maxBufferedBytes || p.readsOtherResult(end, i) {
				break
			}
			buffered += bytes
			end++
		}
		if end > i+1 {
			p.steps[i].pipelineEnd = end
		}
		i = end
	}
}

// bufferedBytes returns the maximum number of bytes that step i-1 has written and step i still has to read, if the
// chunks of the two steps are interleaved. The result is negative if interleaving is impossible or saves no memory
// traffic.
func (p *Program) bufferedBytes(i int) int {
	previous, step := &p.steps[i-1], &p.steps[i]
	previousPhase, phase := previous.pipelinePhase(), step.pipelinePhase()
	if previousPhase == nil || phase == nil || !step.readsResultOf(previous) {
		return -1
	}
	written, read := previous.node.Out[0].Meta, step.node.In[0].Meta()
	isWhole := written.DType == read.DType && written.Numel() == read.Numel() && written.SameAddresses(read)
	if !isWhole || written.Bytes() < minPipelinedBytes {
		return -1
	}
	return maxBufferedElements(previousPhase, phase) * written.DType.Size()
}

// pipelinePhase returns the phase of a step that can be in a group, or nil. Such a step has one phase, with a Flow.
func (st *step) pipelinePhase() *graph.Phase {
	kernel := st.kernel
	usesOtherMemory := kernel.Scratch > 0 || len(kernel.InPlace) > 0
	hasOwnResult := len(st.node.Out) == 1 && st.node.Out[0].ContainedIn == nil
	if len(kernel.Phases) != 1 || usesOtherMemory || !hasOwnResult {
		return nil
	}
	if phase := &kernel.Phases[0]; phase.Flow != nil && phase.Chunks > 1 {
		return phase
	}
	return nil
}

// readsResultOf reports whether the first operand of a step is the first result of the previous step. The step has one
// result, so that address 0 is the result, and address 1 the first operand.
func (st *step) readsResultOf(previous *step) bool {
	return len(st.node.In) > 0 && st.node.In[0].Kind == graph.TensorArg && st.addresses[1] == previous.addresses[0]
}

// maxBufferedElements returns the maximum number of elements that the phase of a previous step has written, and the
// phase of a step still has to read.
func maxBufferedElements(previousPhase, phase *graph.Phase) int {
	// Before a chunk of the step, finishedChunks chunks of the previous step must have run. They have written
	// finalElements elements. The earlier chunks of the step have read consumedElements of these.
	maxElements, finalElements, finishedChunks := 0, 0, 0
	for chunk := range phase.Chunks {
		consumedElements := 0
		if chunk > 0 {
			consumedElements = phase.Flow.NeededElements(chunk - 1)
		}
		needed := phase.Flow.NeededElements(chunk)
		for ; finalElements < needed && finishedChunks < previousPhase.Chunks; finishedChunks++ {
			finalElements = previousPhase.Flow.FinalElements(finishedChunks)
		}
		maxElements = max(maxElements, finalElements-consumedElements)
	}
	return maxElements
}

// readsOtherResult reports whether step i reads a result of the steps from first to i-1 by an operand other than its
// first operand. mustWait does not wait for such a result.
func (p *Program) readsOtherResult(i, first int) bool {
	for _, operand := range p.steps[i].addresses[2:] { // addresses 0 and 1 are the only output and the first operand
		for k := first; k < i && operand.storage >= 0; k++ {
			if p.steps[k].addresses[0].storage == operand.storage {
				return true
			}
		}
	}
	return false
}

// runPipelined runs the group of steps from first to end-1, one chunk after another: always the next chunk of the
// latest step whose operands are ready. To find this chunk, the loop starts at the last step, and goes back while a
// step must wait. If it arrives at a step that has ended, it continues with the following step, whose operands are then
// complete.
func (s *Session) runPipelined(ctx context.Context, worker *workerState, first, end int) error {
	var nextChunk [maxGroupSteps]int // nextChunk[k] is the next chunk of step k of the group
	for i := end - 1; ; {
		step := &s.program.steps[i]
		phase, chunk := &step.kernel.Phases[0], nextChunk[i-first]
		switch {
		case chunk == phase.Chunks && i == end-1: // the last step has ended
			return nil
		case chunk == phase.Chunks: // another step has ended
			i++
			continue
		case i > first && s.program.mustWait(i, chunk, nextChunk[i-1-first]):
			i--
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		s.setAddresses(worker, step)
		s.beginStep(worker, i)
		err := s.runChunk(worker, i, 0, chunk)
		isDone := err == nil && chunk == phase.Chunks-1
		s.endStep(worker, isDone)
		if err != nil {
			return s.chunkError(ctx, i, err)
		}
		nextChunk[i-first]++
		i = end - 1 // search again
	}
}

// mustWait reports whether a chunk of step i must wait for further chunks of step i-1. finished is the number of chunks
// of step i-1 that have finished.
func (p *Program) mustWait(i, chunk, finished int) bool {
	previous, phase := &p.steps[i-1].kernel.Phases[0], &p.steps[i].kernel.Phases[0]
	switch finished {
	case 0: // no chunk has run
		return true
	case previous.Chunks:
		return false
	}
	return previous.Flow.FinalElements(finished-1) < phase.Flow.NeededElements(chunk)
}

// extendLifetimes extends the lifetimes of all memory that a group uses to the last step of the group, because any step
// of the group may run until then.
func (p *Program) extendLifetimes() {
	for i := range p.steps {
		end := p.steps[i].pipelineEnd
		for k := i; k < end; k++ {
			for _, address := range p.steps[k].addresses {
				if address.storage >= 0 {
					used := &p.storages[address.storage]
					used.lastStep = max(used.lastStep, end-1)
				}
			}
		}
	}
}
