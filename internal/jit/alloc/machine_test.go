package alloc_test

import (
	"fmt"
	"hash/maphash"
	"maps"
	"strings"

	"github.com/graphrun/graphrun/internal/jit/alloc"
)

// machine executes allocated instructions. Its values are hashes of the operations that computed them.
type machine struct {
	policy    alloc.Policy
	registers [2][32]uint64
	slots     map[int]uint64
	accs      map[int]uint64
	stored    map[alloc.Mem]uint64
}

var seed = maphash.MakeSeed()

func hash(x ...any) uint64 { return maphash.String(seed, fmt.Sprint(x...)) }

func newMachine(p alloc.Policy) *machine {
	m := &machine{policy: p, slots: map[int]uint64{}, accs: map[int]uint64{}, stored: map[alloc.Mem]uint64{}}
	for class := range m.registers {
		for r := range m.registers[class] {
			m.registers[class][r] = hash("garbage", class, r)
		}
	}
	return m
}

// element is the memory that an operand and an output share.
func element(m alloc.Mem) alloc.Mem {
	m.Index = 0
	return m
}

// load returns what a load from memory gives. A masked load of operands reads no memory operand.
func (m *machine) load(mem alloc.Mem) uint64 {
	if mem.Space == alloc.Slot {
		return m.slots[mem.Index]
	}
	for s, x := range m.stored {
		if mem.Space == alloc.AlongRow && element(s) == element(mem) {
			return x
		}
	}
	return hash(mem)
}

func (m *machine) read(o *alloc.Operand) uint64 {
	switch o.Kind {
	case alloc.Immediate:
		return uint64(o.Imm)
	case alloc.Accumulator:
		return m.accs[o.Acc.Index]
	case alloc.Memory, alloc.Element:
		if m.policy.Masked && o.Mem.Space == alloc.AlongRow {
			return hash("unmasked")
		}
		return m.load(*o.Mem)
	}
	return m.registers[o.Class][o.Reg]
}

func (m *machine) write(o *alloc.Operand, x uint64) {
	switch {
	case o.Kind == alloc.Accumulator:
		m.accs[o.Acc.Index] = x
	case o.Kind == alloc.Memory && o.Mem.Space == alloc.Slot:
		m.slots[o.Mem.Index] = x
	case o.Kind == alloc.Memory:
		m.stored[*o.Mem] = x
	default:
		m.registers[o.Class][o.Reg] = x
	}
}

// run executes instructions.
func (m *machine) run(list []alloc.Allocated) {
	for k := range list {
		o := &list[k]
		last := len(o.Args) - 1
		dst := &o.Args[last]
		if o.Kind == alloc.Load {
			m.write(dst, m.load(*o.Args[0].Mem))
			continue
		}
		if o.Kind != alloc.Plain {
			m.write(dst, m.read(&o.Args[0]))
			continue
		}
		old := m.read(dst)
		sources := last
		if strings.HasPrefix(o.Name, "expand") { // expand has two sources; it first writes all that it writes
			sources = 2
			for i := sources; i < last; i++ {
				m.write(&o.Args[i], hash("temporary", i))
			}
			m.write(dst, old+1)
		}
		var x []uint64
		for i := range sources {
			x = append(x, m.read(&o.Args[i]))
		}
		m.write(dst, operation(o.Name, x, old))
	}
}

// operation computes an operation on sources. old is the former value of the destination.
func operation(name string, x []uint64, old uint64) uint64 {
	switch name {
	case "store", "copy":
		return x[0]
	case "add":
		return hash(name, x[0]^x[1], x[0]+x[1])
	case "fma231":
		return hash("fma", x[0]^x[1], x[0]+x[1], old)
	case "fma213":
		return hash("fma", x[1]^old, x[1]+old, x[0])
	case "fma132":
		return hash("fma", x[0]^old, x[0]+old, x[1])
	case "bsl":
		return hash("select", old, x[0], x[1])
	case "bit":
		return hash("select", x[1], x[0], old)
	case "bif":
		return hash("select", x[1], old, x[0])
	}
	if strings.HasSuffix(name, "tied") {
		return hash(name, x, old)
	}
	return hash(name, x)
}

// reference executes a list before allocation. It returns what it stores and the accumulators.
func (p *program) reference() *machine {
	m := newMachine(p.policy)
	x := make([]uint64, len(p.Values))
	for v := range x {
		x[v] = hash("value", v)
		if r := p.Values[v].Reload; r != nil {
			x[v] = hash(r.Mem)
		}
	}
	for _, in := range p.Body {
		var src []uint64
		for _, s := range in.Src {
			src = append(src, x[s.Virt])
			if s.Virt == 0 {
				src[len(src)-1] = uint64(s.Imm)
			}
		}
		if in.Mask != 0 {
			src = append(src, x[in.Mask])
		}
		switch {
		case in.Store != nil:
			m.stored[*in.Store] = src[0]
		case in.Name == alloc.Move:
			x[in.Dst] = src[0]
		case in.Forms != nil:
			f := in.Forms[0]
			x[in.Dst] = operation(f.Name, []uint64{src[f.Order[0]], src[f.Order[1]]}, src[f.Tied])
		default:
			x[in.Dst] = operation(in.Name, src, x[in.Tied])
		}
	}
	for v := range p.Values {
		if a := p.Values[v].Acc; a != nil {
			m.accs[a.Index] = x[v]
		}
	}
	return m
}

// execute executes the allocated list of a program.
func (p *program) execute(list []alloc.Allocated) *machine {
	m := newMachine(p.policy)
	for v := range p.Values {
		x := hash("value", v)
		if r := p.Values[v].Reload; r != nil {
			x = hash(r.Mem)
		}
		if r := p.file.Permanent[v]; r >= 0 {
			m.registers[p.Values[v].Class][r] = x
		}
		if s := p.file.PermanentSlot[v]; s >= 0 {
			m.slots[int(s)] = x
		}
		if a := p.Values[v].Acc; a != nil {
			m.accs[a.Index] = x
		}
	}
	m.run(list)
	return m
}

// sameResults reports whether two executions have the same results, and left permanent registers and slots alone.
func (p *program) sameResults(a, b *machine) bool {
	kept := true
	for v := range p.Values {
		if r := p.file.Permanent[v]; r >= 0 {
			kept = kept && b.registers[p.Values[v].Class][r] == hash("value", v)
		}
		if s := p.file.PermanentSlot[v]; s >= 0 {
			kept = kept && b.slots[int(s)] == hash("value", v)
		}
	}
	return kept && maps.Equal(a.stored, b.stored) && maps.Equal(a.accs, b.accs)
}
