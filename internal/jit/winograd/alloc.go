package winograd

import "github.com/graphrun/graphrun/internal/jit/asm"

// walk emits a block, operation by operation, and allocates registers for the values of the block. Constants, operands
// and spilled values are in memory. An instruction reads such a value from memory directly if this is the last use of
// the value, or if no register is free. If a register is needed and none is free, the allocator evicts a value. It
// prefers values that are already in memory, and among them the one whose next use is farthest.
type walk struct {
	b    *block
	c    *code
	tail bool

	uses [][]int // by value: the remaining operations that read the value
	at   []int   // by value: its register, or -1
	slot []int   // by value: its spill slot, or -1
	held []value // by register: its value, or zero for a free register
	free []int   // spill slots whose values are no longer needed
	room int     // number of spill slots
	used [3]int  // by operand of the current operation: its register, or -1
}

// write emits a block, for whole vectors or, if tail is true, for the last, partial vector.
func (c *code) write(b *block, tail bool) *walk {
	w := &walk{b: b, c: c, tail: tail, uses: b.uses(), held: make([]value, c.registers)}
	w.at, w.slot = make([]int, len(b.list)), make([]int, len(b.list))
	for i := range w.at {
		w.at[i], w.slot[i] = -1, -1
	}
	for r := range w.held {
		w.held[r] = zero
	}
	c.source.at, c.target.at = -1, -1
	for i := range b.list {
		w.operation(i)
	}
	return w
}

func (w *walk) operation(i int) {
	o := &w.b.list[i]
	w.used = [3]int{-1, -1, -1}
	switch {
	case o.op == opStore:
		w.c.store(w.c.vec(w.bring(o.x, 0)), w.c.target.mem(w.c, o.row, o.col), w.tail)
		w.done(o.x)
		return
	case len(w.uses[i]) == 0: // unused
		return
	}
	switch o.op {
	case opAdd:
		x, y := o.x, o.y
		if w.at[x] < 0 && w.at[y] >= 0 {
			x, y = y, x
		}
		w.binary("VADDPS", value(i), x, y)
	case opSub:
		w.binary("VSUBPS", value(i), o.x, o.y)
	case opTimes:
		w.binary("VMULPS", value(i), o.x, o.y)
	case opMul:
		w.binary("VMULPS", value(i), o.x, o.k)
	case opMax: // the value is VMAXPS's second source, which it returns if either is NaN
		w.binary("VMAXPS", value(i), o.k, o.x)
	case opMin:
		w.binary("VMINPS", value(i), o.k, o.x)
	case opFMA:
		w.fused("VFMADD", value(i), o)
	case opFNMA:
		w.fused("VFNMADD", value(i), o)
	}
}

// binary computes v from x and y; y may be in memory.
func (w *walk) binary(name string, v, x, y value) {
	a := w.c.vec(w.bring(x, 0))
	m := w.read(y, 1)
	w.done(x)
	w.done(y)
	w.c.Emit(name, m, a, w.c.vec(w.give(v)))
}

// fused computes v = y + k*x. The result replaces x or y in its register if this is the last use of x or y; otherwise
// it gets a new register.
func (w *walk) fused(name string, v value, o *operation) {
	x, y, k := o.x, o.y, o.k
	if w.at[x] >= 0 && w.last(x) && !(w.last(y) && w.at[y] >= 0) {
		d := w.bring(x, 0)
		if w.at[y] >= 0 {
			w.multiplyAdd(name+"132PS", k, 2, y, 1, d)
		} else {
			w.multiplyAdd(name+"213PS", y, 1, k, 2, d)
		}
		w.done(x)
		w.take(v, d)
		w.done(y)
		w.done(k)
		return
	}
	var d int
	if w.last(y) {
		d = w.bring(y, 1)
	} else {
		from := w.read(y, 1)
		d = w.register()
		w.held[d], w.used[1] = v, d
		w.c.Emit("VMOVUPS", from, w.c.vec(d))
	}
	if w.at[x] >= 0 {
		w.multiplyAdd(name+"231PS", k, 2, x, 0, d)
	} else {
		w.multiplyAdd(name+"231PS", x, 0, k, 2, d)
	}
	w.done(y)
	w.take(v, d)
	w.done(x)
	w.done(k)
}

// multiplyAdd emits a multiply-add instruction that modifies register d. Operand i of the operation must be in a
// register. Operand j may be in memory.
func (w *walk) multiplyAdd(name string, memory value, j int, register value, i, d int) {
	r := w.c.vec(w.bring(register, i))
	w.c.Emit(name, w.read(memory, j), r, w.c.vec(d))
}

// last reports whether the current operation is the last use of a value.
func (w *walk) last(v value) bool { return len(w.uses[v]) == 1 }

// done records that the current operation has read a value.
func (w *walk) done(v value) {
	if w.uses[v] = w.uses[v][1:]; len(w.uses[v]) > 0 {
		return
	}
	if r := w.at[v]; r >= 0 {
		w.held[r], w.at[v] = zero, -1
	}
	if w.slot[v] >= 0 {
		w.free = append(w.free, w.slot[v])
	}
}

// give allocates a register for a value.
func (w *walk) give(v value) int {
	r := w.register()
	w.take(v, r)
	return r
}

func (w *walk) take(v value, r int) { w.held[r], w.at[v] = v, r }

// remembered reports whether a value is a constant or an operand, which is in memory without being spilled.
func (w *walk) remembered(v value) bool {
	switch w.b.list[v].op {
	case opConst, opLoad, opBias, opTile, opLanes:
		return true
	}
	return false
}

// register returns a free register. If there is none, it evicts a value.
func (w *walk) register() int {
	best, far := -1, -1
	for r, v := range w.held {
		if v == zero && r != w.used[0] && r != w.used[1] && r != w.used[2] {
			return r
		}
		if r == w.used[0] || r == w.used[1] || r == w.used[2] {
			continue
		}
		next := w.uses[v][0]
		if w.remembered(v) || w.slot[v] >= 0 {
			next += len(w.b.list) // evicting a value that is in memory costs at most a load
		}
		if next > far {
			best, far = r, next
		}
	}
	w.spill(best)
	return best
}

func (w *walk) spill(r int) {
	v := w.held[r]
	w.held[r], w.at[v] = zero, -1
	if w.remembered(v) || w.slot[v] >= 0 {
		return
	}
	if n := len(w.free); n > 0 {
		w.slot[v], w.free = w.free[n-1], w.free[:n-1]
	} else {
		w.slot[v] = w.room
		w.room++
	}
	w.c.Emit("VMOVUPS", w.c.vec(r), w.c.spilled(w.slot[v]))
}

// bring returns the register of a value that is operand i of the current operation. It loads the value if necessary.
func (w *walk) bring(v value, i int) int {
	r := w.at[v]
	if r < 0 {
		r = w.give(v)
		switch {
		case w.b.list[v].op == opConst:
			w.c.constant(w.b.list[v].number, r)
		case w.tail && w.slot[v] < 0:
			w.c.loadPart(w.home(v), w.c.vec(r))
		default:
			w.c.Emit("VMOVUPS", w.home(v), w.c.vec(r))
		}
	}
	w.used[i] = r
	return r
}

// read returns operand i of the current operation: a register, or a memory operand if this is the last use of the value
// or no register is free.
func (w *walk) read(v value, i int) asm.Arg {
	switch {
	case w.at[v] >= 0 || w.tail && w.slot[v] < 0 && w.b.list[v].op != opConst:
	case w.last(v) || !w.spare():
		return w.home(v)
	}
	return w.c.vec(w.bring(v, i))
}

// spare reports whether a register is free.
func (w *walk) spare() bool {
	for _, v := range w.held {
		if v == zero {
			return true
		}
	}
	return false
}

// home returns the address of a value in memory.
func (w *walk) home(v value) asm.Mem {
	o := &w.b.list[v]
	switch {
	case w.slot[v] >= 0:
		return w.c.spilled(w.slot[v])
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
