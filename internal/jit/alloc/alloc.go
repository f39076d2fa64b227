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

	uses        []int32               // positions in the list of the uses of values, grouped by value
	nextUse     []int32               // by Virt: index in uses of its next use
	usesEnd     []int32               // by Virt: end of its group in uses
	registerOf  []int8                // by Virt: its current register, or -1
	spillSlot   []int16               // by Virt: the slot in which it is spilled, or -1
	owner       [numClasses][32]Virt  // by class and register: the value in the register, or 0
	pinned      [numClasses]uint32    // by class: bit set of the registers that the current instruction uses
	freeSlots   []int16               // free slots below Slots
	slotsToFree []int16               // slots without further uses; they are free from the next instruction on
	slots       [numClasses][]*Reload // by class and slot: the load from the slot
	pos         int32                 // position of the current instruction
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
	a.pos = -1
	for _, v := range policy.Preload {
		if values[v].Reload != nil && !values[v].Constant {
			a.preload(v)
		}
	}
	for k := range list {
		if a.Cost >= a.Limit {
			break
		}
		a.pos = int32(k)
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
func (a *allocator) register(v Virt, r int8, w uint8) Operand {
	x := &a.values[v]
	if w == 0 {
		w = x.Bytes
	}
	return Operand{Kind: Register, Class: x.Class, Reg: r, Bytes: w}
}

// accumulator returns accumulator v as an operand of w bytes, or of the width of v if w is 0.
func (a *allocator) accumulator(v Virt, w uint8) Operand {
	x := &a.values[v]
	if w == 0 {
		w = x.Bytes
	}
	return Operand{Kind: Accumulator, Class: x.Class, Bytes: w, Acc: x.Acc}
}

// emit adds an instruction.
func (a *allocator) emit(o Out, args ...Operand) {
	at := len(a.args)
	a.args = append(a.args, args...)
	o.Args = a.args[at:len(a.args):len(a.args)]
	a.Out = append(a.Out, o)
	a.Length++
}

// load adds a load. It fails if r is nil. position is the position of the Move that the load replaces, or -1.
func (a *allocator) load(r *Reload, dst Operand, position int32) {
	if r == nil {
		a.fail(errLocation)
		return
	}
	a.emit(Out{Kind: Load, Name: r.Name, From: position}, Operand{Kind: Memory, Mem: &r.Mem}, dst)
}

func (a *allocator) save(v Virt, r int8, slot int16) {
	a.emit(Out{Kind: Save, From: -1}, a.register(v, r, 0), Operand{Kind: Memory, Mem: &a.slotReload(Vectors, slot).Mem})
}

// copy adds a copy. position is the position of the Move that the copy replaces, or -1.
func (a *allocator) copy(from, to Operand, position int32) {
	a.emit(Out{Kind: Copy, From: position}, from, to)
}

// slotReload returns the load that restores a register of class c from slot s.
func (a *allocator) slotReload(c Class, s int16) *Reload {
	for k := len(a.slots[c]); k <= int(s); k++ {
		a.slots[c] = append(a.slots[c], &Reload{Foldable: c == Vectors, Mem: Mem{Space: Slot, Index: k}})
	}
	return a.slots[c][s]
}

// nextUseOf returns the position of the next use of v after the current instruction, or math.MaxInt32 if there is none.
func (a *allocator) nextUseOf(v Virt) int32 {
	next, end := a.nextUse[v], a.usesEnd[v]
	for next < end && a.uses[next] <= a.pos {
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

// reloadOf returns the load that restores a value to a register, or nil if the value is not in memory.
func (a *allocator) reloadOf(v Virt) *Reload {
	x := &a.values[v]
	slot := a.spillSlot[v]
	switch {
	case x.Reload != nil && (x.Constant || !x.Invariant || a.OncePerRow):
		return x.Reload
	case slot < 0:
		slot = a.registerFile.PermanentSlot[v]
	}
	if slot < 0 {
		return nil
	}
	return a.slotReload(x.Class, slot)
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

// allocateRegister returns a free register of a class. If no register is free, it evicts a value. The value is spilled
// if no load can restore it.
func (a *allocator) allocateRegister(class Class) int8 {
	var worst, farthest = int8(-1), int32(-1)
	for m := a.registerFile.Pool[class] &^ a.pinned[class]; m != 0; m &= m - 1 {
		r := int8(bits.TrailingZeros32(m))
		o := a.owner[class][r]
		if o == 0 {
			return r
		}
		n := a.nextUseOf(o)
		if a.PreferComputed && n < math.MaxInt32 && a.reloadOf(o) != nil {
			n += math.MaxInt32 / 2 // later than all uses
		}
		if n > farthest {
			worst, farthest = r, n
		}
	}
	if worst < 0 {
		a.fail(errRegisters)
		return 0
	}
	o := a.owner[class][worst]
	if farthest < math.MaxInt32 && a.reloadOf(o) == nil {
		a.spillSlot[o] = a.newSlot()
		a.save(o, worst, a.spillSlot[o])
		a.Cost++
	}
	a.registerOf[o] = -1
	a.owner[class][worst] = 0
	return worst
}

func (a *allocator) newSlot() int16 {
	if n := len(a.freeSlots); n > 0 {
		s := a.freeSlots[n-1]
		a.freeSlots = a.freeSlots[:n-1]
		return s
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
func (a *allocator) operand(s Arg) Operand {
	switch {
	case s.Virt == 0:
		return Operand{Kind: Immediate, Imm: s.Imm}
	case a.values[s.Virt].Acc != nil:
		return a.accumulator(s.Virt, s.Bytes)
	}
	return a.register(s.Virt, a.registerFor(s.Virt), s.Bytes)
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
