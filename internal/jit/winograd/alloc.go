package winograd

import "github.com/graphrun/graphrun/internal/jit/asm"

// allocator emits a block, operation by operation, and allocates registers for the values of the block. Constants,
// operands and spilled values are in memory. An instruction reads such a value from memory directly if this is the last
// use of the value, or if no register is free. If a register is needed and none is free, the allocator evicts a value.
// It prefers values that are already in memory, and among these the value whose next use is farthest.
type allocator struct {
	b    *block
	c    *code
	tail bool

	uses        [][]int // by value: the remaining operations that read the value
	registerOf  []int   // by value: its register, or -1
	slotOf      []int   // by value: its spill slot, or -1
	valueIn     []value // by register: its value, or zero for a free register
	freeSlots   []int   // spill slots whose values are no longer needed
	slotCount   int     // number of spill slots
	operandRegs [3]int  // by operand of the current operation: its register, or -1
}

// write emits a block, for whole vectors or, if tail is true, for the last, partial vector.
func (c *code) write(b *block, tail bool) *allocator {
	w := &allocator{b: b, c: c, tail: tail, uses: b.uses(), valueIn: make([]value, c.registers)}
	w.registerOf, w.slotOf = make([]int, len(b.list)), make([]int, len(b.list))
	for i := range w.registerOf {
		w.registerOf[i], w.slotOf[i] = -1, -1
	}
	for r := range w.valueIn {
		w.valueIn[r] = zero
	}
	c.source.current, c.target.current = -1, -1
	for i := range b.list {
		w.emitOperation(i)
	}
	return w
}

func (w *allocator) emitOperation(i int) {
	o := &w.b.list[i]
	w.operandRegs = [3]int{-1, -1, -1}
	switch {
	case o.op == opStore:
		w.c.store(w.c.vec(w.loadOperand(o.x, 0)), w.c.target.mem(w.c, o.row, o.col), w.tail)
		w.release(o.x)
		return
	case len(w.uses[i]) == 0: // unused
		return
	}
	switch o.op {
	case opAdd:
		x, y := o.x, o.y
		if w.registerOf[x] < 0 && w.registerOf[y] >= 0 {
			x, y = y, x
		}
		w.emitBinary("VADDPS", value(i), x, y)
	case opSub:
		w.emitBinary("VSUBPS", value(i), o.x, o.y)
	case opTimes:
		w.emitBinary("VMULPS", value(i), o.x, o.y)
	case opMul:
		w.emitBinary("VMULPS", value(i), o.x, o.k)
	case opMax: // VMAXPS returns its second source, the value, if a source is NaN
		w.emitBinary("VMAXPS", value(i), o.k, o.x)
	case opMin:
		w.emitBinary("VMINPS", value(i), o.k, o.x)
	case opFMA:
		w.emitFused("VFMADD", value(i), o)
	case opFNMA:
		w.emitFused("VFNMADD", value(i), o)
	}
}

// emitBinary computes v from x and y; y may be in memory.
func (w *allocator) emitBinary(name string, v, x, y value) {
	a := w.c.vec(w.loadOperand(x, 0))
	m := w.operand(y, 1)
	w.release(x)
	w.release(y)
	w.c.Emit(name, m, a, w.c.vec(w.allocate(v)))
}

// emitFused computes v = y + k*x. The result replaces x or y in its register if this is the last use of x or y;
// otherwise it gets a new register.
func (w *allocator) emitFused(name string, v value, o *operation) {
	x, y, k := o.x, o.y, o.k
	if w.registerOf[x] >= 0 && w.isLastUse(x) && !(w.isLastUse(y) && w.registerOf[y] >= 0) {
		d := w.loadOperand(x, 0)
		if w.registerOf[y] >= 0 {
			w.multiplyAdd(name+"132PS", k, 2, y, 1, d)
		} else {
			w.multiplyAdd(name+"213PS", y, 1, k, 2, d)
		}
		w.release(x)
		w.assign(v, d)
		w.release(y)
		w.release(k)
		return
	}
	var d int
	if w.isLastUse(y) {
		d = w.loadOperand(y, 1)
	} else {
		from := w.operand(y, 1)
		d = w.register()
		w.valueIn[d], w.operandRegs[1] = v, d
		w.c.Emit("VMOVUPS", from, w.c.vec(d))
	}
	if w.registerOf[x] >= 0 {
		w.multiplyAdd(name+"231PS", k, 2, x, 0, d)
	} else {
		w.multiplyAdd(name+"231PS", x, 0, k, 2, d)
	}
	w.release(y)
	w.assign(v, d)
	w.release(x)
	w.release(k)
}

// multiplyAdd emits a multiply-add instruction that modifies register d. Operand i of the operation must be in a
// register. Operand j may be in memory.
func (w *allocator) multiplyAdd(name string, memory value, j int, register value, i, d int) {
	r := w.c.vec(w.loadOperand(register, i))
	w.c.Emit(name, w.operand(memory, j), r, w.c.vec(d))
}

// isLastUse reports whether the current operation is the last use of a value.
func (w *allocator) isLastUse(v value) bool { return len(w.uses[v]) == 1 }

// release records that the current operation has read a value.
func (w *allocator) release(v value) {
	if w.uses[v] = w.uses[v][1:]; len(w.uses[v]) > 0 {
		return
	}
	if r := w.registerOf[v]; r >= 0 {
		w.valueIn[r], w.registerOf[v] = zero, -1
	}
	if w.slotOf[v] >= 0 {
		w.freeSlots = append(w.freeSlots, w.slotOf[v])
	}
}

// allocate allocates a register for a value.
func (w *allocator) allocate(v value) int {
	r := w.register()
	w.assign(v, r)
	return r
}

func (w *allocator) assign(v value, r int) { w.valueIn[r], w.registerOf[v] = v, r }

// isReloadable reports whether a value is a constant or an operand, which is in memory without being spilled.
func (w *allocator) isReloadable(v value) bool {
	switch w.b.list[v].op {
	case opConst, opLoad, opBias, opTile, opLanes:
		return true
	}
	return false
}

// register returns a free register. If there is none, it evicts a value.
func (w *allocator) register() int {
	best, far := -1, -1
	for r, v := range w.valueIn {
		if v == zero && r != w.operandRegs[0] && r != w.operandRegs[1] && r != w.operandRegs[2] {
			return r
		}
		if r == w.operandRegs[0] || r == w.operandRegs[1] || r == w.operandRegs[2] {
			continue
		}
		next := w.uses[v][0]
		if w.isReloadable(v) || w.slotOf[v] >= 0 {
			next += len(w.b.list) // evicting a value that is in memory costs at most a load
		}
		if next > far {
			best, far = r, next
		}
	}
	w.spill(best)
	return best
}

func (w *allocator) spill(r int) {
	v := w.valueIn[r]
	w.valueIn[r], w.registerOf[v] = zero, -1
	if w.isReloadable(v) || w.slotOf[v] >= 0 {
		return
	}
	if n := len(w.freeSlots); n > 0 {
		w.slotOf[v], w.freeSlots = w.freeSlots[n-1], w.freeSlots[:n-1]
	} else {
		w.slotOf[v] = w.slotCount
		w.slotCount++
	}
	w.c.Emit("VMOVUPS", w.c.vec(r), w.c.spilled(w.slotOf[v]))
}

// loadOperand returns the register of a value that is operand i of the current operation. It loads the value if
// necessary.
func (w *allocator) loadOperand(v value, i int) int {
	r := w.registerOf[v]
	if r < 0 {
		r = w.allocate(v)
		switch {
		case w.b.list[v].op == opConst:
			w.c.constant(w.b.list[v].number, r)
		case w.tail && w.slotOf[v] < 0:
			w.c.loadPart(w.address(v), w.c.vec(r))
		default:
			w.c.Emit("VMOVUPS", w.address(v), w.c.vec(r))
		}
	}
	w.operandRegs[i] = r
	return r
}

// operand returns operand i of the current operation: a register, or a memory operand if this is the last use of the
// value or no register is free.
func (w *allocator) operand(v value, i int) asm.Arg {
	switch {
	case w.registerOf[v] >= 0 || w.tail && w.slotOf[v] < 0 && w.b.list[v].op != opConst:
	case w.isLastUse(v) || !w.hasFree():
		return w.address(v)
	}
	return w.c.vec(w.loadOperand(v, i))
}

// hasFree reports whether a register is free.
func (w *allocator) hasFree() bool {
	for _, v := range w.valueIn {
		if v == zero {
			return true
		}
	}
	return false
}

// address returns the address of a value in memory.
func (w *allocator) address(v value) asm.Mem {
	o := &w.b.list[v]
	switch {
	case w.slotOf[v] >= 0:
		return w.c.spilled(w.slotOf[v])
	case o.op == opConst:
		return w.c.constantMem(o.number)
	case o.op == opBias:
		return asm.Mem{Base: regBias, Index: regChannel, Scale: 1}
	case o.op == opTile:
		return w.c.tileOperand(o.operand, o.row, o.col)
	case o.op == opLanes:
		return w.c.lanesOperand(o.operand)
	}
	return w.c.source.mem(w.c, o.row, o.col)
}
