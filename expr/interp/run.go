package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// Scratch is the temporary memory of a [Runner]. Each goroutine needs a separate Scratch.
type Scratch struct {
	slots  []unsafe.Pointer
	mem    []uint64             // cells, then temporary blocks
	totals [][expr.Lanes]uint64 // by fold: the accumulators of a row, if the loop has Totals
	accs   []unsafe.Pointer     // by fold: the address in totals
	runner *Runner
}

// NewScratch returns temporary memory for the loop. It can be used for any number of runs, one after another.
func (p *Runner) NewScratch() *Scratch {
	s := &Scratch{runner: p, mem: append(make([]uint64, 0, len(p.consts)+p.blocks*blockWords+1), p.consts...),
		totals: make([][expr.Lanes]uint64, len(p.totals)), slots: make([]unsafe.Pointer, len(p.elementSize)+p.folds)}
	s.mem = s.mem[:cap(s.mem)]
	for k := range s.totals {
		s.accs = append(s.accs, unsafe.Pointer(&s.totals[k]))
	}
	for k := range p.consts {
		s.slots = append(s.slots, unsafe.Pointer(&s.mem[k]))
	}
	for k := range p.blocks {
		s.slots = append(s.slots, unsafe.Pointer(&s.mem[len(p.consts)+k*blockWords]))
	}
	return s
}

// operand returns the memory at a place.
func (s *Scratch) operand(at *place) operand { return operand{s.slots[at.slot], at.at, at.by} }

// run runs steps for n elements.
func (s *Scratch) run(steps []step, n int) {
	for k := 0; k < len(steps); k++ {
		t := &steps[k]
		if t.loop != nil {
			t.loop(operands{s.operand(&t.d), s.operand(&t.a), s.operand(&t.b), s.operand(&t.c), n})
		} else if noElementWanted(s.operand(&t.a), n, t.want) {
			k += t.skip
		}
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
	pooled := s == nil
	if pooled {
		s = p.scratch.Get().(*Scratch)
	}
	copy(s.slots[len(ptrs):], accs[:p.folds])
	copy(s.slots[len(ptrs):], s.accs)
	for j := range n1 {
		for k := range p.totals {
			t := &p.totals[k]
			moves[sizeIndex(t.size)](operands{d: operand{s.accs[k], 0, t.size},
				a: operand{p: unsafe.Pointer(&t.neutral)}, n: expr.Lanes})
		}
		p.runRow(s, ptrs, strides, j, n0)
		for k := range p.totals {
			p.totals[k].combine(unsafe.Add(accs[k], j*p.totals[k].size), s.accs[k], 1)
		}
	}
	if pooled {
		clear(s.slots[:len(ptrs)+p.folds])
		p.scratch.Put(s)
	}
}

// runRow computes row j, of n0 elements.
func (p *Runner) runRow(s *Scratch, ptrs []unsafe.Pointer, strides []int, j, n0 int) {
	for k, q := range ptrs {
		if q != nil {
			q = unsafe.Add(q, j*strides[k])
		}
		s.slots[k] = q
	}
	s.run(p.row, 1)
	for {
		n := min(n0, p.blockLen)
		s.run(p.body, n)
		if n0 -= n; n0 == 0 {
			return
		}
		for k, size := range p.elementSize {
			if !p.scalar[k] {
				s.slots[k] = unsafe.Add(s.slots[k], n*size)
			}
		}
	}
}
