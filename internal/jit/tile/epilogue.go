package tile

import (
	"github.com/graphrun/graphrun/internal/jit/target"
)

// This file emits the code before and after the k-loop, the loop over the terms of the sums: initSums initializes the
// accumulators, and storeResult applies the epilogue (element-wise operations on the sums) and stores the result. For a
// tile of 2 rows of 20 floats in vectors of 16 lanes, there are 2x2 accumulators:
//
//	row 0: sumReg(0, 0) = lanes 0 to 15, sumReg(0, 1) = lanes 16 to 19
//	row 1: sumReg(1, 0) = lanes 0 to 15, sumReg(1, 1) = lanes 16 to 19
//
// The last vector of each row is partial: a mask selects its 4 valid lanes. target.ArgsStep and target.ArgsSpill select
// a word of the call's arguments (jit.Args): ArgsStep has distances and counts, ArgsSpill has values that do not fit in
// registers. Outside the k-loop, freeRegister(i) is a free vector register, and tempReg and countReg are free general
// registers.

// initSums emits the initialization of the accumulators and, with PrefetchResult, the prefetches of the result.
func (g *gen) initSums() {
	g.loadMaskOutsideKLoop()
	scratch := g.freeRegister(0)
	if g.spec.PrefetchResult {
		g.eachResult(outTileReg, func(_, vector int, addr target.Addr) {
			if vector*g.vectorBytes%lineBytes == 0 {
				g.Prefetch(target.L1, addr)
			}
		})
	}
	switch g.spec.InitialSum {
	case Zero:
		for i := range g.sumCount {
			g.Clear(target.VReg(i))
		}
	case FromLanes: // the operand Bias has one element per lane
		g.eachLanes(Bias, scratch, func(i, vector int) { g.Copy(scratch, g.sumReg(i, vector)) })
	case FromRows: // the operand Bias has one element per row
		g.loadAddress(Bias, tempReg)
		for i := range g.spec.Rows {
			g.Broadcast(target.Addr{Base: tempReg, Disp: i * g.spec.ElemBytes}, g.sumReg(i, 0))
			for vector := 1; vector < g.spec.Vectors; vector++ {
				g.Copy(g.sumReg(i, 0), g.sumReg(i, vector))
			}
		}
	case FromResult: // the previous values of the result
		g.eachResult(outTileReg, func(i, vector int, addr target.Addr) {
			g.Load(addr, g.sumReg(i, vector), g.isPartial(vector))
		})
	}
	if g.spec.Int8Matrix && g.spec.InitialSum != Zero {
		g.convertSumLayout() // to 2x2 blocks of sums, which the matrix products use
	}
	g.initBlockTotals() // no code if the terms are summed in one block
}

// storeResult applies the epilogue and stores the result.
func (g *gen) storeResult() {
	if g.spec.Int8Matrix {
		g.convertSumLayout() // back to rows of sums
	}
	if g.spec.Quantized != NotQuantized {
		g.storeQuantized()
		return
	}
	g.loadMaskOutsideKLoop()
	scratch := g.freeRegister(0)
	if g.spec.hasIntSums() && len(g.spec.Epilogue) > 0 { // an epilogue computes in float32
		for i := range g.sumCount {
			g.ToFloats(target.VReg(i))
		}
	}
	for _, step := range g.spec.Epilogue {
		g.applyEpilogueStep(step, scratch)
	}
	g.eachResult(outTileReg, func(i, vector int, addr target.Addr) {
		g.Store(g.sumReg(i, vector), addr, g.isPartial(vector))
	})
}

// applyEpilogueStep applies an operation to all sums; scratch is a free register.
func (g *gen) applyEpilogueStep(step EpilogueStep, scratch target.VReg) {
	op := step.Op.VectorOp()
	switch step.Op {
	case AddResult:
		g.applyTileStep(op, outTileReg, scratch)
	case AddTile, MulTile: // the operand's address at the current tile is in its word of the spill area
		g.Move(target.ArgsSpill(epilogueAddressWords+step.Operand), tempReg)
		g.applyTileStep(op, tempReg, scratch)
	case AddLanes, MulLanes:
		g.eachLanes(FirstEpilogueOperand+step.Operand, scratch, func(i, vector int) {
			g.Op(op, scratch, g.sumReg(i, vector), g.sumReg(i, vector))
		})
	case AddRows, MulRows:
		g.loadAddress(FirstEpilogueOperand+step.Operand, tempReg)
		for i := range g.spec.Rows {
			g.Broadcast(target.Addr{Base: tempReg, Disp: i * g.spec.ElemBytes}, scratch)
			for vector := range g.spec.Vectors {
				g.Op(op, scratch, g.sumReg(i, vector), g.sumReg(i, vector))
			}
		}
	default: // AtLeast, AtMost or Scale
		g.BroadcastNumber(step.Number(), scratch)
		for i := range g.sumCount { // the sum is the first operand, so that Max and Min propagate its NaN
			g.Op(op, target.VReg(i), scratch, target.VReg(i))
		}
	}
}

// applyTileStep applies an operation with an operand that has the layout of the result. A partial vector is loaded
// under the mask first, because a memory operand of the operation would read the whole vector.
func (g *gen) applyTileStep(op target.Op, base target.GReg, scratch target.VReg) {
	g.eachResult(base, func(i, vector int, addr target.Addr) {
		if !g.isPartial(vector) {
			g.Op(op, addr, g.sumReg(i, vector), g.sumReg(i, vector))
			return
		}
		g.Load(addr, scratch, partialVector)
		g.Op(op, scratch, g.sumReg(i, vector), g.sumReg(i, vector))
	})
}

// VectorOp returns the vector operation that executes an epilogue operation.
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

// Number returns the bound of AtLeast or AtMost, or the factor of Scale.
func (s EpilogueStep) Number() float64 {
	if s.Op == AtMost {
		return s.Upper
	}
	return s.Lower
}

// eachResult visits the vectors of the result, or of another operand with the same layout, with their addresses. base
// has the address of the tile in the operand.
func (g *gen) eachResult(base target.GReg, visit func(row, vector int, addr target.Addr)) {
	if g.spec.Out == nil { // the distance between rows is an argument of the call; else Out has the offset of each row
		g.Move(base, outRowReg)
		g.Move(target.ArgsStep(OutRow), outRowStepReg)
		base = outRowReg
	}
	for i := range g.spec.Rows {
		addr := target.Addr{Base: base}
		if g.spec.Out != nil {
			addr.Disp = g.spec.Out[i]
		}
		for vector := range g.spec.Vectors {
			visit(i, vector, addr)
			addr.Disp += g.vectorBytes
		}
		if g.spec.Out == nil && i < g.spec.Rows-1 {
			g.Add(outRowStepReg, outRowReg)
		}
	}
}

// eachLanes visits an operand with one element per lane. It loads each vector into the register `loaded`, then visits
// the accumulators of these lanes in all rows.
func (g *gen) eachLanes(operand Slot, loaded target.VReg, visit func(row, vector int)) {
	g.loadAddress(operand, tempReg)
	for vector := range g.spec.Vectors {
		g.Load(target.Addr{Base: tempReg, Disp: vector * g.vectorBytes}, loaded, g.isPartial(vector))
		for i := range g.spec.Rows {
			visit(i, vector)
		}
	}
}

// loadKLoopMask emits the load of the last vector's mask before the k-loop, if the k-loop keeps it.
func (g *gen) loadKLoopMask() {
	if g.spec.mayBePartial(g.cpu) && g.keepsMaskInKLoop() {
		g.loadMask()
	}
}

// keepsMaskInKLoop reports whether the mask, if there is one, is in its register during the k-loop. A mask register is
// free for it. If masks are vectors, as with AVX2, the k-loop keeps the mask only if its loads need the mask, because
// the register could be an accumulator.
func (g *gen) keepsMaskInKLoop() bool {
	return !target.UsesVectorMasks(g.cpu) || g.spec.needsVectorMask(g.cpu)
}

// loadMaskOutsideKLoop emits the load of the mask for the code before or after the k-loop, unless loadKLoopMask has
// loaded it. The mask is then in freeRegister(1).
func (g *gen) loadMaskOutsideKLoop() {
	if g.spec.mayBePartial(g.cpu) && !g.keepsMaskInKLoop() {
		g.mask = g.freeRegister(1)
		g.loadMask()
	}
}

// loadMask emits the load of the mask of the last vector's valid lanes.
func (g *gen) loadMask() {
	var lanes target.Int = target.ArgsStep(LastLanes)
	if g.spec.Lanes != Dynamic {
		lanes = target.Imm(g.spec.Lanes)
	}
	g.SetLanes(lanes, g.mask, [2]target.GReg{tempReg, countReg})
}

// isPartial reports whether a vector of a row is partial. Only the last one can be.
func (g *gen) isPartial(vector int) bool {
	return vector == g.spec.Vectors-1 && g.spec.mayBePartial(g.cpu)
}

// The values of the last argument of the Writer's methods Load and Store.
const (
	wholeVector   = false
	partialVector = true // only the valid lanes are accessed
)
