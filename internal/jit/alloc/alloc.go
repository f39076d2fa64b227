package alloc

import (
	"errors"
	"math"
	"math/bits"
	"sync"
)

// allocator assigns registers to a list of instructions without jumps, in order. If no register is free, it evicts the
// value whose next use is farthest (Belady's rule). For example, let values 1 and 2 be in the only two registers, and
// let their next uses be instructions 7 and 4. If instruction 3 needs a register for its result, value 1 is evicted. If
// no load can restore value 1, a Save first stores it in a slot, and a Load restores it before instruction 7.
//
// Run calls allocateInst (assign.go) for each instruction. The functions of this file place single values. A value with
// a Reload need not be kept, because it can be loaded again. A value may have a permanent register or slot, which no
// other value uses. A value with an Acc is an accumulator, whose register the generator chooses. The position notInList
// marks instructions that the allocator adds: loads, saves and copies.
type allocator struct {
	Result       // the result so far
	Policy       // OncePerRow (the list computes row constants), Masked, Preload, CostLimit, EvictReloadableFirst
	values       []Value
	registerFile *RegisterFile

	uses        []int32               // positions in the list at which value 0 is used, then value 1, ...
	nextUse     []int32               // by Virt: index in uses of its next use; nextUseOf advances the index
	usesEnd     []int32               // by Virt: index in uses after its last use
	registerOf  []int8                // by Virt: its current register, or -1; permanent registers are not recorded
	spillSlot   []int16               // by Virt: the slot in which it is spilled, or -1
	owner       [numClasses][32]Virt  // by class and register: the value in the register, or 0
	pinned      [numClasses]uint32    // by class: bit set of the registers that the current instruction uses
	freeSlots   []int16               // free slots below Slots
	slotsToFree []int16               // slots without further uses; they become free at the next instruction
	slotReloads [numClasses][]*Reload // by class and slot: the load from the slot
	position    int32                 // position of the current instruction; -1 before the list
	args        []Operand             // memory of the operands of all instructions in Insts
}

// allocators is a pool of allocators whose memory is reused.
var allocators sync.Pool

// Run assigns registers to a list of instructions. values[v] describes virtual register v. The result is incomplete if
// it has an error or if its cost reaches policy.CostLimit. If Verify is set, Run panics if the result is wrong.
func Run(values []Value, registerFile *RegisterFile, list []Inst, policy Policy) *Result {
	alloc := newAllocator(len(values), len(list))
	alloc.values, alloc.registerFile, alloc.Policy, alloc.Slots = values, registerFile, policy, registerFile.ReservedSlots
	if alloc.CostLimit == 0 {
		alloc.CostLimit = math.Inf(1)
	}
	alloc.findUses(list)
	alloc.position = -1
	for _, virt := range policy.Preload {
		if values[virt].Reload != nil && !values[virt].Constant { // any list can load constants
			alloc.preload(virt)
		}
	}
	for k := range list {
		if alloc.Cost >= alloc.CostLimit {
			break
		}
		alloc.position = int32(k)
		alloc.pinned = [numClasses]uint32{}
		alloc.allocateInst(&list[k])
	}
	if Verify && alloc.Err == nil && alloc.Cost < alloc.CostLimit {
		if err := Check(values, registerFile, list, policy, &alloc.Result); err != nil {
			panic(err)
		}
	}
	return &alloc.Result
}

// Free allows later calls of Run to reuse the memory of a result. The result must not be used afterwards.
func (r *Result) Free() {
	alloc := r.state
	alloc.values, alloc.registerFile, alloc.Policy = nil, nil, Policy{}
	clear(alloc.args)
	alloc.args = alloc.args[:0]
	allocators.Put(alloc)
}

// newAllocator returns an empty allocator for a list with the given number of instructions on the given number of
// values. It reuses the memory of a freed allocator.
func newAllocator(values, instructions int) *allocator {
	alloc, _ := allocators.Get().(*allocator)
	if alloc == nil {
		alloc = new(allocator)
		alloc.Insts, alloc.args = make([]Allocated, 0, instructions+instructions/4), make([]Operand, 0, 4*instructions)
	} else {
		old := *alloc
		*alloc = allocator{uses: old.uses, nextUse: old.nextUse, usesEnd: old.usesEnd, registerOf: old.registerOf,
			spillSlot: old.spillSlot, freeSlots: old.freeSlots[:0], slotsToFree: old.slotsToFree[:0],
			slotReloads: old.slotReloads, args: old.args}
		alloc.Insts = old.Insts[:0]
	}
	alloc.state = alloc
	alloc.nextUse, alloc.usesEnd = reuse(alloc.nextUse, values), reuse(alloc.usesEnd, values)
	alloc.registerOf, alloc.spillSlot = reuse(alloc.registerOf, values), reuse(alloc.spillSlot, values)
	clear(alloc.usesEnd)
	for v := range values {
		alloc.registerOf[v], alloc.spillSlot[v] = -1, -1
	}
	return alloc
}

// reuse returns a slice of n elements with arbitrary contents. It reuses the memory of old if this memory is large
// enough.
func reuse[T any](old []T, n int) []T {
	if cap(old) < n {
		return make([]T, n)
	}
	return old[:n]
}

// findUses sets uses, nextUse and usesEnd for a list.
func (a *allocator) findUses(list []Inst) {
	for k := range list {
		list[k].eachUse(func(virt Virt) { a.usesEnd[virt]++ })
	}
	// This is a counting sort. usesEnd[v] is now the number of uses of v. The next loop sets usesEnd[v] to the start of
	// these uses in a.uses, and the last loop advances it to their end.
	total := int32(0)
	for v := range a.usesEnd {
		a.nextUse[v] = total
		total += a.usesEnd[v]
		a.usesEnd[v] = a.nextUse[v]
	}
	a.uses = reuse(a.uses, int(total))
	for k := range list {
		list[k].eachUse(func(virt Virt) {
			a.uses[a.usesEnd[virt]] = int32(k)
			a.usesEnd[virt]++
		})
	}
}

// preload loads a row constant into its permanent register or its permanent slot. A row constant is a value that is the
// same for all elements of a row.
func (a *allocator) preload(virt Virt) {
	a.pinned = [numClasses]uint32{}
	if reg := a.registerFile.Permanent[virt]; reg >= 0 {
		a.emitLoad(a.values[virt].Reload, a.registerOperand(virt, reg, fullWidth), notInList)
		return
	}
	reg := a.ensureInRegister(virt)
	a.savePermanent(virt, reg)
	a.release(virt)
}

// ensureInRegister returns the register of a value, and pins it for the current instruction. It loads the value if
// necessary.
func (a *allocator) ensureInRegister(virt Virt) int8 {
	if reg := a.currentRegister(virt); reg >= 0 {
		a.pin(virt)
		return reg
	}
	reload := a.reloadOf(virt)
	reg := a.allocateRegister(a.values[virt].Class)
	a.setOwner(virt, reg)
	if reload != nil && !reload.Mem.Space.advancesPerIteration() {
		a.Cost++ // elements of the row must be loaded in any case, but other values could have kept their registers
	}
	a.emitLoad(reload, a.registerOperand(virt, reg, fullWidth), notInList) // records an error if reload is nil
	return reg
}

// currentRegister returns the register that holds a value, or -1.
func (a *allocator) currentRegister(virt Virt) int8 {
	if reg := a.registerFile.Permanent[virt]; reg >= 0 && a.values[virt].Acc == nil {
		return reg
	}
	return a.registerOf[virt]
}

// pin prevents the eviction of a value in a register during the current instruction.
func (a *allocator) pin(virt Virt) {
	if reg := a.registerOf[virt]; reg >= 0 {
		a.pinned[a.values[virt].Class] |= 1 << reg
	}
}

// setOwner records that a value is in a register, and pins the register for the current instruction.
func (a *allocator) setOwner(virt Virt, reg int8) {
	class := a.values[virt].Class
	a.registerOf[virt], a.owner[class][reg] = reg, virt
	a.pinned[class] |= 1 << reg
}

// reloadOf returns the load that restores a value to a register, or nil if the value is not in memory. Lists that run
// once per row load a row constant from its operand. Other lists load it from its permanent slot. A value that is
// constant for all calls is always loaded by its Reload.
func (a *allocator) reloadOf(virt Virt) *Reload {
	value := &a.values[virt]
	isInSlot := value.Invariant && !value.Constant && !a.OncePerRow
	if value.Reload != nil && !isInSlot {
		return value.Reload
	}
	slot := a.spillSlot[virt]
	if slot < 0 {
		slot = a.registerFile.PermanentSlot[virt]
	}
	if slot < 0 {
		return nil
	}
	return a.slotReload(value.Class, slot)
}

// slotReload returns the load that restores a register of a class from a slot.
func (a *allocator) slotReload(class Class, slot int16) *Reload {
	for k := len(a.slotReloads[class]); k <= int(slot); k++ {
		reload := &Reload{Foldable: class == Vectors, Mem: Mem{Space: Slot, Index: k}}
		a.slotReloads[class] = append(a.slotReloads[class], reload)
	}
	return a.slotReloads[class][slot]
}

// allocateRegister returns a free register of a class. If no register is free, it evicts the value whose next use is
// farthest. If the evicted value is used again and no load can restore it, it is spilled.
func (a *allocator) allocateRegister(class Class) int8 {
	evicted, farthest := int8(-1), int32(-1) // the register to evict, and the next use of its value
	for candidates := a.registerFile.Pool[class] &^ a.pinned[class]; candidates != 0; candidates &= candidates - 1 {
		reg := int8(bits.TrailingZeros32(candidates))
		owner := a.owner[class][reg]
		if owner == 0 {
			return reg
		}
		next := a.nextUseOf(owner)
		if a.EvictReloadableFirst && next < math.MaxInt32 && a.reloadOf(owner) != nil {
			next += math.MaxInt32 / 2 // farther than the next use of any value that a single load cannot restore
		}
		if next > farthest {
			evicted, farthest = reg, next
		}
	}
	if evicted < 0 {
		a.fail(errRegisters)
		return 0
	}
	owner := a.owner[class][evicted]
	if farthest < math.MaxInt32 && a.reloadOf(owner) == nil {
		a.spillSlot[owner] = a.newSlot()
		a.emitSave(owner, evicted, a.spillSlot[owner])
		a.Cost++
	}
	a.registerOf[owner] = -1
	a.owner[class][evicted] = 0
	return evicted
}

// nextUseOf returns the position of the next use of a value after the current instruction, or math.MaxInt32 if there is
// none.
func (a *allocator) nextUseOf(virt Virt) int32 {
	next, end := a.nextUse[virt], a.usesEnd[virt]
	for next < end && a.uses[next] <= a.position {
		next++
	}
	a.nextUse[virt] = next
	if next == end {
		return math.MaxInt32
	}
	return a.uses[next]
}

// newSlot returns a free slot, or adds one.
func (a *allocator) newSlot() int16 {
	if count := len(a.freeSlots); count > 0 {
		slot := a.freeSlots[count-1]
		a.freeSlots = a.freeSlots[:count-1]
		return slot
	}
	a.Slots++
	return int16(a.Slots - 1)
}

// savePermanent saves a value from register reg to its permanent slot, if the value has one.
func (a *allocator) savePermanent(virt Virt, reg int8) {
	if slot := a.registerFile.PermanentSlot[virt]; slot >= 0 {
		a.emitSave(virt, reg, slot)
	}
}

// release frees the register and the slot of a value if the value has no further uses.
func (a *allocator) release(virt Virt) {
	if virt == 0 || a.nextUseOf(virt) < math.MaxInt32 {
		return
	}
	if reg := a.registerOf[virt]; reg >= 0 {
		class := a.values[virt].Class
		a.owner[class][reg], a.registerOf[virt] = 0, -1
		a.pinned[class] &^= 1 << reg
	}
	if slot := a.spillSlot[virt]; slot >= 0 {
		a.slotsToFree = append(a.slotsToFree, slot)
		a.spillSlot[virt] = -1
	}
}

// Errors of lists that cannot be allocated.
var (
	errRegisters   = errors.New("the instruction needs more registers than there are")
	errUndefined   = errors.New("a value is used before an instruction or a load defines it")
	errAccumulator = errors.New("an accumulator is overwritten before its last read")
)

// fail records the first error.
func (a *allocator) fail(err error) {
	if a.Err == nil {
		a.Err = err
	}
}
