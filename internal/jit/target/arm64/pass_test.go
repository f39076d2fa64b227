package arm64

import (
	"fmt"
	"math/rand/v2"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
	"github.com/graphrun/graphrun/internal/lane"
)

// SlotPointer is the number of the pointer to SlotBytes bytes in which passes keep values.
const (
	SlotPointer = jit.MaxOperands - 1
	SlotBytes   = 1 << 16
)

var passes int // number of compiled passes

// CompilePass returns the code of a pass of m elements with instructions for n lanes.
func CompilePass(l *lane.Loop, n, m int, rng *rand.Rand) (*jit.Func, error) {
	s := newSelector(l)
	lists, err := s.selectLists(n)
	if err != nil {
		return nil, err
	}
	passes++
	return jit.Lookup(fmt.Sprint("pass ", passes), func(bool) (jit.Code, error) {
		w := &writer{asm: &asm.Assembler{}, pointerRegisters: make([]asm.Reg, len(l.Ptrs))}
		argument := func(to asm.Reg, k int) {
			w.asm.Emit("ldr", to, asm.Mem{Base: regArgs, Offset: int(jit.OffsetPtr) + 8*k})
		}
		for k := range w.pointerRegisters {
			w.pointerRegisters[k] = bases[k]
			argument(bases[k], k)
		}
		argument(regSpill, SlotPointer)
		for _, list := range [][]alloc.Inst{s.Row, lists.Body, lists.Stores} {
			for k := range list {
				w.write((&assignment{rng: rng, values: s.Values}).assign(&list[k]), m)
			}
		}
		w.asm.Emit("ret")
		return jit.Finish(w.asm)
	})
}

// assignment assigns random registers to one instruction, within the bounds of [alloc.Inst]. All values are in slots
// between instructions.
type assignment struct {
	rng    *rand.Rand
	values []alloc.Value
	used   uint32 // registers of the instruction
	out    []alloc.Allocated
	args   []alloc.Operand
}

func register(r int8) alloc.Operand { return alloc.Operand{Kind: alloc.Register, Reg: r} }

func slot(v alloc.Virt) alloc.Operand {
	return alloc.Operand{Kind: alloc.Memory, Mem: &alloc.Mem{Space: alloc.Slot, Index: int(v)}}
}

// free returns a random register that the instruction does not use.
func (a *assignment) free() int8 {
	for {
		if r := a.rng.IntN(32); a.used>>r&1 == 0 {
			a.used |= 1 << r
			return int8(r)
		}
	}
}

// load loads a value to a register.
func (a *assignment) load(v alloc.Virt) int8 {
	r := a.free()
	o := alloc.Allocated{Kind: alloc.Load, Args: []alloc.Operand{slot(v), register(r)}}
	if x := a.values[v].Reload; x != nil {
		o.Name, o.Args[0].Mem = x.Name, &x.Mem
	}
	a.out = append(a.out, o)
	return r
}

// assign returns the instruction with its loads, and with a store of the result.
func (a *assignment) assign(in *alloc.Inst) []alloc.Allocated {
	name, src, tied := in.Name, in.Src, in.Tied
	if len(in.Forms) > 0 {
		f := in.Forms[a.rng.IntN(len(in.Forms))]
		name, tied, src = f.Name, in.Src[f.Tied].Virt, []alloc.Arg{in.Src[f.Order[0]], in.Src[f.Order[1]]}
	}
	for _, s := range src {
		if s.Virt == 0 {
			a.args = append(a.args, alloc.Operand{Kind: alloc.Immediate, Imm: s.Imm})
			continue
		}
		a.args = append(a.args, register(a.load(s.Virt)))
	}
	if in.Store != nil {
		a.args = append(a.args, alloc.Operand{Kind: alloc.Memory, Mem: in.Store})
		return append(a.out, alloc.Allocated{Name: name, Args: a.args})
	}
	first := a.args[0]
	for range in.TempCounts[alloc.Vectors] {
		a.args = append(a.args, register(a.free()))
	}
	to := register(0)
	switch {
	case tied != 0:
		to.Reg = a.load(tied)
	case !in.EarlyClobber && a.rng.IntN(2) == 0:
		to = first // the source ends here
	default:
		to.Reg = a.free()
	}
	a.args = append(a.args, to)
	kind := alloc.Plain
	if name == alloc.Move {
		kind = alloc.Copy
	}
	return append(a.out, alloc.Allocated{Kind: kind, Name: name, Args: a.args},
		alloc.Allocated{Kind: alloc.Save, Args: []alloc.Operand{to, slot(in.Dst)}})
}
