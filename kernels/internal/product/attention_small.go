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

// This file computes attentions with small entries, such as 8 queries and 8 keys of 7 elements. A block then has
// several entries: the row program runs once for all of them, and the operand that register tiles cannot read in place
// is transposed once for all of them.

const (
	// smallEntryMACs is the maximum number of multiplications of a small entry.
	smallEntryMACs = 1 << 14
	// smallBlockBytes is the maximum size of the scores of several small entries. They stay in the L1 cache.
	smallBlockBytes = 16 << 10
)

// entriesPerBlock returns the number of entries per block: the largest divisor of the batch for which a block is small
// and all operands have constant distances between the matrices of a block.
func (z attentionSizes) entriesPerBlock(a *graph.Attention) int {
	scores := z.queries * z.keys * a.Out.DType.Size()
	macs := kit.BoundedProduct(z.queries, z.keys, z.keySize+z.valueSize)
	if thin := z.thin(a); !loops.CodeAvailable() || z.blocks > 1 || macs > smallEntryMACs || thin[0] || thin[1] {
		return 1
	}
	evenly := evenEntries(a)
	for n := min(evenly, smallBlockBytes/scores); n > 1; n-- {
		if evenly%n == 0 {
			return n
		}
	}
	return 1
}

// evenEntries returns the number of trailing entries of the batch between which the distance is constant in the query,
// in the key and in all operands of the row program.
func evenEntries(a *graph.Attention) int {
	entries := 1
	for d := len(a.Batch) - 1; d >= 0; d-- {
		for _, m := range append([]tensor.Meta{a.Query, a.Key}, a.Others...) {
			if a.Batch[d] > 1 && !isEven(m, a.Batch, d) {
				return entries
			}
		}
		entries *= a.Batch[d]
	}
	return entries
}

// isEven reports whether the distance between the matrices of m remains constant if dimension d of the batch is added
// to the dimensions after it.
func isEven(m tensor.Meta, batch []int, d int) bool {
	stride := func(d int) int {
		if m.Shape[d] == 1 {
			return 0
		}
		return m.Strides[d]
	}
	for next := d + 1; next < len(batch); next++ {
		if batch[next] > 1 {
			return stride(d) == stride(next)*batch[next]
		}
	}
	return true
}

// transposesQuery and transposesKey report whether a block of several entries transposes an operand. The operand of the
// first product whose lanes are contiguous in the scores must have contiguous lanes, too.
func (z attentionSizes) transposesQuery(a *graph.Attention) bool {
	return z.group > 1 && a.ByColumns() && a.Query.Strides[len(a.Batch)] != 1
}

func (z attentionSizes) transposesKey(a *graph.Attention) bool {
	return z.group > 1 && !a.ByColumns() && a.Key.Strides[len(a.Batch)+1] != 1
}

// transposedOperand is the operand of the first product that blocks of several entries transpose. Its copy has a row
// for each term, with the lanes of all entries.
type transposedOperand struct {
	operand int // 0 is the query, 1 the key
	lanes   int // lanes of an entry
	bytes   int // size of the copy
	copy    *strided.Copy
}

// of returns the address of the operand in args.
func (t *transposedOperand) of(args *gemm.Args) *unsafe.Pointer {
	if t.operand == 0 {
		return &args.A
	}
	return &args.B
}

// transposeOperand describes the operand that blocks transpose, if any.
func (x *attention) transposeOperand(a *graph.Attention) {
	rank := len(a.Batch)
	m, lane, term := a.Key, rank+1, rank
	t := &transposedOperand{operand: 1, lanes: x.keys}
	switch {
	case x.transposesQuery(a):
		m, lane, term = a.Query, rank, rank+1
		t.operand, t.lanes = 0, x.queries
	case !x.transposesKey(a):
		return
	}
	entry := x.entryOffsets[t.operand][1] - x.entryOffsets[t.operand][0]
	t.bytes = kit.AlignUp(x.keySize * x.group * t.lanes * x.elemBytes)
	t.copy = strided.New(strided.Move(x.elemBytes), []strided.Axis{
		{N: x.keySize, Dst: x.group * t.lanes * x.elemBytes, Src: m.Strides[term] * x.elemBytes},
		{N: x.group, Dst: t.lanes * x.elemBytes, Src: entry * x.elemBytes},
		{N: t.lanes, Dst: x.elemBytes, Src: m.Strides[lane] * x.elemBytes}})
	x.transposed, x.transposedBytes = t, t.bytes+t.copy.ScratchBytes()
}

// transpose transposes an operand of the entries of a block, if necessary, and returns the address of the copy.
func (x *attention) transpose(m *graph.Mem, entry int, memory []byte) unsafe.Pointer {
	t := x.transposed
	if t == nil {
		return nil
	}
	to := unsafe.Pointer(unsafe.SliceData(memory))
	t.copy.Run(to, x.element(m.Ptrs[1+t.operand], x.entryOffsets[t.operand][entry]), memory[t.bytes:], 0, t.copy.Tiles())
	return to
}

// multiplySmall computes a product by recorded calls if the plan has them.
func multiplySmall(p *gemm.Plan, r *gemm.Repeated, args *gemm.Args, work []byte) {
	if p.Repeat(r, args) {
		r.Run()
	} else {
		p.RunAll(args, work)
	}
}
