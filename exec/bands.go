package exec

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
)

// A band is some steps in a row, each of which reads what the one before it makes, that one worker runs by turns: as
// soon as so many chunks of a step have run as a chunk of the next one needs, that one runs. What goes from step to
// step is read while the second cache has it, where steps one after the other would fetch all of it from farther off.
// Which chunk runs when decides nothing else.
//
// Several workers have no bands: each of them goes through a part of the rows, which is nearer to what its own cache
// holds, and would wait for the rows of another where parts meet.

const (
	// bandFrom is how many bytes a value between two steps has at least: less of it is still near.
	bandFrom = machine.L2Bytes
	// bandBytes bounds what was made and not yet read, of all values between the steps of a band: about what the second
	// cache holds beside weights and what is written.
	bandBytes = machine.L2Bytes
	// bandSteps is how many steps a band has at most.
	bandSteps = 16
)

// findBands tells the first step of each band where it ends. Memory is planned by it.
func (p *Program) findBands() {
	for i := 0; i < len(p.steps); {
		end, held := i+1, 0
		for end < min(len(p.steps), i+bandSteps) {
			between := p.between(end)
			if between < 0 || held+between > bandBytes || p.readsFrom(end, i) {
				break
			}
			held += between
			end++
		}
		if end > i+1 {
			p.steps[i].band = end
		}
		i = end
	}
}

// flowing returns the phase of a step that may be in a band: the only one, whose chunks tell how far they come.
func (s *step) flowing() *graph.Phase {
	k := s.kernel
	if len(k.Phases) != 1 || k.Scratch > 0 || len(k.InPlace) > 0 || len(s.node.Out) != 1 || s.node.Out[0].Within != nil {
		return nil
	}
	if ph := &k.Phases[0]; ph.Flow != nil && ph.Chunks > 1 {
		return ph
	}
	return nil
}

// between returns how many bytes are between a step and the one before it at most, if they take turns: written, and not
// yet read for the last time. It is negative where they cannot, or where that saves nothing.
func (p *Program) between(i int) int {
	before, st := &p.steps[i-1], &p.steps[i]
	from, to := before.flowing(), st.flowing()
	if from == nil || to == nil || len(st.node.In) == 0 || st.node.In[0].Kind != graph.TensorArg ||
		st.refs[1] != before.refs[0] {
		return -1
	}
	made, read := before.node.Out[0].Meta, st.node.In[0].Meta()
	if made.DType != read.DType || made.Numel() != read.Numel() || !made.SameAddresses(read) || made.Bytes() < bandFrom {
		return -1
	}
	most, ready, done := 0, 0, 0
	for c := range to.Chunks {
		used := 0
		if c > 0 {
			used = to.Flow.Needs(c - 1)
		}
		for needs := to.Flow.Needs(c); ready < needs && done < from.Chunks; done++ {
			ready = from.Flow.Made(done)
		}
		most = max(most, ready-used)
	}
	return most * made.DType.Size()
}

// readsFrom reports whether a step has an operand beside its first that steps from first on to it make.
func (p *Program) readsFrom(i, first int) bool {
	for _, r := range p.steps[i].refs[2:] {
		for k := first; k < i && r.storage >= 0; k++ {
			if p.steps[k].refs[0].storage == r.storage {
				return true
			}
		}
	}
	return false
}

// band runs the steps from first to end by turns: always the last of them that has what its next chunk needs.
func (s *Session) band(ctx context.Context, w *workerState, first, end int) error {
	var next [bandSteps]int // chunks
	for i := end - 1; ; {
		st := &s.p.steps[i]
		ph, c := &st.kernel.Phases[0], next[i-first]
		switch {
		case c == ph.Chunks && i == end-1:
			return nil
		case c == ph.Chunks: // all that the next step needs is there
			i++
			continue
		case i > first && s.p.awaits(i, c, next[i-1-first]):
			i--
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		s.prepare(w, st)
		s.beginStep(w, i)
		err := s.chunk(w, i, 0, c)
		s.endStep(w, err == nil && c == ph.Chunks-1)
		if err != nil {
			return s.failure(ctx, i, err)
		}
		next[i-first]++
		i = end - 1
	}
}

// awaits reports whether a chunk of a step in a band needs more than the first chunks of the step before it make.
func (p *Program) awaits(i, chunk, made int) bool {
	from, to := &p.steps[i-1].kernel.Phases[0], &p.steps[i].kernel.Phases[0]
	return made == 0 || made < from.Chunks && from.Flow.Made(made-1) < to.Flow.Needs(chunk)
}

// hold keeps all that a band's steps touch until the last of them, since none of them is done before.
func (p *Program) hold() {
	for i := range p.steps {
		for k := i; k < p.steps[i].band; k++ {
			for _, r := range p.steps[k].refs {
				if r.storage >= 0 {
					p.storages[r.storage].last = max(p.storages[r.storage].last, p.steps[i].band-1)
				}
			}
		}
	}
}
