package amd64

import (
	"bytes"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects loads and stores. Lanes have at least 32 bits, so shorter elements are widened when they are loaded
// and narrowed when they are stored: for example, VPMOVSXBD loads int8 elements.
//
// A load is not an instruction of the body. Instead, a loaded value has a Reload, which describes the load. The
// allocator inserts the load before a use of the value. If the load is foldable, the allocator may instead make the
// memory an operand of the instruction that uses the value. alloc.Mem has the Index of a pointer, and the Step in bytes
// from a pass to the next.
//
// The methods of the generator add instructions and return an alloc.Virt, a virtual register with the result. width and
// Bytes are sizes of registers, laneBytes and size sizes of lanes and elements, all in bytes. A pass has g.lanes
// elements, so width(4) is the size of a register for all lanes of 4 bytes. The argument laneBytes of an instruction is
// the size of an element that its memory operand may broadcast. It is noBroadcast if the memory operand is a whole
// vector.

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
	return g.nonzeroBytes(g.loadFrom(16, g.byteMoveName(), notFoldable, mem))
}

// nonzeroBytes returns, with AVX-512, the mask of the bytes of x that are not 0, which VPTESTMB computes from x & x.
func (g *generator) nonzeroBytes(x alloc.Virt) alloc.Virt {
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
		return g.nonzeroBytes(byteLanes)
	case dtype == tensor.Bool:
		laneBytes := g.widestLaneBytes()
		return g.binaryOp("VPCMPGT"+intSuffix(laneBytes), laneBytes, g.constLanes(laneBytes, 0), // byte > 0
			g.convertOp(g.widenBytesName(), g.width(laneBytes), noBroadcast, byteLanes))
	case dtype == tensor.Int8:
		return g.convertOp("VPMOVSXBD", g.width(laneSize(dtype)), noBroadcast, byteLanes)
	}
	return g.convertOp("VPMOVZXBD", g.width(laneSize(dtype)), noBroadcast, byteLanes)
}

// newStore returns a store of v to mem. nonTemporal is the name of the store's non-temporal form, or empty. An output
// may share the memory of an operand. If there are several outputs, a Move therefore loads an operand that is only
// copied, ahead of all stores. Otherwise, the store of another output could overwrite the operand before it is loaded.
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

// isNonTemporal reports whether mem is an output with non-temporal stores. CachedOutputs is a bit set of outputs with
// ordinary stores.
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
			Dst: g.newVector(16), FoldableSource: 0}) // ones may be a memory operand
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
