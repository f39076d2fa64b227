package slide

import (
	"bytes"
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/jit/requantise"
	"github.com/graphrun/graphrun/internal/machine"
)

// ByteChannels is how many channels of bytes code computes at once.
const ByteChannels = 64

// byteRows is how many rows of a window an instruction multiplies and adds up.
const byteRows = 4

// Bytes is the code of rows of quantised results as data: windows of bytes, each channel for itself, times int8, whose
// sums are int32, wrap, and are scaled and rounded to bytes. Of pairs, rows are before columns. A spec that was
// compiled must not change.
//
// Four bytes of a channel that are above one another are brought side by side, which is what VPDPBUSD multiplies and
// adds up. They stay within 16 bytes, so packing the results brings them into order again. Weights, what sums begin
// with and scales are in the order of those fours: [ByteChannel].
type Bytes struct {
	Tile   int    // results of a row that stay in registers: MaxByteTile at most
	Window [2]int // rows and columns
	Step   [2]int // of the window, from result to result
	Apart  [2]int // from an element of the window to the next

	In, Out [2]int32 // bytes from a row to the next, and from a pixel to the next
	Again   int      // results of the last tile that the one before it has too

	// Flip says that the input has a sign: 128 is added to its bytes. Signed says that results have.
	Flip, Signed bool
}

// MaxByteTile is how many results of 64 channels there are registers for.
const MaxByteTile = 6

// Operands of code of bytes, beside In, Weights, Out and Bias: scales of float32, and the zero point of the result, an
// int32. Weights are by columns of the window, of each by fours of rows, of each four vectors; what sums begin with,
// and scales, are four vectors. Args.N is how many tiles a row has, and Args.Rows how many rows, both 1 or more.
const (
	Scales = Tails + iota
	Point
)

// Channels is the entry of Step that has a bit for each of the 64 channels that there is.
const Channels = 0

// ByteChannel is the channel, of 64, that is at a place of what is in the order of fours.
func ByteChannel(place int) int { return place/4%4*16 + place/16*4 + place%4 }

// Fours is how many fours there are of a window's rows.
func Fours(rows int) int { return (rows + byteRows - 1) / byteRows }

// Uops is about how many instructions a tile takes.
func (s *Bytes) Uops() int {
	columns := (s.Tile-1)*s.Step[1] + (s.Window[1]-1)*s.Apart[1] + 1
	if seen := s.Tile * s.Window[1]; seen < columns {
		columns = seen
	}
	return Fours(s.Window[0])*(columns*(8+s.Window[0])+4*s.Tile*s.Window[1]) + 24*s.Tile
}

func (s *Bytes) check(isa machine.ISA) error {
	switch {
	case isa != machine.AVX512 || !machine.MultipliesBytes():
		return fmt.Errorf("slide: no machine code that multiplies bytes for %v", isa)
	case s.Tile < 1 || s.Tile > MaxByteTile || s.Again < 0 || s.Again >= s.Tile:
		return fmt.Errorf("slide: tiles of %d results of bytes, of which the last has %d again", s.Tile, s.Again)
	case min(s.Window[0], s.Window[1], s.Step[0], s.Step[1], s.Apart[0], s.Apart[1]) < 1:
		return fmt.Errorf("slide: windows %v of bytes by steps %v of elements %v apart", s.Window, s.Step, s.Apart)
	}
	return nil
}

// CompileBytes makes the code of a spec, or finds that which somebody has of an equal one, as [Compile] does. Calls
// compute rows of results for 64 channels, or as many of them as they say.
func CompileBytes(s *Bytes, isa machine.ISA) (*jit.Func, error) {
	if err := s.check(isa); err != nil {
		return nil, err
	}
	return jit.Lookup(fmt.Sprintf("slide bytes %v %+v", isa, *s), func(list bool) (jit.Code, error) {
		g := &byteGen{gen: gen{Assembler: asm.Assembler{List: list}}, s: s}
		g.levels = requantise.Levels{Signed: s.Signed, Add: asm.Z(26), Most: asm.Z(27), Ordered: asm.K2}
		g.emit()
		return jit.Finish(&g.Assembler)
	})
}

// byteGen writes the code of a spec. Sums are in registers from 0 on, four of a result.
type byteGen struct {
	gen
	s      *Bytes
	levels requantise.Levels
}

// Registers behind the sums.
const (
	zeroReg  = asm.Vec(31 | 64)
	scaleReg = asm.R14
	present  = asm.K1 // channels that there are
)

func (g *byteGen) sum(result, quarter int) asm.Vec { return asm.Z(4*result + quarter) }

// emit writes the whole function: rows, and of each tiles.
func (g *byteGen) emit() {
	s := g.s
	g.operand(In, inTile)
	g.operand(Out, outTile)
	g.operand(Weights, weights)
	g.operand(Bias, bias)
	g.operand(Scales, scaleReg)
	g.operand(Point, scratch)
	g.levels.Begin(&g.Assembler, asm.Mem{Base: scratch})
	g.Emit("VPXORD", zeroReg, zeroReg, zeroReg)
	g.Emit("KMOVQ", stepOf(Channels), present)
	g.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetRows}, tiles)
	row, tile, rowDone := g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Align(32)
	g.Bind(row)
	g.Emit("MOVQ", inTile, in)
	g.Emit("MOVQ", outTile, out)
	g.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetN}, vectors)
	g.Align(32)
	g.Bind(tile)
	g.windows()
	g.finish()
	step := int32(s.Tile * s.Step[1])
	g.Emit("ADDQ", asm.Imm(step*s.In[1]), in)
	g.Emit("ADDQ", asm.Imm(int32(s.Tile)*s.Out[1]), out)
	g.Emit("DECQ", vectors)
	g.Emit("JEQ", rowDone)
	g.Emit("CMPQ", vectors, asm.Imm(1))
	g.Emit("JNE", tile)
	g.Emit("SUBQ", asm.Imm(int32(s.Again*s.Step[1])*s.In[1]), in)
	g.Emit("SUBQ", asm.Imm(int32(s.Again)*s.Out[1]), out)
	g.Emit("JMP", tile)
	g.Bind(rowDone)
	g.Emit("ADDQ", asm.Imm(int32(s.Step[0])*s.In[0]), inTile)
	g.Emit("ADDQ", asm.Imm(s.Out[0]), outTile)
	g.Emit("DECQ", tiles)
	g.Emit("JNE", row)
	g.Emit("VZEROUPPER")
	g.Emit("RET")
}

// windows adds up the windows of a tile, by columns of the input.
func (g *byteGen) windows() {
	s := g.s
	for q := range 4 {
		g.Emit("VMOVUPS", asm.Mem{Base: bias, Disp: int32(64 * q)}, g.sum(0, q))
		for t := 1; t < s.Tile; t++ {
			g.Emit("VMOVAPS", g.sum(0, q), g.sum(t, q))
		}
	}
	fours := Fours(s.Window[0])
	for col := range (s.Tile-1)*s.Step[1] + (s.Window[1]-1)*s.Apart[1] + 1 {
		for k := range fours {
			var side [4]asm.Vec
			for t := range s.Tile {
				d := col - t*s.Step[1]
				if d < 0 || d%s.Apart[1] != 0 || d/s.Apart[1] >= s.Window[1] {
					continue
				}
				if side == [4]asm.Vec{} {
					side = g.interleave(col, k)
				}
				for q, x := range side {
					w := asm.Mem{Base: weights, Disp: int32(((d/s.Apart[1]*fours+k)*4 + q) * 64)}
					g.Emit("VPDPBUSD", w, x, g.sum(t, q))
				}
			}
		}
	}
}

// interleave loads a column of four rows, and brings bytes of a channel side by side: a quarter of the channels in each
// register.
func (g *byteGen) interleave(col, four int) [4]asm.Vec {
	s := g.s
	load := func(row, to int) asm.Vec {
		if row += four * byteRows; row >= s.Window[0] {
			return zeroReg
		}
		at := asm.Mem{Base: in, Disp: int32(row*s.Apart[0])*s.In[0] + int32(col)*s.In[1]}
		g.Emit("VMOVDQU8", at, present.Zero(), asm.Z(to))
		if s.Flip {
			g.Emit("VPXORD", g.Constant(bytes.Repeat([]byte{1 << 7}, 64)), asm.Z(to), asm.Z(to))
		}
		return asm.Z(to)
	}
	pair := func(a, b asm.Vec, lo, hi int) (asm.Vec, asm.Vec) {
		if a == zeroReg && b == zeroReg {
			return zeroReg, zeroReg
		}
		g.Emit("VPUNPCKLBW", b, a, asm.Z(lo))
		g.Emit("VPUNPCKHBW", b, a, asm.Z(hi))
		return asm.Z(lo), asm.Z(hi)
	}
	lo01, hi01 := pair(load(0, 28), load(1, 29), 24, 28)
	lo23, hi23 := pair(load(2, 29), load(3, 30), 25, 29)
	g.Emit("VPUNPCKLWD", lo23, lo01, asm.Z(30))
	g.Emit("VPUNPCKHWD", lo23, lo01, asm.Z(24))
	g.Emit("VPUNPCKLWD", hi23, hi01, asm.Z(25))
	g.Emit("VPUNPCKHWD", hi23, hi01, asm.Z(28))
	return [4]asm.Vec{asm.Z(30), asm.Z(24), asm.Z(25), asm.Z(28)}
}

// finish scales, rounds and saturates the sums of a tile, and writes the bytes. Numbers below those of int32 become its
// least one, to which a zero point without a sign may be added.
func (g *byteGen) finish() {
	s := g.s
	var scale [4]asm.Vec
	for q, r := range []int{24, 25, 28, 29} {
		scale[q] = asm.Z(r)
		g.Emit("VMOVUPS", asm.Mem{Base: scaleReg, Disp: int32(64 * q)}, scale[q])
	}
	for t := range s.Tile {
		var sums [4]asm.Vec
		for q := range sums {
			sums[q] = g.sum(t, q)
			g.Emit("VCVTDQ2PS", sums[q], sums[q])
			g.levels.Level(&g.Assembler, sums[q], scale[q])
		}
		g.levels.Pack(&g.Assembler, sums)
		g.Emit("VMOVDQU8", sums[0], present, asm.Mem{Base: out, Disp: int32(t) * s.Out[1]})
	}
}
