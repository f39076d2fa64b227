package alloc

import (
	"errors"
	"math"
	"math/bits"
	"sync"
)

// allocator assigns registers to a list of instructions without jumps, in order. If no register is free, it evicts the
// value whose next use is farthest (Belady's rule).
type allocator struct {
	Result
	Policy
	values       []Value
	registerFile *File

	uses        []int32               // the positions in the list at which values are used, grouped by value
	nextUse     []int32               // by Virt: index of its next use in field uses
	usesEnd     []int32               // by Virt: end of its group in uses
	registerOf  []int8                // by Virt: its current register, or -1
	spillSlot   []int16               // by Virt: the slot in which it is spilled, or -1
	owner       [numClasses][32]Virt  // by class and register: the value in the register, or 0
	pinned      [numClasses]uint32    // by class: bit set of the registers that the current instruction uses
	freeSlots   []int16               // free slots below Slots
	slotsToFree []int16               // slots without further uses; they are free from the next instruction on
	slots       [numClasses][]*Reload // by class and slot: the load from the slot
	position    int32                 // position of the current instruction
	args        []Operand             // operands of the instructions in Out
}

// allocators pools allocators to reuse their memory.
var allocators sync.Pool

// Run assigns registers to a list. The result is incomplete if it has an error or if its cost reaches Policy.Limit.
// values[v] describes virtual register v.
func Run(values []Value, registerFile *File, list []Inst, policy Policy) *Result {
	a := newAllocator(len(values), len(list))
	a.values, a.registerFile, a.Policy, a.Slots = values, registerFile, policy, registerFile.ReservedSlots
	if a.Limit == 0 {
		a.Limit = math.Inf(1)
	}
	a.findUses(list)
	a.position = -1
	for _, v := range policy.Preload {
		if values[v].Reload != nil && !values[v].Constant {
			a.preload(v)
		}
	}
	for k := range list {
		if a.Cost >= a.Limit {
			break
		}
		a.position = int32(k)
		a.pinned = [numClasses]uint32{}
		a.allocateInst(&list[k])
	}
	if Verify && a.Err == nil && a.Cost < a.Limit {
		if err := Check(values, registerFile, list, policy, &a.Result); err != nil {
			panic(err)
		}
	}
	return &a.Result
}

// Free allows later lists to reuse the memory of a result, which must not be used afterwards.
func (r *Result) Free() {
	a := r.state
	a.values, a.registerFile, a.Policy = nil, nil, Policy{}
	clear(a.args)
	a.args = a.args[:0]
	allocators.Put(a)
}

// newAllocator returns an empty allocator for a list of the given length on the given number of values.
func newAllocator(values, length int) *allocator {
	a, _ := allocators.Get().(*allocator)
	if a == nil {
		a = new(allocator)
		a.Out, a.args = make([]Out, 0, length+length/4), make([]Operand, 0, 4*length)
	} else {
		old := *a
		*a = allocator{uses: old.uses, nextUse: old.nextUse, usesEnd: old.usesEnd, registerOf: old.registerOf,
			spillSlot: old.spillSlot, freeSlots: old.freeSlots[:0], slotsToFree: old.slotsToFree[:0], slots: old.slots,
			args: old.args}
		a.Out = old.Out[:0]
	}
	a.state = a
	a.nextUse, a.usesEnd = reuse(a.nextUse, values), reuse(a.usesEnd, values)
	a.registerOf, a.spillSlot = reuse(a.registerOf, values), reuse(a.spillSlot, values)
	clear(a.usesEnd)
	for v := range values {
		a.registerOf[v], a.spillSlot[v] = -1, -1
	}
	return a
}

// reuse returns a slice of n elements with arbitrary contents. It reuses the memory of s if s is large enough.
func reuse[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// findUses sets a.uses: the positions in the list at which each value is used.
func (a *allocator) findUses(list []Inst) {
	for k := range list {
		list[k].eachUse(func(v Virt) { a.usesEnd[v]++ })
	}
	total := int32(0)
	for v := range a.usesEnd {
		a.nextUse[v] = total
		total += a.usesEnd[v]
		a.usesEnd[v] = a.nextUse[v]
	}
	a.uses = reuse(a.uses, int(total))
	for k := range list {
		list[k].eachUse(func(v Virt) {
			a.uses[a.usesEnd[v]] = int32(k)
			a.usesEnd[v]++
		})
	}
}

// preload loads a row constant into its permanent register, or into its permanent slot.
func (a *allocator) preload(v Virt) {
	a.pinned = [numClasses]uint32{}
	if r := a.registerFile.Permanent[v]; r >= 0 {
		a.load(a.values[v].Reload, a.register(v, r, 0), -1)
		return
	}
	r := a.registerFor(v)
	a.savePermanent(v, r)
	a.release(v)
}

// savePermanent saves value v, which is in register r, to its permanent slot, if it has one.
func (a *allocator) savePermanent(v Virt, r int8) {
	if s := a.registerFile.PermanentSlot[v]; s >= 0 {
		a.save(v, r, s)
	}
}

// register returns register r, which contains value v, as an operand of w bytes. If w is 0, the operand has the width
// of v.
func (a *allocator) register(v Virt, r int8, bytes uint8) Operand {
	value := &a.values[v]
	if bytes == 0 {
		bytes = value.Bytes
	}
	return Operand{Kind: Register, Class: value.Class, Reg: r, Bytes: bytes}
}

// accumulator returns accumulator v as an operand of w bytes, or of the width of v if w is 0.
func (a *allocator) accumulator(v Virt, bytes uint8) Operand {
	value := &a.values[v]
	if bytes == 0 {
		bytes = value.Bytes
	}
	return Operand{Kind: Accumulator, Class: value.Class, Bytes: bytes, Acc: value.Acc}
}

// emit adds an instruction.
func (a *allocator) emit(out Out, args ...Operand) {
	at := len(a.args)
	a.args = append(a.args, args...)
	out.Args = a.args[at:len(a.args):len(a.args)]
	a.Out = append(a.Out, out)
	a.Length++
}

// load adds a load. It fails if r is nil. position is the position of the Move instruction that the load replaces,
// or -1.
func (a *allocator) load(r *Reload, dst Operand, position int32) {
	if r == nil {
		a.fail(errLocation)
		return
	}
	a.emit(Out{Kind: Load, Name: r.Name, From: position}, Operand{Kind: Memory, Mem: &r.Mem}, dst)
}

func (a *allocator) save(v Virt, r int8, slot int16) {
	a.emit(Out{Kind: Save, From: -1}, a.register(v, r, 0), Operand{Kind: Memory,
		Mem: &a.slotReload(Vectors, slot).Mem})
}

// copy adds a copy. position is the position of the Move instruction that the copy replaces, or -1.
func (a *allocator) copy(from, to Operand, position int32) {
	a.emit(Out{Kind: Copy, From: position}, from, to)
}

// slotReload returns the load that restores a register of class c from slot s.
func (a *allocator) slotReload(class Class, slot int16) *Reload {
	for k := len(a.slots[class]); k <= int(slot); k++ {
		a.slots[class] = append(a.slots[class], &Reload{Foldable: class == Vectors, Mem: Mem{Space: Slot, Index: k}})
	}
	return a.slots[class][slot]
}

// nextUseOf returns the position of the next use of v after the current instruction, or math.MaxInt32 if there is
// none.
func (a *allocator) nextUseOf(v Virt) int32 {
	next, end := a.nextUse[v], a.usesEnd[v]
	for next < end && a.uses[next] <= a.position {
		next++
	}
	a.nextUse[v] = next
	if next == end {
		return math.MaxInt32
	}
	return a.uses[next]
}

// currentRegister returns the register that holds a value, or -1.
func (a *allocator) currentRegister(v Virt) int8 {
	if r := a.registerFile.Permanent[v]; r >= 0 && a.values[v].Acc == nil {
		return r
	}
	return a.registerOf[v]
}

func (a *allocator) pin(v Virt) {
	if r := a.registerOf[v]; r >= 0 {
		a.pinned[a.values[v].Class] |= 1 << r
	}
}

// reloadOf returns the load that restores a value to a register, or nil if the value is not in memory. Only a list
// that runs once per row may execute the load that defines a row constant; other lists load it from its permanent
// slot.
func (a *allocator) reloadOf(v Virt) *Reload {
	value := &a.values[v]
	slot := a.spillSlot[v]
	switch {
	case value.Reload != nil && (value.Constant || !value.Invariant || a.OncePerRow):
		return value.Reload
	case slot < 0:
		slot = a.registerFile.PermanentSlot[v]
	}
	if slot < 0 {
		return nil
	}
	return a.slotReload(value.Class, slot)
}

// Errors of lists.
var (
	errRegisters   = errors.New("no register is free")
	errLocation    = errors.New("a value without a location")
	errAccumulator = errors.New("an accumulator is overwritten before it is read")
)

func (a *allocator) fail(err error) {
	if a.Err == nil {
		a.Err = err
	}
}

// allocateRegister returns a free register of a class. If no register is free, it evicts the value whose next use is
// farthest. The value is spilled if it is used again and no load can restore it.
func (a *allocator) allocateRegister(class Class) int8 {
	var evicted, farthest = int8(-1), int32(-1)
	for candidates := a.registerFile.Pool[class] &^ a.pinned[class]; candidates != 0; candidates &= candidates - 1 {
		reg := int8(bits.TrailingZeros32(candidates))
		owner := a.owner[class][reg]
		if owner == 0 {
			return reg
		}
		next := a.nextUseOf(owner)
		if a.PreferComputed && next < math.MaxInt32 && a.reloadOf(owner) != nil {
			next += math.MaxInt32 / 2 // later than all uses
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
		a.save(owner, evicted, a.spillSlot[owner])
		a.Cost++
	}
	a.registerOf[owner] = -1
	a.owner[class][evicted] = 0
	return evicted
}

func (a *allocator) newSlot() int16 {
	if count := len(a.freeSlots); count > 0 {
		slot := a.freeSlots[count-1]
		a.freeSlots = a.freeSlots[:count-1]
		return slot
	}
	a.Slots++
	return int16(a.Slots - 1)
}

func (a *allocator) setOwner(v Virt, r int8) {
	c := a.values[v].Class
	a.registerOf[v], a.owner[c][r] = r, v
	a.pinned[c] |= 1 << r
}

// registerFor returns the register of a value, and pins it for the current instruction. It loads the value if
// necessary.
func (a *allocator) registerFor(v Virt) int8 {
	if r := a.currentRegister(v); r >= 0 {
		a.pin(v)
		return r
	}
	reload := a.reloadOf(v)
	r := a.allocateRegister(a.values[v].Class)
	a.setOwner(v, r)
	if reload != nil && !reload.Mem.Space.advancesPerIteration() {
		a.Cost++
	}
	a.load(reload, a.register(v, r, 0), -1)
	return r
}

// operand returns a source as an operand: an immediate, or the register of its value.
func (a *allocator) operand(source Arg) Operand {
	switch {
	case source.Virt == 0:
		return Operand{Kind: Immediate, Imm: source.Imm}
	case a.values[source.Virt].Acc != nil:
		return a.accumulator(source.Virt, source.Bytes)
	}
	return a.register(source.Virt, a.registerFor(source.Virt), source.Bytes)
}

// release frees the register and the slot of a value without further uses.
func (a *allocator) release(v Virt) {
	if v == 0 || a.nextUseOf(v) < math.MaxInt32 {
		return
	}
	if r := a.registerOf[v]; r >= 0 {
		c := a.values[v].Class
		a.owner[c][r], a.registerOf[v] = 0, -1
		a.pinned[c] &^= 1 << r
	}
	if s := a.spillSlot[v]; s >= 0 {
		a.slotsToFree = append(a.slotsToFree, s)
		a.spillSlot[v] = -1
	}
}
