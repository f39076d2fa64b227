package alloc

import (
	"math"
	"math/bits"
)

// This file assigns registers to one instruction. Its sources get registers, or one of them becomes a memory operand
// (fold), and its destination gets a register (allocateDestination). For example, let v3 = Add v1, v2 be the last use
// of v1, which is in register 5, and let v2 be in slot 0. The result is Add r5, slot 0, r5: the instruction reads v2
// from the slot, and v3 gets the register of v1. The Reload of a value is the load that restores it.
//
// The result of some instructions overwrites a source, the tied source: a multiply-add overwrites one of its three
// sources. Such an instruction has Forms, encodings that differ in the tied source. An element is an element of an
// operand that advances along the row: each iteration loads another one. An accumulator is a value with an Acc, whose
// register the generator chooses.

// memoryCost is the estimated additional cost, in instructions, of a memory operand compared with a register, and of a
// load compared with a copy.
const memoryCost = 0.3

// allocateInst assigns registers to an instruction and adds it to Insts.
func (a *allocator) allocateInst(inst *Inst) {
	// The slots that the previous instruction read, or used as temporary memory, become free only now. Within that
	// instruction they must keep their contents.
	a.freeSlots = append(a.freeSlots, a.slotsToFree...)
	a.slotsToFree = a.slotsToFree[:0]
	inst.eachUse(a.pin)
	switch {
	case inst.Name == Move:
		a.allocateMove(inst)
	case inst.Forms != nil:
		a.allocateForm(inst)
	default:
		a.allocatePlain(inst)
	}
}

// allocateMove adds a move as a load, if its source is only in memory, or else as a copy.
func (a *allocator) allocateMove(inst *Inst) {
	virt := inst.Src[0].Virt
	isOnlyInMemory := a.isOnlyInMemory(virt)
	isToAccumulator := a.values[inst.Dst].Acc != nil
	switch {
	case isOnlyInMemory && isToAccumulator:
		a.emitLoad(a.reloadOf(virt), a.accumulatorOperand(inst.Dst, fullWidth), a.position)
	case isOnlyInMemory:
		reload := a.reloadOf(virt)
		a.emitLoad(reload, a.newRegister(inst.Dst), a.position)
	case isToAccumulator:
		a.emitCopy(a.sourceOperand(inst.Src[0]), a.accumulatorOperand(inst.Dst, fullWidth), a.position)
	default:
		from := a.sourceOperand(inst.Src[0])
		a.emitCopy(from, a.newRegister(inst.Dst), a.position)
	}
	a.releaseDead(inst)
}

// allocatePlain adds an instruction without Forms.
func (a *allocator) allocatePlain(inst *Inst) {
	src, folded := a.fold(inst)
	var argMemory [10]Operand // not allocated on the heap, because emit copies the operands
	args := argMemory[:0]
	for k, source := range src {
		if k == int(inst.FoldableSource) && folded.Kind != Register {
			args = append(args, folded)
			continue
		}
		args = append(args, a.sourceOperand(source))
	}
	var mask Operand
	if inst.Mask != 0 {
		mask = a.sourceOperand(Arg{Virt: inst.Mask})
		mask.ZeroMasking = inst.ZeroMasking
	}
	var dst Operand
	if inst.Store != nil {
		dst = Operand{Kind: Memory, Mem: inst.Store}
	} else {
		dst = a.allocateDestination(inst, inst.Tied)
	}
	args = a.appendTemps(args, inst, dst.Bytes)
	if inst.Mask != 0 {
		args = append(args, mask)
	}
	a.emit(Allocated{Name: inst.Name, NonTemporal: inst.NonTemporal, From: a.position}, append(args, dst)...)
	a.InstructionCount += max(1, int(inst.InstructionCount)) - 1 // a real instruction counts as 1; emit has counted 1
	a.releaseDead(inst)
}

// appendTemps allocates the temporary registers of an instruction and appends them to its operands. size is their size
// in bytes.
func (a *allocator) appendTemps(args []Operand, inst *Inst, size uint8) []Operand {
	for class, count := range inst.TempCounts {
		for range count {
			reg := a.allocateRegister(Class(class))
			a.pinned[class] |= 1 << reg
			args = append(args, Operand{Kind: Register, Class: Class(class), Reg: reg, Bytes: size})
		}
	}
	return args
}

// fold tries to make the source inst.FoldableSource a memory operand. It returns the sources and the memory operand. If
// the instruction is commutative, fold may exchange this source and the next. If the source must be in a register, the
// returned operand has the kind Register and no other contents.
func (a *allocator) fold(inst *Inst) ([]Arg, Operand) {
	index, src := int(inst.FoldableSource), inst.Src
	inRegister := Operand{Kind: Register}
	if index < 0 || !a.registerFile.FoldLoads {
		return src, inRegister
	}
	operand, ok := a.foldSource(src[index], inst.BroadcastBytes)
	if !ok && inst.Commutative && src[index].Virt != src[index+1].Virt {
		if operand, ok = a.foldSource(src[index+1], inst.BroadcastBytes); ok {
			src = append([]Arg(nil), src...)
			src[index], src[index+1] = src[index+1], src[index]
		}
	}
	for k, source := range src { // another source with the same value needs a register
		ok = ok && (k == index || source.Virt != src[index].Virt)
	}
	if !ok {
		return src, inRegister
	}
	return src, operand
}

// foldSource returns a source as a memory operand, and adds its cost to that of the list if it is not an element. It
// returns false if the instruction cannot or should not read the source from memory. broadcastBytes is
// [Inst].BroadcastBytes.
func (a *allocator) foldSource(source Arg, broadcastBytes uint8) (Operand, bool) {
	isImmediate := source.Virt == 0
	if isImmediate || source.Bytes != fullWidth || !a.isOnlyInMemory(source.Virt) {
		return Operand{}, false
	}
	reload := a.reloadOf(source.Virt)
	if reload == nil || !reload.Foldable {
		return Operand{}, false
	}
	isElement := reload.Mem.Space.advancesPerIteration()
	mustMask := isElement && a.Masked // a memory operand would be read without a mask
	if mustMask || a.prefersLoad(source.Virt, reload) {
		return Operand{}, false
	}
	if !isElement { // with more registers, the value would be in one
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

// prefersLoad reports whether a value in memory should be loaded into a register, because it has later uses.
func (a *allocator) prefersLoad(virt Virt, reload *Reload) bool {
	value := &a.values[virt]
	isUsedLater := a.nextUseOf(virt) < math.MaxInt32
	switch {
	case !isUsedLater:
		return false
	case a.EvictReloadableFirst: // if a register is free, one load serves this use and later uses
		return a.hasFree(value.Class)
	}
	// One load serves all uses of an element, or of a spilled value that varies along the row. A row constant is read
	// from memory at each use.
	return reload.Mem.Space.advancesPerIteration() || reload.Mem.Space == Slot && !value.Invariant
}

// isOnlyInMemory reports whether a value is neither in a register nor an accumulator.
func (a *allocator) isOnlyInMemory(virt Virt) bool {
	return a.currentRegister(virt) < 0 && a.values[virt].Acc == nil
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
func (a *allocator) allocateForm(inst *Inst) {
	form, first := a.chooseForm(inst)
	if first.Kind == Register { // not in memory
		first = a.sourceOperand(inst.Src[form.Order[0]])
	}
	second := a.sourceOperand(inst.Src[form.Order[1]])
	dst := a.allocateDestination(inst, inst.Src[form.Tied].Virt)
	a.emit(Allocated{Name: form.Name, From: a.position}, first, second, dst)
	a.releaseDead(inst)
}

// chooseForm chooses the form of an instruction, which determines the source that the result overwrites (chooseTied).
// Among the forms that overwrite this source, it prefers one whose first operand, source Order[0], can be read from
// memory. chooseForm also returns this first operand. If it must be in a register, the returned operand has the kind
// Register and no other contents.
func (a *allocator) chooseForm(inst *Inst) (Form, Operand) {
	tied := a.chooseTied(inst)
	inRegister := Operand{Kind: Register}
	canFold := inst.FoldableSource >= 0 && a.registerFile.FoldLoads
	var chosen *Form
	for k := range inst.Forms {
		form := &inst.Forms[k]
		if form.Tied != tied {
			continue
		}
		if canFold {
			first, second := inst.Src[form.Order[0]], inst.Src[form.Order[1]]
			if operand, ok := a.foldSource(first, inst.BroadcastBytes); ok {
				if first.Virt == second.Virt || first.Virt == inst.Src[tied].Virt {
					operand = inRegister // another source has the same value, which needs a register
				}
				return *form, operand
			}
		}
		if chosen == nil {
			chosen = form
		}
	}
	return *chosen, inRegister
}

// chooseTied returns the index of the source that the result overwrites in one of the Forms. It prefers the destination
// itself (an accumulator), then a source without further uses, then a source that is not in a register.
func (a *allocator) chooseTied(inst *Inst) int8 {
	isDst := func(virt Virt) bool { return virt == inst.Dst } // only an accumulator is both a source and the result
	isLastUse := func(virt Virt) bool {
		return a.registerOf[virt] >= 0 && a.nextUseOf(virt) == math.MaxInt32 && a.registerFile.Permanent[inst.Dst] < 0
	}
	for _, isPreferred := range [...]func(Virt) bool{isDst, isLastUse, a.isOnlyInMemory} {
		for k := range inst.Forms {
			if tied := inst.Forms[k].Tied; isPreferred(inst.Src[tied].Virt) {
				return tied
			}
		}
	}
	return inst.Forms[0].Tied
}

// allocateDestination returns the destination of an instruction. If tied is not 0, the destination must hold the value
// tied before the instruction. If tied has no further uses, its register is the destination. Otherwise
// allocateDestination copies or loads tied into another register. If tied is 0 and the instruction reads all sources
// before it writes, the destination may be the register of a source without further uses.
func (a *allocator) allocateDestination(inst *Inst, tied Virt) Operand {
	switch {
	case a.values[inst.Dst].Acc != nil:
		return a.allocateAccumulator(inst, tied)
	case tied != 0:
		return a.allocateTied(inst, tied)
	}
	if !inst.writesEarly() {
		for _, source := range inst.Src {
			a.release(source.Virt)
		}
		a.release(inst.Mask)
	}
	return a.newRegister(inst.Dst)
}

// writesEarly reports whether the instruction may write its destination before it has read all sources.
func (in *Inst) writesEarly() bool {
	return in.EarlyClobber || in.TempCounts != [numClasses]uint8{}
}

// allocateTied is allocateDestination for a destination that must hold the value tied before the instruction.
func (a *allocator) allocateTied(inst *Inst, tied Virt) Operand {
	mustCopyTied := a.registerFile.Permanent[inst.Dst] >= 0 || a.nextUseOf(tied) < math.MaxInt32
	for _, source := range inst.Src { // an early write would overwrite this source before it is read
		mustCopyTied = mustCopyTied || inst.writesEarly() && source.Virt == tied
	}
	if reg := a.registerOf[tied]; reg >= 0 && !mustCopyTied {
		a.registerOf[tied] = -1
		a.setOwner(inst.Dst, reg)
		return a.registerOperand(inst.Dst, reg, fullWidth)
	}
	if a.isOnlyInMemory(tied) { // a load replaces the copy
		reload := a.reloadOf(tied)
		dst := a.newRegister(inst.Dst)
		if reload != nil && (reload.Mem.Space == Slot || reload.Mem.Space == Constant) {
			a.Cost += memoryCost
		}
		a.emitLoad(reload, dst, notInList)
		return dst
	}
	from := a.sourceOperand(Arg{Virt: tied})
	dst := a.newRegister(inst.Dst)
	a.emitCopy(from, dst, notInList)
	return dst
}

// allocateAccumulator is allocateDestination for an accumulator, whose register is fixed. It records an error if the
// register would be written before the instruction reads its old value.
func (a *allocator) allocateAccumulator(inst *Inst, tied Virt) Operand {
	dst, mustCopyTied := a.accumulatorOperand(inst.Dst, fullWidth), tied != 0 && tied != inst.Dst
	for _, source := range inst.Src {
		if source.Virt == inst.Dst && (mustCopyTied || inst.writesEarly()) {
			a.fail(errAccumulator)
		}
	}
	if mustCopyTied {
		a.emitCopy(a.sourceOperand(Arg{Virt: tied}), dst, notInList)
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
	return a.registerOperand(virt, reg, fullWidth)
}

// releaseDead frees the registers of the sources and the result of an instruction that have no further uses. If the
// list runs once per row (OncePerRow) and the result has a permanent slot, releaseDead saves the result there first.
func (a *allocator) releaseDead(inst *Inst) {
	inst.eachUse(a.release)
	if inst.Dst == 0 || a.values[inst.Dst].Acc != nil {
		return
	}
	if reg := a.registerOf[inst.Dst]; a.OncePerRow && reg >= 0 {
		a.savePermanent(inst.Dst, reg)
	}
	a.release(inst.Dst)
}
