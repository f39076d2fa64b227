package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file divides attentions with small entries, such as 8 queries and 8 keys of 7 elements, into blocks of several
// entries. An entry is the attention at one index of the batch. A block is the set of scores that a worker computes at
// once. Blocks of several entries save time. The row program, which computes weights from scores, runs once for all
// entries of a block. An operand that register tiles cannot read in place is transposed once for all entries of a
// block.
//
// The scores of an entry are the product of its queries and its transposed keys. These are 2 queries and 3 keys:
//
//	q00 q01       k00 k10 k20       s00 s01 s02
//	q10 q11   @   k01 k11 k21   =   s10 s11 s12
//
// Register tiles write adjacent scores. If scores are stored by rows, such as s00 s01 s02, tiles read k00 k10 k20 of
// the keys. If these elements are not adjacent in memory, the key is transposed. If scores are stored by columns, such
// as s00 s10, tiles read q00 q10 of the queries. If these elements are not adjacent, the query is transposed.

const (
	// smallEntryMACs is the maximum number of multiplications of a small entry.
	smallEntryMACs = 1 << 14
	// smallBlockBytes is the maximum size of the scores of a block of several entries. Scores of this size stay in the
	// L1 cache.
	smallBlockBytes = 16 << 10
)

// chooseEntriesPerBlock returns the number of entries per block: the largest divisor of evenlySpacedEntries for which
// the scores of a block fit in smallBlockBytes. It returns 1 if entries are not small.
func (sizes attentionSizes) chooseEntriesPerBlock(spec *graph.Attention) int {
	entryMACs := kit.BoundedProduct(sizes.queries, sizes.keys, sizes.keySize+sizes.valueSize)
	isSmall := sizes.blocksPerEntry == 1 && entryMACs <= smallEntryMACs
	thinScores, thinValues := sizes.thinProducts(spec) // whether gemm reads the larger operand in place
	if !isSmall || thinScores || thinValues || !loops.CodeAvailable() {
		return 1
	}
	entryBytes := sizes.queries * sizes.keys * spec.Out.DType.Size()
	evenlySpaced := evenlySpacedEntries(spec)
	for n := min(evenlySpaced, smallBlockBytes/entryBytes); n > 1; n-- {
		if evenlySpaced%n == 0 {
			return n
		}
	}
	return 1
}

// evenlySpacedEntries returns the number of consecutive entries whose matrices are equally spaced, in the query, in the
// key and in all operands of the row program. It counts the entries along the last batch dimensions, as many dimensions
// as have this property. For a batch [4, 6], the number is 24 if all operands are row-major, and 6 if the key has gaps
// between the indices of dimension 0.
func evenlySpacedEntries(spec *graph.Attention) int {
	entries := 1
	for dim := len(spec.Batch) - 1; dim >= 0; dim-- {
		for _, operand := range append([]tensor.Meta{spec.Query, spec.Key}, spec.Others...) {
			if spec.Batch[dim] > 1 && !isEvenlySpaced(operand, spec.Batch, dim) {
				return entries
			}
		}
		entries *= spec.Batch[dim]
	}
	return entries
}

// isEvenlySpaced reports whether the matrices of an operand are equally spaced over the batch dimensions from dim on.
// The caller has checked the dimensions after dim.
func isEvenlySpaced(operand tensor.Meta, batch []int, dim int) bool {
	stride := func(d int) int {
		if operand.Shape[d] == 1 { // all entries along d have the same matrix
			return 0
		}
		return operand.Strides[d]
	}
	for next := dim + 1; next < len(batch); next++ {
		if batch[next] > 1 {
			return stride(dim) == stride(next)*batch[next]
		}
	}
	return true
}

// transposesQuery reports whether blocks of several entries transpose the query.
func (sizes attentionSizes) transposesQuery(spec *graph.Attention) bool {
	return sizes.entriesPerBlock > 1 && spec.ByColumns() && spec.Query.Strides[len(spec.Batch)] != 1
}

// transposesKey reports whether blocks of several entries transpose the key. spec.Key has a row for each element of a
// key, and a column for each key.
func (sizes attentionSizes) transposesKey(spec *graph.Attention) bool {
	return sizes.entriesPerBlock > 1 && !spec.ByColumns() && spec.Key.Strides[len(spec.Batch)+1] != 1
}

// transposedOperand describes the copy of the queries or keys that a block of several entries transposes. A lane is a
// query or a key. The copy has a row for each element of a lane. For two entries with three keys each, k and l, it is
//
//	k00 k10 k20 l00 l10 l20
//	k01 k11 k21 l01 l11 l21
type transposedOperand struct {
	operand int // attentionQuery or attentionKey
	lanes   int // number of lanes of an entry
	bytes   int // size of the copy in bytes
	copy    *strided.Copy
}

// setTransposedOperand sets attn.transposed and attn.transposedBytes if blocks transpose an operand.
func (attn *attention) setTransposedOperand(spec *graph.Attention) {
	var transposed *transposedOperand
	var laneStride, elementStride int // of the operand
	switch rank := len(spec.Batch); {
	case attn.transposesQuery(spec):
		transposed = &transposedOperand{operand: attentionQuery, lanes: attn.queries}
		laneStride, elementStride = spec.Query.Strides[rank], spec.Query.Strides[rank+1]
	case attn.transposesKey(spec):
		transposed = &transposedOperand{operand: attentionKey, lanes: attn.keys}
		laneStride, elementStride = spec.Key.Strides[rank+1], spec.Key.Strides[rank]
	default:
		return
	}
	offsets := attn.entryOffsets[transposed.operand]
	entryStride := offsets[1] - offsets[0]
	entryBytes := transposed.lanes * attn.elemBytes // of a row of the copy
	rowBytes := attn.entriesPerBlock * entryBytes
	transposed.bytes = kit.AlignUp(attn.keySize * rowBytes)
	transposed.copy = strided.New(strided.MoverOf(attn.elemBytes), []strided.Axis{
		{N: attn.keySize, Dst: rowBytes, Src: elementStride * attn.elemBytes},
		{N: attn.entriesPerBlock, Dst: entryBytes, Src: entryStride * attn.elemBytes},
		{N: transposed.lanes, Dst: attn.elemBytes, Src: laneStride * attn.elemBytes}})
	attn.transposed, attn.transposedBytes = transposed, transposed.bytes+transposed.copy.ScratchBytes()
}

// transpose copies the operand that blocks transpose, for the entries of the block that starts at the given entry. It
// writes the copy to the start of memory, and returns its address. It returns nil if blocks transpose no operand.
func (attn *attention) transpose(mem *graph.Mem, entry int, memory []byte) unsafe.Pointer {
	transposed := attn.transposed
	if transposed == nil {
		return nil
	}
	dst := unsafe.Pointer(unsafe.SliceData(memory))
	src := attn.addressAt(mem.Ptrs[1+transposed.operand], attn.entryOffsets[transposed.operand][entry])
	transposed.copy.Run(dst, src, memory[transposed.bytes:], 0, transposed.copy.Tiles()) // all tiles of the copy
	return dst
}

// setAddress sets the address of the operand in args, which computes scores from queries (A) and keys (B).
func (t *transposedOperand) setAddress(args *gemm.Args, address unsafe.Pointer) {
	if t.operand == attentionQuery {
		args.A = address
	} else {
		args.B = address
	}
}
