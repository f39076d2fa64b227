package vector

import (
	"sync"

	"github.com/graphrun/graphrun/internal/jit/asm"
)

// Masks of a tail: of elements, and of the halves of an iteration's pairs. Without AVX-512 these are vectors, as wide
// as the widest value and, if different, of 32-bit lanes.
const (
	tailMask  = asm.K1
	tailWide  = 15
	tailSmall = 14
)

// load places the load of a value.
func (a *allocator) load(rec *recipe, dst any) {
	if !a.tail || rec.mem.kind != inOperand {
		a.put(rec.name, rec.mem, dst)
		return
	}
	name := rec.name
	if a.g.z {
		if name == "VMOVQ" {
			name = map[uint8]string{1: "VMOVDQU8", 2: "VMOVDQU16"}[rec.mem.lane]
		}
		a.put(name, rec.mem, (tailMask + asm.Mask(rec.mem.part)).Zero(), dst)
		return
	}
	if !a.g.bounced(rec.mem) {
		a.put("VMASKMOV"+suffix(int(rec.mem.lane)), rec.mem, a.g.tailVector(int(rec.mem.lane)), dst)
		return
	}
	a.put(name, a.g.bounce(rec.mem), dst)
}

// store places a store of args.
func (a *allocator) store(in *inst, args []any) {
	mem, name := *in.store, in.name
	switch {
	case !a.tail:
		args = append(args, mem)
	case a.g.z:
		if name == "VMOVQ" {
			name = map[uint8]string{1: "VMOVDQU8", 2: "VMOVDQU16"}[mem.lane]
		}
		args = append(args, tailMask+asm.Mask(mem.part), mem)
	case mem.kind == inAcc && mem.lane < 4: // missing elements were blended in
		args = append(args, mem)
	case mem.kind == inAcc || !a.g.bounced(mem):
		name = "VMASKMOV" + suffix(int(mem.lane))
		args = append(args[:1], a.g.tailVector(int(mem.lane)), mem)
	default:
		args = append(args, a.g.bounce(mem))
	}
	a.putEither(name, in.nt, args...)
}

// tailVector returns the register with the tail mask for elements of some bytes, without AVX-512.
func (g *gen) tailVector(lane int) asm.Vec {
	if lane == g.maskLane() {
		return vec(tailWide, g.width(lane))
	}
	return vec(tailSmall, g.width(lane))
}

// bounced reports whether tail elements are copied through the spill area: AVX2 masks only whole 4 and 8 bytes.
func (g *gen) bounced(mem memory) bool { return mem.lane < 4 || mem.part != 0 }

// bounce returns the address of an operand's elements in the spill area.
func (g *gen) bounce(mem memory) memory {
	s, ok := g.bounces[mem.n]
	if !ok {
		g.fail("an operand without a bounce buffer")
	}
	return memory{kind: inSlot, n: s, off: mem.off}
}

// findUses lists the uses of each value in a list of instructions, once per occurrence.
func (a *allocator) findUses(list []inst) {
	for k := range list {
		in := &list[k]
		for _, s := range in.src {
			a.end[s.v]++
		}
		a.end[in.tied]++
		a.end[in.mask]++
	}
	total := int32(0)
	for v := range a.end {
		a.at[v] = total
		total += a.end[v]
		a.end[v] = a.at[v]
	}
	a.uses = sized(a.uses, int(total))
	use := func(v val, at int) {
		a.uses[a.end[v]] = int32(at)
		a.end[v]++
	}
	for k := range list {
		in := &list[k]
		for _, s := range in.src {
			use(s.v, k)
		}
		use(in.tied, k)
		use(in.mask, k)
	}
}

// newAllocator returns an empty allocator, reusing memory of an old one.
func (g *gen) newAllocator(length int) *allocator {
	var a *allocator
	if n := len(g.spare); n > 0 {
		a = g.spare[n-1]
		g.spare = g.spare[:n-1]
	} else {
		a, _ = spare.Get().(*allocator)
	}
	if a == nil {
		a = new(allocator)
	} else {
		old := *a
		clear(old.args)
		*a = allocator{uses: old.uses, at: old.at, end: old.end, reg: old.reg, spill: old.spill, free: old.free[:0],
			freed: old.freed[:0], out: old.out[:0], args: old.args[:0]}
	}
	n := len(g.vals)
	if a.out == nil {
		a.out, a.args = make([]placed, 0, length+length/4), make([]any, 0, 4*length)
	}
	a.at, a.end, a.reg, a.spill = sized(a.at, n), sized(a.end, n), sized(a.reg, n), sized(a.spill, n)
	clear(a.end)
	for v := range n {
		a.reg[v], a.spill[v] = -1, -1
	}
	return a
}

// sized returns a slice of n elements with any contents, reusing s if it is large enough.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// spare holds allocators for reuse by other loops.
var spare sync.Pool

// release returns allocators to spare after the code is written.
func (g *gen) release() {
	g.discard(&g.frame)
	for _, a := range g.spare {
		a.g, a.file = nil, nil
		clear(a.args)
		a.args = a.args[:0]
		spare.Put(a)
	}
}

// discard keeps the allocators of an attempt that was not taken, for reuse.
func (g *gen) discard(f *frame) {
	for _, a := range []*allocator{f.rows, f.turn, f.tail, f.accLoads, f.accStores} {
		if a != nil {
			g.spare = append(g.spare, a)
		}
	}
}
