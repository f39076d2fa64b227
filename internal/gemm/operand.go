package gemm

import (
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
)

// This file decides how the tiled path reads the operands: in place, from panels that are packed once for all tiles, or
// from panels that each tile packs separately. A lane is a row of A or a column of B. A panel holds a few adjacent
// lanes.

// operandPlan describes how the tiled path passes one operand to the kernels.
type operandPlan struct {
	source           Source
	packedOnce       bool // whether a phase packs the operand for all tiles; else each tile packs separate panels
	inPlace          bool // whether all tiles read the operand in place, without packing
	packedByFirstRow bool // whether the first row of tiles reads the operand in place and also packs it
	// half is the format of prepacked panels of 16-bit floats. The register tiles convert the elements to float32. If
	// convertedOnce is set, the first register tile of a strip also stores the converted panel in the worker's scratch,
	// for the other tiles of the strip.
	half                   target.Half
	convertedOnce          bool
	panelWidth             int // width of a panel, in lanes
	elemBytes              int // bytes of an element
	extent                 int // number of lanes: M or N
	laneStride, termStride int // strides from lane to lane and along K, in elements
}

// chooseOperandAccess decides how the tiled path reads each operand. It sets kc, a and b, and may exchange A and B.
func (p *Plan) chooseOperandAccess() {
	spec, elemBytes := &p.spec, p.kernels.elemBytes
	if spec.isStrided() && spec.M > 1 && spec.CColStride != 1 && spec.CRowStride == 1 {
		p.swap() // C is column-major: the rows of its transpose are contiguous
	}
	depth := p.kernels.kc
	if p.kernels.hasMachineCode() && (spec.A.Source == Custom || spec.B.Source == Custom) {
		depth = maxPackedDepth
	}
	p.kc = ceilDiv(spec.K, ceilDiv(spec.K, depth)) // the fewest blocks of at most `depth` terms, nearly equal
	p.a = operandPlan{source: spec.A.Source, elemBytes: elemBytes, panelWidth: p.kernels.mr, extent: spec.M,
		laneStride: spec.A.RowStride, termStride: spec.A.ColStride}
	p.b = operandPlan{source: spec.B.Source, elemBytes: elemBytes, panelWidth: p.kernels.nr, extent: spec.N,
		laneStride: spec.B.ColStride, termStride: spec.B.RowStride}
	if spec.A.Source == Strided {
		p.a.panelWidth = p.kernels.narrowestPanelRows(spec.M)
	}
	if spec.B.Panel > 0 {
		p.b.panelWidth = spec.B.Panel
	}
	if spec.B.Half != 0 {
		p.b.half, p.b.elemBytes = halfFormats[spec.B.Half], spec.B.Half.Size()
	}
	if p.kernels.hasMachineCode() {
		p.chooseInPlace()
	}
}

// Packs reports which operands [Tiled] packs into panels while the product runs.
func Packs(spec Spec) (a, b bool) {
	if spec.M <= 0 || spec.N <= 0 || spec.K <= 0 {
		return false, false
	}
	plan := &Plan{spec: spec, kernels: kernelsOf(spec.DType)}
	plan.chooseOperandAccess()
	if plan.swapped {
		return plan.b.createsPanels(), plan.a.createsPanels()
	}
	return plan.a.createsPanels(), plan.b.createsPanels()
}

// chooseInPlace decides, for machine code, whether each operand is read in place. If A has at most fewRows rows, a B
// with contiguous rows is not packed. If A has at most moderateRows rows, or if B stays in L2, B is packed only if its
// elements evict one another from L2.
func (p *Plan) chooseInPlace() {
	spec := &p.spec
	if spec.A.Source == Strided { // A must be contiguous along K, or from lane to lane
		p.a.inPlace = p.a.termStride == 1 || p.a.laneStride == 1 && !p.a.evictsItself(p.kc)
	}
	if spec.B.Source == Strided && p.b.laneStride == 1 { // the rows of B are contiguous
		bLeavesL2 := p.leavesCache(spec.K*spec.N, machine.L2Bytes/2, machine.L2Bytes/4*5)
		isSmall := spec.M <= moderateRows || !bLeavesL2
		p.b.inPlace = spec.M <= fewRows || isSmall && !p.b.evictsItself(p.kc)
		p.b.packedByFirstRow = !p.b.inPlace && !p.a.packsBeforeTiles()
	}
}

// evictsItself reports whether depth elements of one lane evict one another from L2. This happens if the stride is a
// multiple of a large power of two, because the elements then map to few sets of the cache.
func (operand operandPlan) evictsItself(depth int) bool {
	step := operand.termStride * operand.elemBytes // step&-step is the greatest power of two that divides step
	return depth*(step&-step) > machine.L2Bytes
}

// leavesCache reports whether an operand or result is assumed to leave L2 between tiles. This is the case if its
// `elems` elements have at least minBytes bytes, and both operands and the result together have at least minTotal
// bytes.
func (p *Plan) leavesCache(elems, minBytes, minTotal int) bool {
	spec, elemBytes := &p.spec, p.b.elemBytes
	return elems*elemBytes >= minBytes && (spec.M*spec.K+spec.K*spec.N+spec.M*spec.N)*elemBytes >= minTotal
}

// createsPanels reports whether executions of the plan pack the operand.
func (operand operandPlan) createsPanels() bool {
	return operand.source != Prepacked && !operand.inPlace
}

// packsBeforeTiles reports whether panels of the operand are packed before tiles are computed.
func (operand operandPlan) packsBeforeTiles() bool {
	return operand.createsPanels() && !operand.packedByFirstRow
}

// packsPerTile reports whether each tile packs separate panels of the operand, in worker scratch.
func (operand operandPlan) packsPerTile() bool { return operand.createsPanels() && !operand.packedOnce }

// contiguousAlongK reports whether the operand is read in place and has a stride of 1 along K.
func (operand operandPlan) contiguousAlongK() bool { return operand.inPlace && operand.termStride == 1 }
