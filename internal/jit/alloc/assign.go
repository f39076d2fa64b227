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
// The result of some instructions overwrites the register of one value, the tied value (Inst.Tied). A multiply-add
// overwrites one of its three sources. Such an instruction has Forms, encodings that differ in the tied source. An
// element is an element of an operand that advances along the row: each iteration loads another one. An accumulator is
// a value with an Acc, whose register the generator chooses.

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
	if virt := inst.Src[0].Virt; a.isOnlyInMemory(virt) {
		reload := a.reloadOf(virt)
		a.emitLoad(reload, a.moveDestination(inst.Dst), a.position)
	} else {
		from := a.sourceOperand(inst.Src[0])
		a.emitCopy(from, a.moveDestination(inst.Dst), a.position)
	}
	a.releaseDead(inst)
}

// moveDestination returns the destination of a move: an accumulator, or a register for a new value.
func (a *allocator) moveDestination(virt Virt) Operand {
	if a.values[virt].Acc != nil {
		return a.accumulatorOperand(virt, fullWidth)
	}
	return a.newRegister(virt)
}

// allocatePlain adds an instruction without Forms.
func (a *allocator) allocatePlain(inst *Inst) {
	src, memory, isFolded := a.fold(inst)
	var argMemory [10]Operand // not allocated on the heap, because emit copies the operands
	args := argMemory[:0]
	for k, source := range src {
		if isFolded && k == int(inst.FoldableSource) {
			args = append(args, memory)
		} else {
			args = append(args, a.sourceOperand(source))
		}
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

// fold tries to make the source inst.FoldableSource a memory operand. If the instruction is commutative, fold may
// exchange this source and the next. It returns the sources in their final order, and the memory operand. isFolded is
// false if all sources must be in registers.
func (a *allocator) fold(inst *Inst) (src []Arg, memory Operand, isFolded bool) {
	index := int(inst.FoldableSource)
	src = inst.Src
	if index < 0 || !a.registerFile.FoldLoads {
		return src, Operand{}, false
	}
	memory, isFolded = a.foldSource(src[index], inst.BroadcastBytes)
	if !isFolded && inst.Commutative && src[index].Virt != src[index+1].Virt {
		if memory, isFolded = a.foldSource(src[index+1], inst.BroadcastBytes); isFolded {
			src = append([]Arg(nil), src...)
			src[index], src[index+1] = src[index+1], src[index]
		}
	}
	for k, source := range src { // another source with the same value needs a register
		isFolded = isFolded && (k == index || source.Virt != src[index].Virt)
	}
	return src, memory, isFolded
}

// foldSource returns a source as a memory operand. It returns false if the instruction cannot or should not read the
// source from memory. If the source is not an element, foldSource adds memoryCost to Cost. broadcastBytes is
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
	case 0: // a whole vector
		return Operand{Kind: Memory, Mem: &reload.Mem}, true
	case broadcastBytes: // the instruction broadcasts elements of this size
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

// allocateForm chooses one of the Forms of an instruction, and adds it to Insts. The operands of a form are the sources
// Order[0] and Order[1], and the destination, which must hold the source Tied.
func (a *allocator) allocateForm(inst *Inst) {
	form, first, isFolded := a.chooseForm(inst)
	if !isFolded {
		first = a.sourceOperand(inst.Src[form.Order[0]])
	}
	second := a.sourceOperand(inst.Src[form.Order[1]])
	dst := a.allocateDestination(inst, inst.Src[form.Tied].Virt)
	a.emit(Allocated{Name: form.Name, From: a.position}, first, second, dst)
	a.releaseDead(inst)
}

// chooseForm chooses the form of an instruction. chooseTied determines the source that the result overwrites. Among the
// forms that overwrite this source, chooseForm prefers one whose source Order[0] can be read from memory, and returns
// this source as the operand memory. isFolded is false if the source Order[0] must be in a register.
func (a *allocator) chooseForm(inst *Inst) (chosen Form, memory Operand, isFolded bool) {
	tied := a.chooseTied(inst)
	canFold := inst.FoldableSource >= 0 && a.registerFile.FoldLoads
	var firstForm *Form // the first one that overwrites source tied
	for k := range inst.Forms {
		form := &inst.Forms[k]
		if form.Tied != tied {
			continue
		}
		if canFold {
			first, second := inst.Src[form.Order[0]], inst.Src[form.Order[1]]
			if operand, ok := a.foldSource(first, inst.BroadcastBytes); ok {
				// Another source with the same value needs a register.
				isRepeated := first.Virt == second.Virt || first.Virt == inst.Src[tied].Virt
				return *form, operand, !isRepeated
			}
		}
		if firstForm == nil {
			firstForm = form
		}
	}
	return *firstForm, Operand{}, false
}

// chooseTied chooses the source that the result overwrites, and returns its index in inst.Src. It prefers the
// destination itself (an accumulator), then a source whose register becomes free, then a source that is not in a
// register. Any other source must be copied first.
func (a *allocator) chooseTied(inst *Inst) int8 {
	// Only an accumulator is both a source and the result.
	isDst := func(virt Virt) bool { return virt == inst.Dst }
	// A result with a permanent register cannot have another register.
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
// tied before the instruction (see allocateTied).
func (a *allocator) allocateDestination(inst *Inst, tied Virt) Operand {
	switch {
	case a.values[inst.Dst].Acc != nil:
		return a.allocateAccumulator(inst, tied)
	case tied != 0:
		return a.allocateTied(inst, tied)
	}
	if !inst.writesEarly() { // the destination may be the register of a source without further uses
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

// allocateTied returns a destination that holds the value tied before the instruction. If tied has no further uses, the
// destination is the register of tied. Otherwise allocateTied copies or loads tied into another register.
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
		reload, dst := a.reloadOf(tied), a.newRegister(inst.Dst)
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

// allocateAccumulator returns the destination of an instruction whose result is an accumulator, which has a fixed
// register. It records an error if the register would be written before the instruction reads its old value.
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
