package gemm

import "github.com/graphrun/graphrun/internal/machine"

// This file computes tiny and empty products by plain strided loops (pathSimple), without packing.

const (
	// simpleMACs is the number of multiplications up to which plain strided loops are faster than packing.
	simpleMACs = 512
	// storeTileElems is the number of elements of a tile that only stores zeros or the bias, because K is 0.
	storeTileElems = machine.MoveGrain / 2
)

// planSimple schedules strided loops. There is one tile. A product with K = 0, however, has a tile for each group of
// rows.
func (p *Plan) planSimple() {
	spec := &p.spec
	p.path, p.maxSuperBlockTerms = pathSimple, spec.K
	p.tileRows, p.tileCols, p.mTiles, p.nTiles = max(1, spec.M), max(1, spec.N), 1, 1
	if spec.M == 0 || spec.N == 0 {
		p.mTiles = 0
		return
	}
	if spec.K == 0 {
		p.tileRows = max(1, storeTileElems/spec.N)
		p.mTiles = ceilDiv(spec.M, p.tileRows)
	}
}

// runSimple computes C[i0:i1, j0:j1] with strided loops.
func (x *execution) runSimple(i0, i1, j0, j1 int) {
	spec := &x.spec
	operandA, operandB := spec.A, spec.B
	if spec.K == 0 { // the operands may be nil, so the code must not compute addresses in them
		operandA.RowStride, operandA.ColStride, operandB.RowStride, operandB.ColStride = 0, 0, 0, 0
	}
	maxRows, maxCols, maxTerms := simplePartSizes(i1-i0, j1-j0, max(spec.K, 1))
	for i := i0; i < i1; i += maxRows {
		rows := min(maxRows, i1-i)
		for j := j0; j < j1; j += maxCols {
			cols, bias, accumulate := min(maxCols, j1-j), x.biasAt(i, j), spec.Accumulate
			for k := 0; k == 0 || k < spec.K; k += maxTerms { // one iteration if K is 0
				partA := x.elem(x.memoryA.operand, i*operandA.RowStride+k*operandA.ColStride)
				partB := x.elem(x.memoryB.operand, j*operandB.ColStride+k*operandB.RowStride)
				a := matrix{partA, operandA.RowStride, operandA.ColStride}
				b := matrix{partB, operandB.RowStride, operandB.ColStride}
				x.kernels.product(rows, cols, min(maxTerms, spec.K-k), a, b, x.result(i, j), bias, accumulate)
				bias, accumulate = matrix{}, true // later parts add to the results of the first part
				x.countMACs(rows * cols * maxTerms)
			}
		}
	}
}

// simplePartSizes returns the maximum sizes of the parts into which runSimple divides a product. A part has at most
// checkMACs multiplications, which is the number between two calls of Args.Check.
func simplePartSizes(rows, cols, terms int) (maxRows, maxCols, maxTerms int) {
	if terms <= checkMACs/cols/rows {
		return rows, cols, terms
	}
	maxTerms = min(terms, checkMACs)
	maxCols = min(cols, max(1, checkMACs/maxTerms))
	maxRows = min(rows, max(1, checkMACs/maxTerms/maxCols))
	return maxRows, maxCols, maxTerms
}

// result returns the part of C that begins at (i, j).
func (x *execution) result(i, j int) matrix {
	spec := &x.spec
	return matrix{x.elem(x.ptrC, i*spec.CRowStride+j*spec.CColStride), spec.CRowStride, spec.CColStride}
}

// biasAt returns the bias of the part of C that begins at (i, j), as a matrix. The stride of this matrix is 0 along the
// dimension in which the bias is constant. Its address is nil if there is no bias.
func (x *execution) biasAt(i, j int) matrix {
	switch spec := &x.spec; spec.Bias {
	case BiasRows:
		return matrix{x.elem(x.bias, i*spec.BiasStride), spec.BiasStride, 0}
	case BiasCols:
		return matrix{x.elem(x.bias, j*spec.BiasStride), 0, spec.BiasStride}
	}
	return matrix{}
}
