package graph

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Attend describes how an op that multiplies matrices, [..., m, k] by [..., k, n] with batches that broadcast, computes
// attention: such a product, loops over the rows of its result (the scores), and a product of these rows with another
// matrix. A block of rows is finished before the next one begins, so that the scores are never in memory as a whole.
type Attend struct {
	Doc string // how it computes, in one sentence
	// Work is the work of the two products if query, key and value are row-major.
	Work func(a *Attention) Work
	// Read is the additional work for the layout that the query (0), the key (1) or the value (2) has in the call.
	Read func(a *Attention, i int) Work
	// Lower makes the kernel. Its addresses are those of the result, query, key, value, and the other operands of the
	// loops.
	Lower func(a *Attention) (*Kernel, error)
}

// Attention is a call of a fused attention. Its batch has as many dimensions as the batches of all parts need; a
// dimension in which an operand is broadcast has size 1.
type Attention struct {
	Query, Key, Value tensor.Meta // [..., l, e], [..., e, s] and [..., s, v]
	Out               tensor.Meta // [..., l, v]
	Batch             []int

	// Others are the operands of the loops besides the scores, expanded to the shape of the scores.
	Others []tensor.Meta
	Code   *expr.Code // from the scores, operand 0, to the weights
}

// Sizes returns the sizes of the matrices: l queries and s keys of e elements, and values of v elements.
func (a *Attention) Sizes() (l, s, e, v int) {
	rank := len(a.Batch)
	return a.Query.Shape[rank], a.Key.Shape[rank+1], a.Query.Shape[rank+1], a.Value.Shape[rank+1]
}

// columnRows is the number of queries from which scores are stored by columns: loops then fold the rows of a register
// together, not lane by lane.
const columnRows = 16

// ByColumns reports whether loops read scores that are stored by columns. It depends on the shape only.
func (a *Attention) ByColumns() bool {
	return a != nil && a.Code != nil && a.Query.Shape[len(a.Batch)] >= columnRows
}

// Entries returns the offset, in elements, of every matrix of an operand or a result of the call, in row-major order of
// the batch; nil for a meta of another rank.
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
