package alloc

import (
	"math"
	"math/bits"
)

// This file decides which source of an instruction becomes a memory operand. The Reload of a value is the load that
// restores it. In this file, "element" means an element of an operand that advances along the row: each iteration loads
// another element.

// memoryCost is an estimated cost in instructions. A memory operand costs this much more than a register operand, and a
// load costs this much more than a copy.
const memoryCost = 0.3

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
	if !isElement { // the value is in memory only because registers are lacking
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
