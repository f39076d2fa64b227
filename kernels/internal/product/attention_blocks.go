package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the kernel of scaled_dot_product_attention and of attentions that package fusion has found in a graph.
// An entry is the attention at one index of the batch. The kernel divides the queries of an entry into blocks. A worker
// computes a block in three steps. The row program of the second step is an expression over rows:
//
//	scores [rows, keys]       = query [rows, keySize] @ transposed key [keySize, keys]
//	weights [rows, keys]      = row program of scores, such as a scaled softmax
//	result [rows, valueSize]  = weights @ value [keys, valueSize]
//
// For example, with 1024 float32 queries and keys, a block has 64 queries, so that its scores take 256 KB. An entry
// then has 16 blocks. If entries are small, a block has all queries of several entries. The steps then compute one
// matrix for each of these entries (attention_small.go).
//
// These types are declared elsewhere:
//
//	graph.Attention    the layouts of query, transposed key (Key), value and result (Out), and the row program
//	gemm.Plan          the compiled product of two matrices, C = A @ B; gemm.Args has the addresses of A, B and C
//	fusion.ScoreRows   a compiled row program
//	attentionSizes     the sizes of an attention and of its blocks, such as blockRows and entriesPerBlock
//	transposedOperand  a copy of the queries or keys of a block of several entries

// blockedAttention is the implementation of the attentions that package fusion finds. Calls of
// scaled_dot_product_attention use compileAttention directly.
var blockedAttention = &graph.Attend{
	Doc:  "Computes blocks of rows of scores, which stay in the cache until they are multiplied by the values.",
	Work: attentionWork, Read: attentionRead, Lower: compileAttention,
}

// Indices of the operands of an attention and, in attention.entryOffsets, of its result.
const (
	attentionQuery = iota
	attentionKey
	attentionValue
	attentionResult
)

// attention has the code of an attention, and the sizes and offsets that a run needs.
type attention struct {
	attentionSizes
	elemBytes              int                // number of bytes of an element
	entryOffsets           [4][]int           // by operand (attentionQuery ...): offsets of its entries, in elements
	queryStride, outStride int                // row strides of query and result, in elements
	compiled               []attentionBlock   // code for whole blocks, and for a shorter last block
	transposed             *transposedOperand // the operand that blocks of several entries transpose; nil if there is none
	workers                graph.PerWorker[attentionWorker]

	// Sizes in bytes of the parts of worker memory, in their order.

	scoresBytes     int // the scores
	productBytes    int // gemm's worker memory
	panelBytes      int // the panels that gemm packs; gemm calls them shared, because other kernels share them
	programBytes    int // the memory of the row program
	transposedBytes int // the transposed operand
}

// attentionBlock has the compiled products and the compiled row program for a block of the given number of rows.
type attentionBlock struct {
	rows           int
	scores, values *gemm.Plan
	rowProgram     *fusion.ScoreRows
}

// attentionWorker is the state of a worker that computes an attention.
type attentionWorker struct {
	args           gemm.Args
	scores, values gemm.Replay // machine-code calls of the two products, recorded for one entry and replayed for others
}

// compileAttention returns the kernel of an attention. It compiles the two products and the row program for blocks of
// attn.blockRows queries. If the last block of an entry has fewer queries, they are compiled again for this block.
func compileAttention(spec *graph.Attention) (*graph.Kernel, error) {
	attn := &attention{attentionSizes: attentionSizesOf(spec)}
	rank := len(spec.Batch)
	attn.elemBytes = spec.Out.DType.Size()
	for i, matrices := range [...]tensor.Meta{attentionQuery: spec.Query, attentionKey: spec.Key,
		attentionValue: spec.Value, attentionResult: spec.Out} {
		attn.entryOffsets[i] = spec.Entries(matrices)
	}
	attn.queryStride, attn.outStride = spec.Query.Strides[rank], spec.Out.Strides[rank]
	for _, rowCount := range []int{attn.blockRows, attn.queries % attn.blockRows} {
		if rowCount == 0 {
			continue
		}
		if err := attn.addBlock(spec, rowCount); err != nil {
			return nil, err
		}
	}
	attn.scoresBytes = kit.AlignUp(attn.scoreElements * attn.elemBytes)
	attn.setTransposedOperand(spec)
	return &graph.Kernel{
		WorkerScratch: attn.scoresBytes + attn.productBytes + attn.panelBytes + attn.programBytes + attn.transposedBytes,
		Code:          attn.listings,
		FoldOrder:     attn.foldOrder(),
		Phases:        []graph.Phase{attn.phase()}}, nil
}

// foldOrder returns the FoldOrder of the kernel: see [graph.Kernel].
func (attn *attention) foldOrder() (order string) {
	for _, block := range attn.compiled {
		order += block.scores.FoldOrder() + ";" + block.rowProgram.FoldOrder() + ";" + block.values.FoldOrder() + ";"
	}
	return order
}

// phase returns the phase that computes all blocks. A chunk computes several blocks.
func (attn *attention) phase() graph.Phase {
	blocksPerEntry := attn.blocksPerEntry
	blockCount := attn.entries / attn.entriesPerBlock * blocksPerEntry
	blockMACs := attn.entriesPerBlock * attn.blockRows * attn.keys * (attn.keySize + attn.valueSize)
	blocksPerChunk := max(1, machine.MACGrain/max(1, blockMACs))
	return graph.Phase{Chunks: kit.DivUp(blockCount, blocksPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		for i := chunk * blocksPerChunk; i < min(blockCount, (chunk+1)*blocksPerChunk); i++ {
			firstEntry, firstRow := i/blocksPerEntry*attn.entriesPerBlock, i%blocksPerEntry*attn.blockRows
			if err := attn.computeBlock(mem, firstEntry, firstRow); err != nil {
				return err
			}
		}
		return nil
	}}
}

// addBlock compiles the code for blocks of the given number of rows, and sets the sizes of worker memory.
func (attn *attention) addBlock(spec *graph.Attention, rowCount int) (err error) {
	block := attentionBlock{rows: rowCount}
	scores, values := attn.productSpecs(spec, rowCount)
	if block.scores, err = gemm.NewPlan(scores); err != nil {
		return err
	}
	if block.values, err = gemm.NewPlan(values); err != nil {
		return err
	}
	block.rowProgram, err = fusion.NewScoreRows(spec, attn.entriesPerBlock, rowCount, attn.rowStride, attn.colStride)
	if err != nil {
		return err
	}
	attn.compiled = append(attn.compiled, block)
	for _, plan := range []*gemm.Plan{block.scores, block.values} {
		attn.productBytes = max(attn.productBytes, kit.AlignUp(plan.WorkerBytes()))
		attn.panelBytes = max(attn.panelBytes, kit.AlignUp(plan.SharedBytes()))
	}
	attn.programBytes = max(attn.programBytes, block.rowProgram.Bytes())
	return nil
}

// listings returns the machine code for blocks of attn.blockRows rows: of the two products and of the row program.
func (attn *attention) listings() (list []expr.Listing) {
	block := attn.compiled[0]
	add := func(name string, assembly func() string) {
		list = append(list, expr.Listing{Name: name, Assembly: assembly})
	}
	block.scores.Listings(add)
	list = append(list, block.rowProgram.Listings()...)
	block.values.Listings(add)
	return list
}

// computeBlock computes a block. Its first entry is firstEntry, and its first row in each entry is firstRow.
func (attn *attention) computeBlock(mem *graph.Mem, firstEntry, firstRow int) error {
	block := attn.compiled[0]
	if attn.queries-firstRow < block.rows {
		block = attn.compiled[1]
	}
	// The parts of worker memory (see [attention]). The transposed operand is the last part.
	scores := unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	memory := mem.WorkerScratch[attn.scoresBytes:]
	productMemory, panels := memory[:attn.productBytes], memory[attn.productBytes:][:attn.panelBytes]
	programMemory := memory[attn.productBytes+attn.panelBytes:]
	worker := attn.workers.Get(mem)
	args := &worker.args
	*args = gemm.Args{Shared: panels}
	transposedCopy := attn.transpose(mem, firstEntry, programMemory[attn.programBytes:])
	// Step 1: the scores are the products of the query and the key.
	for i := range attn.entriesPerBlock {
		queryOffset := attn.entryOffsets[attentionQuery][firstEntry+i] + firstRow*attn.queryStride
		args.A = attn.addressAt(mem.Ptrs[1+attentionQuery], queryOffset)
		args.B = attn.addressAt(mem.Ptrs[1+attentionKey], attn.entryOffsets[attentionKey][firstEntry+i])
		if transposed := attn.transposed; transposed != nil { // the copy replaces A or B
			transposed.setAddress(args, unsafe.Add(transposedCopy, i*transposed.lanes*attn.elemBytes))
		}
		args.C = attn.addressAt(scores, i*block.rows*attn.rowStride)
		multiplyEntry(block.scores, &worker.scores, args, productMemory)
	}
	// Step 2: the row program.
	weights, err := block.rowProgram.Weigh(mem, scores, firstEntry, firstRow, programMemory)
	if err != nil {
		return err
	}
	// Step 3: the results are the products of the weights and the value.
	for i := range attn.entriesPerBlock {
		args.A = attn.addressAt(weights, i*block.rows*attn.rowStride)
		args.B = attn.addressAt(mem.Ptrs[1+attentionValue], attn.entryOffsets[attentionValue][firstEntry+i])
		args.C = attn.addressAt(mem.Ptrs[0], attn.entryOffsets[attentionResult][firstEntry+i]+firstRow*attn.outStride)
		multiplyEntry(block.values, &worker.values, args, productMemory)
	}
	// The worker's state outlives the call. It must not keep operands of the call alive.
	worker.scores.Release()
	worker.values.Release()
	*args = gemm.Args{}
	return nil
}

// multiplyEntry computes the product of one entry. If the plan supports it, it replays recorded calls of machine code,
// which costs less than RunAll. workerMemory is gemm's worker memory.
func multiplyEntry(plan *gemm.Plan, replay *gemm.Replay, args *gemm.Args, workerMemory []byte) {
	if plan.PrepareReplay(replay, args) {
		replay.Run()
	} else {
		plan.RunAll(args, workerMemory)
	}
}

// addressAt returns the address i elements after p. It returns nil if p is nil, which means that the matrix has no
// elements.
func (attn *attention) addressAt(p unsafe.Pointer, i int) unsafe.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, i*attn.elemBytes)
}
