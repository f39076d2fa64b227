package tile

import (
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/jit/requantise"
	"github.com/graphrun/graphrun/internal/machine"
)

// Levels says what becomes of sums of products of bytes.
type Levels uint8

// Unsigned and signed levels are bytes: sums of products of bytes, or of words, are scaled lane by lane, rounded,
// and with a zero point they saturate, as package requantise does.
const (
	Sums Levels = iota // they are written as they are
	Unsigned
	Signed
)

// Operands of levels: entries of Ptr and Row. Scales has a float32 for each lane, Point an int32.
const (
	Scales = Tails + iota
	Point
)

const (
	piece     = 4 // vectors of sums whose levels fill one
	piecePart = 16
	levelRegs = 3 // that are free beside the sums, the mask aside
)

// Masks of levels.
const (
	lastBytes = asm.K2 // of a row's last bytes
	ordered   = asm.K3
)

// lastPart is how many vectors of a row, the last ones, make less than a vector of levels, or a whole one.
func (s *Spec) lastPart() int { return (s.Vectors-1)%piece + 1 }

// beginLevels prepares the mask of a row's last bytes.
func (g *gen) beginLevels() {
	if g.s.Levels == Sums || g.isa != machine.AVX512 {
		return
	}
	before := int64(piecePart * (g.s.lastPart() - 1))
	switch g.s.Lanes {
	case Dynamic:
		g.Emit("MOVQ", stepOf(LastLanes), count)
		g.Emit("ADDQ", asm.Imm(before), count)
	case 0:
		g.Emit("MOVL", asm.Imm(before+piecePart), count)
	default:
		g.Emit("MOVL", asm.Imm(before+int64(g.s.Lanes)), count)
	}
	g.Emit("MOVQ", asm.Imm(-1), in)
	g.Emit("BZHIQ", count, in, in)
	g.Emit("KMOVQ", in, lastBytes)
}

// levels makes the sums levels, and writes them: as many vectors of a row as fill one, or those of several rows.
func (g *gen) levels() {
	if g.isa != machine.AVX512 {
		g.levels256()
		return
	}
	x, most, add := g.free(0), g.free(1), g.free(2)
	l := &requantise.Levels{Signed: g.s.Levels == Signed, Most: most, Add: add, Ordered: ordered}
	g.operand(Point, in)
	l.Begin(&g.Assembler, asm.Mem{Base: in})
	g.eachLanes(Scales, x, func(i, v int) {
		g.Emit("VCVTDQ2PS", g.sum(i, v), g.sum(i, v))
		l.Level(&g.Assembler, g.sum(i, v), x)
	})
	order := most
	requantise.Order(&g.Assembler, order)
	for v := 0; v < g.s.Vectors; v += piece {
		n := min(piece, g.s.Vectors-v)
		for i, rows := 0, piece/n; i < g.s.Rows; i += rows {
			part := [piece]asm.Vec{x, x, x, x}
			for k := range min(rows, g.s.Rows-i) * n {
				part[k] = g.sum(i+k/n, v+k%n)
			}
			l.Pack(&g.Assembler, part)
			g.Emit("VPERMD", part[0], order, part[0])
			for row := range min(rows, g.s.Rows-i) {
				g.storeLevels(part[0], x, row*n, n, asm.Mem{Base: outTile, Disp: int32(g.s.Out[i+row] + v*piecePart)},
					v+n == g.s.Vectors)
			}
		}
	}
}

// storeLevels writes n parts of 16 bytes of a register, from one on.
func (g *gen) storeLevels(from, x asm.Vec, first, n int, at asm.Mem, last bool) {
	of := func(r asm.Vec) asm.Vec {
		return map[int]asm.Vec{1: asm.X(int(r)), 2: asm.Y(int(r)), 3: asm.Z(int(r)), 4: asm.Z(int(r))}[n]
	}
	name := map[int]string{1: "VEXTRACTI32X4", 2: "VEXTRACTI64X4"}[n]
	masked := n == 3 || last && g.s.partial(g.isa)
	if first > 0 {
		if !masked {
			g.Emit(name, asm.Imm(first/n), from, at)
			return
		}
		g.Emit(name, asm.Imm(first/n), from, of(x))
		from = x
	}
	if masked {
		g.Emit("VMOVDQU8", of(from), lastBytes, at)
	} else {
		g.Emit("VMOVDQU8", of(from), at)
	}
}
