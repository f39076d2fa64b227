package tile

import "github.com/graphrun/graphrun/internal/jit/asm"

// inBlocks writes a run whose terms are cut into blocks.
func (g *gen) inBlocks(r *Run) {
	block := min(r.Block, r.Terms)
	n, rest := r.Terms/block, r.Terms%block
	top := g.NewLabel()
	if n > 1 {
		g.Emit("MOVQ", asm.Imm(n), word(termsLeft))
		g.Align(16)
		g.Bind(top)
	}
	g.known(r, block, false)
	g.endBlock()
	if n > 1 {
		g.Emit("DECQ", word(termsLeft))
		g.Emit("JNE", top)
	}
	if rest > 0 {
		g.known(r, rest, false)
		g.endBlock()
	}
}

// endTurn ends the block that ends with a turn of a loop, if one does. left counts its turns.
func (g *gen) endTurn(l *Loop, left asm.Mem) {
	switch {
	case l.Block == 1:
		g.endBlock()
	case l.Block > 1:
		goesOn := g.NewLabel()
		g.Emit("DECQ", left)
		g.Emit("JNE", goesOn)
		g.endBlock()
		g.Emit("MOVQ", asm.Imm(l.Block), left)
		g.Bind(goesOn)
	}
}

// sumApart is where the sum of the blocks before is kept.
func (g *gen) sumApart(i int) asm.Mem { return asm.Mem{Base: apart, Disp: int32(i * g.bytes)} }

// startApart makes the start a block of its own: which block is the first that has terms depends on the tile.
func (g *gen) startApart() {
	if !g.s.blocks() {
		return
	}
	for i := range g.sums {
		r := g.register(i)
		g.Emit("VMOVUPS", r, g.sumApart(i))
		if g.s.Start != Zero {
			g.clear(r)
		}
	}
}

// endBlock adds all sums to those of the blocks before, and begins them anew.
func (g *gen) endBlock() {
	for i := range g.sums {
		r := g.register(i)
		g.Emit(g.op("VADDP"), g.sumApart(i), r, r)
		g.Emit("VMOVUPS", r, g.sumApart(i))
		g.clear(r)
	}
}

// join adds the sums of the blocks before to the last one.
func (g *gen) join() {
	if !g.s.blocks() {
		return
	}
	for i := range g.sums {
		g.Emit(g.op("VADDP"), g.sumApart(i), g.register(i), g.register(i))
	}
}
