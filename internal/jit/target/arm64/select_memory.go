package arm64

import (
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// registerLetter has the letter of a vector register by the number of its low bytes that an instruction accesses.
var registerLetter = [...]string{1: "b", 2: "h", 4: "s", 8: "d", 16: "q"}

// memory returns the memory at pointer ptr whose elements have dtype d.
func (s *selector) memory(ptr int16, d tensor.DType) alloc.Mem {
	m := alloc.Mem{Space: alloc.Advancing, Index: int(ptr), ElementBytes: uint8(d.Size()),
		Step: int32(s.Lanes * d.Size())}
	if s.loop.Ptrs[ptr].Kind == lane.RowOperand {
		m.Space, m.Step = alloc.PerRow, 0
	}
	return m
}

// load returns the elements that an instruction loads.
func (s *selector) load(i *lane.Inst) []alloc.Virt {
	d := s.loop.Ptrs[i.Ptr].D
	m, size := s.memory(i.Ptr, d), i.Type.Size()
	switch {
	case !d.IsComplex():
		return s.loadParts(m, i.Type, s.partCount(size))
	case m.Space == alloc.PerRow:
		m.ElementBytes, m.Offset = uint8(size), int32(i.Imm)*int32(size)
		return s.loadParts(m, i.Type, 1)
	}
	pair, ok := s.complexParts[i.Ptr]
	if !ok {
		x := s.loadParts(m, i.Type, s.partCount(d.Size()))
		for k, name := range []string{"uzp1", "uzp2"} {
			pair[k] = s.makeParts(size, func(p int) alloc.Virt {
				low, high := s.widePair(x, p)
				return s.op(name, arrangement(size), low, high)
			})
		}
		s.complexParts[i.Ptr] = pair
	}
	return pair[i.Imm]
}

// loadParts returns n vectors of elements in memory. Bools become masks of bytes.
func (s *selector) loadParts(m alloc.Mem, t lane.Type, n int) []alloc.Virt {
	x := make([]alloc.Virt, n)
	for k := range x {
		name := "ldr " + registerLetter[s.bytesPerRegister(m)]
		if m.Space == alloc.PerRow {
			name = "ld1r " + arrangement(int(m.ElementBytes))
		}
		x[k] = s.loadVector(name, m)
		if t.D == tensor.Bool {
			x[k] = s.op("cmtst", "16b", x[k], x[k])
		}
		m.Offset += vectorBytes
	}
	return x
}

// loadVector returns the value that an instruction loads. Row constants are loaded once.
func (s *selector) loadVector(name string, m alloc.Mem) alloc.Virt {
	v, ok := s.rowElements[m]
	if !ok {
		v = s.New(alloc.Value{Bytes: vectorBytes, Invariant: m.Space == alloc.PerRow,
			Reload: &alloc.Reload{Name: name, Mem: m}})
	}
	if m.Space == alloc.PerRow {
		s.rowElements[m] = v
	}
	return v
}

// bytesPerRegister returns the number of bytes that one register holds of a value at m. An iteration (a pass) computes
// s.Lanes elements of each value, which may take several registers (parts).
func (s *selector) bytesPerRegister(m alloc.Mem) int {
	return min(vectorBytes, s.Lanes*int(m.ElementBytes))
}

// store selects the stores of an instruction.
func (s *selector) store(i *lane.Inst) {
	d := i.Type.D
	m, n := s.memory(i.Ptr, d), s.partCount(d.Size())
	x := make([]alloc.Virt, n)
	for p := range x {
		if !d.IsComplex() {
			x[p] = s.part(i.A, p)
			continue
		}
		zip := []string{"zip1", "zip2"}[p%2]
		x[p] = s.op(zip, arrangement(d.Size()/2), s.part(i.A, p/2), s.part(i.B, p/2))
	}
	s.Stores = append(s.Stores, s.storeParts(m, i.Type, x)...)
}

// storeParts returns the stores of vectors to memory. Masks of bytes become bools. An output may share the memory of an
// operand: an operand that is stored unchanged is therefore moved to a register before the first store.
func (s *selector) storeParts(m alloc.Mem, t lane.Type, x []alloc.Virt) []alloc.Inst {
	var list []alloc.Inst
	for _, v := range x {
		if t.D == tensor.Bool {
			v = s.op("neg", "16b", v)
		}
		if r := s.Values[v].Reload; r != nil && r.Mem.Space == alloc.Advancing {
			v = s.Add(alloc.Inst{Name: alloc.Move, Src: sources(v), Dst: s.New(alloc.Value{Bytes: vectorBytes}),
				Fold: -1})
		}
		address, bytes := m, s.bytesPerRegister(m)
		if m.Space == alloc.PerRow {
			bytes = int(m.ElementBytes)
		}
		list = append(list, alloc.Inst{Name: "str " + registerLetter[bytes], Src: sources(v), Store: &address, Fold: -1})
		m.Offset += vectorBytes
	}
	return list
}
