package amd64

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects loads, stores and lookups in tables. Lanes have at least 32 bits, so shorter elements are widened
// when they are loaded and narrowed when they are stored: for example, VPMOVSXBD loads int8 elements. Complex elements
// are loaded as two vectors, from which the real and the imaginary parts are selected. With four lanes:
//
//	memory    re0 im0 re1 im1   re2 im2 re3 im3
//	values    re0 re1 re2 re3   im0 im1 im2 im3
//
// A load is the Reload of a value: the allocator inserts it before a use, or makes it a memory operand if it is
// foldable. alloc.Mem has the Index of a pointer, and the Step in bytes from a pass to the next.
//
// The methods of the generator add instructions and return an alloc.Virt, a virtual register with the result. width and
// Bytes are sizes of registers, laneBytes and size sizes of lanes and elements, all in bytes. A pass has g.lanes
// elements, so width(4) is the size of a register for all lanes of 4 bytes. The operands of binaryOp and shuffle are in
// the order of Go's assembler: binaryOp("VPSUBD", 4, b, a) computes a - b.

// The parts of a complex number, as values of lane.Inst.Imm and as indices.
const (
	realPart = iota
	imaginaryPart
)

// load returns the operand at a pointer or, if it is complex, its real or imaginary part.
func (g *generator) load(pointer, part int) *laneValue {
	dtype := g.loop.Ptrs[pointer].DType
	if dtype.IsComplex() {
		return &laneValue{reg: g.complexParts(pointer)[part], dtype: dtype.ToReal()}
	}
	if g.loop.Ptrs[pointer].Kind == lane.RowOperand {
		return g.loadScalar(pointer, 0, dtype)
	}
	return g.loadVector(alloc.Mem{Space: alloc.AlongRow, Index: pointer, Step: int32(g.lanes * dtype.Size())}, dtype)
}

// Values of the argument canFold of loadFrom.
const (
	notFoldable = false
	foldable    = true
)

// loadFrom returns a value of the given width, which the instruction with the given name loads from memory. If canFold
// is foldable, the memory may be an operand of the instructions that use the value.
func (g *generator) loadFrom(width uint8, name string, canFold bool, mem alloc.Mem) alloc.Virt {
	reload := &alloc.Reload{Name: name, Mem: mem, Foldable: canFold}
	return g.New(alloc.Value{Bytes: width, Invariant: mem.Space == alloc.PerRow, Reload: reload})
}

// loadVector returns the contiguous elements of a pass. Float16 elements are not widened yet: value.packed has them in
// adjacent lanes of 2 bytes.
func (g *generator) loadVector(mem alloc.Mem, dtype tensor.DType) *laneValue {
	value := &laneValue{dtype: dtype}
	mem.ElementBytes = uint8(dtype.Size())
	width := g.width(laneSize(dtype))
	switch dtype {
	case tensor.Bool:
		value.reg = g.loadBool(mem)
	case tensor.Float16:
		packedWidth := max(width/2, 16) // a register has at least 16 bytes
		value.packed = g.loadFrom(packedWidth, g.packedMoveName(), foldable, mem)
	case tensor.Int8:
		value.reg = g.loadFrom(width, "VPMOVSXBD", notFoldable, mem)
	case tensor.Uint8:
		value.reg = g.loadFrom(width, "VPMOVZXBD", notFoldable, mem)
	case tensor.Int16:
		value.reg = g.loadFrom(width, "VPMOVSXWD", notFoldable, mem)
	case tensor.Uint16, tensor.BFloat16:
		value.reg = g.loadFrom(width, "VPMOVZXWD", notFoldable, mem)
	default:
		value.reg = g.loadFrom(width, "VMOVUPS", foldable, mem)
		if dtype.Size() == 8 {
			g.Values[value.reg].Reload.Name = "VMOVUPD" // its mask has a bit for each 8 bytes
		}
	}
	return value
}

// packedMoveName returns the name of the instruction that loads or stores g.lanes elements of 2 bytes.
func (g *generator) packedMoveName() string {
	switch {
	case g.lanes == 4:
		return "VMOVQ"
	case g.avx512:
		return "VMOVDQU16"
	}
	return "VMOVDQU"
}

// loadBool returns the mask of nonzero elements.
func (g *generator) loadBool(mem alloc.Mem) alloc.Virt {
	if !g.avx512 {
		laneBytes := g.widestLaneBytes()
		x := g.loadFrom(g.width(laneBytes), g.widenBytesName(), notFoldable, mem)
		return g.binaryOp("VPCMPGT"+intSuffix(laneBytes), laneBytes, g.constLanes(laneBytes, 0), x) // x > 0
	}
	x := g.loadFrom(16, g.byteMoveName(), notFoldable, mem)
	// VPTESTMB returns the mask of the bytes in which x & x is not 0.
	return g.Add(alloc.Inst{Name: "VPTESTMB", Src: alloc.Sources(x, x), Dst: g.New(g.boolRegister()),
		FoldableSource: noFoldableSource})
}

// byteMoveName returns, with AVX-512, the instruction that loads or stores g.lanes elements of 1 byte.
func (g *generator) byteMoveName() string {
	if g.lanes == 8 {
		return "VMOVQ"
	}
	return "VMOVDQU8"
}

// widenBytesName returns, without AVX-512, the instruction that zero-extends bytes to the lanes of bools.
func (g *generator) widenBytesName() string {
	if g.widestLaneBytes() == 8 {
		return "VPMOVZXBQ"
	}
	return "VPMOVZXBD"
}

// loadScalar returns an element, broadcast to all lanes. The element is `offset` bytes after the pointer. An
// instruction that broadcasts 1 or 2 bytes fills adjacent elements of this size, which another instruction then widens.
func (g *generator) loadScalar(pointer int, offset int32, dtype tensor.DType) *laneValue {
	mem := alloc.Mem{Space: alloc.PerRow, Index: pointer, Offset: offset}
	value := &laneValue{dtype: dtype}
	width := g.width(laneSize(dtype))
	switch dtype.Size() {
	case 8:
		value.reg = g.loadFrom(width, "VBROADCASTSD", notFoldable, mem)
	case 4:
		value.reg = g.loadFrom(width, "VBROADCASTSS", notFoldable, mem)
	case 2:
		element := g.loadFrom(max(width/2, 16), "VPBROADCASTW", notFoldable, mem)
		switch {
		case dtype == tensor.Float16:
			value.packed = element
		case dtype.IsSigned():
			value.reg = g.convertOp("VPMOVSXWD", width, noBroadcast, element)
		default:
			value.reg = g.convertOp("VPMOVZXWD", width, noBroadcast, element)
		}
	case 1:
		value.reg = g.widenByte(g.loadFrom(16, "VPBROADCASTB", notFoldable, mem), dtype)
	}
	return value
}

// widenByte widens one byte, broadcast to all bytes of a vector, to the lanes of a dtype: int8, uint8 or bool.
func (g *generator) widenByte(byteLanes alloc.Virt, dtype tensor.DType) alloc.Virt {
	switch {
	case dtype == tensor.Bool && g.avx512:
		return g.Add(alloc.Inst{Name: "VPTESTMB", Src: alloc.Sources(byteLanes, byteLanes), Dst: g.New(g.boolRegister()),
			FoldableSource: noFoldableSource})
	case dtype == tensor.Bool:
		laneBytes := g.widestLaneBytes()
		return g.binaryOp("VPCMPGT"+intSuffix(laneBytes), laneBytes, g.constLanes(laneBytes, 0), // byte > 0
			g.convertOp(g.widenBytesName(), g.width(laneBytes), noBroadcast, byteLanes))
	case dtype == tensor.Int8:
		return g.convertOp("VPMOVSXBD", g.width(laneSize(dtype)), noBroadcast, byteLanes)
	}
	return g.convertOp("VPMOVZXBD", g.width(laneSize(dtype)), noBroadcast, byteLanes)
}

// complexParts returns the real and the imaginary parts of the complex operand at a pointer.
func (g *generator) complexParts(pointer int) [2]alloc.Virt {
	parts, ok := g.complexOperands[pointer]
	if ok {
		return parts
	}
	dtype := g.loop.Ptrs[pointer].DType.ToReal()
	if g.loop.Ptrs[pointer].Kind == lane.RowOperand {
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
	// and 2: re0 re1 | re4 re5 | re2 re3 | re6 re7 becomes re0 to re7.
	const exchangeMiddle = 0xD8
	if size == 8 {
		lo := g.binaryOp("VUNPCKLPD", noBroadcast, halves[1], halves[0])
		hi := g.binaryOp("VUNPCKHPD", noBroadcast, halves[1], halves[0])
		return [2]alloc.Virt{g.immediateOp("VPERMPD", exchangeMiddle, lo), g.immediateOp("VPERMPD", exchangeMiddle, hi)}
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
	return g.Add(alloc.Inst{Name: "VPERMT2" + floatSuffix(laneBytes), Src: alloc.Sources(b, indices), Tied: a,
		Dst: g.newVectorLike(a), FoldableSource: 0})
}

// lookup selects instructions that look up entries of a table, whose length is a power of two. The lowest bits of the
// lanes of `indices` are the indices. If the two halves of a table are equal, only the first half is used. If a table
// is too large for one instruction, entries of both halves are looked up, and the highest bit of the index selects one.
func (g *generator) lookup(table []float32, indices alloc.Virt) alloc.Virt {
	lanes, half := int(g.width(4))/4, len(table)/2
	switch {
	case len(table) == lanes: // one vector has the table
		if lanes == 4 { // VPERMPS needs eight lanes
			return g.binaryOp("VPERMILPS", noBroadcast, indices, g.float32Vector(table))
		}
		return g.binaryOp("VPERMPS", noBroadcast, g.float32Vector(table), indices)
	case slices.Equal(table[:half], table[half:]):
		return g.lookup(table[:half], indices)
	case len(table) == 2*lanes && g.avx512: // two vectors have the table
		return g.permute2By(g.float32Vector(table[:half]), g.float32Vector(table[half:]), indices, 4)
	}
	low, high := g.lookup(table[:half], indices), g.lookup(table[half:], indices) // they ignore the highest bit
	return g.blend(4, g.bitMask(indices, half), high, low)
}

// float32Vector returns a constant vector.
func (g *generator) float32Vector(lanes []float32) alloc.Virt {
	var data []byte
	for _, x := range lanes {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return g.constantVector(data)
}

// bitKey identifies a mask of bitMask.
type bitKey struct {
	value alloc.Virt
	bit   int // a power of two
}

// bitMask returns the mask of the lanes of `indices` in which a bit is set. The argument `bit` is the value of this
// bit, a power of two.
func (g *generator) bitMask(indices alloc.Virt, bit int) alloc.Virt {
	key := bitKey{indices, bit}
	mask, ok := g.bitMasks[key]
	if !ok {
		if g.avx512 {
			mask = g.Add(alloc.Inst{Name: "VPTESTMD", Src: alloc.Sources(g.constLanes(4, uint64(bit)), indices),
				Dst: g.New(g.boolRegister()), FoldableSource: noFoldableSource})
		} else {
			toSignBit := int64(bits.LeadingZeros32(uint32(bit))) // blend reads the sign bit only
			mask = g.immediateOp("VPSLLD", toSignBit, indices)
		}
		g.bitMasks[key] = mask
	}
	return mask
}

// shuffle adds an operation on an immediate and the vectors a and b. Only b may be a memory operand (source 1).
func (g *generator) shuffle(name string, imm int64, b, a alloc.Virt) alloc.Virt {
	return g.Add(alloc.Inst{Name: name, Src: withImmediate(imm, b, a), Dst: g.newVectorLike(a),
		FoldableSource: 1})
}

// upperHalf returns the upper half of a vector of 32 bytes.
func (g *generator) upperHalf(x alloc.Virt) alloc.Virt {
	return g.Add(alloc.Inst{Name: "VEXTRACTI128", Src: withImmediate(1, x), Dst: g.newVector(16),
		FoldableSource: noFoldableSource})
}

// newStore returns a store of v to mem. nonTemporal is the name of the store's non-temporal form, or empty. An output
// may share the memory of an operand. Therefore, if there are several outputs, a Move loads an operand that is only
// copied, ahead of all stores.
func (g *generator) newStore(name, nonTemporal string, mem alloc.Mem, v alloc.Virt) alloc.Inst {
	if reload := g.Values[v].Reload; reload != nil && reload.Mem.Space == alloc.AlongRow && g.outputCount > 1 {
		v = g.Add(alloc.Inst{Name: alloc.Move, Src: alloc.Sources(v), Dst: g.newVectorLike(v),
			FoldableSource: noFoldableSource})
	}
	if !g.isNonTemporal(mem) {
		nonTemporal = ""
	}
	return alloc.Inst{Name: name, NonTemporal: nonTemporal, Src: alloc.Sources(v), Store: &mem,
		FoldableSource: noFoldableSource}
}

// isNonTemporal reports whether mem is an output with non-temporal stores.
func (g *generator) isNonTemporal(mem alloc.Mem) bool {
	return g.options.NonTemporal && mem.Space == alloc.AlongRow && g.options.CachedOutputs>>mem.Index&1 == 0
}

// store returns the store of a value. Instructions that convert the lanes to elements are added to the body.
func (g *generator) store(mem alloc.Mem, value *laneValue) alloc.Inst {
	dtype := value.dtype
	mem.ElementBytes = uint8(dtype.Size())
	switch dtype.Size() {
	case 8:
		return g.newStore("VMOVUPD", "VMOVNTPD", mem, value.reg)
	case 4:
		return g.newStore("VMOVUPS", "VMOVNTPS", mem, value.reg)
	}
	switch {
	case dtype == tensor.Float16 && value.packed != 0:
		return g.newStore(g.packedMoveName(), g.nonTemporalName(2), mem, value.packed)
	case dtype == tensor.Bool && g.avx512: // a masked move of the byte 1
		ones := g.constantVector(bytes.Repeat([]byte{1}, 16))
		x := g.Add(alloc.Inst{Name: "VMOVDQU8", Src: alloc.Sources(ones), Mask: value.reg, ZeroMasking: true,
			Dst: g.newVector(16), FoldableSource: 0})
		return g.newStore(g.byteMoveName(), g.nonTemporalName(1), mem, x)
	case g.avx512:
		return g.storePacked512(mem, dtype.Size(), g.unpackedReg(value))
	}
	return g.storePacked256(mem, value)
}

// nonTemporalName returns the instruction for a non-temporal store of g.lanes elements of 1 or 2 bytes, or "" if there
// is none.
func (g *generator) nonTemporalName(size int) string {
	if g.lanes*size < 16 {
		return ""
	}
	return "VMOVNTDQ"
}

// storePacked512 returns the store of lanes as elements of 1 or 2 bytes, with AVX-512. An ordinary store instruction
// packs the lanes itself. Before a non-temporal store, another instruction packs them.
func (g *generator) storePacked512(mem alloc.Mem, size int, v alloc.Virt) alloc.Inst {
	name, move := "VPMOVDB", "VMOVDQU8"
	if size == 2 {
		name, move = "VPMOVDW", "VMOVDQU16"
	}
	nonTemporal := g.nonTemporalName(size)
	if nonTemporal == "" || !g.isNonTemporal(mem) {
		return g.newStore(name, "", mem, v)
	}
	x := g.Add(alloc.Inst{Name: name, Src: alloc.Sources(v), Dst: g.newVector(uint8(g.lanes * size)),
		FoldableSource: noFoldableSource})
	return g.newStore(move, nonTemporal, mem, x)
}

// storePacked256 returns the store of lanes of 32 bits as elements of 1 or 2 bytes, without AVX-512.
func (g *generator) storePacked256(mem alloc.Mem, value *laneValue) alloc.Inst {
	size := value.dtype.Size()
	x := g.unpackedReg(value)
	if value.dtype == tensor.Bool { // true lanes, all ones, become 1
		x = g.immediateOp("VPSRLD", 31, g.narrowMask(x))
	}
	// The low bytes of the lanes move to the start of each 128 bits. An index of 0x80 gives 0.
	byteOrder := []byte("\x00\x04\x08\x0c\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80")
	if size == 2 {
		byteOrder = []byte("\x00\x01\x04\x05\x08\x09\x0c\x0d\x80\x80\x80\x80\x80\x80\x80\x80")
	}
	width := g.Values[x].Bytes
	if width == 32 {
		byteOrder = append(byteOrder, byteOrder...)
	}
	x = g.binaryOp("VPSHUFB", noBroadcast, g.constantVector(byteOrder), x)
	if width == 32 { // join the first 4*size bytes of both halves
		unpack := "VPUNPCKLDQ"
		if size == 2 {
			unpack = "VPUNPCKLQDQ"
		}
		src := []alloc.Arg{{Virt: g.upperHalf(x)}, {Virt: x, Bytes: 16}}
		x = g.Add(alloc.Inst{Name: unpack, Src: src, Dst: g.newVector(16), FoldableSource: noFoldableSource})
	}
	name := map[int]string{4: "VMOVD", 8: "VMOVQ", 16: "VMOVDQU"}[g.lanes*size]
	return g.newStore(name, g.nonTemporalName(size), mem, x)
}

// storeComplex returns the stores of complex numbers with parts re and im.
func (g *generator) storeComplex(pointer int, dtype tensor.DType, re, im alloc.Virt) []alloc.Inst {
	size := dtype.ToReal().Size()
	var stores []alloc.Inst
	for k, half := range g.interleaveParts(re, im, size) {
		stores = append(stores, g.newStore("VMOVU"+floatSuffix(size), "VMOVNT"+floatSuffix(size),
			g.halfMemory(pointer, k, size), half))
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
