package vector

import (
	"math"
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit/asm"
)

// move is a pseudo-instruction. It loads or copies a value into the register of another value.
const move = "move"

// allocatedInst is an instruction with registers. Its memory operands become addresses when an iteration is written.
type allocatedInst struct {
	name        string
	nonTemporal string // name of the non-temporal form, or empty
	args        []any  // each is an asm.Arg, memory, element or accUse
}

// element is a memory operand with one element, which the instruction broadcasts to all lanes.
type element memory

// accUse is an operand: the register of an accumulator. Its number depends on the iteration.
type accUse struct {
	acc   *accRef
	bytes uint8 // number of bytes of the register that are used; 0 means the whole accumulator
	zero  bool  // for a mask register: elements outside the mask become 0
}

// Classes of registers: indices of registerFile.pool, allocator.owner and allocator.pinned.
const (
	vectors = iota
	masks
)

// registerFile describes the registers and spill vectors that a list of instructions may use.
type registerFile struct {
	pool          [2]uint32 // by class: bit set of the registers that the allocator may assign
	permanent     []int8    // by val: its permanent register, or -1
	permanentSlot []int16   // by val: its permanent vector of the spill area, or -1
	reservedSlots int       // number of vectors of the spill area that are always in use
}

// allocator assigns registers to a list of instructions without jumps, in order. If no register is free, it evicts the
// value whose next use is farthest (Belady's rule).
type allocator struct {
	g          *gen
	registers  *registerFile
	oncePerRow bool // the list runs once per row
	masked     bool // loads and stores are masked, as in a tail

	uses       []int32    // positions in the list of the uses of vals, grouped by val
	nextUse    []int32    // by val: index in uses of the next use
	usesEnd    []int32    // by val: end of its group in uses
	registerOf []int8     // by val: its current register, or -1
	spillSlot  []int16    // by val: the vector of the spill area in which it is spilled, or -1
	owner      [2][32]val // by class and register: the val in the register, or 0
	pinned     [2]uint32  // by class: bit set of the registers that the current instruction uses
	freeSlots  []int16    // free vectors of the spill area below slotCount
	freedSlots []int16    // vectors that the current instruction reads for the last time
	slotCount  int        // number of vectors of the spill area that were ever in use
	pos        int32      // position of the current instruction
	out        []allocatedInst
	args       []any   // arguments of the instructions in out
	cost       float64 // estimated number of instructions that spills and reloads add
}

// allocate assigns registers to a list. Before the list, it loads the row constants in `constants` that a single load
// computes. It stops when the cost reaches limit.
func (g *gen) allocate(f *registerFile, list []inst, row, tail bool, constants []val, limit float64) *allocator {
	a := g.newAllocator(len(list))
	a.g, a.registers, a.oncePerRow, a.masked, a.slotCount = g, f, row, tail, f.reservedSlots
	a.findUses(list)
	a.pos = -1
	for _, v := range constants {
		if g.vals[v].reload != nil && !g.vals[v].constant {
			a.placeConstant(v)
		}
	}
	for k := range list {
		if a.cost >= limit {
			break
		}
		a.pos = int32(k)
		a.pinned = [2]uint32{}
		a.allocateInst(&list[k])
	}
	return a
}

// placeConstant loads a row constant into its permanent register, or into its vector of the spill area.
func (a *allocator) placeConstant(v val) {
	a.pinned = [2]uint32{}
	if r := a.registers.permanent[v]; r >= 0 {
		a.load(a.g.vals[v].reload, a.registerArg(v, r, 0))
		return
	}
	r := a.registerFor(v)
	a.storePermanent(v, r)
	a.release(v)
}

// storePermanent stores value v, which is in register r, to its permanent vector of the spill area, if it has one.
func (a *allocator) storePermanent(v val, r int8) {
	if s := a.registers.permanentSlot[v]; s >= 0 {
		a.put(a.storeName(v), a.registerArg(v, r, 0), memory{kind: inSlot, index: int(s)})
	}
}

func (a *allocator) class(v val) int {
	if a.g.vals[v].mask {
		return masks
	}
	return vectors
}

// registerArg returns register r, which contains value v, as an operand of w bytes. If w is 0, the operand has the
// width of v.
func (a *allocator) registerArg(v val, r int8, w uint8) any {
	x := &a.g.vals[v]
	if x.mask {
		return asm.Mask(r)
	}
	if w == 0 {
		w = x.bytes
	}
	return vectorRegister(int(r), w)
}

func vectorRegister(n int, w uint8) asm.Vec {
	switch w {
	case 64:
		return asm.Z(n)
	case 32:
		return asm.Y(n)
	}
	return asm.X(n)
}

func (a *allocator) put(name string, args ...any) { a.putWithNonTemporal(name, "", args...) }

// putWithNonTemporal adds an instruction. nt is the name of its non-temporal form, or empty.
func (a *allocator) putWithNonTemporal(name, nt string, args ...any) {
	at := len(a.args)
	a.args = append(a.args, args...)
	a.out = append(a.out, allocatedInst{name: name, nonTemporal: nt, args: a.args[at:len(a.args):len(a.args)]})
}

func (a *allocator) storeName(v val) string {
	if a.g.vals[v].mask {
		return "KMOVW"
	}
	return "VMOVUPS"
}

// copy adds a copy between registers of the class of v.
func (a *allocator) copy(v val, from, to any) {
	if a.g.vals[v].mask {
		a.put("KORW", from, from, to)
		return
	}
	a.put("VMOVAPS", from, to)
}

// nextUseOf returns the position of the next use of v after the current instruction, or math.MaxInt32 if there is none.
func (a *allocator) nextUseOf(v val) int32 {
	at, end := a.nextUse[v], a.usesEnd[v]
	for at < end && a.uses[at] <= a.pos {
		at++
	}
	a.nextUse[v] = at
	if at == end {
		return math.MaxInt32
	}
	return a.uses[at]
}

// lookup returns the register that holds a value, or -1.
func (a *allocator) lookup(v val) int8 {
	if r := a.registers.permanent[v]; r >= 0 && a.g.vals[v].acc == nil {
		return r
	}
	return a.registerOf[v]
}

func (a *allocator) pin(v val) {
	if r := a.registerOf[v]; r >= 0 {
		a.pinned[a.class(v)] |= 1 << r
	}
}

// reloadOf returns the load that restores a value to a register, or nil if the value is not in memory.
func (a *allocator) reloadOf(v val) *reload {
	x := &a.g.vals[v]
	slot := a.spillSlot[v]
	switch {
	case x.reload != nil && (x.constant || !x.invariant || a.oncePerRow):
		return x.reload
	case slot < 0:
		slot = a.registers.permanentSlot[v]
	}
	if slot < 0 {
		return nil
	}
	return &reload{name: a.storeName(v), foldable: !x.mask, mem: memory{kind: inSlot, index: int(slot)}}
}

// allocateRegister returns a free register of a class. If no register is free, it evicts a value. The value is spilled
// if no load can restore it.
func (a *allocator) allocateRegister(class int) int8 {
	var worst, farthest = int8(-1), int32(-1)
	for m := a.registers.pool[class] &^ a.pinned[class]; m != 0; m &= m - 1 {
		r := int8(bits.TrailingZeros32(m))
		o := a.owner[class][r]
		if o == 0 {
			return r
		}
		if n := a.nextUseOf(o); n > farthest {
			worst, farthest = r, n
		}
	}
	if worst < 0 {
		a.g.fail("no register is free")
		return 0
	}
	o := a.owner[class][worst]
	if farthest < math.MaxInt32 && a.reloadOf(o) == nil {
		a.spillSlot[o] = a.newSlot()
		a.put(a.storeName(o), a.registerArg(o, worst, 0), memory{kind: inSlot, index: int(a.spillSlot[o])})
		a.cost++
	}
	a.registerOf[o] = -1
	a.owner[class][worst] = 0
	return worst
}

func (a *allocator) newSlot() int16 {
	if n := len(a.freeSlots); n > 0 {
		s := a.freeSlots[n-1]
		a.freeSlots = a.freeSlots[:n-1]
		return s
	}
	a.slotCount++
	return int16(a.slotCount - 1)
}

func (a *allocator) setOwner(v val, r int8) {
	c := a.class(v)
	a.registerOf[v], a.owner[c][r] = r, v
	a.pinned[c] |= 1 << r
}

// registerFor returns the register of a value, and pins it for the current instruction. It loads the value if
// necessary.
func (a *allocator) registerFor(v val) int8 {
	if r := a.lookup(v); r >= 0 {
		a.pin(v)
		return r
	}
	rec := a.reloadOf(v)
	r := a.allocateRegister(a.class(v))
	a.setOwner(v, r)
	if rec == nil {
		a.g.fail("a value without a location")
		return r
	}
	if rec.mem.kind != inOperand && rec.mem.kind != inAcc {
		a.cost++
	}
	a.load(rec, a.registerArg(v, r, 0))
	return r
}

// operand returns a source as an operand: an immediate, or the register of its value.
func (a *allocator) operand(s arg) any {
	if s.v == 0 {
		return asm.Imm(s.imm)
	}
	if acc := a.g.vals[s.v].acc; acc != nil {
		return accUse{acc: acc, bytes: s.bytes}
	}
	return a.registerArg(s.v, a.registerFor(s.v), s.bytes)
}

// release frees the registers of values without further uses.
func (a *allocator) release(vs ...val) {
	for _, v := range vs {
		if v == 0 || a.nextUseOf(v) < math.MaxInt32 {
			continue
		}
		if r := a.registerOf[v]; r >= 0 {
			c := a.class(v)
			a.owner[c][r], a.registerOf[v] = 0, -1
			a.pinned[c] &^= 1 << r
		}
		if s := a.spillSlot[v]; s >= 0 {
			a.freedSlots = append(a.freedSlots, s)
			a.spillSlot[v] = -1
		}
	}
}

// foldable returns source s as a memory operand, and whether the instruction can use this operand. lane is the size in
// bytes of the elements that the instruction can broadcast.
func (a *allocator) foldable(s arg, lane uint8) (any, bool) {
	if s.v == 0 || s.bytes != 0 || a.g.vals[s.v].acc != nil || a.lookup(s.v) >= 0 {
		return nil, false
	}
	rec := a.reloadOf(s.v)
	if rec == nil || !rec.foldable {
		return nil, false
	}
	switch rec.mem.kind {
	case inOperand, inAcc:
		if a.masked || a.nextUseOf(s.v) < math.MaxInt32 {
			return nil, false
		}
	case inSlot:
		if !a.g.vals[s.v].invariant && a.nextUseOf(s.v) < math.MaxInt32 {
			return nil, false
		}
		a.cost += 0.3
	default:
		a.cost += 0.3
	}
	if rec.lane == 0 {
		return rec.mem, true
	}
	if !a.g.avx512 || rec.lane != lane {
		return nil, false
	}
	return element(rec.mem), true
}

// allocateInst assigns registers to an instruction and adds it.
func (a *allocator) allocateInst(in *inst) {
	a.freeSlots = append(a.freeSlots, a.freedSlots...)
	a.freedSlots = a.freedSlots[:0]
	for _, s := range in.src {
		a.pin(s.v)
	}
	a.pin(in.tied)
	a.pin(in.mask)
	switch {
	case in.name == move:
		a.allocateMove(in)
	case in.name == completeRemainder:
		a.allocateRemainder(in)
	case in.name == tableRows:
		a.allocateTableRows(in)
	case in.fmaSuffix != "":
		a.allocateFused(in)
	default:
		a.allocateOrdinary(in)
	}
}

func (a *allocator) allocateMove(in *inst) {
	v := in.src[0].v
	absent := a.lookup(v) < 0 && a.g.vals[v].acc == nil
	acc := a.g.vals[in.dst].acc
	switch {
	case absent && acc != nil:
		a.load(a.reloadOf(v), accUse{acc: acc})
	case absent:
		rec := a.reloadOf(v)
		a.load(rec, a.newRegister(in.dst))
	case acc != nil:
		a.copy(in.dst, a.operand(in.src[0]), accUse{acc: acc})
	default:
		from := a.operand(in.src[0])
		a.copy(in.dst, from, a.newRegister(in.dst))
	}
	a.finish(in)
}

func (a *allocator) allocateOrdinary(in *inst) {
	src := in.src
	folded := any(nil)
	if in.memSource >= 0 {
		m, ok := a.foldable(src[in.memSource], in.lane)
		if !ok && in.commutative && src[in.memSource].v != src[in.memSource+1].v {
			if m, ok = a.foldable(src[in.memSource+1], in.lane); ok {
				src = append([]arg(nil), src...)
				src[in.memSource], src[in.memSource+1] = src[in.memSource+1], src[in.memSource]
			}
		}
		if ok && !a.occursAgain(src, int(in.memSource)) {
			folded = m
		}
	}
	var few [6]any
	args := few[:0]
	for k, s := range src {
		if k == int(in.memSource) && folded != nil {
			args = append(args, folded)
			continue
		}
		args = append(args, a.operand(s))
	}
	var mask any
	if in.mask != 0 {
		switch k := a.operand(arg{v: in.mask}).(type) {
		case asm.Mask:
			if mask = k; in.zeroing {
				mask = k.Zero()
			}
		case accUse:
			k.zero = in.zeroing
			mask = k
		}
	}
	if in.store != nil {
		a.store(in, args)
	} else {
		dst := a.result(in)
		if mask != nil {
			args = append(args, mask)
		}
		a.put(in.name, append(args, dst)...)
	}
	a.finish(in)
}

// occursAgain reports whether the instruction also has the value of src[at] as another source, which needs a register.
func (a *allocator) occursAgain(src []arg, at int) bool {
	for k, s := range src {
		if k != at && s.v == src[at].v {
			return true
		}
	}
	return false
}

// result returns the destination of an instruction. It first frees the registers of values without further uses. The
// destination may be a freed register.
func (a *allocator) result(in *inst) any {
	if acc := a.g.vals[in.dst].acc; acc != nil {
		if in.tied != 0 && in.tied != in.dst {
			a.copy(in.dst, a.operand(arg{v: in.tied}), accUse{acc: acc})
		}
		return accUse{acc: acc}
	}
	fixed := a.registers.permanent[in.dst]
	if in.tied == 0 {
		for _, s := range in.src {
			a.release(s.v)
		}
		a.release(in.mask)
		return a.newRegister(in.dst)
	}
	if r := a.registerOf[in.tied]; r >= 0 && fixed < 0 && a.nextUseOf(in.tied) == math.MaxInt32 {
		a.registerOf[in.tied] = -1
		a.setOwner(in.dst, r)
		return a.registerArg(in.dst, r, 0)
	}
	if a.g.vals[in.tied].acc == nil && a.lookup(in.tied) < 0 {
		rec := a.reloadOf(in.tied)
		dst := a.newRegister(in.dst)
		a.load(rec, dst)
		if rec.mem.kind == inSlot || rec.mem.kind == inConstant {
			a.cost += 0.3
		}
		return dst
	}
	from := a.operand(arg{v: in.tied})
	dst := a.newRegister(in.dst)
	a.copy(in.dst, from, dst)
	return dst
}

// newRegister returns a register for a new value v: its permanent register, or a free register.
func (a *allocator) newRegister(v val) any {
	if r := a.registers.permanent[v]; r >= 0 {
		return a.registerArg(v, r, 0)
	}
	r := a.allocateRegister(a.class(v))
	a.setOwner(v, r)
	return a.registerArg(v, r, 0)
}

// finish frees the registers of values without further uses. If the list runs once per row and the result has a
// permanent vector of the spill area, finish stores the result there.
func (a *allocator) finish(in *inst) {
	for _, s := range in.src {
		a.release(s.v)
	}
	a.release(in.tied, in.mask)
	if in.dst == 0 || a.g.vals[in.dst].acc != nil {
		return
	}
	if r := a.registerOf[in.dst]; a.oncePerRow && r >= 0 {
		a.storePermanent(in.dst, r)
	}
	a.release(in.dst)
}
