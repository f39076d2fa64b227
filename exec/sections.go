package exec

import (
	"cmp"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/workerpool"
)

// section is a range of steps, which starts when all steps before it are done. One that is not shared is run by one
// worker in order, without counters or notifications, so that cheap steps cost no more than with one worker.
type section struct {
	first, end int // steps
	shared     *sharing
	ahead      workerpool.Worth // of the next section, if this one is serial: workers are woken for it
}

// sharing describes a shared section. All costs are estimates.
type sharing struct {
	deps  []int32            // by step: number of steps of the section that it waits for
	costs []float64          // by step, in nanoseconds
	worth []workerpool.Worth // by step: the work that can be shared from it on
	most  workerpool.Worth   // the maximum of worth
	share float64            // the minimum cost of work to pass to another awake worker
}

// minSerialSteps is the number of consecutive unshared steps that end a shared section. A step in a shared section
// costs some tens of nanoseconds more.
const minSerialSteps = 8

// wakeAheadNS is approximately the time until a woken worker starts.
const wakeAheadNS = 1e5

// wakeWindow determines the period in which a section must save the minimum time that justifies waking workers: the
// period is wakeWindow times that minimum. In a longer period workers would fall asleep again.
const wakeWindow = 4

// tryPart divides the minimum saving: from 1/tryPart of it, workers are woken as an experiment.
const tryPart = 5

// cutSections finds the sections. Dependencies from the memory plan must be known.
func (p *Program) cutSections(costs *machine.Profile) {
	n := len(p.steps)
	if p.threads == 1 || n == 0 {
		p.sections = []section{{end: n}}
		return
	}
	if costs == nil {
		costs = machine.UsualProfile()
	}
	s := sharing{share: cmp.Or(costs.ShareNS, machine.UsualShareNS)}
	s.costs = p.price(costs, s.share)
	split := p.splits(s.costs, s.share)
	saved := p.savings(s.costs, split, s.share)
	s.worth = worths(s.costs, saved, cmp.Or(costs.WakeNS, machine.UsualWakeNS))
	at := 0 // end of the sections so far
	for i := 0; i < n; i++ {
		if saved[i] == 0 {
			continue
		}
		end := i + 1
		for k := end; k < n && k < end+minSerialSteps; k++ {
			if saved[k] > 0 {
				end = k + 1
			}
		}
		if i > at {
			p.addSerial(s.costs, at, i, s.worth[i])
		}
		p.sections = append(p.sections, section{first: i, end: end, shared: p.shared(s, i, end)})
		at, i = end, end-1
	}
	if at < n {
		p.sections = append(p.sections, section{first: at, end: n})
	}
	if len(p.sections) > 1 || p.sections[0].shared != nil {
		p.part(split)
	}
}

// addSerial adds a serial section from first to end, before a section with the given worth. Workers are woken when
// about wakeAheadNS of it is left.
func (p *Program) addSerial(costs []float64, first, end int, worth workerpool.Worth) {
	left, at := 0.0, end
	for at > first && left < wakeAheadNS {
		at--
		left += costs[at]
	}
	if at > first {
		p.sections = append(p.sections, section{first: first, end: at})
	}
	p.sections = append(p.sections, section{first: at, end: end, ahead: worth})
}

// part sets the number of parts of each shared phase to the number of workers that can join.
func (p *Program) part(split []bool) {
	p.parts = make([]int, p.phases+1)
	for _, sec := range p.sections {
		for i := sec.first; i < sec.end && sec.shared != nil; i++ {
			st := &p.steps[i]
			for k, ph := range st.kernel.Phases {
				if ph.Chunks > 1 && split[i] {
					p.parts[st.phase+k+1] = min(p.threads, ph.Chunks)
				}
			}
		}
	}
	for i := range p.phases {
		p.parts[i+1] += p.parts[i]
	}
}

// shared returns the sharing of the steps from first to end.
func (p *Program) shared(all sharing, first, end int) *sharing {
	worth := all.worth[first:end]
	s := sharing{make([]int32, end-first), all.costs[first:end], worth, slices.Max(worth), all.share}
	for i := first; i < end; i++ {
		for _, k := range p.steps[i].next {
			if int(k) < end {
				s.deps[int(k)-first]++
			}
		}
	}
	return &s
}

// mostElementNS is an upper estimate for an element of a pointwise step.
const mostElementNS = 20

// price estimates the time of each step on one worker, in nanoseconds. A compiled kernel knows its arithmetic. For
// other kernels the number of chunks is a lower estimate, also for ops without prices. Small pointwise steps are not
// priced: they are not worth sharing.
func (p *Program) price(costs *machine.Profile, share float64) []float64 {
	list := make([]float64, len(p.steps))
	inBatches(len(list), p.threads, func(begin, end int) {
		for i := begin; i < end; i++ {
			list[i] = p.steps[i].price(costs, share)
		}
	})
	return list
}

// price is the estimate for one step.
func (s *step) price(costs *machine.Profile, share float64) (ns float64) {
	asks := s.kernel.Loop == nil || float64(s.kernel.Loop.Numel())*mostElementNS >= share
	ns = max(s.kernel.Arithmetic, 0)
	compiled := ns > 0
	if !compiled {
		chunk := 10 * cmp.Or(costs.ChunkNS, machine.UsualChunkNS)
		for _, ph := range s.kernel.Phases {
			ns += float64(max(ph.Chunks-1, 0)) * chunk
		}
	}
	if asks {
		ns = max(ns, priceOf(s.node, costs, compiled))
	}
	return ns
}

// priceOf prices a node by its implementation's work, or only the memory accesses of that; 0 if it states none.
func priceOf(n *graph.Node, costs *machine.Profile, memory bool) (ns float64) {
	defer func() { _ = recover() }() // a faulty price must not fail the compilation
	c := n.Call()
	m := n.Op.Fitting(c)
	if m == nil || m.Work == nil {
		return 0
	}
	price := func(w graph.Work) float64 {
		w.Steps = 0
		if memory {
			w.Parts = [len(w.Parts)]graph.Part{}
		}
		return costs.NS(w)
	}
	ns = price(m.Work(c, c.Walk))
	read := m.Reader(c, c.Walk)
	for i, a := range c.In {
		if a.Kind == graph.TensorArg {
			if r, ok := read(i, a.Meta()); ok {
				ns += price(r)
			}
		}
	}
	return ns
}

// savings estimates the time saved by sharing each step: for a split step all but one worker's part. A step that is not
// split may run concurrently with another one if neither waits for the other; then half of the cheaper one is credited
// to each.
func (p *Program) savings(costs []float64, split []bool, share float64) []float64 {
	saved := make([]float64, len(p.steps))
	// depth is the length of the longest chain of worthwhile steps that ends at a step: a later step of greater depth may
	// depend on the previous one.
	depth := make([]int32, len(p.steps))
	before := -1
	for i := range p.steps {
		s := &p.steps[i]
		chunks := 1
		for _, ph := range s.kernel.Phases {
			chunks = max(chunks, ph.Chunks)
		}
		if costs[i] >= share {
			depth[i]++
			if split[i] {
				saved[i] = costs[i] * (1 - 1/float64(min(chunks, p.threads)))
			}
			if before >= 0 && depth[i] <= depth[before] {
				both := min(costs[i], costs[before]) / 2
				saved[i], saved[before] = max(saved[i], both), max(saved[before], both)
			}
			before = i
		}
		for _, k := range s.next {
			depth[k] = max(depth[k], depth[i])
		}
	}
	return saved
}

// worths computes the work that can be shared from each step on, within wakeWindow.
func worths(costs, saved []float64, wake float64) []workerpool.Worth {
	list := make([]workerpool.Worth, len(costs))
	for w, least := range map[workerpool.Worth]float64{workerpool.Try: wake / tryPart, workerpool.Much: wake} {
		sum, span, end := 0.0, 0.0, 0
		for i := range costs {
			for end < len(costs) && (end <= i || span+costs[end] <= wakeWindow*least) {
				sum, span = sum+saved[end], span+costs[end]
				end++
			}
			if sum >= least {
				list[i] = max(list[i], w)
			}
			sum, span = sum-saved[i], span-costs[i]
		}
	}
	return list
}
