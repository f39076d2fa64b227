package exec

// Lifetime is memory that steps of a program use, and which: from the first of them to the last it holds something.
type Lifetime struct {
	Bytes  int
	Output bool  // it is the caller's after the run; else it is in the arena
	Steps  []int // in order
}

// Lifetimes tells when the memory that a run takes is in use: that of values which steps make, and scratch memory
// that the workers of a step share. Values that take over each other's memory are one. Because steps run side by side,
// any of a lifetime's steps may be the one that ends it.
func (p *Program) Lifetimes() []Lifetime {
	if p == nil {
		return nil
	}
	list := make([]Lifetime, 0, len(p.storages))
	place := make([]int, len(p.storages)) // 1 + that in the list
	for i := range p.steps {
		s := &p.steps[i]
		for _, r := range s.refs {
			if r.storage < 0 {
				continue
			}
			so := &p.storages[r.storage]
			if so.kind != inArena && so.kind != inFresh {
				continue
			}
			at := &place[r.storage]
			if *at == 0 {
				list = append(list, Lifetime{Bytes: so.bytes, Output: so.kind == inFresh})
				*at = len(list)
			}
			l := &list[*at-1]
			if n := len(l.Steps); n == 0 || l.Steps[n-1] != i {
				l.Steps = append(l.Steps, i)
			}
		}
		if n := s.kernel.Scratch; n > 0 {
			list = append(list, Lifetime{Bytes: n, Steps: []int{i}})
		}
	}
	return list
}
