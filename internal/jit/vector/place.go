package vector

import (
	"sync"

	"github.com/graphrun/graphrun/internal/jit/asm"
)

// Registers of tail masks. With AVX-512, tailMask is the mask of elements. The next two registers are the masks of the
// first and the second half of complex elements. Without AVX-512, the masks are vectors. The lanes of wideTailMask are
// as wide as the widest value of the loop. If these lanes have 64 bits, narrowTailMask has the same mask in lanes of 32
// bits.
const (
	tailMask       = asm.K1
	wideTailMask   = 15
	narrowTailMask = 14
)

// load adds the load of a value into dst. In a tail, the load is masked.
func (a *allocator) load(rec *reload, dst any) {
	if !a.masked || rec.mem.kind != inOperand {
		a.put(rec.name, rec.mem, dst)
		return
	}
	name := rec.name
	if a.g.avx512 {
		if name == "VMOVQ" {
			name = map[uint8]string{1: "VMOVDQU8", 2: "VMOVDQU16"}[rec.mem.lane]
		}
		a.put(name, rec.mem, (tailMask + asm.Mask(rec.mem.part)).Zero(), dst)
		return
	}
	if !a.g.bounced(rec.mem) {
		a.put("VMASKMOV"+floatSuffix(int(rec.mem.lane)), rec.mem, a.g.tailVector(int(rec.mem.lane)), dst)
		return
	}
	a.put(name, a.g.bounce(rec.mem), dst)
}

// store adds a store instruction with the sources args. In a tail, the store is masked.
func (a *allocator) store(in *inst, args []any) {
	mem, name := *in.store, in.name
	switch {
	case !a.masked:
		args = append(args, mem)
	case a.g.avx512:
		if name == "VMOVQ" {
			name = map[uint8]string{1: "VMOVDQU8", 2: "VMOVDQU16"}[mem.lane]
		}
		args = append(args, tailMask+asm.Mask(mem.part), mem)
	case mem.kind == inAcc && mem.lane < 4: // foldInMemory selects the old values for missing elements
		args = append(args, mem)
	case mem.kind == inAcc || !a.g.bounced(mem):
		name = "VMASKMOV" + floatSuffix(int(mem.lane))
		args = append(args[:1], a.g.tailVector(int(mem.lane)), mem)
	default:
		args = append(args, a.g.bounce(mem))
	}
	a.putWithNonTemporal(name, in.nonTemporal, args...)
}

// tailVector returns, without AVX-512, the register with the tail mask for elements of the given size in bytes.
func (g *gen) tailVector(lane int) asm.Vec {
	if lane == g.maskLane() {
		return vectorRegister(wideTailMask, g.width(lane))
	}
	return vectorRegister(narrowTailMask, g.width(lane))
}

// bounced reports whether tail elements are copied through the spill area, because AVX2 has masked loads and stores
// only for elements of 4 and 8 bytes.
func (g *gen) bounced(mem memory) bool { return mem.lane < 4 || mem.part != 0 }

// bounce returns the bounce buffer of an operand or output: the memory of its tail elements in the spill area.
func (g *gen) bounce(mem memory) memory {
	s, ok := g.bounceVectors[mem.index]
	if !ok {
		g.fail("an operand without a bounce buffer")
	}
	return memory{kind: inSlot, index: s, offset: mem.offset}
}

// findUses sets a.uses to the positions at which each value is used in a list of instructions.
func (a *allocator) findUses(list []inst) {
	for k := range list {
		in := &list[k]
		for _, s := range in.src {
			a.usesEnd[s.v]++
		}
		a.usesEnd[in.tied]++
		a.usesEnd[in.mask]++
	}
	total := int32(0)
	for v := range a.usesEnd {
		a.nextUse[v] = total
		total += a.usesEnd[v]
		a.usesEnd[v] = a.nextUse[v]
	}
	a.uses = resized(a.uses, int(total))
	use := func(v val, at int) {
		a.uses[a.usesEnd[v]] = int32(at)
		a.usesEnd[v]++
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

// newAllocator returns an empty allocator. It reuses the memory of a spare allocator if there is one.
func (g *gen) newAllocator(length int) *allocator {
	var a *allocator
	if n := len(g.spareAllocators); n > 0 {
		a = g.spareAllocators[n-1]
		g.spareAllocators = g.spareAllocators[:n-1]
	} else {
		a, _ = allocatorPool.Get().(*allocator)
	}
	if a == nil {
		a = new(allocator)
	} else {
		old := *a
		clear(old.args)
		*a = allocator{uses: old.uses, nextUse: old.nextUse, usesEnd: old.usesEnd, registerOf: old.registerOf,
			spillSlot: old.spillSlot, freeSlots: old.freeSlots[:0],
			freedSlots: old.freedSlots[:0], out: old.out[:0], args: old.args[:0]}
	}
	n := len(g.vals)
	if a.out == nil {
		a.out, a.args = make([]allocatedInst, 0, length+length/4), make([]any, 0, 4*length)
	}
	a.nextUse, a.usesEnd, a.registerOf, a.spillSlot = resized(a.nextUse, n), resized(a.usesEnd, n), resized(a.registerOf,
		n), resized(a.spillSlot, n)
	clear(a.usesEnd)
	for v := range n {
		a.registerOf[v], a.spillSlot[v] = -1, -1
	}
	return a
}

// resized returns a slice of n elements with arbitrary contents. It reuses the memory of s if s is large enough.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// allocatorPool has allocators of earlier loops. Later loops reuse their memory.
var allocatorPool sync.Pool

// recycleAllocators returns allocators to allocatorPool after the code is written.
func (g *gen) recycleAllocators() {
	g.discard(&g.frame)
	for _, a := range g.spareAllocators {
		a.g, a.registers = nil, nil
		clear(a.args)
		a.args = a.args[:0]
		allocatorPool.Put(a)
	}
}

// discard adds the allocators of an abandoned attempt to g.spareAllocators.
func (g *gen) discard(f *frame) {
	for _, a := range []*allocator{f.rowCode, f.bodyCode, f.tailCode, f.accLoads, f.accStores} {
		if a != nil {
			g.spareAllocators = append(g.spareAllocators, a)
		}
	}
}
