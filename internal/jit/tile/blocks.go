package tile

import "github.com/graphrun/graphrun/internal/jit/asm"

// blockedRun emits a run whose terms are divided into blocks.
func (g *gen) blockedRun(r *Run) {
	block := min(r.Block, r.Terms)
	n, rest := r.Terms/block, r.Terms%block
	top := g.NewLabel()
	if n > 1 {
		g.Emit("MOVQ", asm.Imm(n), spillWord(blocksLeft))
		g.Align(16)
		g.Bind(top)
	}
	g.constantTerms(r, block, false)
	g.endBlock()
	if n > 1 {
		g.Emit("DECQ", spillWord(blocksLeft))
		g.Emit("JNE", top)
	}
	if rest > 0 {
		g.constantTerms(r, rest, false)
		g.endBlock()
	}
}

// endIteration emits the end of a block after the block's last iteration of a loop. left counts the block's remaining
// iterations.
func (g *gen) endIteration(l *Loop, left asm.Mem) {
	switch {
	case l.Block == 1:
		g.endBlock()
	case l.Block > 1:
		continues := g.NewLabel()
		g.Emit("DECQ", left)
		g.Emit("JNE", continues)
		g.endBlock()
		g.Emit("MOVQ", asm.Imm(l.Block), left)
		g.Bind(continues)
	}
}

// blockSum returns the memory of the sum of an accumulator's previous blocks.
func (g *gen) blockSum(i int) asm.Mem { return asm.Mem{Base: blockSums, Disp: int32(i * g.bytes)} }

// startBlocks stores the start as a separate block, because the tile determines which block is the first with terms.
func (g *gen) startBlocks() {
	if !g.s.hasBlocks() {
		return
	}
	for i := range g.sumCount {
		r := g.register(i)
		g.Emit("VMOVUPS", r, g.blockSum(i))
		if g.s.Start != Zero {
			g.clear(r)
		}
	}
}

// endBlock adds the accumulators to the sums of the previous blocks, and resets them to 0.
func (g *gen) endBlock() {
	for i := range g.sumCount {
		r := g.register(i)
		g.Emit(g.op("VADDP"), g.blockSum(i), r, r)
		g.Emit("VMOVUPS", r, g.blockSum(i))
		g.clear(r)
	}
}

// joinBlocks adds the sums of the previous blocks to the sums of the last block.
func (g *gen) joinBlocks() {
	if !g.s.hasBlocks() {
		return
	}
	for i := range g.sumCount {
		g.Emit(g.op("VADDP"), g.blockSum(i), g.register(i), g.register(i))
	}
}
