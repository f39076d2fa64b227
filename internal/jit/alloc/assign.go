package alloc

import (
	"math"
	"math/bits"
)

// memoryCost is the estimated additional cost, in instructions, of a memory operand compared with a register, and of a
// load compared with a copy.
const memoryCost = 0.3

// allocateInst assigns registers to an instruction and adds it to Insts.
func (a *allocator) allocateInst(in *Inst) {
	// A slot that the previous instruction read, or used as temporary memory, becomes free only now, because it must keep
	// its contents within that instruction.
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
	onlyInMemory := a.currentRegister(virt) < 0 && a.values[virt].Acc == nil
	toAccumulator := a.values[in.Dst].Acc != nil
	switch {
	case onlyInMemory && toAccumulator:
		a.load(a.reloadOf(virt), a.accumulator(in.Dst, 0), a.position)
	case onlyInMemory:
		reload := a.reloadOf(virt)
		a.load(reload, a.newRegister(in.Dst), a.position)
	case toAccumulator:
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
		if k == int(in.FoldableSource) && folded.Kind != Register {
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
	for class, count := range in.TempCounts {
		for range count {
			reg := a.allocateRegister(Class(class))
			a.pinned[class] |= 1 << reg
			args = append(args, Operand{Kind: Register, Class: Class(class), Reg: reg, Bytes: dst.Bytes})
		}
	}
	if in.TempSlot {
		args = append(args, slot)
	}
	if in.Mask != 0 {
		args = append(args, mask)
	}
	a.emit(Allocated{Name: in.Name, NonTemporal: in.NonTemporal, From: a.position}, append(args, dst)...)
	a.Length += max(1, int(in.InstructionCount)) - 1 // emit has counted 1
	a.releaseDead(in)
}

// fold tries to make source in.FoldableSource of an instruction a memory operand. It returns the sources and the memory
// operand. If the instruction is commutative, fold may exchange sources in.FoldableSource and in.FoldableSource+1. If
// source in.FoldableSource must be in a register, the returned operand has the kind Register and no other contents.
func (a *allocator) fold(in *Inst) ([]Arg, Operand) {
	index, src := int(in.FoldableSource), in.Src
	if index < 0 || !a.registerFile.FoldLoads {
		return src, Operand{}
	}
	operand, ok := a.foldable(src[index], in.BroadcastBytes)
	if !ok && in.Commutative && src[index].Virt != src[index+1].Virt {
		if operand, ok = a.foldable(src[index+1], in.BroadcastBytes); ok {
			src = append([]Arg(nil), src...)
			src[index], src[index+1] = src[index+1], src[index]
		}
	}
	for k, source := range src { // another source with the same value needs a register
		ok = ok && (k == index || source.Virt != src[index].Virt)
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
	// If a register is free, one load serves this use and later uses.
	case usedLater && a.EvictReloadableFirst && a.hasFree(a.values[source.Virt].Class):
		return Operand{}, false
	// One load serves all uses of an element, or of a spilled value that varies along the row. A row constant is read
	// from memory at each use.
	case usedLater && !a.EvictReloadableFirst && (space.advancesPerIteration() || space == Slot &&
		!a.values[source.Virt].Invariant):
		return Operand{}, false
	case !space.advancesPerIteration(): // with more registers, the value would be in one
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

// allocateForm chooses an alternative of an instruction with Forms, and adds it to Insts.
func (a *allocator) allocateForm(in *Inst) {
	form, first := a.chooseForm(in)
	if first.Kind == Register { // not in memory
		first = a.operand(in.Src[form.Order[0]])
	}
	second := a.operand(in.Src[form.Order[1]])
	dst := a.destination(in, in.Src[form.Tied].Virt)
	a.emit(Allocated{Name: form.Name, From: a.position}, first, second, dst)
	a.releaseDead(in)
}

// chooseForm chooses the form of an instruction, which determines the source that the result overwrites. It prefers to
// overwrite the destination itself (an accumulator), then a source without further uses, then a source that is not in a
// register. Among the forms that overwrite the chosen source, it prefers one whose first operand, source Order[0], can
// be read from memory. chooseForm also returns this first operand: a memory operand, or an operand of kind Register
// without other contents if the operand must be in a register.
func (a *allocator) chooseForm(in *Inst) (Form, Operand) {
	isLastUse := func(virt Virt) bool {
		return a.registerOf[virt] >= 0 && a.nextUseOf(virt) == math.MaxInt32 && a.registerFile.Permanent[in.Dst] < 0
	}
	isOnlyInMemory := func(virt Virt) bool { return a.currentRegister(virt) < 0 && a.values[virt].Acc == nil }
	isDst := func(virt Virt) bool { return virt == in.Dst } // true only for accumulators
	tied := in.Forms[0].Tied
	if !a.chooseTied(in, &tied, isDst) && !a.chooseTied(in, &tied, isLastUse) {
		a.chooseTied(in, &tied, isOnlyInMemory)
	}
	var chosen *Form
	for k := range in.Forms {
		form := &in.Forms[k]
		if form.Tied != tied {
			continue
		}
		if in.FoldableSource >= 0 && a.registerFile.FoldLoads {
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

// chooseTied sets *tied to the source of the first form that overwrites a suitable source. It reports whether there is
// one.
func (a *allocator) chooseTied(in *Inst, tied *int8, suitable func(Virt) bool) bool {
	for k := range in.Forms {
		if candidate := in.Forms[k].Tied; suitable(in.Src[candidate].Virt) {
			*tied = candidate
			return true
		}
	}
	return false
}

// destination returns the destination of an instruction. If tied is not 0, the destination must hold the value tied
// before the instruction. If tied has no further uses, its register is the destination. Otherwise destination copies or
// loads tied into another register. If tied is 0 and the instruction reads all sources before it writes, the
// destination may be the register of a source without further uses.
func (a *allocator) destination(in *Inst, tied Virt) Operand {
	early := in.EarlyClobber || in.TempCounts != [numClasses]uint8{}
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
		a.load(reload, dst, notInList)
		return dst
	}
	from := a.operand(Arg{Virt: tied})
	dst := a.newRegister(in.Dst)
	a.copy(from, dst, notInList)
	return dst
}

// accumulatorDestination is destination for an accumulator, whose register is fixed. early means that the instruction
// may write the destination before it has read all sources. accumulatorDestination records an error if the register
// would be written before the instruction reads its old value.
func (a *allocator) accumulatorDestination(in *Inst, tied Virt, early bool) Operand {
	dst, mustCopyTied := a.accumulator(in.Dst, 0), tied != 0 && tied != in.Dst
	for _, source := range in.Src {
		if source.Virt == in.Dst && (mustCopyTied || early) {
			a.fail(errAccumulator)
		}
	}
	if mustCopyTied {
		a.copy(a.operand(Arg{Virt: tied}), dst, notInList)
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

// releaseDead frees the registers of the sources and the result of an instruction that have no further uses. If the
// list runs once per row (OncePerRow) and the result has a permanent slot, releaseDead saves the result there first.
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
