package interp

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// Scratch is the temporary memory of a [Runner]. Each goroutine needs a separate Scratch.
type Scratch struct {
	slots      []unsafe.Pointer     // by slot: its address
	mem        []uint64             // uniform values, then temporary blocks
	totalLanes [][expr.Lanes]uint64 // by fold: the accumulators of a row, if the loop has Totals
	accs       []unsafe.Pointer     // by fold: the address in totalLanes
	runner     *Runner
}

// NewScratch returns temporary memory for the loop. It can be used for any number of runs, one after another.
func (p *Runner) NewScratch() *Scratch {
	stride := (p.block*p.widestBytes + blockGap) / 8
	s := &Scratch{runner: p, mem: make([]uint64, p.uniforms+p.blocks*stride+1), totalLanes: make([][expr.Lanes]uint64,
		len(p.totals))}
	for k := range s.totalLanes {
		s.accs = append(s.accs, unsafe.Pointer(&s.totalLanes[k]))
	}
	s.slots = make([]unsafe.Pointer, p.outs+p.ins, p.outs+p.ins+len(p.consts)+p.uniforms+p.blocks+1)
	for k := range p.consts {
		s.slots = append(s.slots, unsafe.Pointer(&p.consts[k]))
	}
	for k := range p.uniforms {
		s.slots = append(s.slots, unsafe.Pointer(&s.mem[k]))
	}
	for k := range p.blocks {
		s.slots = append(s.slots, unsafe.Pointer(&s.mem[p.uniforms+k*stride]))
	}
	return s
}

func (s *Scratch) run(steps []step, n int) {
	at := s.slots
	for k := 0; k < len(steps); k++ {
		t := &steps[k]
		if t.loop == nil {
			if noElementWanted(unsafe.Add(at[t.a.slot], t.a.offset), n, t.strides.a, t.want) {
				k += t.skip
			}
			continue
		}
		t.loop(unsafe.Add(at[t.d.slot], t.d.offset), unsafe.Add(at[t.a.slot], t.a.offset), unsafe.Add(at[t.b.slot],
			t.b.offset),
			unsafe.Add(at[t.c.slot], t.c.offset), unsafe.Add(at[t.e.slot], t.e.offset), unsafe.Add(at[t.g.slot], t.g.offset),
			n, &t.strides)
	}
}

// Run computes n1 rows of n0 elements. ptrs are the addresses of the first row: outputs, then operands. strides are the
// bytes between rows, in the same order. Run ignores the entries of outputs that are not stored. accs are the addresses
// of the [expr.Lanes] accumulators of each fold. The caller initializes the accumulators by [expr.Neutral], or passes
// the accumulators of earlier rows. If the loop has Totals, accs[k] is instead the address of the results of fold k,
// one number for each row.
//
// s is a Scratch of this Runner that no other goroutine uses. If s is nil, Run takes a Scratch from a pool. Run does
// not allocate. It does not check addresses: the caller guarantees that the memory has the layout that the Loop
// describes.
func (p *Runner) Run(s *Scratch, ptrs []unsafe.Pointer, strides []int, accs []unsafe.Pointer, n0, n1 int) {
	if len(ptrs) != len(p.elementSize) || len(strides) != len(p.elementSize) || s != nil && s.runner != p {
		panic("interp: Run needs an address and a stride for each output and operand, and a Scratch of this Runner")
	}
	if n0 <= 0 || n1 <= 0 {
		return
	}
	if p.isSingleStep {
		p.runSingle(ptrs, strides, n0, n1)
		return
	}
	pooled := s == nil
	if pooled {
		s = p.scratch.Get().(*Scratch)
	}
	rows := p.rowsTogether(strides, n0, n1)
	if rows > 1 {
		p.runTogether(s, ptrs, strides, n0, n1, rows)
		n1 = 0
	}
	for j := range n1 {
		if len(p.totals) == 0 {
			p.runRow(s, ptrs, strides, accs, j, n0)
			continue
		}
		for k := range p.totals {
			t := &p.totals[k]
			t.fill.loop(s.accs[k], unsafe.Pointer(&t.neutral), nil, nil, nil, nil, expr.Lanes, &t.fill.strides)
		}
		p.runRow(s, ptrs, strides, s.accs, j, n0)
		for k := range p.totals {
			p.totals[k].combine(unsafe.Add(accs[k], j*p.totals[k].size), s.accs[k], 1)
		}
	}
	if pooled {
		clear(s.slots[:len(ptrs)])
		p.scratch.Put(s)
	}
}

// runSingle computes rows of a loop that is one step. It needs no scratch memory, which makes short rows faster.
func (p *Runner) runSingle(ptrs []unsafe.Pointer, strides []int, n0, n1 int) {
	t := &p.body[0]
	var at [6]unsafe.Pointer
	var by [6]int
	for k, place := range [...]address{t.d, t.a, t.b, t.c, t.e, t.g} {
		if c := place.slot - len(ptrs); c >= 0 {
			at[k] = unsafe.Pointer(&p.consts[c])
		} else if at[k] = ptrs[place.slot]; at[k] != nil {
			at[k], by[k] = unsafe.Add(at[k], place.offset), strides[place.slot]
		}
	}
	for {
		t.loop(at[0], at[1], at[2], at[3], at[4], at[5], n0, &t.strides)
		if n1--; n1 == 0 {
			return
		}
		for k := range at {
			at[k] = unsafe.Add(at[k], by[k])
		}
	}
}

// runRow computes row j, of n0 elements.
func (p *Runner) runRow(s *Scratch, ptrs []unsafe.Pointer, strides []int, accs []unsafe.Pointer, j, n0 int) {
	for k, q := range ptrs {
		if q != nil {
			q = unsafe.Add(q, j*strides[k])
		}
		s.slots[k] = q
	}
	s.run(p.row, 1)
	block := p.block
	if p.blocks == 0 && len(p.body) < 2 {
		block = math.MaxInt // without temporary blocks, a block may be the whole row
	}
	for at := 0; at < n0; {
		n := min(n0-at, block)
		if len(p.folds) == 0 {
			s.run(p.body, n)
		} else {
			p.runFolds(s, accs, n)
		}
		at += n
		if at == n0 {
			return
		}
		for k, size := range p.elementSize {
			if !p.scalar[k] {
				s.slots[k] = unsafe.Add(s.slots[k], n*size)
			}
		}
	}
}

// runFolds computes a block of n elements, and runs folds between the steps.
func (p *Runner) runFolds(s *Scratch, accs []unsafe.Pointer, n int) {
	done := 0
	for k := range p.folds {
		f := &p.folds[k]
		s.run(p.body[done:f.stepsBefore], n)
		done = f.stepsBefore
		f.loop(accs[f.fold], s.slots[f.slot], n)
	}
	s.run(p.body[done:], n)
}
