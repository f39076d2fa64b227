package rowprog

import (
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// pieceLayout builds the metas of the plans for pieces, the parts of long rows ([Pieces]). The outputs of such a plan
// are in scratch memory: the results of each fold, for each row and piece. Its operands are the operands of the
// expression, and the first index of each piece.
type pieceLayout struct {
	pieces       *Pieces
	metas        []tensor.Meta // outputs and operands of the expression
	kept         []axis        // the kept axes, along which there is a row for each position
	cut          rowCut        // how a row is cut: along an axis between the inner and the outer reduced axes
	piecesPerRow int

	// The plan under construction.
	outs, ins []tensor.Meta
	mask      []bool // the reduced dimensions
}

// planPieces plans pieces with `length` positions along the cut axis. There are pieceCount such pieces for each
// position along the outer axes. Pieces are the rows of this plan: the outer axes and the index of a piece are kept
// dimensions. For example, 5 rows of 10,000 elements have two pieces of 4096 elements and one of 1808 each. The plan of
// the equal pieces has the shape [5, 2, 4096], and the results of a fold have the shape [5, 2, 1] and the strides
// [3, 1, 0], because a row has 3 pieces.
func (l *pieceLayout) planPieces(pieceCount, length int, direction Direction) (*Plan, error) {
	cut := &l.cut
	l.reset()
	for i, outer := range slices.Backward(cut.outer) {
		stride := cut.piecesAlongAxis() * elementsOf(cut.outer[:i]) // pieces between neighbours along the axis
		l.addPieceDim(pieceDim{axis: outer, step: 1, partialStride: stride, indexStride: stride})
	}
	// The cut axis becomes two dimensions: the pieces, and the positions of a piece.
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
	l.ins = append(l.ins, tensor.Meta{DType: tensor.Int32}) // the first indices of pieces

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

// lastPieceOffsets returns the byte offset of the first shorter piece in each output and operand of the plan for
// shorter pieces. This piece follows `pieces` elements of the outputs and of the first indices, and `positions`
// positions of the operands along the cut axis. strides are the strides of the cut axis in bytes.
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
	// The results of the pieces of a row are adjacent. The outputs and the other operands have one element for each
	// row.
	const adjacent = 1
	add(l.piecesPerRow, adjacent, func(int) int { return 0 })
	mask := make([]bool, len(l.kept)+1)
	mask[len(l.kept)] = true
	return New(code.Join, outs, ins, mask, direction)
}
