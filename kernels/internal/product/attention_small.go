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

// This file computes attentions with small entries, such as 8 queries and 8 keys of 7 elements. An entry is the
// attention at one index of the batch. A block is the set of scores that a worker computes at once. A block of several
// small entries saves time: the row program, which computes weights from scores, runs once for all of them, and an
// operand that register tiles cannot read in place is transposed once for all of them.

const (
	// smallEntryMACs is the maximum number of multiplications of a small entry.
	smallEntryMACs = 1 << 14
	// smallBlockBytes is the maximum size of the scores of several small entries. They stay in the L1 cache.
	smallBlockBytes = 16 << 10
)

// chooseEntriesPerBlock returns the number of entries per block: the largest divisor of evenlySpacedEntries for which
// the scores of a block fit in smallBlockBytes. It returns 1 if entries are not small.
func (sizes attentionSizes) chooseEntriesPerBlock(spec *graph.Attention) int {
	entryBytes := sizes.queries * sizes.keys * spec.Out.DType.Size()
	entryMACs := kit.BoundedProduct(sizes.queries, sizes.keys, sizes.keySize+sizes.valueSize)
	thinScores, thinValues := sizes.thinProducts(spec)
	if !loops.CodeAvailable() || sizes.blocksPerEntry > 1 || entryMACs > smallEntryMACs || thinScores || thinValues {
		return 1
	}
	evenlySpaced := evenlySpacedEntries(spec)
	for n := min(evenlySpaced, smallBlockBytes/entryBytes); n > 1; n-- {
		if evenlySpaced%n == 0 {
			return n
		}
	}
	return 1
}

// evenlySpacedEntries returns the number of consecutive entries whose matrices are equally spaced, in the query, in the
// key and in all operands of the row program. It counts the entries along the longest suffix of the batch dimensions
// with this property. For a batch [4, 6], the number is 24 if all operands are row-major, and 6 if the key has gaps
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

// isEvenlySpaced reports whether the matrices of an operand, which are equally spaced over the batch dimensions after
// dim, are equally spaced over dim as well.
func isEvenlySpaced(operand tensor.Meta, batch []int, dim int) bool {
	stride := func(d int) int {
		if operand.Shape[d] == 1 {
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

// transposesQuery reports whether blocks of several entries transpose the query. Register tiles write adjacent elements
// of the scores. If adjacent scores are in one column (ByColumns), tiles read adjacent elements of a column of the
// query.
func (sizes attentionSizes) transposesQuery(spec *graph.Attention) bool {
	return sizes.entriesPerBlock > 1 && spec.ByColumns() && spec.Query.Strides[len(spec.Batch)] != 1
}

// transposesKey reports whether blocks of several entries transpose the key. If adjacent scores are in one row, tiles
// read adjacent elements of a row of the key, whose rows are indices of the depth.
func (sizes attentionSizes) transposesKey(spec *graph.Attention) bool {
	return sizes.entriesPerBlock > 1 && !spec.ByColumns() && spec.Key.Strides[len(spec.Batch)+1] != 1
}

// transposedOperand is the operand of the product of queries and keys that blocks of several entries transpose. The
// depth of this product is the dimension that is summed. The copy of the operand has a row for each index of the depth,
// with an element for each lane of each entry. A lane is a query or a key.
type transposedOperand struct {
	operand int // 0 is the query, 1 the key
	lanes   int // number of lanes of an entry
	bytes   int // size of the copy in bytes
	copy    *strided.Copy
}

// addressIn returns the field of args that has the address of the operand.
func (t *transposedOperand) addressIn(args *gemm.Args) *unsafe.Pointer {
	if t.operand == 0 {
		return &args.A
	}
	return &args.B
}

// setTransposedOperand describes the operand that blocks transpose, if any.
func (attn *attention) setTransposedOperand(spec *graph.Attention) {
	rank := len(spec.Batch)
	operand, laneDim, depthDim := spec.Key, rank+1, rank
	transposed := &transposedOperand{operand: 1, lanes: attn.keys}
	switch {
	case attn.transposesQuery(spec):
		operand, laneDim, depthDim = spec.Query, rank, rank+1
		transposed.operand, transposed.lanes = 0, attn.queries
	case !attn.transposesKey(spec):
		return
	}
	entryStride := attn.entryOffsets[transposed.operand][1] - attn.entryOffsets[transposed.operand][0]
	transposed.bytes = kit.AlignUp(attn.keySize * attn.entriesPerBlock * transposed.lanes * attn.elemBytes)
	transposed.copy = strided.New(strided.MoverOf(attn.elemBytes), []strided.Axis{
		{N: attn.keySize, Dst: attn.entriesPerBlock * transposed.lanes * attn.elemBytes,
			Src: operand.Strides[depthDim] * attn.elemBytes},
		{N: attn.entriesPerBlock, Dst: transposed.lanes * attn.elemBytes, Src: entryStride * attn.elemBytes},
		{N: transposed.lanes, Dst: attn.elemBytes, Src: operand.Strides[laneDim] * attn.elemBytes}})
	attn.transposed, attn.transposedBytes = transposed, transposed.bytes+transposed.copy.ScratchBytes()
}

// transpose copies the operand that blocks transpose, for the entries of the block that starts at the given entry. It
// returns the address of the copy, in memory, or nil if blocks transpose no operand.
func (attn *attention) transpose(mem *graph.Mem, entry int, memory []byte) unsafe.Pointer {
	transposed := attn.transposed
	if transposed == nil {
		return nil
	}
	dst := unsafe.Pointer(unsafe.SliceData(memory))
	transposed.copy.Run(dst, attn.addressAt(mem.Ptrs[1+transposed.operand], attn.entryOffsets[transposed.operand][entry]),
		memory[transposed.bytes:], 0, transposed.copy.Tiles())
	return dst
}

// multiplyEntry computes the product of one entry. It replays recorded calls of code if the plan supports them, which
// costs less. workerMemory is gemm's worker memory.
func multiplyEntry(plan *gemm.Plan, replay *gemm.Replay, args *gemm.Args, workerMemory []byte) {
	if plan.PrepareReplay(replay, args) {
		replay.Run()
	} else {
		plan.RunAll(args, workerMemory)
	}
}
