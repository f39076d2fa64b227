package amd64

import (
	"encoding/binary"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects loads and stores of complex elements. They are loaded as two vectors, from which the real and the
// imaginary parts are selected. A store does the opposite. With four lanes:
//
//	memory    re0 im0 re1 im1   re2 im2 re3 im3
//	values    re0 re1 re2 re3   im0 im1 im2 im3
//
// The operands of binaryOp and shuffle are in the order of Go's assembler: "VUNPCKLPD" b, a interleaves a and b.

// The parts of a complex number, as values of lane.Inst.Imm and as indices.
const (
	realPart = iota
	imaginaryPart
)

// complexParts returns the real and the imaginary parts of the complex operand at a pointer.
func (g *generator) complexParts(pointer int) [2]alloc.Virt {
	parts, ok := g.complexOperands[pointer]
	if ok {
		return parts
	}
	dtype := g.loop.Ptrs[pointer].DType.ToReal()
	if g.loop.Ptrs[pointer].Kind == lane.RowOperand { // one number for the whole row
		parts = [2]alloc.Virt{g.loadScalar(pointer, 0, dtype).reg, g.loadScalar(pointer, int32(dtype.Size()), dtype).reg}
	} else {
		parts = g.loadComplex(pointer, dtype.Size())
	}
	g.complexOperands[pointer] = parts
	return parts
}

// loadComplex loads the complex elements of a pass and separates their parts. size is the size of a part.
func (g *generator) loadComplex(pointer, size int) [2]alloc.Virt {
	var halves [2]alloc.Virt
	for k := range halves {
		mem := g.halfMemory(pointer, k, size)
		halves[k] = g.loadFrom(g.width(size), "VMOVU"+floatSuffix(size), notFoldable, mem)
	}
	return g.separateParts(halves, size)
}

// separateParts returns the real and the imaginary parts of the complex elements in two vectors. size is the size of a
// part.
func (g *generator) separateParts(halves [2]alloc.Virt, size int) [2]alloc.Virt {
	if g.avx512 {
		return [2]alloc.Virt{g.permute2(halves[0], halves[1], size, partIndices(g.lanes, realPart)),
			g.permute2(halves[0], halves[1], size, partIndices(g.lanes, imaginaryPart))}
	}
	// VUNPCK and VSHUFPS work within each half of 128 bits. In a vector of 256 bits, VPERMPD then exchanges quarters 1
	// and 2. With parts of 4 bytes, re0 re1 | re4 re5 | re2 re3 | re6 re7 becomes re0 to re7.
	const exchangeMiddle = 0xD8 // quarters 0, 2, 1, 3
	if size == 8 {              // a vector has 4 lanes: 256 bits
		re := g.binaryOp("VUNPCKLPD", noBroadcast, halves[1], halves[0])
		im := g.binaryOp("VUNPCKHPD", noBroadcast, halves[1], halves[0])
		return [2]alloc.Virt{g.immediateOp("VPERMPD", exchangeMiddle, re), g.immediateOp("VPERMPD", exchangeMiddle, im)}
	}
	var parts [2]alloc.Virt
	for k, imm := range []int64{0x88, 0xDD} { // the even elements, then the odd elements
		parts[k] = g.shuffle("VSHUFPS", imm, halves[1], halves[0])
		if g.width(size) == 32 {
			parts[k] = g.immediateOp("VPERMPD", exchangeMiddle, parts[k])
		}
	}
	return parts
}

// halfMemory returns the memory of the first half (k is 0) or the second half (k is 1) of the complex elements of a
// pass. size is the size of a part.
func (g *generator) halfMemory(pointer, k, size int) alloc.Mem {
	halfBytes := g.lanes * size
	return alloc.Mem{Space: alloc.AlongRow, Index: pointer, Offset: int32(k * halfBytes), Step: int32(2 * halfBytes),
		Part: uint8(1 + k), ElementBytes: uint8(size)}
}

// partIndices returns the indices of the real or the imaginary parts in two vectors of n lanes. In the second vector,
// the indices continue from n on. For n 4, they are 0 2 4 6 or 1 3 5 7.
func partIndices(n, part int) []int {
	indices := make([]int, n)
	for k := range indices {
		indices[k] = 2*k + part
	}
	return indices
}

// permute2 selects lanes of two vectors by constant indices.
func (g *generator) permute2(a, b alloc.Virt, laneBytes int, indices []int) alloc.Virt {
	var data []byte
	for _, x := range indices {
		data = binary.LittleEndian.AppendUint64(data, uint64(x))
		data = data[:len(data)-8+laneBytes] // keep the low bytes of the index
	}
	return g.permute2By(a, b, g.constantVector(data), laneBytes)
}

// permute2By selects lanes of the vectors a and b. The lowest bits of the lanes of `indices` are the indices: with n
// lanes, 0 to n-1 for lanes of a, and n to 2n-1 for lanes of b.
func (g *generator) permute2By(a, b, indices alloc.Virt, laneBytes int) alloc.Virt {
	// The result overwrites the register of a (Tied). Source 0, b, may be in memory (FoldableSource).
	return g.Add(alloc.Inst{Name: "VPERMT2" + floatSuffix(laneBytes), Src: alloc.Sources(b, indices), Tied: a,
		Dst: g.newVectorLike(a), FoldableSource: 0})
}

// storeComplex returns the stores of complex numbers with parts re and im.
func (g *generator) storeComplex(pointer int, dtype tensor.DType, re, im alloc.Virt) []alloc.Inst {
	size := dtype.ToReal().Size()
	var stores []alloc.Inst
	for k, half := range g.interleaveParts(re, im, size) {
		name, nonTemporal := "VMOVU"+floatSuffix(size), "VMOVNT"+floatSuffix(size)
		stores = append(stores, g.newStore(name, nonTemporal, g.halfMemory(pointer, k, size), half))
	}
	return stores
}

// interleaveParts returns two vectors with the complex elements that have parts re and im: the opposite of
// separateParts.
func (g *generator) interleaveParts(re, im alloc.Virt, size int) [2]alloc.Virt {
	if g.avx512 {
		lo, hi := make([]int, g.lanes), make([]int, g.lanes)
		for k := range g.lanes { // lane k of lo is re[k/2] for even k, else im[k/2], which has index g.lanes + k/2
			lo[k] = k/2 + k%2*g.lanes
			hi[k] = lo[k] + g.lanes/2
		}
		return [2]alloc.Virt{g.permute2(re, im, size, lo), g.permute2(re, im, size, hi)}
	}
	a := g.binaryOp("VUNPCKL"+floatSuffix(size), noBroadcast, im, re)
	b := g.binaryOp("VUNPCKH"+floatSuffix(size), noBroadcast, im, re)
	if g.Values[re].Bytes == 32 { // 0x20 joins the low halves of a and b, and 0x31 the high halves
		return [2]alloc.Virt{g.shuffle("VPERM2F128", 0x20, b, a), g.shuffle("VPERM2F128", 0x31, b, a)}
	}
	return [2]alloc.Virt{a, b}
}
