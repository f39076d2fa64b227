package vector

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/tensor"
)

// General registers. Addresses of operands are in those of bases while there are enough, else in the spill area.
const (
	regArgs  = asm.DI
	regSpill = asm.BX // the spill area
	regIndex = asm.CX // elements of the row that are done
	regLimit = asm.DX // the last index at which a turn fits; in tails what is left
	regTemp  = asm.AX
	regTwice = asm.SI // 2*regIndex where an element has 16 bytes
)

var bases = []asm.Reg{asm.R8, asm.R9, asm.R10, asm.R11, asm.R12, asm.R13, asm.R14, asm.R15}

// frame is where everything is while the code runs.
type frame struct {
	base     []int       // by pointer, and of the rows that are left: the register in bases, or -1
	counter  int         // the place in base of the rows that are left
	pointers int         // vectors of the spill area that hold the addresses without a register
	bounces  map[int]int // by pointer: the vector of the spill area for elements of a tail
	main     file        // registers of rows and turns
	rest     file        // of tails, in which accumulators have none
	copies   int         // of the body, until accumulators repeat
	unroll   int         // copies of the body in a turn of the loop
	inRegs   bool        // accumulators have registers, from those of accAt on
	accAt    []int
	together int  // copies of the body that are interleaved
	twice    bool // an element has 16 bytes

	// What was placed: once a row, the body for turns and for tails, accumulators into registers and back.
	rows, turn, tail, accLoads, accStores *allocator

	// While code is written: accumulators are found by the index, and stores go past the caches.
	dynamic, streaming bool
}

// spillSlots is how many vectors the spill area has.
const spillSlots = jit.SpillBytes / 64

// layOut decides where everything is.
func (g *gen) layOut() error {
	g.copies = 1
	if len(g.loop.Folds) > 0 {
		g.copies = expr.Lanes / g.n
	}
	g.layOutPointers()
	g.bounces = map[int]int{}
	slots := g.pointers
	for k, d := range g.dtypes() {
		if !g.z && !g.still(k) && (d.Size() < 4 || d.IsComplex()) {
			g.bounces[k] = slots
			slots++
		}
	}
	uses := g.shared()
	best := 1e9
	most := len(uses)
	for fixed := most; fixed >= 0 && best > 0; fixed -= 1 + fixed/8 {
		f := g.frame
		g.err = nil
		if cost, ok := g.attempt(uses[:fixed], uses, slots); !ok || cost >= best {
			g.frame = f
		} else {
			best = cost
		}
	}
	g.err = nil
	if best == 1e9 {
		return unsupported("more values at once than there is room for")
	}
	g.chooseUnroll()
	g.tryTwins()
	return nil
}

// dtypes returns those of outputs and operands.
func (g *gen) dtypes() []tensor.DType {
	var d []tensor.DType
	for _, o := range g.code.Out {
		d = append(d, o.DType)
	}
	return append(d, g.code.In...)
}

// still reports whether a pointer stays where it is along a row, or is of no use.
func (g *gen) still(k int) bool {
	switch {
	case k < g.outs:
		return g.code.Out[k].DType == tensor.Invalid
	case k < g.outs+len(g.code.In):
		return g.loop.Scalar[k-g.outs] || !slices.ContainsFunc(g.code.Insts, func(i expr.Inst) bool {
			return i.Op == expr.Load && int(i.A) == k-g.outs
		})
	}
	return true
}

// layOutPointers gives registers to what turns go along, then to what rows need.
func (g *gen) layOutPointers() {
	g.counter = g.outs + len(g.code.In) + len(g.loop.Folds)
	n := g.counter + 1
	g.base = make([]int, n)
	next := 0
	for _, still := range []bool{false, true} {
		for k := range n {
			if g.still(k) != still {
				continue
			}
			if g.base[k] = -1; next < len(bases) {
				g.base[k] = next
				next++
			}
		}
	}
	for k, b := range g.base {
		if b < 0 {
			g.pointers = k/8 + 1
		}
	}
	for k, d := range g.dtypes() {
		g.twice = g.twice || d == tensor.Complex128 && !g.still(k)
	}
}

// shared returns what is the same for a row and what the body reads of it, the most used first.
func (g *gen) shared() []val {
	times := make([]int, len(g.vals))
	for _, list := range [][]inst{g.body, g.folds[0], g.folds[1], g.folds[2], g.stores} {
		for _, in := range list {
			for _, s := range in.src {
				times[s.v]++
			}
			times[in.tied]++
			times[in.mask]++
		}
	}
	var vs []val
	for v := 1; v < len(g.vals); v++ {
		if g.vals[v].inv && times[v] > 0 {
			vs = append(vs, val(v))
		}
	}
	slices.SortStableFunc(vs, func(a, b val) int { return times[b] - times[a] })
	return vs
}

// attempt gives out registers with some values fixed in them, and tells what it costs.
func (g *gen) attempt(fixed, exports []val, slots int) (cost float64, ok bool) {
	n := 2 * len(g.vals) // there may be twins
	m := file{fixed: make([]int8, n), slot: make([]int16, n)}
	for v := range n {
		m.fixed[v], m.slot[v] = -1, -1
	}
	all := 16
	if g.z {
		all = 32
	}
	if g.opts.registers > 0 {
		all = g.opts.registers
	}
	used, k := 0, 7
	for _, v := range fixed {
		if g.vals[v].mask {
			if k > 5 {
				m.fixed[v] = int8(k)
				k--
			}
			continue
		}
		m.fixed[v] = int8(used)
		used++
	}
	if used > all-4 {
		return 0, false
	}
	for _, v := range exports {
		if x := &g.vals[v]; m.fixed[v] < 0 && (x.rec == nil || !x.konst) {
			m.slot[v] = int16(slots)
			slots++
		}
	}
	m.slots = slots
	g.rest = m
	g.placeAccs(used, all, k, &m)
	g.main = m
	g.main.pool[vectors] = 1<<all - 1<<used
	g.main.pool[masks] = 1<<(k+1) - 2
	g.rest.pool = g.main.pool
	if g.inRegs {
		g.reserveAccs(used)
	}
	g.restPool(all, used, k)
	return g.allocateAll(exports)
}

// placeAccs decides whether accumulators have registers in the body.
func (g *gen) placeAccs(used, all, k int, m *file) {
	need, needMasks := 0, 0
	for _, a := range g.accs {
		if g.vals[a.val].mask {
			needMasks += g.copies
		} else {
			need += g.copies
		}
	}
	g.inRegs = len(g.accs) > 0 && need <= all/2 && used+need <= all-4 && k-needMasks >= 3
}

// reserveAccs takes the accumulators' registers from the body's.
func (g *gen) reserveAccs(used int) {
	g.accAt = make([]int, len(g.accs))
	k := 0
	for g.main.pool[masks]>>(k+1) != 0 {
		k++
	}
	for f, a := range g.accs {
		if g.vals[a.val].mask {
			k -= g.copies
			g.accAt[f] = k + 1
			g.main.pool[masks] &= 1<<(k+1) - 1
			continue
		}
		g.accAt[f] = used
		used += g.copies
	}
	g.main.pool[vectors] = g.main.pool[vectors] >> used << used
}

// restPool takes from the registers of tails what their masks are in.
func (g *gen) restPool(all, used, k int) {
	if g.z {
		g.rest.pool[masks] &^= 1 << tailMask
		if g.hasPairs() {
			g.rest.pool[masks] &^= 1<<(tailMask+1) | 1<<(tailMask+2)
		}
		return
	}
	g.rest.pool[vectors] &^= 1<<tailWide | 1<<tailSmall
	if g.inTail != 0 {
		g.rest.fixed = slices.Clone(g.rest.fixed)
		g.rest.fixed[g.inTail] = tailWide
	}
}

func (g *gen) hasPairs() bool {
	for k, d := range g.dtypes() {
		if d.IsComplex() && !g.still(k) {
			return true
		}
	}
	return false
}

// turnList returns the instructions of a whole turn.
func (g *gen) turnList() []inst {
	if g.inRegs {
		return slices.Concat(g.body, g.folds[0], g.stores)
	}
	return slices.Concat(g.body, g.folds[1], g.stores)
}

func (g *gen) allocateAll(exports []val) (float64, bool) {
	g.rows = g.allocate(&g.main, g.row, true, false, exports)
	g.turn = g.allocate(&g.main, g.turnList(), false, false, nil)
	g.tail = g.allocate(&g.rest, slices.Concat(g.body, g.folds[2], g.stores), false, true, nil)
	g.accLoads, g.accStores = nil, nil
	if g.inRegs {
		g.accLoads = g.allocate(&g.main, g.accIn, false, false, nil)
		g.accStores = g.allocate(&g.main, g.accOut, false, false, nil)
	}
	for _, a := range []*allocator{g.rows, g.turn, g.tail, g.accLoads, g.accStores} {
		if a != nil && a.top > spillSlots {
			return 0, false
		}
	}
	return g.turn.cost, g.err == nil
}

// chooseUnroll repeats short bodies, so that counting costs little beside them.
func (g *gen) chooseUnroll() {
	g.unroll = 1
	if n := len(g.turn.out); n <= 12 {
		g.unroll = 4
	} else if n <= 40 {
		g.unroll = 2
	}
	if len(g.bounces) > 0 {
		g.unroll = 1 // tails are slow
	}
	g.unroll = max(g.unroll, g.copies)
}
