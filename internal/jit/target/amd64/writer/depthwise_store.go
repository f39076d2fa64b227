package writer

import (
	"bytes"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
)

// This file stores the results of [ByteDepthwise]: one pixel, with one channel for each byte of a vector. The type
// explains the order of the channels in the four registers of sums, the quarters.

// LoadScales prepares the scales of StoreResult. AVX-512 code loads them into registers of Interleave, which are free
// while results are stored. AVX2 code reads them from memory.
func (g *ByteDepthwise) LoadScales(addr target.Addr) {
	const partial = false
	for q, temp := range []target.VReg{g.temps[2], g.temps[4], g.temps[0], g.temps[1]} { // Z24, Z25, Z28 and Z29
		if g.NoEVEX {
			g.scales[q] = addr
		} else {
			g.scales[q] = temp
			g.Load(addr, temp, partial)
		}
		addr.Disp += g.vectorBytes
	}
}

// StoreResult writes a result: the sums, or bytes after scaling, rounding and saturation.
func (g *ByteDepthwise) StoreResult(sums [4]target.VReg, to target.Addr) {
	switch {
	case g.spec.Sums && g.NoEVEX:
		g.storeSumsAVX2(sums, Mem(to))
		return
	case g.spec.Sums:
		g.storeSumsAVX512(sums, Mem(to))
		return
	}
	for q, v := range sums {
		g.ToFloats(v)
		g.ToLevels(v, g.scales[q])
	}
	g.Pack(sums)
	from, addr := g.Vec(sums[0]), Mem(to)
	switch {
	case !g.NoEVEX:
		g.Emit("VMOVDQU8", from, channelMask, addr)
	case g.spec.Channels == 0: // no padding
		g.Emit("VMOVDQU", from, addr)
	default:
		g.storePartial(from, addr)
	}
}

// storeSumsAVX512 writes the sums of a result in the order of the channels, with AVX-512. Store i has the
// 128-bit lanes i of quarters 0 to 3, which have the channels 16i to 16i+15.
func (g *ByteDepthwise) storeSumsAVX512(quarters [4]target.VReg, addr asm.Mem) {
	// Temporary 0 has lanes 0 and 1 of quarters 0 and 1, and temporary 1 their lanes 2 and 3. Temporaries 2 and 3 have
	// the lanes of quarters 2 and 3.
	const lanes01, lanes23 = 0x44, 0xEE
	for i := range 2 {
		g.selectLanes("VSHUFI32X4", lanes01, quarters[2*i], quarters[2*i+1], g.temps[2*i])
		g.selectLanes("VSHUFI32X4", lanes23, quarters[2*i], quarters[2*i+1], g.temps[2*i+1])
	}
	for i := range 4 { // quarters[0] is now free
		const lanes02, lanes13 = 0x88, 0xDD
		lanes := [2]asm.Imm{lanes02, lanes13}[i%2]
		g.selectLanes("VSHUFI32X4", lanes, g.temps[i/2], g.temps[2+i/2], quarters[0])
		g.Emit("VMOVDQU32", g.Vec(quarters[0]), quarterMasks+asm.Mask(i), addr)
		addr.Disp += 64
	}
}

// storeSumsAVX2 writes the sums of a result in the order of the channels, with AVX2. Store i has lane i/2 of two
// quarters.
func (g *ByteDepthwise) storeSumsAVX2(quarters [4]target.VReg, addr asm.Mem) {
	sums, maskReg := g.Vec(g.temps[0]), g.Vec(g.temps[1])
	for i := range 4 {
		first := i % 2 * 2 // the first of two quarters
		const lane0, lane1 = 0x20, 0x31
		lane := [2]asm.Imm{lane0, lane1}[i/2] // of both quarters
		g.selectLanes("VPERM2I128", lane, quarters[first], quarters[first+1], g.temps[0])
		channels := 8 // number of channels to store; 0 or less if all are padding
		if g.spec.Channels > 0 {
			channels = min(8, g.spec.Channels-8*i)
		}
		switch {
		case channels == 8:
			g.Emit("VMOVDQU", sums, addr)
		case channels > 0:
			mask := append(bytes.Repeat([]byte{0xFF}, 4*channels), make([]byte, 32-4*channels)...)
			g.Emit("VMOVDQU", g.Constant(mask), maskReg)
			g.Emit("VPMASKMOVD", sums, maskReg, addr)
		}
		addr.Disp += 32
	}
}

// selectLanes emits an instruction that selects 128-bit lanes of two registers.
func (g *ByteDepthwise) selectLanes(name string, lanes asm.Imm, first, second, to target.VReg) {
	g.Emit(name, lanes, g.Vec(second), g.Vec(first), g.Vec(to))
}

// storePartial writes the first spec.Channels bytes of an AVX2 register.
func (g *ByteDepthwise) storePartial(from asm.Vec, addr asm.Mem) {
	count, lane, scratch := g.spec.Channels, from.X(), Reg(g.spec.Temporary)
	if count >= 16 {
		g.Emit("VMOVDQU", lane, addr)
		g.Emit("VEXTRACTI128", asm.Imm(1), from, lane) // the high 16 bytes
		count, addr.Disp = count-16, addr.Disp+16
	}
	if count >= 8 {
		g.Emit("VMOVQ", lane, addr)
		g.Emit("VPEXTRQ", asm.Imm(1), lane, scratch) // the high 8 bytes
		count, addr.Disp = count-8, addr.Disp+8
	} else if count > 0 {
		g.Emit("VMOVQ", lane, scratch)
	}
	g.storeBytes(scratch, addr, count) // fewer than 8
}
