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
	equalPieces    *Plan        // processes the pieces of equal size
	lastPieces     *Plan        // processes the shorter pieces at the ends of rows; nil if there are none
	joinPlan       *Plan        // combines the results of pieces
	lastOffsets    []int        // by output and operand of lastPieces: byte offset of the first shorter piece
	firstIndex     []int32      // by piece: the index of its first element in the row
	partialOffsets []int        // by fold: byte offset in scratch memory of its results, by row and piece
	partialBytes   int          // size in bytes of the results of all folds
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
	if p.equalPieces, err = layout.planPieces(wholePieces, cut.length, direction); err != nil {
		return err
	}
	if remainder > 0 {
		p.lastOffsets = layout.lastPieceOffsets(wholePieces, wholePieces*cut.length, cut.axis.strides)
		if p.lastPieces, err = layout.planPieces(1, remainder, direction); err != nil {
			return err
		}
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

// pieceLayout builds the metas of the plans for pieces. The outputs of such a plan are in scratch memory: the results
// of each fold, for each row and piece. Its operands are the operands of the expression, and the first index of each
// piece.
type pieceLayout struct {
	pieces       *Pieces
	metas        []tensor.Meta // outputs and operands of the expression
	kept         []axis
	cut          rowCut
	piecesPerRow int

	// The plan under construction.
	outs, ins []tensor.Meta
	mask      []bool // the reduced dimensions
}

// planPieces plans pieces with `length` positions along the cut axis. There are pieceCount such pieces for each
// position along the outer axes. Pieces are the rows of this plan: the outer axes and the index of a piece are kept
// dimensions. For 5 rows of 10,000 elements (see rowCut), the plan of the equal pieces has the shape [5, 2, 4096], and
// the results of a fold have the shape [5, 2, 1] and the strides [3, 1, 0], because a row has 3 pieces.
func (l *pieceLayout) planPieces(pieceCount, length int, direction Direction) (*Plan, error) {
	cut := &l.cut
	l.reset()
	for i, outer := range slices.Backward(cut.outer) {
		pieces := cut.piecesAlongAxis() * elementsOf(cut.outer[:i]) // from one position along the axis to the next
		l.addPieceDim(pieceDim{axis: outer, step: 1, partialStride: pieces, indexStride: pieces})
	}
	l.addPieceDim(pieceDim{axis: axis{length: pieceCount, strides: cut.axis.strides}, step: cut.length,
		partialStride: 1, indexStride: 1})
	l.addPieceDim(pieceDim{axis: axis{length: length, strides: cut.axis.strides}, step: 1, isReduced: true})
	for _, inner := range slices.Backward(cut.inner) {
		l.addPieceDim(pieceDim{axis: inner, step: 1, isReduced: true})
	}
	return New(l.pieces.code.PieceCode, l.outs, l.ins, l.mask, direction)
}

// reset sets the metas of the plan for pieces to the kept axes.
func (l *pieceLayout) reset() {
	l.outs, l.ins, l.mask = nil, nil, nil
	for _, output := range l.pieces.code.PieceCode.Out {
		l.outs = append(l.outs, tensor.Meta{DType: output.DType})
	}
	for _, meta := range l.metas[l.pieces.outCount:] {
		l.ins = append(l.ins, tensor.Meta{DType: meta.DType})
	}
	l.ins = append(l.ins, tensor.Meta{DType: tensor.Int32})
	const indexStride = 0 // all rows have the same first indices
	for d, keptAxis := range slices.Backward(l.kept) {
		l.addPieceDim(pieceDim{axis: keptAxis, step: 1, partialStride: l.piecesPerRow * elementsOf(l.kept[:d]),
			indexStride: indexStride})
	}
}

// pieceDim is a dimension of a plan for pieces. partialStride and indexStride are in elements, and 0 if the dimension
// is reduced.
type pieceDim struct {
	axis          axis // its length, and the strides of the outputs and operands of the expression
	step          int  // distance between the positions of the dimension, in positions of the axis
	partialStride int  // stride of the results of folds
	indexStride   int  // stride of the first indices of pieces
	isReduced     bool
}

// addPieceDim adds a dimension to all metas.
func (l *pieceLayout) addPieceDim(dim pieceDim) {
	l.mask = append(l.mask, dim.isReduced)
	for i := range l.outs {
		addDim(&l.outs[i], dim.axis.length, dim.partialStride)
		if dim.isReduced {
			l.outs[i].Shape[len(l.mask)-1] = 1
		}
	}
	last := len(l.ins) - 1
	for i := range l.ins[:last] {
		stride := dim.axis.strides[l.pieces.outCount+i] * dim.step
		addDim(&l.ins[i], dim.axis.length, stride/l.ins[i].DType.Size())
	}
	addDim(&l.ins[last], dim.axis.length, dim.indexStride)
}

// addDim adds a dimension to a layout.
func addDim(meta *tensor.Meta, size, stride int) {
	meta.Shape, meta.Strides = append(meta.Shape, size), append(meta.Strides, stride)
}

// lastPieceOffsets returns the byte offset of the first shorter piece in each output and operand of the plan
// lastPieces. This piece follows `pieces` elements of the outputs and of the first indices, and `positions` positions
// of the operands along the cut axis. strides are the strides of the cut axis in bytes.
func (l *pieceLayout) lastPieceOffsets(pieces, positions int, strides []int) (bytes []int) {
	for _, output := range l.outs {
		bytes = append(bytes, pieces*output.DType.Size())
	}
	for _, stride := range strides[l.pieces.outCount:] {
		bytes = append(bytes, positions*stride)
	}
	return append(bytes, pieces*tensor.Int32.Size())
}

// planJoin plans the combination of the results of pieces into the outputs. For 5 rows of 3 pieces, the plan has the
// shape [5, 3], whose last dimension is reduced.
func (l *pieceLayout) planJoin(direction Direction) (*Plan, error) {
	code, outCount := l.pieces.code, l.pieces.outCount
	var outs, ins []tensor.Meta
	for _, meta := range l.metas[:outCount] {
		outs = append(outs, tensor.Meta{DType: meta.DType})
	}
	for _, dtype := range code.Join.In {
		ins = append(ins, tensor.Meta{DType: dtype})
	}
	foldCount := len(code.PieceCode.Out)
	// add adds a dimension. partialStride is the stride of the results of pieces, in elements. strideOf returns the
	// stride of an output or operand of the expression, in bytes.
	add := func(length, partialStride int, strideOf func(i int) int) {
		for i := range outs {
			addDim(&outs[i], length, strideOf(i)/outs[i].DType.Size())
		}
		for i := range ins {
			if i < foldCount {
				addDim(&ins[i], length, partialStride)
				continue
			}
			operand := outCount + code.In[i-foldCount] // of the expression, after the outputs
			addDim(&ins[i], length, strideOf(operand)/ins[i].DType.Size())
		}
	}
	for d, keptAxis := range slices.Backward(l.kept) {
		add(keptAxis.length, l.piecesPerRow*elementsOf(l.kept[:d]), func(i int) int { return keptAxis.strides[i] })
	}
	add(l.piecesPerRow, 1, func(int) int { return 0 })
	mask := make([]bool, len(l.kept)+1)
	mask[len(l.kept)] = true
	return New(code.Join, outs, ins, mask, direction)
}

// phasePlans returns the plans that run in a phase of p, and the number of the phase in these plans. The plans for
// pieces run in the first phases, and the plan that combines the results runs in the later phases. second may be nil.
func (p *Pieces) phasePlans(phase int) (first, second *Plan, planPhase int) {
	piecePhases := p.equalPieces.Phases()
	if p.lastPieces != nil {
		piecePhases = max(piecePhases, p.lastPieces.Phases())
	}
	if phase >= piecePhases {
		return p.joinPlan, nil, phase - piecePhases
	}
	return p.equalPieces, p.lastPieces, phase
}

// Phases returns the number of phases, as [Plan.Phases] does.
func (p *Pieces) Phases() int {
	phases := p.equalPieces.Phases()
	if p.lastPieces != nil {
		phases = max(phases, p.lastPieces.Phases())
	}
	return phases + p.joinPlan.Phases()
}

// Chunks returns the number of chunks of a phase, as [Plan.Chunks] does.
func (p *Pieces) Chunks(phase int) int {
	first, second, planPhase := p.phasePlans(phase)
	return first.chunksOrZero(planPhase) + second.chunksOrZero(planPhase)
}

// chunksOrZero is Chunks, or 0 if the plan is nil or has no such phase.
func (p *Plan) chunksOrZero(phase int) int {
	if p == nil || phase >= p.Phases() {
		return 0
	}
	return p.Chunks(phase)
}

// Scratch returns the size in bytes of the memory that all chunks share, as [Plan.Scratch] does. The results of pieces
// come first. Then follows the scratch memory of the plans: equalPieces and lastPieces run at the same time, joinPlan
// later.
func (p *Pieces) Scratch() int {
	bytes := p.partialBytes + max(p.equalPieces.Scratch(), p.joinPlan.Scratch())
	if p.lastPieces != nil {
		bytes += p.lastPieces.Scratch()
	}
	return bytes
}

// WorkerScratch returns the size in bytes of the memory of each worker, as [Plan.WorkerScratch] does.
func (p *Pieces) WorkerScratch() int {
	bytes := max(p.equalPieces.WorkerScratch(), p.joinPlan.WorkerScratch())
	if p.lastPieces != nil {
		bytes = max(bytes, p.lastPieces.WorkerScratch())
	}
	return bytes
}

// ElementNS estimates the time in nanoseconds to process one element, as [Plan.ElementNS] does.
func (p *Pieces) ElementNS() (ns float64) {
	if !p.Compiled() {
		return 0
	}
	return p.equalPieces.ElementNS() + p.joinPlan.ElementNS()/float64(p.equalPieces.rowLen)
}

// Compiled reports whether all loops are machine code.
func (p *Pieces) Compiled() bool {
	return p.equalPieces.Compiled() && p.joinPlan.Compiled() && (p.lastPieces == nil || p.lastPieces.Compiled())
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
	add(p.equalPieces, fmt.Sprintf("pieces of %d elements", p.equalPieces.rowLen))
	if p.lastPieces != nil {
		add(p.lastPieces, fmt.Sprintf("shorter pieces of %d elements", p.lastPieces.rowLen))
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
	first, second, planPhase := p.phasePlans(phase)
	planScratch := scratch[p.partialBytes:]
	if first == p.joinPlan {
		p.setJoinPtrs(state, ptrs, scratch)
		return first.Run(state, planPhase, chunk, state.piecePtrs, planScratch, worker)
	}
	p.setPiecePtrs(state, ptrs[p.outCount:p.outCount+operands], scratch)
	if firstChunks := first.chunksOrZero(planPhase); chunk >= firstChunks {
		for i, offset := range p.lastOffsets {
			state.piecePtrs[i] = unsafe.Add(state.piecePtrs[i], offset)
		}
		return second.Run(state, planPhase, chunk-firstChunks, state.piecePtrs, planScratch[first.Scratch():], worker)
	}
	return first.Run(state, planPhase, chunk, state.piecePtrs, planScratch, worker)
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
