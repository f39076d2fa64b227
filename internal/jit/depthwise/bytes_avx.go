package depthwise

import (
	"bytes"

	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/jit/requantize"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64"
	"github.com/graphrun/graphrun/internal/machine"
)

// byteAVX implements [byteVectors] for AVX2 and AVX-512.
type byteAVX struct {
	*amd64.Writer
	gen    *byteGen
	s      *Bytes
	cpu    machine.Features
	width  int // bytes of a vector
	levels interface {
		Begin(a *asm.Assembler, point asm.Mem)
		Level(a *asm.Assembler, v asm.Vec, scale asm.Arg)
		Pack(a *asm.Assembler, v [4]asm.Vec)
	}
	temps [5]asm.Vec // scratch registers, after the registers of the sums
	zero  asm.Vec
}

// Mask registers.
const (
	channelMask = asm.K1 // one bit for each existing channel

	quarterMasks = asm.K3 // first of four masks of 16 channels each, for storing sums
)

func newByteAVX(of *byteGen, cpu machine.Features, list bool) *byteAVX {
	s := of.s
	g := &byteAVX{Writer: amd64.NewWriter(cpu, 4, list), gen: of, s: s, cpu: cpu, width: of.width}
	of.Writer = g.Writer
	at := []int{8, 9, 10, 11, 12}
	if cpu.Has(machine.Vector512) {
		at = []int{28, 29, 24, 30, 25}
		g.zero = asm.Z(31)
		g.levels = &requantize.Levels{Signed: s.Signed, ZeroPoint: asm.Z(26), MaxLevel: asm.Z(27), Ordered: asm.K2}
	} else {
		g.zero = asm.Y(15)
		g.levels = &requantize.Levels256{Signed: s.Signed, ZeroPoint: amd64.Word(spillWord(0)), Temp: asm.Y(14)}
	}
	for i, n := range at {
		g.temps[i] = g.vector(n)
	}
	return g
}

func address(base target.G, disp int) asm.Mem { return amd64.Mem(target.Addr{Base: base, Disp: disp}) }

func (g *byteAVX) vector(n int) asm.Vec {
	if g.cpu.Has(machine.Vector512) {
		return asm.Z(n)
	}
	return asm.Y(n)
}

func (g *byteAVX) sum(result, quarter int) asm.Vec { return g.vector(int(g.gen.sum(result, quarter))) }

// xor emits an exclusive or.
func (g *byteAVX) xor(x asm.Arg, y, to asm.Vec) {
	if g.cpu.Has(machine.Vector512) {
		g.Emit("VPXORD", x, y, to)
	} else {
		g.Emit("VPXOR", x, y, to)
	}
}

func (g *byteAVX) begin() {
	if !g.s.Sums {
		g.levels.Begin(&g.Assembler, address(scratch, 0))
	}
	g.xor(g.zero, g.zero, g.zero)
	if g.cpu.Has(machine.Vector512) {
		g.Emit("KMOVQ", amd64.Word(stepOf(Channels)), channelMask)
		for q := 0; q < 4 && g.s.Sums; q++ {
			g.Emit("KSHIFTRQ", asm.Imm(16*q), channelMask, quarterMasks+asm.Mask(q))
		}
	}
}

func (g *byteAVX) multiply(weights target.Addr, x, sum target.V) {
	if !g.s.Words {
		g.Emit("VPDPBUSD", amd64.Mem(weights), g.Vec(x), g.Vec(sum))
		return
	}
	products := g.temps[4]
	g.Emit("VPMADDWD", amd64.Mem(weights), g.Vec(x), products)
	g.Emit("VPADDD", products, g.Vec(sum), g.Vec(sum))
}

// load reads a column's pixel in a row, and converts its bytes to unsigned. Rows that pad the last group of window rows
// are zero.
func (g *byteAVX) load(col, row int, to asm.Vec) asm.Vec {
	s := g.s
	if row >= s.Window[0] {
		return g.zero
	}
	at := address(in, row*s.Dilation[0]*s.In[0]+col*s.In[1])
	if g.cpu.Has(machine.Vector512) {
		g.Emit("VMOVDQU8", at, channelMask.Zero(), to)
	} else {
		g.Emit("VMOVDQU", at, to)
	}
	if s.Flip {
		g.xor(g.Constant(bytes.Repeat([]byte{1 << 7}, g.width)), to, to)
	}
	return to
}

// interleaveRows interleaves the bytes of two rows: lo has the first eight of every 16 channels, and hi has the last
// eight.
func (g *byteAVX) interleaveRows(a, b, lo, hi asm.Vec) (asm.Vec, asm.Vec) {
	if a == g.zero && b == g.zero {
		return a, a
	}
	g.Emit("VPUNPCKLBW", b, a, lo)
	g.Emit("VPUNPCKHBW", b, a, hi)
	return lo, hi
}

func (g *byteAVX) interleave(col, group int) [4]target.V {
	numbers := func(v ...asm.Vec) (list [4]target.V) {
		for i, x := range v {
			list[i] = target.V(x.Num())
		}
		return list
	}
	t, row := g.temps, group*g.s.Rows()
	lo01, hi01 := g.interleaveRows(g.load(col, row, t[0]), g.load(col, row+1, t[1]), t[2], t[0])
	if g.s.Words {
		g.Emit("VPUNPCKLBW", g.zero, lo01, t[1])
		g.Emit("VPUNPCKHBW", g.zero, lo01, t[2])
		g.Emit("VPUNPCKLBW", g.zero, hi01, t[3])
		g.Emit("VPUNPCKHBW", g.zero, hi01, t[0])
		return numbers(t[1], t[2], t[3], t[0])
	}
	lo23, hi23 := g.interleaveRows(g.load(col, row+2, t[1]), g.load(col, row+3, t[3]), t[4], t[1])
	g.Emit("VPUNPCKLWD", lo23, lo01, t[3])
	g.Emit("VPUNPCKHWD", lo23, lo01, t[2])
	g.Emit("VPUNPCKLWD", hi23, hi01, t[4])
	g.Emit("VPUNPCKHWD", hi23, hi01, t[0])
	return numbers(t[3], t[2], t[4], t[0])
}

// finish implements [byteVectors]. Numbers below the range of int32 become
// the minimum of int32. The addition of an unsigned zero point to this minimum cannot overflow.
func (g *byteAVX) finish() {
	s := g.s
	if s.Sums {
		for t := range s.Tile {
			g.storeSums(t, address(out, t*s.Out[1]))
		}
		return
	}
	var scale [4]asm.Arg
	for q, r := range []int{2, 4, 0, 1} {
		at := address(scaleReg, g.width*q)
		if scale[q] = at; g.cpu.Has(machine.Vector512) {
			scale[q] = g.temps[r]
			g.Emit("VMOVUPS", at, g.temps[r])
		}
	}
	for t := range s.Tile {
		var sums [4]asm.Vec
		for q := range sums {
			sums[q] = g.sum(t, q)
			g.Emit("VCVTDQ2PS", sums[q], sums[q])
			g.levels.Level(&g.Assembler, sums[q], scale[q])
		}
		g.levels.Pack(&g.Assembler, sums)
		at := address(out, t*s.Out[1])
		switch {
		case g.cpu.Has(machine.Vector512):
			g.Emit("VMOVDQU8", sums[0], channelMask, at)
		case s.Channels == 0:
			g.Emit("VMOVDQU", sums[0], at)
		default:
			g.storeSome(sums[0], at)
		}
	}
}

// storeSums writes the sums of a result in the order of the channels. Each of the four registers has a quarter of the
// channels, in lanes of 128 bits with four sums each. The lanes are permuted.
func (g *byteAVX) storeSums(t int, at asm.Mem) {
	q, x := [4]asm.Vec{g.sum(t, 0), g.sum(t, 1), g.sum(t, 2), g.sum(t, 3)}, g.temps
	if g.cpu.Has(machine.Vector512) {
		for i, pair := range [2][2]asm.Vec{{q[0], q[1]}, {q[2], q[3]}} {
			g.Emit("VSHUFI32X4", asm.Imm(0x44), pair[1], pair[0], x[2*i])
			g.Emit("VSHUFI32X4", asm.Imm(0xEE), pair[1], pair[0], x[2*i+1])
		}
		for i := range 4 { // first the lower halves, then the upper halves; even lanes, then odd lanes
			g.Emit("VSHUFI32X4", asm.Imm(0x88+0x55*(i%2)), x[2+i/2], x[i/2], q[0])
			g.Emit("VMOVDQU32", q[0], quarterMasks+asm.Mask(i), at)
			at.Disp += 64
		}
		return
	}
	for i := range 4 {
		half := i % 2 * 2
		g.Emit("VPERM2I128", asm.Imm(0x20+0x11*(i/2)), q[half+1], q[half], x[0])
		n := 8
		if g.s.Channels > 0 {
			n = min(8, g.s.Channels-8*i)
		}
		switch {
		case n == 8:
			g.Emit("VMOVDQU", x[0], at)
		case n > 0:
			mask := append(bytes.Repeat([]byte{0xFF}, 4*n), make([]byte, 32-4*n)...)
			g.Emit("VMOVDQU", g.Constant(mask), x[1])
			g.Emit("VPMASKMOVD", x[0], x[1], at)
		}
		at.Disp += 32
	}
}

// storeSome writes the existing channels of an AVX2 register of bytes.
func (g *byteAVX) storeSome(from asm.Vec, at asm.Mem) {
	n, half, scratch := g.s.Channels, asm.X(from.Num()), amd64.Reg(scratch)
	if n >= 16 {
		g.Emit("VMOVDQU", half, at)
		g.Emit("VEXTRACTI128", asm.Imm(1), from, half)
		n, at.Disp = n-16, at.Disp+16
	}
	if n >= 8 {
		g.Emit("VMOVQ", half, at)
		g.Emit("VPEXTRQ", asm.Imm(1), half, scratch)
		n, at.Disp = n-8, at.Disp+8
	} else if n > 0 {
		g.Emit("VMOVQ", half, scratch)
	}
	for _, k := range []int{4, 2, 1} {
		if n&k == 0 {
			continue
		}
		g.Emit(map[int]string{4: "MOVL", 2: "MOVW", 1: "MOVB"}[k], scratch, at)
		if at.Disp += int32(k); k > 1 {
			g.Emit("SHRQ", asm.Imm(8*k), scratch)
		}
	}
}
