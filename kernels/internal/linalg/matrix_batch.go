package linalg

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file describes where the matrices of a call are in memory, and loads and stores them. A task is the computation
// for one index of the batch (define.go).

// batchedCall is a call whose operands and results are described as batches of matrices.
type batchedCall struct {
	call    *graph.Call
	in, out []matrixBatch // operands and results
	batch   []int         // shape of the batch, to which the batches of operands and results are broadcast
}

// newBatchedCall describes a call with the given operands and results.
func (a *algorithm) newBatchedCall(c *graph.Call, operands, results []tensor.Meta) *batchedCall {
	batched := &batchedCall{call: c}
	inRanks, outRanks := a.ranks(c)
	for i, rank := range outRanks { // the first result with batch dimensions has the batch of the call
		if batchRank := results[i].Rank() - rank; batchRank >= 0 && len(batched.batch) == 0 {
			batched.batch = results[i].Shape[:batchRank]
		}
	}
	for i, rank := range outRanks {
		batched.out = append(batched.out, newMatrixBatch(results[i], rank, len(batched.batch)))
	}
	for i, rank := range inRanks {
		batched.in = append(batched.in, newMatrixBatch(operands[i], rank, len(batched.batch)))
	}
	return batched
}

// matrixBatch describes an operand or a result: its batch of matrices, and the layout of a matrix. A step is the
// distance of adjacent rows, columns or indices of the batch in bytes.
type matrixBatch struct {
	dtype      tensor.DType
	rows, cols int   // sizes of a matrix
	rowStep    int   // step between rows
	colStep    int   // step between columns
	batchSteps []int // steps along the dimensions of the batch; 0 along dimensions that are broadcast
}

// newMatrixBatch describes an operand or a result with the given meta. rank is the number of dimensions that do not
// belong to the batch. batchRank is the number of dimensions of the batch of the call, to which this batch is
// broadcast. If the attributes of the call do not request a result, it is a vector without elements, and rank may
// exceed its rank; the matrices then are empty.
func newMatrixBatch(meta tensor.Meta, rank, batchRank int) matrixBatch {
	result := matrixBatch{dtype: meta.DType, batchSteps: make([]int, batchRank)}
	thisBatchRank := meta.Rank() - rank // number of dimensions of this batch
	if thisBatchRank < 0 {
		return result
	}
	result.rows, result.cols = 1, 1
	if rank > 0 {
		result.rows, result.rowStep = meta.Shape[thisBatchRank], kit.ByteStride(meta, thisBatchRank)
	}
	if rank > 1 {
		result.cols, result.colStep = meta.Shape[thisBatchRank+1], kit.ByteStride(meta, thisBatchRank+1)
	}
	for dim := range thisBatchRank { // batch dimensions are aligned at the last one
		if meta.Shape[dim] != 1 {
			result.batchSteps[batchRank-thisBatchRank+dim] = kit.ByteStride(meta, dim)
		}
	}
	return result
}

// offset returns the offset in bytes of the matrix at an index of the batch.
func (p *matrixBatch) offset(batch []int, index int) (offset int) {
	for dim := len(batch) - 1; dim >= 0; dim-- {
		offset += index % batch[dim] * p.batchSteps[dim]
		index /= batch[dim]
	}
	return offset
}

// isStored reports whether the task at an index of the batch stores the result p. If p is broadcast along a dimension
// of the batch, only tasks with index 0 along this dimension store it: info of linalg_solve_ex has only the batch of A.
func (p *matrixBatch) isStored(batch []int, index int) bool {
	for dim := len(batch) - 1; dim >= 0; dim-- {
		if index%batch[dim] != 0 && p.batchSteps[dim] == 0 {
			return false
		}
		index /= batch[dim]
	}
	return true
}

// loadMatrix returns a copy of the matrix of source that begins at an address.
func loadMatrix[T number](taskSolver *solver[T], source *matrixBatch, address unsafe.Pointer) matrix[T] {
	operand := taskSolver.zeros(source.rows, source.cols)
	if len(operand.elements) == 0 {
		return operand
	}
	load := tensor.Converter(taskSolver.dtype, source.dtype)
	for j := range source.cols {
		load(unsafe.Pointer(&operand.column(j)[0]), unsafe.Add(address, j*source.colStep), int(unsafe.Sizeof(T(0))),
			source.rowStep, source.rows)
		taskSolver.checkContextAfter(source.rows)
	}
	return operand
}

// storeMatrix stores a result in the matrix of target that begins at an address.
func storeMatrix[T number](taskSolver *solver[T], target *matrixBatch, result matrix[T], address unsafe.Pointer) {
	if len(result.elements) == 0 {
		return
	}
	store := tensor.Converter(target.dtype, taskSolver.dtype)
	for j := range target.cols {
		store(unsafe.Add(address, j*target.colStep), unsafe.Pointer(&result.column(j)[0]), target.rowStep,
			int(unsafe.Sizeof(T(0))), target.rows)
		taskSolver.checkContextAfter(target.rows)
	}
}
