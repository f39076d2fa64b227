package fusion

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/tensor"
)

// ScoreRows computes the weights of an attention from a block of consecutive rows of scores. Scores are the products of
// queries and keys, and the weights multiply the values. With a mask, for example, a row of weights is
//
//	weights[row, :] = softmax(scores[row, :] + mask[row, :])
//
// This expression is the row program (Code of [graph.Attention]), and mask is one of the other operands (Others).
// ScoreRows may be used by several goroutines.
type ScoreRows struct {
	plan        *rowprog.Plan             // of the row program, the expression that computes a row of weights
	inPlace     bool                      // weights overwrite the scores
	operands    []scoreOperand            // the operands of the attention after query, key and value
	weightBytes int                       // bytes of the weights if they do not overwrite the scores, else 0
	state       graph.PerWorker[rowState] // addresses of outputs and operands, and the state of the plan
}

// scoreOperand describes the memory of an operand of the row program.
type scoreOperand struct {
	matrixOffsets []int // byte offset of each matrix of the batch
	rowStride     int   // stride of rows in bytes
}

// scoreOperandOf returns the scoreOperand for offsets and a stride in elements.
func scoreOperandOf(matrixOffsets []int, rowStride, elementBytes int) scoreOperand {
	byteOffsets := make([]int, len(matrixOffsets))
	for i, offset := range matrixOffsets {
		byteOffsets[i] = offset * elementBytes
	}
	return scoreOperand{matrixOffsets: byteOffsets, rowStride: rowStride * elementBytes}
}

// NewScoreRows prepares the row program of an attention for blocks of scores. A block consists of the given number of
// rows from each of `matrices` consecutive matrices of the batch. rowStride and colStride are the strides of the scores
// between rows and between columns, in elements. One of the two strides must be 1. Inner loops run along the dimension
// of stride 1. The first row of a matrix is rowStride after the last row of the previous matrix. If matrices > 1,
// consecutive matrices of each operand in a.Others must have a constant distance in memory. NewScoreRows does not check
// this.
func NewScoreRows(a *graph.Attention, matrices, rows, rowStride, colStride int) (*ScoreRows, error) {
	if a == nil || a.Code == nil || matrices <= 0 || rows <= 0 || rowStride != 1 && colStride != 1 {
		return nil, errors.New("an attention needs code, rows, and scores that are contiguous along rows or columns")
	}
	_, keys, _, _ := a.Sizes() // a row has a score for each key
	block := func(dtype tensor.DType, matrixStride, rowStride, colStride int) tensor.Meta {
		return tensor.Meta{DType: dtype, Shape: []int{matrices, rows, keys},
			Strides: []int{matrixStride, rowStride, colStride}}
	}
	r := &ScoreRows{}
	outs := []tensor.Meta{block(a.Code.Out[0].DType, rows*rowStride, rowStride, colStride)}
	ins := []tensor.Meta{block(a.Code.In[0], rows*rowStride, rowStride, colStride)}
	direction := rowprog.ByRows
	if rowStride == 1 {
		direction = rowprog.ByColumns
	}
	rank := len(a.Batch) // the dimensions of the batch precede rows and columns
	for _, meta := range a.Others {
		operandRowStride, operandColStride := meta.Strides[rank], meta.Strides[rank+1]
		offsets := a.Entries(meta) // the offset of each matrix of the batch, in elements
		matrixStride := 0          // distance of these offsets
		if matrices > 1 && len(offsets) > 1 {
			matrixStride = offsets[1] - offsets[0]
		}
		ins = append(ins, block(meta.DType, matrixStride, operandRowStride, operandColStride))
		r.operands = append(r.operands, scoreOperandOf(offsets, operandRowStride, meta.DType.Size()))
	}
	reduced := []bool{false, false, true} // folds are over the keys
	var err error
	if r.plan, err = rowprog.New(a.Code, outs, ins, reduced, direction); err != nil {
		return nil, err
	}
	r.inPlace = slices.Contains(r.plan.InPlace(), [2]int{0, 0}) // output 0, the weights, may overwrite operand 0
	if !r.inPlace {
		r.weightBytes = outs[0].Extent() * outs[0].DType.Size()
	}
	return r, nil
}

// Bytes returns the size of the memory that [ScoreRows.Weigh] needs.
func (r *ScoreRows) Bytes() int {
	if r == nil || r.plan == nil {
		return 0
	}
	// Scratch is shared by the chunks of a run. One worker runs all chunks, and needs WorkerScratch once.
	return align(r.plan.WorkerScratch()) + align(r.plan.Scratch()) + align(r.weightBytes)
}

// align rounds a size in bytes up to whole cache lines of 64 bytes.
func align(bytes int) int { return (bytes + 63) &^ 63 }

// FoldOrder describes the order in which the row program folds: see FoldOrder of [graph.Kernel].
func (r *ScoreRows) FoldOrder() string {
	if r == nil || r.plan == nil {
		return ""
	}
	return r.plan.FoldOrder()
}

// Listings returns descriptions of the code of all loops, in the order in which the loops run.
func (r *ScoreRows) Listings() []expr.Listing {
	if r == nil || r.plan == nil {
		return nil
	}
	return r.plan.Listings()
}

// Weigh computes the weights of a block of scores. The block starts at the given row of the given matrix of the batch.
// Weigh returns the address of the weights, which is `scores` or an address in `memory`. memory must be 64-byte aligned
// and have [ScoreRows.Bytes] bytes. Addresses are not checked.
func (r *ScoreRows) Weigh(m *graph.Mem, scores unsafe.Pointer, matrix, row int, memory []byte) (unsafe.Pointer, error) {
	weights := scores
	if !r.inPlace {
		weights = unsafe.Pointer(unsafe.SliceData(memory))
		memory = memory[align(r.weightBytes):]
	}
	state := r.state.Get(m)
	state.ptrs = append(state.ptrs[:0], weights, scores)
	others := m.Ptrs[1+productOperandCount:] // after the result, query, key and value
	for i, operand := range r.operands {
		state.ptrs = append(state.ptrs, unsafe.Add(others[i], operand.matrixOffsets[matrix]+row*operand.rowStride))
	}
	workerScratch, scratch := memory, memory[align(r.plan.WorkerScratch()):]
	for phase := range r.plan.Phases() {
		for chunk := range r.plan.Chunks(phase) {
			state.Context = m.Context
			if err := r.plan.Run(&state.State, phase, chunk, state.ptrs, scratch, workerScratch); err != nil {
				return nil, err
			}
		}
	}
	clear(state.ptrs) // the state must not keep memory alive
	return weights, nil
}
