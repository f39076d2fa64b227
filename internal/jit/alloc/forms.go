package alloc

import "math"

// This file assigns registers to instructions with Forms. The result of such an instruction overwrites one of its
// sources, the tied source. The forms are encodings that differ in the tied source. For example, a multiply-add
// overwrites one of its three sources.

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

// chooseTied chooses the source that the result overwrites, and returns its index in inst.Src: the first one of the
// highest rank.
func (a *allocator) chooseTied(inst *Inst) int8 {
	chosen, highest := int8(0), -1
	for k := range inst.Forms {
		tied := inst.Forms[k].Tied
		if rank := a.tiedRank(inst, tied); rank > highest {
			chosen, highest = tied, rank
		}
	}
	return chosen
}

// tiedRank ranks source tied as the source that the result overwrites. A greater rank is better.
func (a *allocator) tiedRank(inst *Inst, tied int8) int {
	virt := inst.Src[tied].Virt
	isFreed := a.registerOf[virt] >= 0 && a.nextUseOf(virt) == math.MaxInt32
	hasPermanent := a.registerFile.Permanent[inst.Dst] >= 0 // such a result cannot have another register
	switch {
	case virt == inst.Dst: // the result is an accumulator, which is in its register already
		return 3
	case isFreed && !hasPermanent: // the result gets the register of the source
		return 2
	case a.isOnlyInMemory(virt): // the source is loaded to the register of the result
		return 1
	}
	return 0 // the source must be copied first
}
