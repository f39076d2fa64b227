package graph

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Attend describes how an op that multiplies matrices, [..., m, k] by [..., k, n] with batches that broadcast, computes
// an [Attention]: a product that gives scores, a row program that makes weights of the scores, and a product of the
// weights by values. One block of rows is computed after another, so that only the scores of a block are in memory.
type Attend struct {
	Doc string // a sentence about the algorithm
	// Work returns the work of the two products for a row-major query, key and value.
	Work func(a *Attention) Work
	// Read returns the additional work if the query (0), the key (1) or the value (2) has the layout of the call.
	Read func(a *Attention, i int) Work
	// Lower makes the kernel. Mem.Ptrs has the result, the query, the key, the value, and Others.
	Lower func(a *Attention) (*Kernel, error)
}

// Attention is a call of an attention, with the layouts of its operands. All operands have all dimensions of the batch.
// A dimension along which an operand is broadcast has size 1.
type Attention struct {
	Query, Key, Value tensor.Meta // [..., l, e], [..., e, s] and [..., s, v]
	Out               tensor.Meta // [..., l, v]
	Batch             []int       // the sizes of the batch

	// Others are the operands of Code besides the scores, expanded to the shape of the scores, [..., l, s].
	Others []tensor.Meta
	Code   *expr.Code // the row program from the scores, its operand 0, to the weights
}

// Sizes returns the sizes of the matrices: l queries and s keys of e elements each, and s values of v elements each.
func (a *Attention) Sizes() (l, s, e, v int) {
	rank := len(a.Batch)
	return a.Query.Shape[rank], a.Key.Shape[rank+1], a.Query.Shape[rank+1], a.Value.Shape[rank+1]
}

// columnRows is the number of queries from which scores are stored by columns. Each lane of a register then folds
// another row.
const columnRows = 16

// ByColumns reports whether scores are stored by columns. It depends on the shape only.
func (a *Attention) ByColumns() bool {
	return a != nil && a.Code != nil && a.Query.Shape[len(a.Batch)] >= columnRows
}

// Entries returns, in elements, the offset of every matrix of m, an operand or result of the call, in row-major order
// of the batch. It returns nil if m has another rank.
func (a *Attention) Entries(m tensor.Meta) []int {
	if a == nil || a.Code == nil || m.Rank() != len(a.Batch)+2 || len(m.Strides) != m.Rank() {
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
