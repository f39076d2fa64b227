package vector

import "github.com/graphrun/graphrun/internal/jit/asm"

// Masks of a tail: of elements, and of the halves of a turn's pairs. Without AVX-512 there are vectors of them, as wide
// as the widest value and as 32 bits where that is another.
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

// store places a store, args being what is stored.
func (a *allocator) store(in *inst, args []any) {
	mem := *in.store
	p := placed{name: in.name, nt: in.nt}
	switch {
	case !a.tail:
		p.args = append(args, mem)
	case a.g.z:
		if p.name == "VMOVQ" {
			p.name = map[uint8]string{1: "VMOVDQU8", 2: "VMOVDQU16"}[mem.lane]
		}
		p.args = append(args, tailMask+asm.Mask(mem.part), mem)
	case mem.kind == inAcc && mem.lane < 4: // the others were blended in
		p.args = append(args, mem)
	case mem.kind == inAcc || !a.g.bounced(mem):
		p.name = "VMASKMOV" + suffix(int(mem.lane))
		p.args = []any{args[0], a.g.tailVector(int(mem.lane)), mem}
	default:
		p.args = append(args, a.g.bounce(mem))
	}
	a.out = append(a.out, p)
}

// tailVector returns the register with the mask of a tail for elements of some bytes, without AVX-512.
func (g *gen) tailVector(lane int) asm.Vec {
	if lane == g.maskLane() {
		return vec(tailWide, g.width(lane))
	}
	return vec(tailSmall, g.width(lane))
}

// bounced reports whether elements of a tail go by way of the spill area: there are masks for whole 4 and 8 bytes only.
func (g *gen) bounced(mem memory) bool { return mem.lane < 4 || mem.part != 0 }

// bounce returns where an operand's elements are in the spill area.
func (g *gen) bounce(mem memory) memory {
	s, ok := g.bounces[mem.n]
	if !ok {
		g.fail("an operand that does not go by way of memory")
	}
	return memory{kind: inSlot, n: s, off: mem.off}
}

// findUses finds where values are used in a list: twice where an instruction uses one twice.
func (a *allocator) findUses(list []inst) {
	each := func(f func(v val, at int32)) {
		for k := range list {
			in := &list[k]
			for _, s := range in.src {
				f(s.v, int32(k))
			}
			f(in.tied, int32(k))
			f(in.mask, int32(k))
		}
	}
	n := len(a.g.vals)
	both := make([]int32, 2*n)
	a.at, a.end = both[:n:n], both[n:]
	each(func(v val, _ int32) { a.end[v]++ })
	total := int32(0)
	for v := range a.end {
		a.at[v] = total
		total += a.end[v]
		a.end[v] = a.at[v]
	}
	a.uses = make([]int32, total)
	each(func(v val, at int32) {
		a.uses[a.end[v]] = at
		a.end[v]++
	})
}
