package writer

import (
	"bytes"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// MaxByteResults returns the maximum number of results (output pixels) whose sums [ByteDepthwise] keeps in registers at
// the same time. The sums of a result occupy four registers.
func MaxByteResults(cpu machine.Features) int {
	if cpu.Has(machine.Vector512) {
		return 6
	}
	return 2
}

// ByteDepthwise writes the vector instructions of depthwise convolutions of bytes, for package depthwise. The weights
// of a channel are multiplied by the pixels of up to four rows at a time ([ByteDepthwise.Interleave], then
// [ByteDepthwise.Multiply]).
//
// A result is one output pixel, with as many channels as a vector has bytes. Its int32 sums occupy four registers.
// Register q has quarter q of the channels: channels 4q to 4q+3 of each group of 16. The 128-bit lane j of a register
// has the channels of group j. If the image has fewer channels, the last channels are padding. With AVX-512:
//
//	           lane 0     lane 1      lane 2      lane 3
//	quarter 0  0 to 3     16 to 19    32 to 35    48 to 51
//	quarter 1  4 to 7     20 to 23    36 to 39    52 to 55
//	quarter 2  8 to 11    24 to 27    40 to 43    56 to 59
//	quarter 3  12 to 15   28 to 31    44 to 47    60 to 63
type ByteDepthwise struct {
	Quantizer
	spec   target.ByteDepthwise
	temps  [5]target.VReg   // scratch registers; the sums are in 0 to 23 with AVX-512, and in 0 to 7 with AVX2
	zero   target.VReg      // a register of zeros
	scales [4]target.Source // by quarter: the scales of its channels, in a register or in memory
}

// Mask registers, with AVX-512.
const (
	channelMask  = asm.K1 // a bit for each channel of a vector of bytes; 0 for padding
	quarterMasks = asm.K3 // the first of four masks of 16 channels each, for storing sums
)

// NewByteDepthwise returns a ByteDepthwise for a spec.
func NewByteDepthwise(spec target.ByteDepthwise, cpu machine.Features, withListing bool) *ByteDepthwise {
	g := &ByteDepthwise{Quantizer: Quantizer{Writer: New(cpu, 4, withListing), Signed: spec.Signed}, spec: spec}
	if cpu.Has(machine.Vector512) {
		g.temps, g.zero = [5]target.VReg{28, 29, 24, 30, 25}, 31
		g.ZeroPoint, g.MaxLevel, g.NotNaN = 26, 27, asm.K2
	} else {
		g.temps, g.zero = [5]target.VReg{8, 9, 10, 11, 12}, 15
		g.ZeroPointWord, g.Temp = spec.Spill, 14
	}
	return g
}

// Begin loads constants. zeroPoint is the address of the zero point.
func (g *ByteDepthwise) Begin(zeroPoint target.Addr) {
	if !g.spec.Sums {
		g.Quantizer.Begin(zeroPoint)
	}
	zero := g.Vec(g.zero)
	g.xor(zero, zero, zero)
	if !g.NoEVEX {
		g.Emit("KMOVQ", Word(g.spec.ChannelMask), channelMask)
		for q := 0; q < 4 && g.spec.Sums; q++ {
			g.Emit("KSHIFTRQ", asm.Imm(16*q), channelMask, quarterMasks+asm.Mask(q))
		}
	}
}

// Interleave loads the pixels of an input column in up to four rows, and interleaves their bytes by channel. Each of
// the four registers that it returns has a quarter of the channels. If the rows are a, b, c and d, two steps of unpack
// instructions produce, in each 16 bytes of the registers:
//
//	lo01 and lo23     a0 b0 a1 b1 ... a7 b7  and  c0 d0 c1 d1 ... c7 d7   (bytes; hi01 and hi23: channels 8 to 15)
//	first result      a0 b0 c0 d0  a1 b1 c1 d1  a2 b2 c2 d2  a3 b3 c3 d3  (words; other results: channels 4 to 15)
//
// With spec.WordProducts, there are only rows a and b, and the second step extends bytes to 16 bits by interleaving
// them with zeros. Registers of temps are reused, at the earliest by the instruction that reads their contents last.
func (g *ByteDepthwise) Interleave(pixels []target.Addr) [4]target.VReg {
	var temps [len(g.temps)]asm.Vec // the registers g.temps
	for i, reg := range g.temps {
		temps[i] = g.Vec(reg)
	}
	a, b := g.loadPixel(pixels, 0, temps[0]), g.loadPixel(pixels, 1, temps[1])
	lo01, hi01 := g.interleaveRows(a, b, temps[2], temps[0])
	if g.spec.WordProducts {
		zero := g.Vec(g.zero)
		g.Emit("VPUNPCKLBW", zero, lo01, temps[1])
		g.Emit("VPUNPCKHBW", zero, lo01, temps[2])
		g.Emit("VPUNPCKLBW", zero, hi01, temps[3])
		g.Emit("VPUNPCKHBW", zero, hi01, temps[0])
		return [4]target.VReg{g.temps[1], g.temps[2], g.temps[3], g.temps[0]}
	}
	c, d := g.loadPixel(pixels, 2, temps[1]), g.loadPixel(pixels, 3, temps[3])
	lo23, hi23 := g.interleaveRows(c, d, temps[4], temps[1])
	g.Emit("VPUNPCKLWD", lo23, lo01, temps[3])
	g.Emit("VPUNPCKHWD", lo23, lo01, temps[2])
	g.Emit("VPUNPCKLWD", hi23, hi01, temps[4])
	g.Emit("VPUNPCKHWD", hi23, hi01, temps[0])
	return [4]target.VReg{g.temps[3], g.temps[2], g.temps[4], g.temps[0]}
}

// loadPixel loads the pixel of a row into a register and, if spec.FlipSigns is set, flips the sign bits of its bytes.
// It returns the register or, for a row beyond the list, the register of zeros.
func (g *ByteDepthwise) loadPixel(pixels []target.Addr, row int, to asm.Vec) asm.Vec {
	if row >= len(pixels) {
		return g.Vec(g.zero)
	}
	if !g.NoEVEX {
		g.Emit("VMOVDQU8", Mem(pixels[row]), channelMask.Zero(), to)
	} else {
		g.Emit("VMOVDQU", Mem(pixels[row]), to)
	}
	if g.spec.FlipSigns {
		g.xor(g.Constant(bytes.Repeat([]byte{1 << 7}, g.vectorBytes)), to, to)
	}
	return to
}

// interleaveRows interleaves the bytes of the pixels a and b of two rows. lo gets the first eight of every 16 channels,
// and hi, which may be the register a, the last eight. It returns lo and hi or, if both rows are missing, the register
// of zeros twice.
func (g *ByteDepthwise) interleaveRows(a, b, lo, hi asm.Vec) (asm.Vec, asm.Vec) {
	if zero := g.Vec(g.zero); a == zero && b == zero {
		return a, a
	}
	g.Emit("VPUNPCKLBW", b, a, lo)
	g.Emit("VPUNPCKHBW", b, a, hi)
	return lo, hi
}

// Multiply adds the products of interleaved pixels and weights to a sum.
func (g *ByteDepthwise) Multiply(weights target.Addr, pixels, sum target.VReg) {
	if g.spec.WordProducts {
		g.DotWords(weights, pixels, sum, g.temps[4])
		return
	}
	g.Emit("VPDPBUSD", Mem(weights), g.Vec(pixels), g.Vec(sum))
}

// LoadScales prepares the scales of StoreResult. AVX-512 code loads them into registers of Interleave, which are free
// while results are stored. AVX2 code reads them from memory.
func (g *ByteDepthwise) LoadScales(addr target.Addr) {
	const partial = false
	for q, temp := range []target.VReg{g.temps[2], g.temps[4], g.temps[0], g.temps[1]} {
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
	if g.spec.Sums {
		g.storeSums(sums, Mem(to))
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

// xor emits an exclusive or.
func (g *ByteDepthwise) xor(x asm.Arg, y, to asm.Vec) {
	if !g.NoEVEX {
		g.Emit("VPXORD", x, y, to)
	} else {
		g.Emit("VPXOR", x, y, to)
	}
}

// storeSums writes the sums of a result in the order of the channels. The 128-bit lanes j of quarters 0 to 3 have the
// channels 16j to 16j+15.
func (g *ByteDepthwise) storeSums(sums [4]target.VReg, addr asm.Mem) {
	var quarters, temps [4]asm.Vec
	for i, sum := range sums {
		quarters[i], temps[i] = g.Vec(sum), g.Vec(g.temps[i])
	}
	if g.NoEVEX {
		g.storeSumsAVX2(quarters, temps, addr)
	} else {
		g.storeSumsAVX512(quarters, temps, addr)
	}
}

// storeSumsAVX512 is storeSums with AVX-512. Store i has lane i of all quarters.
func (g *ByteDepthwise) storeSumsAVX512(quarters, temps [4]asm.Vec, addr asm.Mem) {
	// Temporary 0 has lanes 0 and 1 of quarters 0 and 1, and temporary 1 their lanes 2 and 3. Temporaries 2 and 3 have
	// the lanes of quarters 2 and 3.
	const lanes01, lanes23 = 0x44, 0xEE
	for i, pair := range [2][2]asm.Vec{{quarters[0], quarters[1]}, {quarters[2], quarters[3]}} {
		g.Emit("VSHUFI32X4", asm.Imm(lanes01), pair[1], pair[0], temps[2*i])
		g.Emit("VSHUFI32X4", asm.Imm(lanes23), pair[1], pair[0], temps[2*i+1])
	}
	for i := range 4 {
		const lanes02, lanes13 = 0x88, 0xDD
		lanes := [2]asm.Imm{lanes02, lanes13}[i%2]
		g.Emit("VSHUFI32X4", lanes, temps[2+i/2], temps[i/2], quarters[0])
		g.Emit("VMOVDQU32", quarters[0], quarterMasks+asm.Mask(i), addr)
		addr.Disp += 64
	}
}

// storeSumsAVX2 is storeSums with AVX2. Store i has lane i/2 of two quarters.
func (g *ByteDepthwise) storeSumsAVX2(quarters, temps [4]asm.Vec, addr asm.Mem) {
	for i := range 4 {
		first := i % 2 * 2 // the first of two quarters
		const lane0, lane1 = 0x20, 0x31
		lane := [2]asm.Imm{lane0, lane1}[i/2] // of both quarters
		g.Emit("VPERM2I128", lane, quarters[first+1], quarters[first], temps[0])
		channels := 8 // number of channels to store; 0 or less if all are padding
		if g.spec.Channels > 0 {
			channels = min(8, g.spec.Channels-8*i)
		}
		switch {
		case channels == 8:
			g.Emit("VMOVDQU", temps[0], addr)
		case channels > 0:
			mask := append(bytes.Repeat([]byte{0xFF}, 4*channels), make([]byte, 32-4*channels)...)
			g.Emit("VMOVDQU", g.Constant(mask), temps[1])
			g.Emit("VPMASKMOVD", temps[0], temps[1], addr)
		}
		addr.Disp += 32
	}
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
	for _, size := range []int{4, 2, 1} {
		if count&size == 0 {
			continue
		}
		g.Emit(map[int]string{4: "MOVL", 2: "MOVW", 1: "MOVB"}[size], scratch, addr)
		addr.Disp += int32(size)
		if size > 1 {
			g.Emit("SHRQ", asm.Imm(8*size), scratch)
		}
	}
}
