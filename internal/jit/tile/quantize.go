package tile

import (
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/jit/requantize"
	"github.com/graphrun/graphrun/internal/jit/target/amd64"
	"github.com/graphrun/graphrun/internal/machine"
)

// Quantized is the dtype of the results of a tile of bytes or words.
type Quantized uint8

// Dtypes. Unsigned and Signed are quantized bytes: a sum is multiplied by the scale of its lane, rounded, and added to
// the zero point with saturation, as in package requantize.
const (
	Sums Quantized = iota // int32 sums, or float32 after an epilogue
	Unsigned
	Signed
)

// Operands of quantized results: indices into Ptr and Row. Scales has a float32 for each lane. ZeroPoint is one int32.
const (
	Scales = EpilogueOperands + iota
	ZeroPoint
)

const (
	packedVectors = 4  // vectors of sums whose bytes fill one vector
	partBytes     = 16 // bytes of one vector of sums
	quantizedRegs = 3  // registers needed besides the sums and the mask
)

// Mask registers.
const (
	lastBytes = asm.K2 // the last bytes of a row
	ordered   = asm.K3
)

// lastVectors returns the number of vectors of sums in the last vector of bytes of a row.
func (s *Spec) lastVectors() int { return (s.Vectors-1)%packedVectors + 1 }

// beginQuantized computes the mask of the last bytes of a row.
func (g *gen) beginQuantized() {
	if g.s.Quantized == Sums || !g.cpu.Has(machine.Vector512) {
		return
	}
	before := int64(partBytes * (g.s.lastVectors() - 1))
	switch g.s.Lanes {
	case Dynamic:
		g.amd64.Emit("MOVQ", amd64.Word(stepOf(LastLanes)), countReg)
		g.amd64.Emit("ADDQ", asm.Imm(before), countReg)
	case 0:
		g.amd64.Emit("MOVL", asm.Imm(before+partBytes), countReg)
	default:
		g.amd64.Emit("MOVL", asm.Imm(before+int64(g.s.Lanes)), countReg)
	}
	g.amd64.Emit("MOVQ", asm.Imm(-1), inReg)
	g.amd64.Emit("BZHIQ", countReg, inReg, inReg)
	g.amd64.Emit("KMOVQ", inReg, lastBytes)
}

// storeQuantized converts the sums and stores them. It packs up to four vectors, of one row or of several rows.
func (g *gen) storeQuantized() {
	switch {
	case g.neon != nil:
		g.storeQuantizedNEON()
		return
	case !g.cpu.Has(machine.Vector512):
		g.storeQuantized256()
		return
	}
	x, most, add := g.freeVec(0), g.freeVec(1), g.freeVec(2)
	l := &requantize.Levels{Signed: g.s.Quantized == Signed, MaxLevel: most, ZeroPoint: add, Ordered: ordered}
	g.operand(ZeroPoint, in)
	l.Begin(&g.amd64.Assembler, asm.Mem{Base: inReg})
	g.eachLanes(Scales, g.free(0), func(i, v int) {
		g.ToFloats(g.sum(i, v))
		l.Level(&g.amd64.Assembler, g.sumVec(i, v), x)
	})
	order := most
	requantize.Order(&g.amd64.Assembler, order)
	for v := 0; v < g.s.Vectors; v += packedVectors {
		n := min(packedVectors, g.s.Vectors-v)
		for i, rows := 0, packedVectors/n; i < g.s.Rows; i += rows {
			part := [packedVectors]asm.Vec{x, x, x, x}
			for k := range min(rows, g.s.Rows-i) * n {
				part[k] = g.sumVec(i+k/n, v+k%n)
			}
			l.Pack(&g.amd64.Assembler, part)
			g.amd64.Emit("VPERMD", part[0], order, part[0])
			for row := range min(rows, g.s.Rows-i) {
				g.storeParts(part[0], x, row*n, n, asm.Mem{Base: outTileReg, Disp: int32(g.s.Out[i+row] + v*partBytes)},
					v+n == g.s.Vectors)
			}
		}
	}
}

// storeParts stores n parts of 16 bytes of a register, from part first on. x is a free register. last says that the
// parts are the end of a row.
func (g *gen) storeParts(from, x asm.Vec, first, n int, at asm.Mem, last bool) {
	sized := func(r asm.Vec) asm.Vec {
		return map[int]asm.Vec{1: asm.X(int(r)), 2: asm.Y(int(r)), 3: asm.Z(int(r)), 4: asm.Z(int(r))}[n]
	}
	name := map[int]string{1: "VEXTRACTI32X4", 2: "VEXTRACTI64X4"}[n]
	masked := n == 3 || last && g.s.mayBePartial(g.cpu)
	if first > 0 {
		if !masked {
			g.amd64.Emit(name, asm.Imm(first/n), from, at)
			return
		}
		g.amd64.Emit(name, asm.Imm(first/n), from, sized(x))
		from = x
	}
	if masked {
		g.amd64.Emit("VMOVDQU8", sized(from), lastBytes, at)
	} else {
		g.amd64.Emit("VMOVDQU8", sized(from), at)
	}
}
