package graph

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/tensor"
)

// ScoreRows are the loops of an [Attention] over some rows of scores, which lie one behind another: they make weights
// of them. It is immutable and may be used by several goroutines.
type ScoreRows struct {
	plan    *rowprog.Plan
	inPlace bool
	others  []scoreOperand
	size    int // bytes of the weights, where they have memory of their own
	state   PerWorker[rowState]
}

// scoreOperand is where an operand of loops over scores has its elements: by matrix, and from row to row, in bytes.
type scoreOperand struct {
	at  []int
	row int
}

// Rows prepares the loops for n rows of scores, with so many elements from one to the next of a row and of a column, of
// which one is 1: loops go along that.
func (a *Attention) Rows(n, row, col int) (*ScoreRows, error) {
	if a == nil || a.code == nil || n <= 0 || row != 1 && col != 1 {
		return nil, errors.New("an attention is made by passes, and its scores lie along rows or along columns")
	}
	_, s, _, _ := a.sizes()
	block := func(d tensor.DType, row, col int) tensor.Meta {
		return tensor.Meta{DType: d, Shape: []int{n, s}, Strides: []int{row, col}}
	}
	r, rank := &ScoreRows{}, len(a.Batch)
	outs := []tensor.Meta{block(a.code.Out[0].DType, row, col)}
	ins := []tensor.Meta{block(a.code.In[0], row, col)}
	way := rowprog.ByRows
	if row == 1 {
		way = rowprog.ByColumns
	}
	for _, m := range a.others {
		row, col, size := m.Strides[rank], m.Strides[rank+1], m.DType.Size()
		ins = append(ins, block(m.DType, row, col))
		r.others = append(r.others, scoreOperand{a.Entries(m), row * size})
		at := r.others[len(r.others)-1].at
		for i := range at {
			at[i] *= size
		}
	}
	var err error
	if r.plan, err = rowprog.New(a.code, outs, ins, []bool{false, true}, way); err != nil {
		return nil, err
	}
	r.inPlace = slices.Contains(r.plan.InPlace(), [2]int{0, 0})
	if !r.inPlace {
		r.size = outs[0].Extent() * outs[0].DType.Size()
	}
	return r, nil
}

// Entries returns the offset, in elements, of every matrix of an operand or a result of the call, in row-major order of
// the batch; nil for what is none.
func (a *Attention) Entries(m tensor.Meta) []int {
	if a == nil || a.code == nil || m.Rank() != len(a.Batch)+2 || len(m.Strides) != m.Rank() {
		return nil
	}
	rank := len(a.Batch)
	lead := tensor.Meta{Shape: a.Batch, Strides: slices.Clone(m.Strides[:rank])}
	for d := range lead.Strides {
		if m.Shape[d] == 1 {
			lead.Strides[d] = 0
		}
	}
	at := make([]int, 0, tensor.Numel(a.Batch))
	lead.Walk(func(i int) { at = append(at, i) })
	return at
}

// Bytes is the memory that [ScoreRows.Do] needs.
func (r *ScoreRows) Bytes() int {
	if r == nil || r.plan == nil {
		return 0
	}
	return align(r.plan.Worker()) + align(r.plan.Scratch()) + align(r.size)
}

// align rounds bytes up to whole lines of the cache.
func align(n int) int { return (n + 63) &^ 63 }

// Listings are those of the loops.
func (r *ScoreRows) Listings() []expr.Listing {
	if r == nil || r.plan == nil {
		return nil
	}
	return r.plan.Listings()
}

// Do makes weights of the scores of a matrix of the batch, from a row on, and returns where they are: in place of the
// scores, or in the memory, which is 64-byte aligned and has [ScoreRows.Bytes]. It trusts addresses.
func (r *ScoreRows) Do(m *Mem, scores unsafe.Pointer, entry, row int, memory []byte) (unsafe.Pointer, error) {
	weights := scores
	if !r.inPlace {
		weights = unsafe.Pointer(unsafe.SliceData(memory))
		memory = memory[align(r.size):]
	}
	s := r.state.Of(m)
	s.ptrs = append(s.ptrs[:0], weights, scores)
	for i, o := range r.others {
		s.ptrs = append(s.ptrs, unsafe.Add(m.Ptrs[4+i], o.at[entry]+row*o.row))
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
