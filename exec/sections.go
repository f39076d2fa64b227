package exec

import (
	"cmp"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/team"
)

// section is a run of steps, which begins when all steps before it are done. One that is not shared is run by one
// worker in order: nothing is counted and nobody is told, so that little steps cost what they would with one
// worker.
type section struct {
	first, end int // steps
	shared     *sharing
	ahead      team.Worth // of one that is not shared, before one that is worth so much: workers are started for that
}

// sharing is what a section has whose steps are cut, or run side by side, by what they are estimated to cost.
type sharing struct {
	deps  []int32      // by step: how many of the section it waits for
	costs []float64    // by step, in nanoseconds
	worth []team.Worth // by step: what there is to share from it on
	most  team.Worth   // of these
	share float64      // the cost worth handing to a worker that is awake
}

// loneSteps is how many steps in a row, none of which can be shared, end a section: in one that is shared each of
// them costs some tens of nanoseconds more.
const loneSteps = 8

// aheadNS is about what it takes a worker that is started to come.
const aheadNS = 1e5

// wakeWindow is the time from a step on, in units of what must be saved, within which so much must be saved for
// workers to be woken at the step: they sleep again where it comes seldom.
const wakeWindow = 4

// tries is the part of what must be saved for workers to be woken for which that is worth a try.
const tries = 5

// cut finds the sections. What the plan of memory found that steps wait for must be known.
func (p *Program) cut(costs *machine.Profile) {
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
		for k := end; k < n && k < end+loneSteps; k++ {
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

// addSerial adds the steps from first to end that one worker runs, behind which there is so much to share. Workers that
// are started when it begins come too late: they are when about as much is left to do before as they take to come.
func (p *Program) addSerial(costs []float64, first, end int, worth team.Worth) {
	left, at := 0.0, end
	for at > first && left < aheadNS {
		at--
		left += costs[at]
	}
	if at > first {
		p.sections = append(p.sections, section{first: first, end: at})
	}
	p.sections = append(p.sections, section{first: at, end: end, ahead: worth})
}

// part counts the parts that workers have of each phase: as many as can be at it.
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

// shared is the sharing of the steps from first to end.
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

// mostElementNS is about what an element of a pointwise step takes at most.
const mostElementNS = 20

// price estimates what each step takes one worker, in nanoseconds. A kernel of machine code knows its arithmetic.
// Any other that is cut into chunks knows best that these are worth handing out, which holds for ops that do not
// say what they cost, too. A pointwise step of a few elements is not asked for: it is not worth share.
func (p *Program) price(costs *machine.Profile, share float64) []float64 {
	list := make([]float64, len(p.steps))
	inBatches(len(list), p.threads, func(begin, end int) {
		for i := begin; i < end; i++ {
			list[i] = p.steps[i].price(costs, share)
		}
	})
	return list
}

// price is that of one step.
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

// priceOf prices a node by what its implementation says of it, or of that what it has to do with memory; 0 where it
// says nothing.
func priceOf(n *graph.Node, costs *machine.Profile, memory bool) (ns float64) {
	defer func() { _ = recover() }() // who is wrong about the work may still do it
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

// savings estimates what sharing a step may save: of a step that is split, all but a part; one that is not may run
// beside another that is worth as much, if neither waits for the other.
func (p *Program) savings(costs []float64, split []bool, share float64) []float64 {
	saved := make([]float64, len(p.steps))
	// depth is how many of the steps that are worth it a step waits for, one after another, itself included: the
	// next of them waits for the one before if it is deeper.
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

// worths finds what there is to share from each step on, before long.
func worths(costs, saved []float64, wake float64) []team.Worth {
	list := make([]team.Worth, len(costs))
	for w, least := range map[team.Worth]float64{team.Try: wake / tries, team.Much: wake} {
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
