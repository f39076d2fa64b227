package alloc

// This file makes operands and adds allocated instructions to Insts: the instructions of the list, and the loads, saves
// and copies that move values between registers and memory.

// sourceOperand returns a source as an operand: an immediate, or the register of its value.
func (a *allocator) sourceOperand(source Arg) Operand {
	switch {
	case source.Virt == 0:
		return Operand{Kind: Immediate, Imm: source.Imm}
	case a.values[source.Virt].Acc != nil:
		return a.accumulatorOperand(source.Virt, source.Bytes)
	}
	return a.registerOperand(source.Virt, a.ensureInRegister(source.Virt), source.Bytes)
}

// fullWidth is Arg.Bytes for an operand that is as wide as its value.
const fullWidth = 0

// registerOperand returns the register reg, which contains the value virt, as an operand of the given number of bytes,
// or of the value's width for fullWidth.
func (a *allocator) registerOperand(virt Virt, reg int8, bytes uint8) Operand {
	value := &a.values[virt]
	if bytes == fullWidth {
		bytes = value.Bytes
	}
	return Operand{Kind: Register, Class: value.Class, Reg: reg, Bytes: bytes}
}

// accumulatorOperand returns an accumulator as an operand of the given number of bytes, or of its own width for
// fullWidth.
func (a *allocator) accumulatorOperand(virt Virt, bytes uint8) Operand {
	value := &a.values[virt]
	if bytes == fullWidth {
		bytes = value.Bytes
	}
	return Operand{Kind: Accumulator, Class: value.Class, Bytes: bytes, Acc: value.Acc}
}

// notInList is Allocated.From for loads, saves and copies that no instruction of the list requires.
const notInList = -1

// emit adds an instruction with operands to Insts.
func (a *allocator) emit(inst Allocated, args ...Operand) {
	start := len(a.args)
	a.args = append(a.args, args...)
	inst.Args = a.args[start:len(a.args):len(a.args)]
	a.Insts = append(a.Insts, inst)
	a.InstructionCount++
}

// emitLoad adds a load to dst. It records an error if reload is nil. movePosition is the position in the list of the
// Move instruction that the load replaces, or notInList.
func (a *allocator) emitLoad(reload *Reload, dst Operand, movePosition int32) {
	if reload == nil {
		a.fail(errUndefined)
		return
	}
	a.emit(Allocated{Kind: Load, Name: reload.Name, From: movePosition}, Operand{Kind: Memory, Mem: &reload.Mem}, dst)
}

// emitSave adds a store of a value from its register to a slot.
func (a *allocator) emitSave(virt Virt, reg int8, slot int16) {
	// The memory operand of a slot is the same for all classes.
	a.emit(Allocated{Kind: Save, From: notInList}, a.registerOperand(virt, reg, fullWidth), Operand{Kind: Memory,
		Mem: &a.slotReload(Vectors, slot).Mem})
}

// emitCopy adds a copy. movePosition is as in emitLoad.
func (a *allocator) emitCopy(from, to Operand, movePosition int32) {
	a.emit(Allocated{Kind: Copy, From: movePosition}, from, to)
}
