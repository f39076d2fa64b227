package tile

import "github.com/graphrun/graphrun/internal/jit/target"

// This file emits blocks, which limit the length of chains of additions and thus rounding errors. The package comment
// in spec.go explains terms, runs and blocks.

// initBlockTotals stores the initial sum as the total before the first block, and resets the accumulators to 0. The
// initial sum is a separate block. If it belonged to the first block, it would be rounded together with the terms of
// that block. These terms depend on the tile, because rows may lack terms (Run.Rows), but the result must not depend on
// the tile.
func (g *gen) initBlockTotals() {
	if !g.spec.hasBlocks() {
		return
	}
	for i := range g.sumCount {
		sum := target.VReg(i)
		g.Copy(sum, g.blockTotal(i))
		if g.spec.InitialSum != Zero {
			g.Clear(sum)
		}
	}
}

// emitBlockedRun emits a run whose terms are divided into blocks.
func (g *gen) emitBlockedRun(run *Run) {
	block := min(run.Block, run.Terms)                         // terms of a block
	wholeBlocks, lastTerms := run.Terms/block, run.Terms%block // whole blocks, and the terms of a shorter last block
	top := g.NewLabel()
	if wholeBlocks > 1 {
		g.Move(target.Imm(wholeBlocks), target.ArgsSpill(blocksRemaining))
		g.Align(16)
		g.Bind(top)
	}
	const unrollAll = false
	g.emitConstantTerms(run, block, unrollAll)
	g.endBlock()
	if wholeBlocks > 1 {
		g.CountDown(target.ArgsSpill(blocksRemaining), target.NE, top)
	}
	if lastTerms > 0 {
		g.emitConstantTerms(run, lastTerms, unrollAll)
		g.endBlock()
	}
}

// endIteration emits the end of an iteration of a loop: if the iteration is the last one of a block, it ends the block.
// iterationsRemaining is the word that counts the remaining iterations of the block.
func (g *gen) endIteration(loop *Loop, iterationsRemaining target.ArgsWord) {
	switch {
	case loop.Block == 1:
		g.endBlock()
	case loop.Block > 1:
		continues := g.NewLabel()
		g.CountDown(iterationsRemaining, target.NE, continues)
		g.endBlock()
		g.Move(target.Imm(loop.Block), iterationsRemaining)
		g.Bind(continues)
	}
}

// endBlock adds the accumulators to the totals of the previous blocks (blockTotal), and resets the accumulators to 0.
// If the vector operand has levels (integers of quantized elements), endLevels also multiplies by the block's scales.
func (g *gen) endBlock() {
	if g.spec.hasLevels() {
		g.endLevels()
		return
	}
	for i := range g.sumCount {
		sum := target.VReg(i)
		g.Op(target.Add, g.blockTotal(i), sum, sum)
		g.Copy(sum, g.blockTotal(i))
		g.Clear(sum)
	}
}

// joinBlocks adds the totals of the previous blocks to the accumulators, which have the sums since the last endBlock.
func (g *gen) joinBlocks() {
	if !g.spec.hasBlocks() {
		return
	}
	for i := range g.sumCount {
		g.Op(target.Add, g.blockTotal(i), target.VReg(i), target.VReg(i))
	}
}

// blockTotal returns the address of the running total of accumulator i over the previous blocks.
func (g *gen) blockTotal(i int) target.Addr {
	return target.Addr{Base: blockTotalsReg, Disp: i * g.vectorBytes}
}
