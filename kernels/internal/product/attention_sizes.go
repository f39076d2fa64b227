package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file divides an attention into blocks. An entry is the attention at one index of the batch. Scores are the
// products of queries and keys. For example, with 1024 float32 queries and keys, a block has 64 queries, so that its
// scores take 256 KB. An entry then has 16 blocks. If entries are small, a block has all queries of several entries
// (attention_small.go).

// attentionSizes has the sizes of an attention and of its blocks. All sizes depend on shapes only.
type attentionSizes struct {
	entries              int // number of entries of the batch
	queries, keys        int // queries per entry; keys per entry
	keySize, valueSize   int // length of a query vector or key vector; length of a value vector
	blockRows            int // rows (queries) of an entry in a block
	blocksPerEntry       int // 1 if a block has several entries
	entriesPerBlock      int // 1 if entries are large
	rowStride, colStride int // strides of scores between rows and between columns, in elements; one of them is 1
	scoreElements        int // size of the memory for a block of scores, in elements
}

const (
	// maxScoreBytes is the maximum size, in bytes, of a block of scores. Such a block stays in the L2 cache together with
	// keys and values.
	maxScoreBytes = 256 << 10
	// minScoreRows is the minimum number of rows of a block. The scores of such a block may exceed maxScoreBytes.
	minScoreRows = 16
)

// attentionSizesOf chooses the division into blocks and returns all sizes.
func attentionSizesOf(spec *graph.Attention) (sizes attentionSizes) {
	sizes.entries = tensor.Numel(spec.Batch)
	sizes.queries, sizes.keys, sizes.keySize, sizes.valueSize = spec.Sizes()
	// As few blocks as possible, with nearly equal numbers of rows.
	maxRows := max(minScoreRows, maxScoreBytes/(sizes.keys*spec.Out.DType.Size()))
	fewestBlocks := kit.DivUp(sizes.queries, maxRows)
	sizes.blockRows = kit.DivUp(sizes.queries, fewestBlocks)
	sizes.blocksPerEntry = kit.DivUp(sizes.queries, sizes.blockRows)
	sizes.setEntriesPerBlock(spec, 1) // chooseEntriesPerBlock reads the sizes for one entry
	sizes.setEntriesPerBlock(spec, sizes.chooseEntriesPerBlock(spec))
	return sizes
}

// setEntriesPerBlock sets the number of entries per block, and the sizes that depend on it. Scores are stored by
// columns if the row program computes many rows at once.
func (sizes *attentionSizes) setEntriesPerBlock(spec *graph.Attention, entries int) {
	elemBytes, rows := spec.Out.DType.Size(), entries*sizes.blockRows
	// aligned rounds a number of elements up such that their size in bytes is aligned.
	aligned := func(elements int) int { return kit.AlignUp(elements*elemBytes) / elemBytes }
	sizes.entriesPerBlock, sizes.rowStride, sizes.colStride = entries, aligned(sizes.keys), 1
	if spec.ByColumns() {
		sizes.rowStride, sizes.colStride = 1, aligned(rows)
	}
	sizes.scoreElements = max(rows*sizes.rowStride, sizes.keys*sizes.colStride)
}

// productSpecs returns the two products of a block with rowCount rows of each entry. The product of queries and keys
// gives the scores. The product of weights and values gives the result.
func (sizes attentionSizes) productSpecs(spec *graph.Attention, rowCount int) (scores, values gemm.Spec) {
	rank := len(spec.Batch) // the batch's rank is also the dimension of the rows
	strides := func(m tensor.Meta) gemm.Operand {
		return gemm.Operand{RowStride: m.Strides[rank], ColStride: m.Strides[rank+1]}
	}
	out := strides(spec.Out)
	scores = gemm.Spec{DType: spec.Out.DType, M: rowCount, N: sizes.keys, K: sizes.keySize, A: strides(spec.Query),
		B: strides(spec.Key), CRowStride: sizes.rowStride, CColStride: sizes.colStride}
	if sizes.entriesPerBlock > 1 {
		scores.Algorithm = gemm.Tiled
		if sizes.transposesQuery(spec) { // the operand is then the copy of a transposedOperand
			scores.A = gemm.Operand{RowStride: 1, ColStride: sizes.entriesPerBlock * rowCount}
		} else if sizes.transposesKey(spec) {
			scores.B = gemm.Operand{RowStride: sizes.entriesPerBlock * sizes.keys, ColStride: 1}
		}
	}
	values = gemm.Spec{DType: spec.Out.DType, M: rowCount, N: sizes.valueSize, K: sizes.keys,
		A: gemm.Operand{RowStride: sizes.rowStride, ColStride: sizes.colStride}, B: strides(spec.Value),
		CRowStride: out.RowStride, CColStride: out.ColStride, Algorithm: scores.Algorithm}
	return scores, values
}

// thinProducts reports, for each of the two products, whether gemm reads the larger operand once and in place
// ([gemm.Thin]).
func (sizes attentionSizes) thinProducts(spec *graph.Attention) (scores, values bool) {
	if sizes.entriesPerBlock > 1 {
		return false, false
	}
	scoresSpec, valuesSpec := sizes.productSpecs(spec, sizes.blockRows)
	return gemm.Supports(scoresSpec, gemm.Thin), gemm.Supports(valuesSpec, gemm.Thin)
}
