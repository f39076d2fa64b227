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

// ScoreRows is the row program of an attention. It computes weights from a block of contiguous rows of scores. It is
// immutable and may be used by several goroutines.
type ScoreRows struct {
	plan        *rowprog.Plan
	inPlace     bool           // weights overwrite the scores
	others      []scoreOperand // by operand of the attention after query, key and value
	weightBytes int            // bytes of the weights if they do not overwrite the scores, else 0
	state       graph.PerWorker[rowState]
}

// scoreOperand describes the memory of an operand of the row program.
type scoreOperand struct {
	matrixOffsets []int // by matrix of the batch: byte offset
	rowStride     int   // stride of rows in bytes
}

// NewScoreRows prepares the row program of an attention for n rows of scores. row and col are the strides of the scores
// between rows and between columns, in elements. One of them must be 1. Inner loops run along the dimension of stride
// 1.
func NewScoreRows(a *graph.Attention, n, row, col int) (*ScoreRows, error) {
	if a == nil || a.Code == nil || n <= 0 || row != 1 && col != 1 {
		return nil, errors.New("an attention needs code, rows, and scores that are contiguous along rows or columns")
	}
	_, s, _, _ := a.Sizes()
	block := func(d tensor.DType, row, col int) tensor.Meta {
		return tensor.Meta{DType: d, Shape: []int{n, s}, Strides: []int{row, col}}
	}
	r, rank := &ScoreRows{}, len(a.Batch)
	outs := []tensor.Meta{block(a.Code.Out[0].DType, row, col)}
	ins := []tensor.Meta{block(a.Code.In[0], row, col)}
	way := rowprog.ByRows
	if row == 1 {
		way = rowprog.ByColumns
	}
	for _, m := range a.Others {
		row, col, size := m.Strides[rank], m.Strides[rank+1], m.DType.Size()
		ins = append(ins, block(m.DType, row, col))
		r.others = append(r.others, scoreOperand{a.Entries(m), row * size})
		at := r.others[len(r.others)-1].matrixOffsets
		for i := range at {
			at[i] *= size
		}
	}
	var err error
	if r.plan, err = rowprog.New(a.Code, outs, ins, []bool{false, true}, way); err != nil {
		return nil, err
	}
	r.inPlace = slices.Contains(r.plan.InPlace(), [2]int{0, 0})
	if !r.inPlace {
		r.weightBytes = outs[0].Extent() * outs[0].DType.Size()
	}
	return r, nil
}

// Bytes returns the size of the memory that [ScoreRows.Do] needs.
func (r *ScoreRows) Bytes() int {
	if r == nil || r.plan == nil {
		return 0
	}
	return align(r.plan.Worker()) + align(r.plan.Scratch()) + align(r.weightBytes)
}

// align rounds bytes up to whole cache lines.
func align(n int) int { return (n + 63) &^ 63 }

// Listings returns the listings of the loops.
func (r *ScoreRows) Listings() []expr.Listing {
	if r == nil || r.plan == nil {
		return nil
	}
	return r.plan.Listings()
}

// Do computes the weights of a block of scores. The block starts at the given row of matrix number entry of the batch.
// Do returns the address of the weights, which is `scores` or an address in `memory`. memory must be 64-byte aligned
// and have [ScoreRows.Bytes] bytes. Addresses are not checked.
func (r *ScoreRows) Do(m *graph.Mem, scores unsafe.Pointer, entry, row int, memory []byte) (unsafe.Pointer, error) {
	weights := scores
	if !r.inPlace {
		weights = unsafe.Pointer(unsafe.SliceData(memory))
		memory = memory[align(r.weightBytes):]
	}
	s := r.state.Of(m)
	s.ptrs = append(s.ptrs[:0], weights, scores)
	for i, o := range r.others {
		s.ptrs = append(s.ptrs, unsafe.Add(m.Ptrs[4+i], o.matrixOffsets[entry]+row*o.rowStride))
	}
	worker, scratch := memory, memory[align(r.plan.Worker()):]
	for phase := range r.plan.Phases() {
		for chunk := range r.plan.Chunks(phase) {
			s.Context = m.Context
			if err := r.plan.Run(&s.State, phase, chunk, s.ptrs, scratch, worker); err != nil {
				return nil, err
			}
		}
	}
	clear(s.ptrs)
	return weights, nil
}
