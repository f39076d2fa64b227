package tile

import (
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/jit/requantize"
	"github.com/graphrun/graphrun/internal/jit/target/amd64"
)

// zeroPointWord is the word of the spill area with the zero point in all lanes.
const zeroPointWord = spillWords

// storeQuantized256 is storeQuantized for AVX2, where a vector of sums becomes 8 bytes.
func (g *gen) storeQuantized256() {
	x, last := g.amd64.Vec(g.loadEpilogueMask()), g.s.mayBePartial(g.cpu)
	temp := g.freeVec(1)
	if last && g.free(1) == g.mask {
		temp = g.freeVec(2)
	}
	point := amd64.Word(spillWord(zeroPointWord))
	l := &requantize.Levels256{Signed: g.s.Quantized == Signed, ZeroPoint: point, Temp: temp}
	g.operand(ZeroPoint, in)
	l.Begin(&g.amd64.Assembler, asm.Mem{Base: inReg})
	g.eachLanes(Scales, g.free(0), func(i, v int) {
		g.ToFloats(g.sum(i, v))
		l.Level(&g.amd64.Assembler, g.sumVec(i, v), x)
	})
	order := temp
	requantize.Order256(&g.amd64.Assembler, order)
	if g.s.Lanes == Dynamic {
		g.amd64.Emit("MOVQ", amd64.Word(stepOf(LastLanes)), countReg)
	}
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
				at := asm.Mem{Base: outTileReg, Disp: int32(g.s.Out[i+row] + v*8)}
				whole := n
				if last && v+n == g.s.Vectors {
					whole--
				}
				g.storeParts256(part[0], x, row*n, whole, at)
				if whole < n {
					at.Disp += int32(whole * 8)
					g.storeBytes(g.movePart(part[0], x, row*n+whole), at)
				}
			}
		}
	}
}

// storeParts256 stores n parts of 8 bytes of a register, from part `first` on. If n is not 1, `first` is even. x is a
// free register.
func (g *gen) storeParts256(from, x asm.Vec, first, n int, at asm.Mem) {
	if n == packedVectors {
		g.amd64.Emit("VMOVDQU", from, at)
		return
	}
	for n > 0 {
		part := asm.X(from.Num())
		if first >= 2 {
			part = asm.X(x.Num())
			g.amd64.Emit("VEXTRACTI128", asm.Imm(1), from, part)
		}
		switch {
		case n >= 2 && first%2 == 0:
			g.amd64.Emit("VMOVDQU", part, at)
			first, n, at.Disp = first+2, n-2, at.Disp+16
			continue
		case first%2 == 1:
			g.amd64.Emit("VMOVHPS", part, at)
		default:
			g.amd64.Emit("VMOVQ", part, at)
		}
		first, n, at.Disp = first+1, n-1, at.Disp+8
	}
}

// movePart moves a part of 8 bytes to a general register.
func (g *gen) movePart(from, x asm.Vec, part int) asm.Reg {
	half := asm.X(from.Num())
	if part >= 2 {
		half = asm.X(x.Num())
		g.amd64.Emit("VEXTRACTI128", asm.Imm(1), from, half)
	}
	if part%2 == 1 {
		g.amd64.Emit("VPEXTRQ", asm.Imm(1), half, inReg)
	} else {
		g.amd64.Emit("VMOVQ", half, inReg)
	}
	return inReg
}

// storeBytes stores a byte for each lane of the last vector, without a mask, because AVX2 has no byte masks. A dynamic
// number of lanes is in count.
func (g *gen) storeBytes(from asm.Reg, at asm.Mem) {
	if g.s.Lanes == Dynamic {
		g.amd64.Emit("LEAQ", at, vecReg)
		at = asm.Mem{Base: vecReg}
	}
	for _, n := range []int{8, 4, 2, 1} {
		name := map[int]string{8: "MOVQ", 4: "MOVL", 2: "MOVW", 1: "MOVB"}[n]
		if g.s.Lanes != Dynamic {
			if g.s.Lanes&n != 0 {
				g.amd64.Emit(name, from, at)
				at.Disp += int32(n)
				g.shift(from, n)
			}
			continue
		}
		skip := g.amd64.Assembler.NewLabel()
		g.amd64.Emit("TESTL", asm.Imm(n), countReg)
		g.amd64.Emit("JEQ", skip)
		g.amd64.Emit(name, from, at)
		g.amd64.Emit("ADDQ", asm.Imm(n), vecReg)
		g.shift(from, n)
		g.amd64.Assembler.Bind(skip)
	}
}

// shift removes the first n bytes of a register.
func (g *gen) shift(r asm.Reg, n int) {
	if n == 2 || n == 4 {
		g.amd64.Emit("SHRQ", asm.Imm(8*n), r)
	}
}
