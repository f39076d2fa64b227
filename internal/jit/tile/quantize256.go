package tile

import (
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/jit/requantize"
)

// zeroPointWord is the word of the spill area with the zero point in all lanes.
const zeroPointWord = spillWords

// storeQuantized256 is storeQuantized for AVX2, where a vector of sums becomes 8 bytes.
func (g *gen) storeQuantized256() {
	x, last := g.loadEpilogueMask(), g.s.mayBePartial(g.cpu)
	temp := g.free(1)
	if last && temp == g.mask {
		temp = g.free(2)
	}
	l := &requantize.Levels256{Signed: g.s.Quantized == Signed, ZeroPoint: spillWord(zeroPointWord), Temp: temp}
	g.operand(ZeroPoint, in)
	l.Begin(&g.Assembler, asm.Mem{Base: in})
	g.eachLanes(Scales, x, func(i, v int) {
		g.Emit("VCVTDQ2PS", g.sum(i, v), g.sum(i, v))
		l.Level(&g.Assembler, g.sum(i, v), x)
	})
	order := temp
	requantize.Order256(&g.Assembler, order)
	if g.s.Lanes == Dynamic {
		g.Emit("MOVQ", stepOf(LastLanes), count)
	}
	for v := 0; v < g.s.Vectors; v += packedVectors {
		n := min(packedVectors, g.s.Vectors-v)
		for i, rows := 0, packedVectors/n; i < g.s.Rows; i += rows {
			part := [packedVectors]asm.Vec{x, x, x, x}
			for k := range min(rows, g.s.Rows-i) * n {
				part[k] = g.sum(i+k/n, v+k%n)
			}
			l.Pack(&g.Assembler, part)
			g.Emit("VPERMD", part[0], order, part[0])
			for row := range min(rows, g.s.Rows-i) {
				at := asm.Mem{Base: outTile, Disp: int32(g.s.Out[i+row] + v*8)}
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
		g.Emit("VMOVDQU", from, at)
		return
	}
	for n > 0 {
		part := asm.X(from.Num())
		if first >= 2 {
			part = asm.X(x.Num())
			g.Emit("VEXTRACTI128", asm.Imm(1), from, part)
		}
		switch {
		case n >= 2 && first%2 == 0:
			g.Emit("VMOVDQU", part, at)
			first, n, at.Disp = first+2, n-2, at.Disp+16
			continue
		case first%2 == 1:
			g.Emit("VMOVHPS", part, at)
		default:
			g.Emit("VMOVQ", part, at)
		}
		first, n, at.Disp = first+1, n-1, at.Disp+8
	}
}

// movePart moves a part of 8 bytes to a general register.
func (g *gen) movePart(from, x asm.Vec, part int) asm.Reg {
	half := asm.X(from.Num())
	if part >= 2 {
		half = asm.X(x.Num())
		g.Emit("VEXTRACTI128", asm.Imm(1), from, half)
	}
	if part%2 == 1 {
		g.Emit("VPEXTRQ", asm.Imm(1), half, in)
	} else {
		g.Emit("VMOVQ", half, in)
	}
	return in
}

// storeBytes stores a byte for each lane of the last vector, without a mask, because AVX2 has no byte masks. A dynamic
// number of lanes is in count.
func (g *gen) storeBytes(from asm.Reg, at asm.Mem) {
	if g.s.Lanes == Dynamic {
		g.Emit("LEAQ", at, vec)
		at = asm.Mem{Base: vec}
	}
	for _, n := range []int{8, 4, 2, 1} {
		name := map[int]string{8: "MOVQ", 4: "MOVL", 2: "MOVW", 1: "MOVB"}[n]
		if g.s.Lanes != Dynamic {
			if g.s.Lanes&n != 0 {
				g.Emit(name, from, at)
				at.Disp += int32(n)
				g.shift(from, n)
			}
			continue
		}
		skip := g.NewLabel()
		g.Emit("TESTL", asm.Imm(n), count)
		g.Emit("JEQ", skip)
		g.Emit(name, from, at)
		g.Emit("ADDQ", asm.Imm(n), vec)
		g.shift(from, n)
		g.Bind(skip)
	}
}

// shift removes the first n bytes of a register.
func (g *gen) shift(r asm.Reg, n int) {
	if n == 2 || n == 4 {
		g.Emit("SHRQ", asm.Imm(8*n), r)
	}
}
