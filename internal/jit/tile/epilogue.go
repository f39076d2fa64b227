package tile

import (
	"github.com/graphrun/graphrun/internal/jit/target"
)

// setTermMask sets the mask of the last vector's lanes, unless the k-loop needs the mask's register.
func (g *gen) setTermMask() {
	if g.s.mayBePartial(g.cpu) && (!target.MasksInVectors(g.cpu) || g.s.masksTerms(g.cpu)) {
		g.setLanes()
	}
}

func (g *gen) setLanes() {
	var lanes target.Int = stepOf(LastLanes)
	if g.s.Lanes != Dynamic {
		lanes = target.Imm(g.s.Lanes)
	}
	g.SetLanes(lanes, g.mask, [2]target.GReg{inReg, countReg})
}

// loadEpilogueMask sets the mask after the k-loop, if setTermMask did not set it. It returns a free register.
func (g *gen) loadEpilogueMask() (scratch target.VReg) {
	if target.MasksInVectors(g.cpu) && g.s.mayBePartial(g.cpu) && !g.s.masksTerms(g.cpu) {
		g.mask = g.freeRegister(1)
		g.setLanes()
	}
	return g.freeRegister(0)
}

// isPartial reports whether vector v of a row is partial.
func (g *gen) isPartial(v int) bool { return v == g.s.Vectors-1 && g.s.mayBePartial(g.cpu) }

// eachResult visits the vectors of an operand that has the layout of the result.
func (g *gen) eachResult(base target.GReg, visit func(row, v int, at target.Addr)) {
	if g.s.Out == nil {
		g.Move(base, inRow5Reg)
		g.Move(stepOf(OutRow), inRow10Reg)
		base = inRow5Reg
	}
	for i := range g.s.Rows {
		at := target.Addr{Base: base}
		if g.s.Out != nil {
			at.Disp = g.s.Out[i]
		}
		for v := range g.s.Vectors {
			visit(i, v, at)
			at.Disp += g.bytes
		}
		if g.s.Out == nil && i < g.s.Rows-1 {
			g.Add(inRow10Reg, inRow5Reg)
		}
	}
}

// eachLanes loads each vector of an operand that has one element per lane into x, and then visits the accumulators of
// these lanes in all rows.
func (g *gen) eachLanes(operand Slot, x target.VReg, visit func(row, v int)) {
	g.operand(operand, inReg)
	for v := range g.s.Vectors {
		g.Load(target.Addr{Base: inReg, Disp: v * g.bytes}, x, g.isPartial(v))
		for i := range g.s.Rows {
			visit(i, v)
		}
	}
}

// initSums emits the initialization of the accumulators.
func (g *gen) initSums() {
	x := g.loadEpilogueMask()
	if g.s.PrefetchResult {
		g.eachResult(outTileReg, func(_, v int, at target.Addr) {
			if v*g.bytes%lineBytes == 0 {
				g.Prefetch(1, at)
			}
		})
	}
	switch g.s.Start {
	case Zero:
		for i := range g.sumCount {
			g.Clear(target.VReg(i))
		}
	case FromLanes:
		g.eachLanes(Bias, x, func(i, v int) { g.Copy(x, g.sum(i, v)) })
	case FromRows:
		g.operand(Bias, inReg)
		for i := range g.s.Rows {
			g.Broadcast(target.Addr{Base: inReg, Disp: i * g.s.Size}, g.sum(i, 0))
			for v := 1; v < g.s.Vectors; v++ {
				g.Copy(g.sum(i, 0), g.sum(i, v))
			}
		}
	case FromResult:
		g.eachResult(outTileReg, func(i, v int, at target.Addr) { g.Load(at, g.sum(i, v), g.isPartial(v)) })
	}
	if g.s.Matrix && g.s.Start != Zero {
		g.exchangeHalves()
	}
	g.startBlocks()
}

// storeResult applies the epilogue and stores the result.
func (g *gen) storeResult() {
	if g.s.Matrix {
		g.exchangeHalves()
	}
	if g.s.Quantized != NotQuantized {
		g.storeQuantized()
		return
	}
	x := g.loadEpilogueMask()
	if g.s.hasIntSums() && len(g.s.Epilogue) > 0 {
		for i := range g.sumCount {
			g.ToFloats(target.VReg(i))
		}
	}
	for _, t := range g.s.Epilogue {
		g.epilogueStep(t, x)
	}
	g.eachResult(outTileReg, func(i, v int, at target.Addr) { g.Store(g.sum(i, v), at, g.isPartial(v)) })
}

// VectorOp returns the vector operation of an epilogue operation.
func (o EpilogueOp) VectorOp() target.Op {
	switch o {
	case MulTile, MulLanes, MulRows, Scale:
		return target.Mul
	case AtLeast:
		return target.Max
	case AtMost:
		return target.Min
	}
	return target.Add
}

// Number returns the bound or the factor of an operation that has a number.
func (t EpilogueStep) Number() float64 {
	if t.Op == AtMost {
		return t.Hi
	}
	return t.Lo
}

// epilogueStep applies an operation to all sums; x is a free register.
func (g *gen) epilogueStep(t EpilogueStep, x target.VReg) {
	op := t.Op.VectorOp()
	switch t.Op {
	case AddResult:
		g.tileStep(op, outTileReg, x)
	case AddTile, MulTile:
		g.Move(spillWord(epilogueWords+t.Operand), inReg)
		g.tileStep(op, inReg, x)
	case AddLanes, MulLanes:
		g.eachLanes(EpilogueOperands+t.Operand, x, func(i, v int) { g.Op(op, x, g.sum(i, v), g.sum(i, v)) })
	case AddRows, MulRows:
		g.operand(EpilogueOperands+t.Operand, inReg)
		for i := range g.s.Rows {
			g.Broadcast(target.Addr{Base: inReg, Disp: i * g.s.Size}, x)
			for v := range g.s.Vectors {
				g.Op(op, x, g.sum(i, v), g.sum(i, v))
			}
		}
	default:
		g.Number(t.Number(), x)
		for i := range g.sumCount { // Max and Min propagate a NaN in the sum
			g.Op(op, target.VReg(i), x, target.VReg(i))
		}
	}
}

// tileStep applies an operation with an operand that has the offsets of the result.
func (g *gen) tileStep(op target.Op, base target.GReg, x target.VReg) {
	g.eachResult(base, func(i, v int, at target.Addr) {
		if !g.isPartial(v) {
			g.Op(op, at, g.sum(i, v), g.sum(i, v))
			return
		}
		g.Load(at, x, true)
		g.Op(op, x, g.sum(i, v), g.sum(i, v))
	})
}
