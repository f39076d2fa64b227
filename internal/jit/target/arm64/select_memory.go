package arm64

import (
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects loads and stores. A value of more than 16 bytes, such as 4 lanes of float64, has several parts,
// each in its own register. A load is the Reload of a value: the allocator inserts it before a use. A complex element
// consists of two components, the real and the imaginary number.

// registerLetter maps an access size in bytes to the letter before the number of a vector register: 4 to s.
var registerLetter = [...]string{1: "b", 2: "h", 4: "s", 8: "d", 16: "q"}

// memory returns the memory at pointer ptr whose elements have the given dtype.
func (s *selector) memory(ptr int16, dtype tensor.DType) alloc.Mem {
	mem := alloc.Mem{Space: alloc.AlongRow, Index: int(ptr), ElementBytes: uint8(dtype.Size()),
		Step: int32(s.Lanes * dtype.Size())}
	if s.loop.Ptrs[ptr].Kind == lane.RowOperand {
		mem.Space, mem.Step = alloc.PerRow, 0
	}
	return mem
}

// load returns the elements that an instruction loads. For a complex dtype, it returns one of their two components: the
// real numbers (Imm 0) or the imaginary numbers (Imm 1).
func (s *selector) load(inst *lane.Inst) []alloc.Virt {
	dtype := s.loop.Ptrs[inst.Ptr].DType
	mem, size := s.memory(inst.Ptr, dtype), inst.Type.Size()
	switch {
	case !dtype.IsComplex():
		return s.loadParts(mem, inst.Type, s.partCount(size))
	case mem.Space == alloc.PerRow: // one component is loaded like an element
		mem.ElementBytes, mem.Offset = uint8(size), int32(inst.Imm)*int32(size)
		return s.loadParts(mem, inst.Type, 1)
	}
	components, ok := s.complexComponents[inst.Ptr]
	if !ok {
		loaded := s.loadParts(mem, inst.Type, s.partCount(dtype.Size()))
		components = s.separateComponents(loaded, size)
		s.complexComponents[inst.Ptr] = components
	}
	return components[inst.Imm]
}

// separateComponents returns the real and the imaginary numbers of complex elements. In memory, they alternate. From
// two registers, uzp1 selects the real numbers, and uzp2 the imaginary numbers. size is the size of one number.
func (s *selector) separateComponents(loaded []alloc.Virt, size int) (components [2][]alloc.Virt) {
	for k, name := range []string{"uzp1", "uzp2"} {
		components[k] = s.makeParts(size, func(p int) alloc.Virt {
			low, high := s.widePair(loaded, p) // the two registers whose numbers part p has
			return s.op(name, arrangement(size), low, high)
		})
	}
	return components
}

// loadParts returns count vectors of adjacent elements in memory, or of one element in all lanes (PerRow). Bools become
// masks of bytes.
func (s *selector) loadParts(mem alloc.Mem, laneType lane.Type, count int) []alloc.Virt {
	parts := make([]alloc.Virt, count)
	for k := range parts {
		name := "ldr " + registerLetter[s.bytesPerRegister(mem)]
		if mem.Space == alloc.PerRow {
			name = "ld1r " + arrangement(int(mem.ElementBytes))
		}
		parts[k] = s.loadVector(name, mem)
		if laneType.DType == tensor.Bool {
			parts[k] = s.op("cmtst", "16b", parts[k], parts[k]) // all ones for a byte that is not 0
		}
		mem.Offset += vectorBytes
	}
	return parts
}

// loadVector returns the value that an instruction loads. All loads of the same element of a row operand (PerRow) share
// one value, so that it is loaded once per row.
func (s *selector) loadVector(name string, mem alloc.Mem) alloc.Virt {
	v, ok := s.rowElements[mem]
	if !ok {
		v = s.New(alloc.Value{Bytes: vectorBytes, Invariant: mem.Space == alloc.PerRow,
			Reload: &alloc.Reload{Name: name, Mem: mem}})
	}
	if mem.Space == alloc.PerRow {
		s.rowElements[mem] = v
	}
	return v
}

// bytesPerRegister returns the number of bytes of the memory operand mem that one register holds. A pass computes
// s.Lanes elements of each value, which may take several registers (parts).
func (s *selector) bytesPerRegister(mem alloc.Mem) int {
	return min(vectorBytes, s.Lanes*int(mem.ElementBytes))
}

// store selects the store instructions for lane.Store.
func (s *selector) store(inst *lane.Inst) {
	dtype := inst.Type.DType
	mem, count := s.memory(inst.Ptr, dtype), s.partCount(dtype.Size())
	parts := make([]alloc.Virt, count)
	for p := range parts {
		if !dtype.IsComplex() {
			parts[p] = s.part(inst.A, p)
			continue
		}
		// zip1 alternates real and imaginary numbers from the low halves of two registers, and zip2 from the high
		// halves.
		zip := []string{"zip1", "zip2"}[p%2]
		parts[p] = s.op(zip, arrangement(dtype.Size()/2), s.part(inst.A, p/2), s.part(inst.B, p/2))
	}
	s.Stores = append(s.Stores, s.storeParts(mem, inst.Type, parts)...)
}

// addStores adds the stores of vectors to memory to Builder.Body (see storeParts).
func (s *selector) addStores(mem alloc.Mem, laneType lane.Type, parts []alloc.Virt) {
	for _, store := range s.storeParts(mem, laneType, parts) {
		s.Add(store)
	}
}

// storeParts returns the stores of vectors to memory. If the space is PerRow, a store has one element. Masks of bytes
// become bools. An output may share the memory of an operand. An operand that is stored unchanged is therefore moved to
// a register before the first store.
func (s *selector) storeParts(mem alloc.Mem, laneType lane.Type, parts []alloc.Virt) []alloc.Inst {
	var stores []alloc.Inst
	for _, v := range parts {
		if laneType.DType == tensor.Bool {
			v = s.op("neg", "16b", v) // all ones become 1
		}
		if reload := s.Values[v].Reload; reload != nil && reload.Mem.Space == alloc.AlongRow {
			v = s.Add(alloc.Inst{Name: alloc.Move, Src: alloc.Sources(v), Dst: s.New(alloc.Value{Bytes: vectorBytes}),
				FoldableSource: noFoldableSource})
		}
		address, bytes := mem, s.bytesPerRegister(mem)
		if mem.Space == alloc.PerRow {
			bytes = int(mem.ElementBytes)
		}
		stores = append(stores, alloc.Inst{Name: "str " + registerLetter[bytes], Src: alloc.Sources(v), Store: &address,
			FoldableSource: noFoldableSource})
		mem.Offset += vectorBytes
	}
	return stores
}
