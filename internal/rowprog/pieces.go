package rowprog

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

const (
	// maxPieceElements is the maximum number of elements of a piece, which stays in L1 between passes.
	maxPieceElements = 1 << 12
	// minColumnElements is the minimum number of elements of a piece that is a column. Shorter pieces would leave many
	// results to combine.
	minColumnElements = 1 << 8
)

// Pieces is a plan for long rows that are cut into pieces ([expr.Pieces]), which stay in the cache. All passes run over
// a piece as if it were a row. The passes of a [Plan], in contrast, run over the whole row, one after another. The
// results of the pieces are then combined. For example, an argmax has two passes: the maximum, and the least index of
// an element that equals it. Each piece computes its own maximum and index. The combination takes the least index among
// the pieces whose maximum equals the maximum of the row. A Pieces is immutable and safe for concurrent use.
type Pieces struct {
	code           *expr.Pieces // PieceCode folds a piece, and Join combines results; In lists operands of Join
	outCount       int          // number of outputs
	piecePlans     []piecePlan  // for the pieces of equal size, then for the shorter pieces at the ends of rows, if any
	piecePhases    int          // number of phases in which piecePlans run
	joinPlan       *Plan        // combines the results of pieces, in the later phases
	firstIndex     []int32      // by piece: the index of its first element in the row
	partialOffsets []int        // by fold: byte offset in scratch memory of its results, by row and piece
	partialBytes   int          // size in bytes of the results of all folds
}

// piecePlan is a plan whose rows are the pieces of one size.
type piecePlan struct {
	*Plan
	offsets []int // by output and operand of the plan: byte offset of the first piece; nil if all are 0
}

// NewPieces plans an expression whose rows are cut into pieces. It has the arguments of [New]. It returns nil and no
// error in four cases:
//   - the results of pieces do not determine the result;
//   - an output varies within a row;
//   - there are no elements, or more than expr.MaxCutLen in a row;
//   - no fold depends on another fold: there is then one pass, and [New] can divide rows into parts.
func NewPieces(code *expr.Code, outs, ins []tensor.Meta, mask []bool, direction Direction) (*Pieces, error) {
	metas := append(slices.Clone(outs), ins...)
	if err := checkOperands(code, len(outs), metas, mask); err != nil {
		return nil, err
	}
	full, err := fullShape(metas, len(mask))
	if err != nil {
		return nil, err
	}
	kept, reduced := axesOf(full, metas, mask)
	kept, reduced = mergeAxes(kept, len(metas)), mergeAxes(reduced, len(metas))
	if rowLen := elementsOf(reduced); rowLen == 0 || rowLen > expr.MaxCutLen || elementsOf(kept) == 0 {
		return nil, nil
	}
	variesInRow := func(i int) bool {
		return slices.ContainsFunc(reduced, func(a axis) bool { return a.strides[i] != 0 })
	}
	uniform := make([]bool, len(ins))
	for i := range ins {
		uniform[i] = !variesInRow(len(outs) + i)
	}
	for output := range outs {
		if variesInRow(output) {
			return nil, nil
		}
	}
	piecesCode, err := code.Pieces(uniform)
	if err != nil || piecesCode.DependentFolds == 0 {
		return nil, nil //nolint:nilerr // rows of this expression cannot be cut
	}
	p := &Pieces{code: piecesCode, outCount: len(outs)}
	return p, p.build(metas, kept, reduced, direction)
}

// build cuts the reduced axes and makes the plans.
func (p *Pieces) build(metas []tensor.Meta, kept, reduced []axis, direction Direction) (err error) {
	cut := p.cutReduced(reduced)
	p.firstIndex = cut.firstIndices()
	rows, piecesPerRow := elementsOf(kept), cut.piecesPerRow()
	for _, output := range p.code.PieceCode.Out {
		p.partialOffsets = append(p.partialOffsets, p.partialBytes)
		p.partialBytes += (rows*piecesPerRow*output.DType.Size() + tensor.Align - 1) &^ (tensor.Align - 1)
	}
	layout := pieceLayout{pieces: p, metas: metas, kept: kept, cut: cut, piecesPerRow: piecesPerRow}
	wholePieces, remainder := cut.axis.length/cut.length, cut.axis.length%cut.length
	equalPieces, err := layout.planPieces(wholePieces, cut.length, direction)
	if err != nil {
		return err
	}
	p.piecePlans = []piecePlan{{Plan: equalPieces}}
	if remainder > 0 {
		offsets := layout.lastPieceOffsets(wholePieces, wholePieces*cut.length, cut.axis.strides)
		const lastPieceCount = 1 // for each position along the outer axes
		lastPieces, err := layout.planPieces(lastPieceCount, remainder, direction)
		if err != nil {
			return err
		}
		p.piecePlans = append(p.piecePlans, piecePlan{lastPieces, offsets})
	}
	for _, plan := range p.piecePlans {
		p.piecePhases = max(p.piecePhases, plan.Phases())
	}
	p.joinPlan, err = layout.planJoin(direction)
	return err
}

// rowCut is the division of the reduced axes into pieces. The first reduced axis has the smallest strides. A piece has
// all positions along the inner axes, `length` positions along the cut axis, and one position along the outer axes. For
// example, a row of 10,000 elements along one axis has two pieces of 4096 elements and a shorter piece of 1808.
type rowCut struct {
	inner, outer  []axis // the reduced axes before and after the cut axis
	axis          axis   // the cut axis
	length        int    // positions of a piece along the cut axis
	innerElements int    // number of positions along the inner axes
}

// cutReduced chooses the cut axis, and the length of pieces along it.
func (p *Pieces) cutReduced(reduced []axis) rowCut {
	innerElements, cutIndex := 1, 0
	for cutIndex < len(reduced)-1 && innerElements*reduced[cutIndex].length <= maxPieceElements {
		innerElements *= reduced[cutIndex].length
		cutIndex++
	}
	cutAxis := reduced[cutIndex]
	length := min(max(1, maxPieceElements/innerElements), cutAxis.length)
	if innerElements >= minColumnElements && p.isCloserAlong(cutAxis, reduced[0]) {
		length = 1 // adjacent pieces are columns, along which loops read adjacent memory
	}
	return rowCut{inner: reduced[:cutIndex], outer: reduced[cutIndex+1:], axis: cutAxis, length: length,
		innerElements: innerElements}
}

// isCloserAlong reports whether consecutive elements of an operand are closer in memory along axis a than along axis b.
// The operand is the first one that varies along both axes.
func (p *Pieces) isCloserAlong(a, b axis) bool {
	for i, stride := range a.strides[p.outCount:] {
		if other := b.strides[p.outCount+i]; stride != 0 && other != 0 {
			return max(stride, -stride) < max(other, -other)
		}
	}
	return false
}

// piecesAlongAxis returns the number of pieces along the cut axis, including a shorter piece at its end.
func (c *rowCut) piecesAlongAxis() int { return (c.axis.length + c.length - 1) / c.length }

// piecesPerRow returns the number of pieces of a row.
func (c *rowCut) piecesPerRow() int { return c.piecesAlongAxis() * elementsOf(c.outer) }

// firstIndices returns the index in the row of the first element of each piece.
func (c *rowCut) firstIndices() (indices []int32) {
	for piece := range c.piecesPerRow() {
		outerPosition, cutPosition := piece/c.piecesAlongAxis(), piece%c.piecesAlongAxis()*c.length
		indices = append(indices, int32((outerPosition*c.axis.length+cutPosition)*c.innerElements))
	}
	return indices
}

// Phases returns the number of phases, as [Plan.Phases] does.
func (p *Pieces) Phases() int { return p.piecePhases + p.joinPlan.Phases() }

// Chunks returns the number of chunks of a phase, as [Plan.Chunks] does.
func (p *Pieces) Chunks(phase int) (count int) {
	if phase >= p.piecePhases {
		return p.joinPlan.chunksOrZero(phase - p.piecePhases)
	}
	for _, plan := range p.piecePlans {
		count += plan.chunksOrZero(phase)
	}
	return count
}

// chunksOrZero is Chunks, or 0 if the plan has no such phase.
func (p *Plan) chunksOrZero(phase int) int {
	if phase >= p.Phases() {
		return 0
	}
	return p.Chunks(phase)
}

// Scratch returns the size in bytes of the memory that all chunks share, as [Plan.Scratch] does. The results of pieces
// come first. Then follows the scratch memory of the plans: piecePlans run at the same time, joinPlan later.
func (p *Pieces) Scratch() int {
	pieceBytes := 0
	for _, plan := range p.piecePlans {
		pieceBytes += plan.Scratch()
	}
	return p.partialBytes + max(pieceBytes, p.joinPlan.Scratch())
}

// WorkerScratch returns the size in bytes of the memory of each worker, as [Plan.WorkerScratch] does.
func (p *Pieces) WorkerScratch() int {
	bytes := p.joinPlan.WorkerScratch()
	for _, plan := range p.piecePlans {
		bytes = max(bytes, plan.WorkerScratch())
	}
	return bytes
}

// ElementNS estimates the time in nanoseconds to process one element, as [Plan.ElementNS] does.
func (p *Pieces) ElementNS() (ns float64) {
	if !p.Compiled() {
		return 0
	}
	pieces := p.piecePlans[0] // of equal size
	return pieces.ElementNS() + p.joinPlan.ElementNS()/float64(pieces.rowLen)
}

// Compiled reports whether all loops are machine code.
func (p *Pieces) Compiled() bool {
	isCompiled := p.joinPlan.Compiled()
	for _, plan := range p.piecePlans {
		isCompiled = isCompiled && plan.Compiled()
	}
	return isCompiled
}

// InPlace returns nil, because outputs have one element for each row.
func (p *Pieces) InPlace() [][2]int { return nil }

// Listings describes the code of all loops.
func (p *Pieces) Listings() (list []expr.Listing) {
	add := func(plan *Plan, name string) {
		for _, listing := range plan.Listings() {
			listing.Name = name + ": " + listing.Name
			list = append(list, listing)
		}
	}
	for k, plan := range p.piecePlans {
		add(plan.Plan, fmt.Sprintf("%s of %d elements", [2]string{"pieces", "shorter pieces"}[k], plan.rowLen))
	}
	add(p.joinPlan, "pieces combined")
	return list
}

// Run runs a chunk of a phase, as [Plan.Run] does.
func (p *Pieces) Run(state *State, phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error {
	operands := len(p.code.PieceCode.In) - 1 // without the first indices of pieces
	switch {
	case phase < 0 || phase >= p.Phases() || chunk < 0 || chunk >= p.Chunks(phase):
		return fmt.Errorf("rowprog: phase %d has no chunk %d", phase, chunk)
	case len(ptrs) < p.outCount+operands:
		return fmt.Errorf("rowprog: there are %d addresses for %d outputs and operands", len(ptrs), p.outCount+operands)
	case len(scratch) < p.Scratch():
		return fmt.Errorf("rowprog: the scratch memory has %d bytes instead of %d", len(scratch), p.Scratch())
	}
	defer func() { clear(state.piecePtrs) }() // keeps no address of an operand
	planScratch := scratch[p.partialBytes:]
	if phase >= p.piecePhases {
		p.setJoinPtrs(state, ptrs, scratch)
		return p.joinPlan.Run(state, phase-p.piecePhases, chunk, state.piecePtrs, planScratch, worker)
	}
	p.setPiecePtrs(state, ptrs[p.outCount:p.outCount+operands], scratch)
	plan := &p.piecePlans[0]
	if chunks := plan.chunksOrZero(phase); chunk >= chunks {
		planScratch, chunk = planScratch[plan.Scratch():], chunk-chunks
		plan = &p.piecePlans[1]
	}
	for i, offset := range plan.offsets {
		state.piecePtrs[i] = unsafe.Add(state.piecePtrs[i], offset)
	}
	return plan.Run(state, phase, chunk, state.piecePtrs, planScratch, worker)
}

// setPiecePtrs sets state.piecePtrs to the addresses for the plans of pieces: the results of folds in scratch memory,
// the operands, and the first indices of pieces.
func (p *Pieces) setPiecePtrs(state *State, operands []unsafe.Pointer, scratch []byte) {
	state.piecePtrs = p.appendPartials(state.piecePtrs[:0], scratch)
	state.piecePtrs = append(state.piecePtrs, operands...)
	state.piecePtrs = append(state.piecePtrs, unsafe.Pointer(unsafe.SliceData(p.firstIndex)))
}

// setJoinPtrs sets state.piecePtrs to the addresses for joinPlan: the outputs, the results of folds in scratch memory,
// and the operands that the combination reads. ptrs are the addresses of outputs and operands.
func (p *Pieces) setJoinPtrs(state *State, ptrs []unsafe.Pointer, scratch []byte) {
	state.piecePtrs = append(state.piecePtrs[:0], ptrs[:p.outCount]...)
	state.piecePtrs = p.appendPartials(state.piecePtrs, scratch)
	for _, i := range p.code.In {
		state.piecePtrs = append(state.piecePtrs, ptrs[p.outCount+i])
	}
}

// appendPartials appends the addresses of the results of folds in scratch memory.
func (p *Pieces) appendPartials(ptrs []unsafe.Pointer, scratch []byte) []unsafe.Pointer {
	for _, offset := range p.partialOffsets {
		ptrs = append(ptrs, unsafe.Pointer(&scratch[offset]))
	}
	return ptrs
}
