package vector

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/tensor"
)

// General registers. Addresses of operands are in the registers bases or, if these do not suffice, in the spill area,
// which is memory of the caller for values without a register.
const (
	regArgs        = asm.DI
	regSpill       = asm.BX // the spill area
	regIndex       = asm.CX // number of elements of the row that are computed
	regLimit       = asm.DX // the last index at which a full iteration fits; in tails, the number of remaining elements
	regTemp        = asm.AX
	regDoubleIndex = asm.SI // 2*regIndex, for elements of 16 bytes
)

var bases = []asm.Reg{asm.R8, asm.R9, asm.R10, asm.R11, asm.R12, asm.R13, asm.R14, asm.R15}

// frame is the assignment of registers and memory of a loop.
type frame struct {
	base            []int        // by pointer, the last of which is the row counter: index in bases, or -1
	rowCounter      int          // index in base of the row counter
	pointers        int          // number of vectors of the spill area that hold pointers without a register
	bounces         map[int]int  // by pointer: vector of the spill area that is the bounce buffer for tail elements
	bodyFile        registerFile // registers for row constants and full iterations
	tailFile        registerFile // registers for tails; accumulators are in memory there, unless the loop has totals
	copies          int          // number of copies of the body with different accumulators
	unroll          int          // number of copies of the body in the loop over full iterations
	accsInRegisters bool         // accumulators are in registers
	accRegisters    []int        // by accumulator: its first register
	lists           [2][]inst    // the body with accumulators in memory, and in registers
	interleaved     int          // number of copies of the body in each of lists
	hasWideElements bool         // an operand or output has elements of 16 bytes

	// Allocated code: once per row, the body for full iterations and for tails, loads and stores of accumulator
	// registers.
	rowCode, bodyCode, tailCode, accLoads, accStores *allocator

	// State while code is written. dynamic is set if addresses of accumulators depend on regIndex. streaming is set if
	// stores are non-temporal. first is the copy of the body whose accumulator registers are used.
	indexedAccs, streaming bool
	firstCopy              int
}

// shortBody is the greatest number of instructions of a body that counts as memory-bound.
const shortBody = 12

// spillSlots is the number of vectors of 64 bytes in the spill area.
const spillSlots = jit.SpillBytes / 64

// layOut assigns registers and memory, and chooses how many copies of the body are interleaved and unrolled.
func (g *gen) layOut() error {
	g.copies = 1
	if len(g.loop.Folds) > 0 {
		g.copies = expr.Lanes / g.lanes
	}
	g.layOutPointers()
	g.bounces = map[int]int{}
	slots := g.pointers
	for k, d := range g.dtypes() {
		if !g.avx512 && !g.isInvariant(k) && (d.Size() < 4 || d.IsComplex()) {
			g.bounces[k] = slots
			slots++
		}
	}
	uses := g.shared()
	g.lists[0] = slices.Concat(g.body, g.folds[1], g.stores)
	g.lists[1] = slices.Concat(g.body, g.folds[0], g.stores)
	g.tailInsts = slices.Concat(g.body, g.folds[2], g.stores)
	g.interleaved = 1
	cost, ok := g.search(uses, slots)
	switch {
	case !ok && g.loop.Totals:
		return unsupported("totals need more accumulators than there are registers")
	case !ok:
		return unsupported("too many live values")
	}
	length := len(g.bodyCode.out)
	g.tryInterleave(uses, slots, cost, length)
	g.chooseUnroll(length)
	return nil
}

// search tries different numbers of row constants in permanent registers, and sets the frame to the cheapest attempt.
func (g *gen) search(uses []val, slots int) (best float64, ok bool) {
	best = math.Inf(1)
	kept := g.frame
	worse := 0
	for fixed := len(uses); fixed >= 0 && best > 0 && worse < 3; fixed -= 1 + fixed/8 {
		g.err = nil
		g.rowCode, g.bodyCode, g.tailCode, g.accLoads, g.accStores = nil, nil, nil, nil, nil
		cost, done := g.attempt(uses[:fixed], uses, slots, best)
		switch {
		case !done:
			g.discard(&g.frame)
		case ok:
			g.discard(&kept)
		}
		if done {
			kept, best, worse, ok = g.frame, cost, 0, true
		} else if ok {
			worse++
		}
	}
	g.frame, g.err = kept, nil
	return best, ok
}

// dtypes returns the dtypes of outputs and operands.
func (g *gen) dtypes() []tensor.DType {
	var d []tensor.DType
	for _, o := range g.code.Out {
		d = append(d, o.DType)
	}
	return append(d, g.code.In...)
}

// isInvariant reports whether pointer k does not advance along a row, or is unused.
func (g *gen) isInvariant(k int) bool {
	switch {
	case k < g.outputs:
		return g.code.Out[k].DType == tensor.Invalid
	case k < g.outputs+len(g.code.In):
		return g.loop.Scalar[k-g.outputs] || !slices.ContainsFunc(g.code.Insts, func(i expr.Inst) bool {
			return i.Op == expr.Load && int(i.A) == k-g.outputs
		})
	}
	return true
}

// layOutPointers assigns registers to pointers that advance along rows, and then to other pointers.
func (g *gen) layOutPointers() {
	g.rowCounter = g.outputs + len(g.code.In) + len(g.loop.Folds)
	n := g.rowCounter + 1
	g.base = make([]int, n)
	next := 0
	for _, still := range []bool{false, true} {
		for k := range n {
			if g.isInvariant(k) != still {
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
		g.hasWideElements = g.hasWideElements || d == tensor.Complex128 && !g.isInvariant(k)
	}
}

// shared returns the row constants that the body reads, in descending order of their number of uses.
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
		if g.vals[v].invariant && times[v] > 0 {
			vs = append(vs, val(v))
		}
	}
	slices.SortStableFunc(vs, func(a, b val) int { return times[b] - times[a] })
	return vs
}

// attempt allocates registers, with the values in fixed in permanent registers. It returns the cost, and whether that
// is below limit.
func (g *gen) attempt(fixed, exports []val, slots int, limit float64) (cost float64, ok bool) {
	n := len(g.vals)
	m := registerFile{fixed: make([]int8, n), slot: make([]int16, n)}
	for v := range n {
		m.fixed[v], m.slot[v] = -1, -1
	}
	all := 16
	if g.avx512 {
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
		if x := &g.vals[v]; m.fixed[v] < 0 && (x.rec == nil || !x.constant) {
			m.slot[v] = int16(slots)
			slots++
		}
	}
	m.slots = slots
	g.tailFile = m
	if g.placeAccs(used, all, k); g.loop.Totals && !g.accsInRegisters {
		return 0, false
	}
	g.bodyFile = m
	g.bodyFile.pool[vectors] = 1<<all - 1<<used
	g.bodyFile.pool[masks] = 1<<(k+1) - 2
	g.tailFile.pool = g.bodyFile.pool
	if g.accsInRegisters {
		g.reserveAccs(used)
	}
	if g.loop.Totals {
		g.tailFile.pool = g.bodyFile.pool
	}
	g.restPool(all, used, k)
	return g.allocateAll(exports, limit)
}

// placeAccs decides whether accumulators are in registers in the body. used and all are numbers of vector registers,
// and k is the last free mask register.
func (g *gen) placeAccs(used, all, k int) {
	need, needMasks := 0, 0
	for _, a := range g.accs {
		if g.vals[a.val].mask {
			needMasks += g.copies
		} else {
			need += g.copies
		}
	}
	g.accsInRegisters = len(g.accs) > 0 && need <= all/2 && used+need <= all-4 && k-needMasks >= 3
}

// reserveAccs removes the registers of accumulators from the pool of the body.
func (g *gen) reserveAccs(used int) {
	g.accRegisters = make([]int, len(g.accs))
	k := 0
	for g.bodyFile.pool[masks]>>(k+1) != 0 {
		k++
	}
	for f, a := range g.accs {
		if g.vals[a.val].mask {
			k -= g.copies
			g.accRegisters[f] = k + 1
			g.bodyFile.pool[masks] &= 1<<(k+1) - 1
			continue
		}
		g.accRegisters[f] = used
		used += g.copies
	}
	g.bodyFile.pool[vectors] = g.bodyFile.pool[vectors] >> used << used
}

// restPool removes the registers of tail masks from the pool for tails.
func (g *gen) restPool(all, used, k int) {
	if g.inTail != 0 {
		g.tailFile.fixed = slices.Clone(g.tailFile.fixed)
		g.tailFile.fixed[g.inTail] = wideTailMask
		if g.avx512 {
			g.tailFile.fixed[g.inTail] = int8(tailMask)
		}
	}
	if g.avx512 {
		g.tailFile.pool[masks] &^= 1 << tailMask
		if g.hasPairs() {
			g.tailFile.pool[masks] &^= 1<<(tailMask+1) | 1<<(tailMask+2)
		}
		return
	}
	g.tailFile.pool[vectors] &^= 1<<wideTailMask | 1<<narrowTailMask
}

func (g *gen) hasPairs() bool {
	for k, d := range g.dtypes() {
		if d.IsComplex() && !g.isInvariant(k) {
			return true
		}
	}
	return false
}

func (g *gen) allocateAll(exports []val, limit float64) (float64, bool) {
	list := g.lists[0]
	if g.accsInRegisters {
		list = g.lists[1]
	}
	if g.bodyCode = g.allocate(&g.bodyFile, list, false, false, nil, limit); g.bodyCode.cost >= limit {
		return 0, false
	}
	g.rowCode = g.allocate(&g.bodyFile, g.rowInsts, true, false, exports, math.Inf(1))
	g.tailCode = g.allocate(&g.tailFile, g.tailInsts, false, true, nil, math.Inf(1))
	g.accLoads, g.accStores = nil, nil
	if g.accsInRegisters {
		g.accLoads = g.allocate(&g.bodyFile, g.accLoadInsts, false, false, nil, math.Inf(1))
		g.accStores = g.allocate(&g.bodyFile, g.accStoreInsts, false, false, nil, math.Inf(1))
	}
	for _, a := range []*allocator{g.rowCode, g.bodyCode, g.tailCode, g.accLoads, g.accStores} {
		if a != nil && a.slotCount > spillSlots {
			return 0, false
		}
	}
	return g.bodyCode.cost, g.err == nil
}

// chooseUnroll unrolls short bodies to reduce the overhead of the loop. length is the number of instructions of the
// body.
func (g *gen) chooseUnroll(length int) {
	g.unroll = 1
	switch {
	case len(g.bounces) > 0: // tails are slow
	case length <= shortBody:
		g.unroll = 4
	case length <= 40:
		g.unroll = 2
	}
	g.unroll = max(g.unroll, g.copies, g.interleaved)
}
