package exec

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
)

// What workers take who hand a phase over, and for a line that another core wrote last, in parts of the work that is
// worth handing over: 1 us and 10 ns, where that is 5 us.
const (
	handingPart = 5
	linePart    = 500
)

// mostSweeps bounds how often splits looks at all steps. Networks take two or three times.
const mostSweeps = 8

// move is what goes from a step to another: half of the bytes from one core to the other, where workers share one of
// the steps and a single one does the other.
type move struct {
	from, to int32
	ns       float64
}

// splits chooses the steps whose chunks are handed out: those that are worth it, but for a few between others that are
// not. A step that two workers share takes half as long, and what is written by one and read by both, or the other way
// round, goes from core to core. Beginning with all that are worth it, a step between them that is not is split, too,
// where that takes less time than to bring together what they have apart, until there is none; then a step is given to
// one worker where that takes less time, as its neighbours are, until there is none.
func (p *Program) splits(costs []float64, share float64) []bool {
	split, gains := make([]bool, len(p.steps)), make([]float64, len(p.steps))
	several := make([]bool, len(p.steps))
	for i := range p.steps {
		chunks, phases := 1, 0
		for _, ph := range p.steps[i].kernel.Phases {
			chunks = max(chunks, ph.Chunks)
			if ph.Chunks > 1 {
				phases++
			}
		}
		several[i] = chunks > 1
		split[i] = several[i] && costs[i] >= share
		gains[i] = costs[i]*(1-1/float64(min(chunks, p.threads))) - float64(phases)*share/handingPart
	}
	moves := p.moves(share / linePart)
	lost := make([]float64, len(p.steps)) // that the neighbours are done otherwise, if the step is split
	settle := func(to bool) {             // until no other step is better so
		settled := false
		for n := 0; n < mostSweeps && !settled; n++ {
			clear(lost)
			for _, m := range moves {
				lost[m.from] += m.loss(split[m.to])
				lost[m.to] += m.loss(split[m.from])
			}
			settled = true
			for i := range split {
				if split[i] != to && several[i] && (gains[i] < lost[i]) != to {
					split[i], settled = to, false
				}
			}
		}
	}
	settle(true)
	settle(false)
	return split
}

// loss is what a step loses by being split, whose neighbour is or is not.
func (m *move) loss(split bool) float64 {
	if split {
		return -m.ns
	}
	return m.ns
}

// moves lists what steps read that others write, at so much a line. Of several that write a value the last is counted,
// what others wrote being older; steps that do nothing, as where parts of a value were written in their places, are
// passed over.
func (p *Program) moves(line float64) []move {
	var list []move
	writer := make([]int32, len(p.storages)) // plus 1
	for i := range p.steps {
		s := &p.steps[i]
		if !s.acts() {
			continue
		}
		outs := len(s.node.Out)
		for k, r := range s.refs[outs:] {
			if a := &s.node.In[k]; r.storage >= 0 && a.Kind == graph.TensorArg && writer[r.storage] > 0 {
				from := writer[r.storage] - 1
				bytes := min(a.Meta().Bytes(), p.steps[from].node.Out[0].Meta.Bytes())
				list = append(list, move{from, int32(i), float64(bytes/2/machine.LineBytes) * line})
			}
		}
		for _, r := range s.refs[:outs] {
			if r.storage >= 0 {
				writer[r.storage] = int32(i) + 1
			}
		}
	}
	return list
}

// acts reports whether a step has anything to do.
func (s *step) acts() bool {
	for _, ph := range s.kernel.Phases {
		if ph.Chunks > 0 {
			return true
		}
	}
	return false
}
