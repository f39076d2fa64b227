package alloc

import "math"

// This file assigns registers to one instruction. The sources of the instruction get registers, or one source becomes a
// memory operand (fold). The destination gets a register (allocateDestination). For example, let v3 = Add v1, v2 be the
// last use of v1, which is in register 5, and let v2 be in slot 0. The result is Add r5, slot 0, r5: the instruction
// reads v2 from the slot, and v3 gets the register of v1.
//
// In some instructions, the result overwrites the register of a source: the tied value (Inst.Tied). An accumulator is a
// value with an Acc, whose register the generator chooses. The Reload of a value is the load that restores it.
//
// Loads and copies are emitted with the position of the Move that they replace, or with notInList. An operand may be
// narrower than its value. fullWidth means the width of the value.

// allocateInst assigns registers to an instruction and adds it to Insts.
func (a *allocator) allocateInst(inst *Inst) {
	// The slots that the previous instruction read, or used as temporary memory, become free only now, because they must
	// keep their contents within the previous instruction.
	a.freeSlots = append(a.freeSlots, a.slotsToFree...)
	a.slotsToFree = a.slotsToFree[:0]
	inst.eachUse(a.pin)
	switch {
	case inst.Name == Move:
		a.allocateMove(inst)
	case inst.Forms != nil: // encodings that differ in the tied value: allocateForm chooses one (forms.go)
		a.allocateForm(inst)
	default:
		a.allocatePlain(inst)
	}
}

// allocateMove adds a move. If the source is only in memory, the move becomes a load, otherwise a copy.
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
	src, memory, isFolded := a.fold(inst) // src: the sources, which fold may exchange if inst is commutative
	var argMemory [10]Operand             // emit copies the operands, so this array is not allocated on the heap
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
	a.InstructionCount += max(1, int(inst.InstructionCount)) - 1 // emit has already counted 1
	a.releaseDead(inst)
}

// appendTemps allocates the temporary registers of an instruction and appends them to its operands. size is the size of
// a register in bytes.
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

// allocateDestination returns the destination of an instruction. If tied is not 0, the destination must hold the value
// `tied` before the instruction (see allocateTied).
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

// allocateTied returns a destination that holds the value `tied` before the instruction. If tied has no further uses,
// the destination is the register of tied. Otherwise allocateTied copies or loads tied into another register.
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

// allocateAccumulator returns the destination of an instruction whose result is an accumulator. An accumulator has a
// fixed register. It records an error if the register would be written before the instruction reads its old value.
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

// releaseDead frees the registers of an instruction's sources and result if they have no further uses. If the list runs
// once per row (OncePerRow) and the result has a permanent slot, releaseDead saves the result there first.
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
