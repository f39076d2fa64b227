package graph

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// Attend is an additional lowering of a matrix-product op (see Op.Attend). The op multiplies [..., m, k] by [..., k, n]
// with broadcast batches. Attend computes a whole [Attention], which has two such products, in one kernel.
//
// An attention has three steps: the product of queries and keys gives scores, a row program converts the scores to
// weights (such as softmax), and the product of the weights and the values is the result. The kernel computes one block
// of rows at a time, so that only the scores of this block are in memory.
type Attend struct {
	Doc string // a sentence about the algorithm
	// Work returns the work (see [pricing.Work]) of the two products for a row-major query, key and value.
	Work func(a *Attention) pricing.Work
	// Read returns the additional work of reading operand i in its layout instead of a row-major layout. Operand 0 is
	// the query, 1 the key, and 2 the value.
	Read func(a *Attention, i int) pricing.Work
	// Lower makes the kernel. The kernel's Mem.Ptrs are the addresses of the result, the query, the key, the value, and
	// Others.
	Lower func(a *Attention) (*Kernel, error)
}

// Attention describes one attention to compute, with the layouts of its operands. Every operand has all dimensions of
// the batch. If an operand is broadcast along a dimension, the dimension has size 1.
type Attention struct {
	Query, Key, Value tensor.Meta // [..., l, e], [..., e, s] and [..., s, v]
	Out               tensor.Meta // [..., l, v]
	Batch             []int       // the sizes of the batch

	// Others are the operands of Code after the scores, such as a mask. They are expanded to the shape of
	// the scores, [..., l, s].
	Others []tensor.Meta
	// Code is the row program that computes the weights. Its operand 0 is the scores. Code is nil only in an invalid
	// Attention.
	Code *expr.Code
}

// Sizes returns the sizes of the matrices. There are l queries, s keys and s values. A query or a key has e elements,
// and a value has v elements.
func (a *Attention) Sizes() (l, s, e, v int) {
	rank := len(a.Batch)
	return a.Query.Shape[rank], a.Key.Shape[rank+1], a.Query.Shape[rank+1], a.Value.Shape[rank+1]
}

// minQueriesByColumns is the minimum number of queries for which scores are stored by columns: adjacent elements belong
// to the same key and different queries. With this layout, each lane of a vector register folds (reduces) a different
// row, and 16 rows fill a register.
const minQueriesByColumns = 16

// ByColumns reports whether scores are stored by columns. It depends on the shape only.
func (a *Attention) ByColumns() bool {
	return a != nil && a.Code != nil && a.Query.Shape[len(a.Batch)] >= minQueriesByColumns
}

// Entries returns the offsets of the matrices of an operand or result with layout meta: one offset per entry of the
// batch, in elements, in row-major order of the batch. A broadcast matrix has the same offset in several entries.
// Entries returns nil if the attention is nil or has no Code, or if the rank of meta is not the rank of the operands.
func (a *Attention) Entries(meta tensor.Meta) []int {
	if a == nil || a.Code == nil || meta.Rank() != len(a.Batch)+2 || len(meta.Strides) != meta.Rank() {
		return nil
	}
	rank := len(a.Batch)
	leading := tensor.Meta{Shape: a.Batch, Strides: slices.Clone(meta.Strides[:rank])}
	for dim := range leading.Strides {
		if meta.Shape[dim] == 1 {
			leading.Strides[dim] = 0
		}
	}
	offsets := make([]int, 0, tensor.Numel(a.Batch))
	leading.Walk(func(offset int) { offsets = append(offsets, offset) })
	return offsets
}
