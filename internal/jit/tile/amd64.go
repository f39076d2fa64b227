package tile

import (
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64"
)

// This file and the files quantize*.go and unit.go emit instructions that only amd64 has.

// Registers with the names of package asm.
var (
	inReg      = amd64.Reg(in)
	vecReg     = amd64.Reg(vec)
	countReg   = amd64.Reg(count)
	outTileReg = amd64.Reg(outTile)
)

func (g *gen) sumVec(row, v int) asm.Vec { return g.amd64.Vec(g.sum(row, v)) }
func (g *gen) freeVec(i int) asm.Vec     { return g.amd64.Vec(g.free(i)) }

// integerTerm emits the multiplications of a term of bytes or words. VPDPBUSD reads its unsigned operand from a
// register, so the element is broadcast first. VPMADDWD does not add to an accumulator, so the products are added by
// another instruction.
func (g *gen) integerTerm(r *Run, atIn int) {
	w, last := g.amd64, g.s.Vectors-1
	for i := range g.s.Rows {
		if g.rowMask(r)>>i&1 == 0 {
			continue
		}
		x := g.nextElement()
		w.Emit("VPBROADCASTD", amd64.Mem(g.row(i, atIn)), w.Vec(x))
		for v := range g.s.Vectors {
			if g.s.Bytes {
				g.Dot(target.Element{V: x}, g.vector(v), g.sum(i, v), false)
				continue
			}
			to := x // free after the last vector
			for v < last && to == x {
				to = g.nextElement()
			}
			w.Emit("VPMADDWD", w.Vec(g.vector(v)), w.Vec(x), w.Vec(to))
			w.Emit("VPADDD", w.Vec(to), w.Vec(g.sum(i, v)), w.Vec(g.sum(i, v)))
		}
	}
}
