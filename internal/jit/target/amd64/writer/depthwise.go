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
// A result is one output pixel. It has one channel for each byte of a vector. Its int32 sums occupy four registers.
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
	const sumBytes = 4
	g := &ByteDepthwise{Quantizer: Quantizer{Writer: New(cpu, sumBytes, withListing), Signed: spec.Signed}, spec: spec}
	if cpu.Has(machine.Vector512) {
		g.temps, g.zero = [5]target.VReg{28, 29, 24, 30, 25}, 31
		g.ZeroPoint, g.MaxLevel, g.NotNaN = 26, 27, asm.K2 // registers of the Quantizer
	} else {
		g.temps, g.zero = [5]target.VReg{8, 9, 10, 11, 12}, 15
		g.ZeroPointWord, g.Temp = spec.Spill, 14 // the Quantizer's zero point is in memory
	}
	return g
}

// Begin loads constants. zeroPoint is the address of the zero point.
func (g *ByteDepthwise) Begin(zeroPoint target.Addr) {
	if !g.spec.Sums { // results are quantized to bytes; otherwise the sums are stored
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
// them with zeros. A register is reused by the instruction that reads its contents last, or by a later one.
func (g *ByteDepthwise) Interleave(pixels []target.Addr) [4]target.VReg {
	temps := &g.temps
	a, b := g.loadPixel(pixels, 0, temps[0]), g.loadPixel(pixels, 1, temps[1])
	lo01, hi01 := g.interleaveRows(a, b, temps[2], temps[0]) // hi01 replaces a
	if g.spec.WordProducts {
		g.unpack("VPUNPCKLBW", lo01, g.zero, temps[1])
		g.unpack("VPUNPCKHBW", lo01, g.zero, temps[2])
		g.unpack("VPUNPCKLBW", hi01, g.zero, temps[3])
		g.unpack("VPUNPCKHBW", hi01, g.zero, temps[0])
		return [4]target.VReg{temps[1], temps[2], temps[3], temps[0]}
	}
	c, d := g.loadPixel(pixels, 2, temps[1]), g.loadPixel(pixels, 3, temps[3]) // c replaces b
	lo23, hi23 := g.interleaveRows(c, d, temps[4], temps[1])                   // hi23 replaces c
	g.unpack("VPUNPCKLWD", lo01, lo23, temps[3])                               // replaces d
	g.unpack("VPUNPCKHWD", lo01, lo23, temps[2])                               // replaces lo01
	g.unpack("VPUNPCKLWD", hi01, hi23, temps[4])                               // replaces lo23
	g.unpack("VPUNPCKHWD", hi01, hi23, temps[0])                               // replaces hi01
	return [4]target.VReg{temps[3], temps[2], temps[4], temps[0]}
}

// loadPixel loads the pixel of a row into a register and, if spec.FlipSigns is set, flips the sign bits of its bytes.
// It returns the register or, for a row beyond the list, the register of zeros.
func (g *ByteDepthwise) loadPixel(pixels []target.Addr, row int, to target.VReg) target.VReg {
	if row >= len(pixels) {
		return g.zero
	}
	if !g.NoEVEX {
		g.Emit("VMOVDQU8", Mem(pixels[row]), channelMask.Zero(), g.Vec(to))
	} else {
		g.Emit("VMOVDQU", Mem(pixels[row]), g.Vec(to))
	}
	if g.spec.FlipSigns {
		g.xor(g.Constant(bytes.Repeat([]byte{1 << 7}, g.vectorBytes)), g.Vec(to), g.Vec(to))
	}
	return to
}

// interleaveRows interleaves the bytes of the pixels a and b of two rows. lo gets the first eight of every 16 channels,
// and hi, which may be the register a, the last eight. It returns lo and hi or, if both rows are missing, the register
// of zeros twice.
func (g *ByteDepthwise) interleaveRows(a, b, lo, hi target.VReg) (target.VReg, target.VReg) {
	if a == g.zero && b == g.zero {
		return g.zero, g.zero
	}
	g.unpack("VPUNPCKLBW", a, b, lo)
	g.unpack("VPUNPCKHBW", a, b, hi)
	return lo, hi
}

// unpack emits an instruction that interleaves elements of two registers.
func (g *ByteDepthwise) unpack(name string, first, second, to target.VReg) {
	g.Emit(name, g.Vec(second), g.Vec(first), g.Vec(to))
}

// Multiply adds the products of interleaved pixels and weights to a sum.
func (g *ByteDepthwise) Multiply(weights target.Addr, pixels, sum target.VReg) {
	if g.spec.WordProducts {
		g.DotWords(weights, pixels, sum, g.temps[4])
		return
	}
	g.Emit("VPDPBUSD", Mem(weights), g.Vec(pixels), g.Vec(sum))
}

// xor emits an exclusive or.
func (g *ByteDepthwise) xor(x asm.Arg, y, to asm.Vec) {
	if !g.NoEVEX {
		g.Emit("VPXORD", x, y, to)
	} else {
		g.Emit("VPXOR", x, y, to)
	}
}
