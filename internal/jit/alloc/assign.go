package alloc

import (
	"math"
	"math/bits"
)

// memoryCost is the estimated additional cost, in instructions, of a memory operand compared with a register, and of a
// load compared with a copy.
const memoryCost = 0.3

// allocateInst assigns registers to an instruction and adds it.
func (a *allocator) allocateInst(in *Inst) {
	// A slot of the previous instruction is free only now: its own result must not be placed there.
	a.freeSlots = append(a.freeSlots, a.slotsToFree...)
	a.slotsToFree = a.slotsToFree[:0]
	in.eachUse(a.pin)
	switch {
	case in.Name == Move:
		a.allocateMove(in)
	case in.Forms != nil:
		a.allocateForm(in)
	default:
		a.allocatePlain(in)
	}
}

// allocateMove adds a move as a load, if its source is only in memory, or else as a copy.
func (a *allocator) allocateMove(in *Inst) {
	virt := in.Src[0].Virt
	absent := a.currentRegister(virt) < 0 && a.values[virt].Acc == nil
	acc := a.values[in.Dst].Acc != nil
	switch {
	case absent && acc:
		a.load(a.reloadOf(virt), a.accumulator(in.Dst, 0), a.position)
	case absent:
		reload := a.reloadOf(virt)
		a.load(reload, a.newRegister(in.Dst), a.position)
	case acc:
		a.copy(a.operand(in.Src[0]), a.accumulator(in.Dst, 0), a.position)
	default:
		from := a.operand(in.Src[0])
		a.copy(from, a.newRegister(in.Dst), a.position)
	}
	a.releaseDead(in)
}

// allocatePlain adds an instruction without Forms.
func (a *allocator) allocatePlain(in *Inst) {
	var slot Operand
	if in.TempSlot {
		slotIndex := a.newSlot()
		a.slotsToFree = append(a.slotsToFree, slotIndex)
		slot = Operand{Kind: Memory, Mem: &a.slotReload(Vectors, slotIndex).Mem}
	}
	src, folded := a.fold(in)
	var buf [10]Operand
	args := buf[:0]
	for k, source := range src {
		if k == int(in.Fold) && folded.Kind != Register {
			args = append(args, folded)
			continue
		}
		args = append(args, a.operand(source))
	}
	var mask Operand
	if in.Mask != 0 {
		mask = a.operand(Arg{Virt: in.Mask})
		mask.Zero = in.Zero
	}
	var dst Operand
	if in.Store != nil {
		dst = Operand{Kind: Memory, Mem: in.Store}
	} else {
		dst = a.destination(in, in.Tied)
	}
	for c, n := range in.Temps {
		for range n {
			reg := a.allocateRegister(Class(c))
			a.pinned[c] |= 1 << reg
			args = append(args, Operand{Kind: Register, Class: Class(c), Reg: reg, Bytes: dst.Bytes})
		}
	}
	if in.TempSlot {
		args = append(args, slot)
	}
	if in.Mask != 0 {
		args = append(args, mask)
	}
	a.emit(Out{Name: in.Name, NonTemporal: in.NonTemporal, From: a.position}, append(args, dst)...)
	a.Length += max(1, int(in.InstructionCount)) - 1
	a.releaseDead(in)
}

// fold tries to make source in.Fold of an instruction a memory operand. It returns the sources, which it may exchange
// if the instruction is commutative, and the memory operand. If the source must be in a register, the operand has kind
// Register.
func (a *allocator) fold(in *Inst) ([]Arg, Operand) {
	folded, src := int(in.Fold), in.Src
	if folded < 0 || !a.registerFile.FoldLoads {
		return src, Operand{}
	}
	operand, ok := a.foldable(src[folded], in.BroadcastBytes)
	if !ok && in.Commutative && src[folded].Virt != src[folded+1].Virt {
		if operand, ok = a.foldable(src[folded+1], in.BroadcastBytes); ok {
			src = append([]Arg(nil), src...)
			src[folded], src[folded+1] = src[folded+1], src[folded]
		}
	}
	for k, source := range src { // another source with the same value needs a register
		ok = ok && (k == folded || source.Virt != src[folded].Virt)
	}
	if !ok {
		return src, Operand{}
	}
	return src, operand
}

// foldable returns a source as a memory operand. It returns false if the instruction cannot or should not read the
// source from memory. broadcastBytes is [Inst].BroadcastBytes.
func (a *allocator) foldable(source Arg, broadcastBytes uint8) (Operand, bool) {
	if source.Virt == 0 || source.Bytes != 0 || a.values[source.Virt].Acc != nil ||
		a.currentRegister(source.Virt) >= 0 {
		return Operand{}, false
	}
	reload := a.reloadOf(source.Virt)
	if reload == nil || !reload.Foldable {
		return Operand{}, false
	}
	space, usedLater := reload.Mem.Space, a.nextUseOf(source.Virt) < math.MaxInt32
	switch {
	case space.advancesPerIteration() && a.Masked: // a memory operand would be read without a mask
		return Operand{}, false
	// A register is free: one load serves this use and later uses.
	case usedLater && a.PreferComputed && a.hasFree(a.values[source.Virt].Class):
		return Operand{}, false
	// One load serves all uses of an element, or of a spilled value that varies along the row. A row constant is read
	// from memory at each use.
	case usedLater && !a.PreferComputed && (space.advancesPerIteration() || space == Slot &&
		!a.values[source.Virt].Invariant):
		return Operand{}, false
	case !space.advancesPerIteration():
		a.Cost += memoryCost
	}
	switch reload.BroadcastBytes {
	case 0:
		return Operand{Kind: Memory, Mem: &reload.Mem}, true
	case broadcastBytes:
		return Operand{Kind: Element, Mem: &reload.Mem}, true
	}
	return Operand{}, false
}

// hasFree reports whether a register of a class is free.
func (a *allocator) hasFree(class Class) bool {
	for registers := a.registerFile.Pool[class]; registers != 0; registers &= registers - 1 {
		if a.owner[class][bits.TrailingZeros32(registers)] == 0 {
			return true
		}
	}
	return false
}

// allocateForm chooses an alternative of an instruction with Forms, and adds it.
func (a *allocator) allocateForm(in *Inst) {
	form, folded := a.chooseForm(in)
	first, second := in.Src[form.Order[0]], in.Src[form.Order[1]]
	if folded.Kind == Register {
		folded = a.operand(first)
	}
	other := a.operand(second)
	dst := a.destination(in, in.Src[form.Tied].Virt)
	a.emit(Out{Name: form.Name, From: a.position}, folded, other, dst)
	a.releaseDead(in)
}

// chooseForm chooses the form of an instruction, which determines the source that the result overwrites. It prefers the
// destination itself (an accumulator), then a source without further uses, then a source that is not in a register.
// Among the forms that overwrite this source, it prefers one that can read its first operand, source Order[0], from
// memory. It returns this source as a memory operand, or an operand of kind Register if the source must be in a
// register.
func (a *allocator) chooseForm(in *Inst) (Form, Operand) {
	isLastUse := func(virt Virt) bool {
		return a.registerOf[virt] >= 0 && a.nextUseOf(virt) == math.MaxInt32 && a.registerFile.Permanent[in.Dst] < 0
	}
	absent := func(virt Virt) bool { return a.currentRegister(virt) < 0 && a.values[virt].Acc == nil }
	isDst := func(virt Virt) bool { return virt == in.Dst } // true only for accumulators
	tied := in.Forms[0].Tied
	if !a.chooseTied(in, &tied, isDst) && !a.chooseTied(in, &tied, isLastUse) {
		a.chooseTied(in, &tied, absent)
	}
	var chosen *Form
	for k := range in.Forms {
		form := &in.Forms[k]
		if form.Tied != tied {
			continue
		}
		if in.Fold >= 0 && a.registerFile.FoldLoads {
			first := in.Src[form.Order[0]]
			if operand, ok := a.foldable(first, in.BroadcastBytes); ok {
				if virt := first.Virt; virt == in.Src[form.Order[1]].Virt || virt == in.Src[tied].Virt {
					operand = Operand{} // the value needs a register
				}
				return *form, operand
			}
		}
		if chosen == nil {
			chosen = form
		}
	}
	return *chosen, Operand{}
}

// chooseTied sets tied to the index of the first source that is suitable and that some form overwrites. It reports
// whether there is one.
func (a *allocator) chooseTied(in *Inst, tied *int8, suitable func(Virt) bool) bool {
	for k := range in.Forms {
		if t := in.Forms[k].Tied; suitable(in.Src[t].Virt) {
			*tied = t
			return true
		}
	}
	return false
}

// destination returns the destination of an instruction. If tied is not 0, the instruction overwrites the register of
// this source. The destination is this register if the old value has no further uses, or else a register into which the
// value is copied or loaded first. If tied is 0 and the instruction reads all sources before it writes, the destination
// may be the register of a source without further uses.
func (a *allocator) destination(in *Inst, tied Virt) Operand {
	early := in.Early || in.Temps != [numClasses]uint8{}
	if a.values[in.Dst].Acc != nil {
		return a.accumulatorDestination(in, tied, early)
	}
	if tied == 0 {
		if !early {
			for _, source := range in.Src {
				a.release(source.Virt)
			}
			a.release(in.Mask)
		}
		return a.newRegister(in.Dst)
	}
	// The result takes the register of the tied source, unless the old value is still needed.
	mustCopyTied := a.registerFile.Permanent[in.Dst] >= 0 || a.nextUseOf(tied) < math.MaxInt32
	for _, source := range in.Src { // an early instruction would overwrite this source before it reads it
		mustCopyTied = mustCopyTied || early && source.Virt == tied
	}
	if reg := a.registerOf[tied]; reg >= 0 && !mustCopyTied {
		a.registerOf[tied] = -1
		a.setOwner(in.Dst, reg)
		return a.register(in.Dst, reg, 0)
	}
	if a.values[tied].Acc == nil && a.currentRegister(tied) < 0 { // a load replaces the copy
		reload := a.reloadOf(tied)
		dst := a.newRegister(in.Dst)
		if reload != nil && (reload.Mem.Space == Slot || reload.Mem.Space == Constant) {
			a.Cost += memoryCost
		}
		a.load(reload, dst, -1)
		return dst
	}
	from := a.operand(Arg{Virt: tied})
	dst := a.newRegister(in.Dst)
	a.copy(from, dst, -1)
	return dst
}

// accumulatorDestination is destination for an accumulator, whose register is fixed. early means that the instruction
// may write the destination before it has read all sources. accumulatorDestination fails if the register would be
// written before a later read of its old value.
func (a *allocator) accumulatorDestination(in *Inst, tied Virt, early bool) Operand {
	dst, move := a.accumulator(in.Dst, 0), tied != 0 && tied != in.Dst
	for _, source := range in.Src {
		if source.Virt == in.Dst && (move || early) {
			a.fail(errAccumulator)
		}
	}
	if move {
		a.copy(a.operand(Arg{Virt: tied}), dst, -1)
	}
	return dst
}

// newRegister returns a register for a new value: its permanent register, or a free register.
func (a *allocator) newRegister(virt Virt) Operand {
	reg := a.registerFile.Permanent[virt]
	if reg < 0 {
		reg = a.allocateRegister(a.values[virt].Class)
		a.setOwner(virt, reg)
	}
	return a.register(virt, reg, 0)
}

// releaseDead frees the registers of values without further uses. If the instruction list runs once per row
// (OncePerRow) and the result has a permanent slot, releaseDead saves the result there.
func (a *allocator) releaseDead(in *Inst) {
	in.eachUse(a.release)
	if in.Dst == 0 || a.values[in.Dst].Acc != nil {
		return
	}
	if reg := a.registerOf[in.Dst]; a.OncePerRow && reg >= 0 {
		a.savePermanent(in.Dst, reg)
	}
	a.release(in.Dst)
}
