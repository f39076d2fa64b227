package product

// This file has the kernel of scaled_dot_product_attention and of attentions that package fusion has found in a graph.
// The kernel divides the queries of each entry of the batch into blocks. A worker multiplies the queries of a block by
// all keys, which gives a row of scores for each query. The worker then runs a row program, an expression over rows,
// that computes weights from scores. It multiplies the weights by the values. A block of small entries has all queries
// of several entries (attention_small.go).

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// blockedAttention is the implementation of attention for package fusion.
var blockedAttention = &graph.Attend{
	Doc:  "Computes blocks of rows of scores, which stay in the cache until they are multiplied by the values.",
	Work: attentionWork, Read: attentionRead, Lower: compileAttention,
}

// scoreBytes is the maximum size, in bytes, of a block of scores. Such a block stays in the L2 cache together with keys
// and values.
const scoreBytes = 256 << 10

// minScoreRows is the minimum number of rows of a block. The scores of such a block may exceed scoreBytes.
const minScoreRows = 16

// attentionSizes has the sizes of an attention and of its blocks. All sizes depend on shapes only.
type attentionSizes struct {
	entries              int // number of entries of the batch
	queries, keys        int // queries per entry; keys per entry
	keySize, valueSize   int // length of a query vector or key vector; length of a value vector
	rows, blocks         int // rows per block; blocks per entry
	group                int // entries per block; 1 unless entries are small
	rowStride, colStride int // strides of scores between rows and between columns, in elements
	scoreElements        int // size of the memory for a block of scores, in elements
}

// attentionSizesOf chooses the rows per block and returns all sizes.
func attentionSizesOf(a *graph.Attention) (z attentionSizes) {
	size := a.Out.DType.Size()
	z.entries = tensor.Numel(a.Batch)
	z.queries, z.keys, z.keySize, z.valueSize = a.Sizes()
	line := func(n int) int { return kit.AlignUp(n*size) / size }
	z.rows = kit.DivUp(z.queries, kit.DivUp(z.queries, max(minScoreRows, scoreBytes/(z.keys*size))))
	z.blocks = kit.DivUp(z.queries, z.rows)
	if z.group, z.rowStride, z.colStride = 1, line(z.keys), 1; a.ByColumns() {
		z.rowStride, z.colStride = 1, line(z.rows)
	}
	if z.group = z.entriesPerBlock(a); a.ByColumns() {
		z.colStride = line(z.group * z.rows)
	}
	z.scoreElements = max(z.group*z.rows*z.rowStride, z.keys*z.colStride)
	return z
}

// specs returns the two products of a block of n rows. The product of queries and keys gives the scores. The product of
// weights and values gives the result.
func (z attentionSizes) specs(a *graph.Attention, n int) (scores, values gemm.Spec) {
	rank := len(a.Batch)
	strides := func(m tensor.Meta) gemm.Operand {
		return gemm.Operand{RowStride: m.Strides[rank], ColStride: m.Strides[rank+1]}
	}
	c := strides(a.Out)
	scores = gemm.Spec{DType: a.Out.DType, M: n, N: z.keys, K: z.keySize, A: strides(a.Query), B: strides(a.Key),
		CRowStride: z.rowStride, CColStride: z.colStride}
	if z.group > 1 {
		scores.Algorithm = gemm.Tiled
		if z.transposesQuery(a) {
			scores.A = gemm.Operand{RowStride: 1, ColStride: z.group * n}
		} else if z.transposesKey(a) {
			scores.B = gemm.Operand{RowStride: z.group * z.keys, ColStride: 1}
		}
	}
	values = gemm.Spec{DType: a.Out.DType, M: n, N: z.valueSize, K: z.keys,
		A: gemm.Operand{RowStride: z.rowStride, ColStride: z.colStride}, B: strides(a.Value),
		CRowStride: c.RowStride, CColStride: c.ColStride, Algorithm: scores.Algorithm}
	return scores, values
}

// attentionWork returns the cost of the products.
func attentionWork(a *graph.Attention) (w graph.Work) {
	z, d := attentionSizesOf(a), a.Out.DType
	n := float64(z.entries * z.blocks)
	w.Do(multiply.RateStartStep, 1)
	w.Do(multiply.RateStartProduct, 2*n/float64(z.group))
	thin := z.thin(a)
	for i, mnk := range [2][3]int{{z.rows, z.keys, z.keySize}, {z.rows, z.valueSize, z.keys}} {
		if thin[i] {
			multiply.AddThinProduct(&w, d, n, float64(mnk[0])*float64(mnk[1])*float64(mnk[2]))
		} else {
			multiply.AddProduct(&w, d, n, mnk[0], mnk[1], mnk[2])
		}
	}
	for i, rate := range attentionPackRates(a) {
		addPacking(&w, rate, z.packedElements(i))
	}
	return w
}

// thin reports, for the product of queries and keys and for the product of weights and values, whether the
// product reads its larger operand once and in place.
func (z attentionSizes) thin(a *graph.Attention) [2]bool {
	if z.group > 1 {
		return [2]bool{}
	}
	scores, values := z.specs(a, z.rows)
	return [2]bool{gemm.Supports(scores, gemm.Thin), gemm.Supports(values, gemm.Thin)}
}

// packedElements returns the number of elements that are packed if a product packs operand i: query, key or value. Keys
// and values are packed again for each block.
func (z attentionSizes) packedElements(i int) float64 {
	keys := float64(z.blocks) * float64(z.keys)
	queries := float64(z.queries)
	return float64(z.entries) * [3]float64{queries * float64(z.keySize), keys * float64(z.keySize),
		keys * float64(z.valueSize)}[i]
}

// attentionPackRates returns the names of the rates of packing query, key and value. A name is empty if products read
// the operand in place.
func attentionPackRates(a *graph.Attention) (rates [3]string) {
	z := attentionSizesOf(a)
	scores, values := z.specs(a, z.rows)
	q, k := gemm.Packs(scores)
	_, v := gemm.Packs(values)
	thin := z.thin(a)
	if q && !thin[0] {
		rates[0] = packingRate(scores.A.ColStride, scores.A.RowStride)
	}
	rank := len(a.Batch)
	if z.transposesQuery(a) {
		rates[0] = packingRate(a.Query.Strides[rank+1], a.Query.Strides[rank])
	}
	if z.transposesKey(a) {
		rates[1] = packingRate(a.Key.Strides[rank], a.Key.Strides[rank+1])
	}
	if k && !thin[0] {
		rates[1] = packingRate(scores.B.RowStride, scores.B.ColStride)
	}
	if v && !thin[1] {
		rates[2] = packingRate(values.B.RowStride, values.B.ColStride)
	}
	return rates
}

// attentionRead returns the cost of reading operand i in its layout minus the cost of reading it in row-major order.
func attentionRead(a *graph.Attention, i int) (w graph.Work) {
	dense := *a
	for _, m := range []*tensor.Meta{&dense.Query, &dense.Key, &dense.Value} {
		*m = tensor.New(m.DType, m.Shape...)
	}
	rate, denseRate := attentionPackRates(a)[i], attentionPackRates(&dense)[i]
	if n := attentionSizesOf(a).packedElements(i); rate != denseRate {
		addPacking(&w, rate, n)
		addPacking(&w, denseRate, -n)
	}
	return w
}

// attentionBlock has the compiled products and loops for a block of the given number of rows.
type attentionBlock struct {
	rows           int
	scores, values *gemm.Plan
	loops          *fusion.ScoreRows
}

// attention is the state of a compiled attention.
type attention struct {
	attentionSizes
	elemBytes              int      // number of bytes of an element
	entryOffsets           [4][]int // offsets of the entries of query, key, value and result, in elements
	queryStride, outStride int      // row strides of query and result, in elements
	blocks                 []attentionBlock
	transposed             *transposedOperand // the operand that blocks of several entries transpose, or nil
	// Sizes in bytes of the parts of worker memory: scores, scratch memory of the products, panels of the products,
	// memory of the loops, and the transposed operand.
	scoresBytes, productBytes, panelBytes, loopBytes, transposedBytes int
	run                                                               graph.PerWorker[attentionRun]
}

// attentionRun is the state of a worker that computes an attention.
type attentionRun struct {
	args           gemm.Args
	scores, values gemm.Repeated
}

// compileAttention returns the kernel of an attention.
func compileAttention(a *graph.Attention) (*graph.Kernel, error) {
	x := &attention{attentionSizes: attentionSizesOf(a)}
	rank := len(a.Batch)
	x.elemBytes = a.Out.DType.Size()
	for i, m := range []tensor.Meta{a.Query, a.Key, a.Value, a.Out} {
		x.entryOffsets[i] = a.Entries(m)
	}
	x.queryStride, x.outStride = a.Query.Strides[rank], a.Out.Strides[rank]
	for _, n := range []int{x.rows, x.queries % x.rows} {
		if n == 0 {
			continue
		}
		b := attentionBlock{rows: n}
		scores, values := x.specs(a, n)
		var err error
		if b.scores, err = gemm.NewPlan(scores); err != nil {
			return nil, err
		}
		if b.values, err = gemm.NewPlan(values); err != nil {
			return nil, err
		}
		if b.loops, err = fusion.NewScoreRows(a, x.group, n, x.rowStride, x.colStride); err != nil {
			return nil, err
		}
		x.blocks = append(x.blocks, b)
		for _, p := range []*gemm.Plan{b.scores, b.values} {
			x.productBytes = max(x.productBytes, kit.AlignUp(p.WorkerBytes()))
			x.panelBytes = max(x.panelBytes, kit.AlignUp(p.SharedBytes()))
		}
		x.loopBytes = max(x.loopBytes, b.loops.Bytes())
	}
	x.scoresBytes = kit.AlignUp(x.scoreElements * x.elemBytes)
	x.transposeOperand(a)
	perEntry := x.attentionSizes.blocks
	count := x.entries / x.group * perEntry
	perChunk := max(1, machine.MACGrain/max(1, x.group*x.rows*x.keys*(x.keySize+x.valueSize)))
	return &graph.Kernel{
		Worker: x.scoresBytes + x.productBytes + x.panelBytes + x.loopBytes + x.transposedBytes, Code: x.listings,
		Phases: []graph.Phase{{Chunks: kit.DivUp(count, perChunk), Run: func(m *graph.Mem, chunk int) error {
			for i := chunk * perChunk; i < min(count, (chunk+1)*perChunk); i++ {
				if err := x.computeBlock(m, i/perEntry*x.group, i%perEntry*x.rows); err != nil {
					return err
				}
			}
			return nil
		}}}}, nil
}

// listings returns the code of the products and loops of whole blocks.
func (x *attention) listings() (list []expr.Listing) {
	b := x.blocks[0]
	add := func(name string, assembly func() string) {
		list = append(list, expr.Listing{Name: name, Assembly: assembly})
	}
	b.scores.Listings(add)
	list = append(list, b.loops.Listings()...)
	b.values.Listings(add)
	return list
}

// computeBlock computes one block, of the given entry or of several entries from this entry on. row is the first row of
// the block.
func (x *attention) computeBlock(m *graph.Mem, entry, row int) error {
	b := x.blocks[0]
	if x.queries-row < b.rows {
		b = x.blocks[1]
	}
	memory := m.Worker[x.scoresBytes:]
	work, shared := memory[:x.productBytes], memory[x.productBytes:][:x.panelBytes]
	memory = memory[x.productBytes+x.panelBytes:]
	r := x.run.Of(m)
	args := &r.args
	scores := unsafe.Pointer(unsafe.SliceData(m.Worker))
	*args = gemm.Args{Shared: shared}
	copied := x.transpose(m, entry, memory[x.loopBytes:])
	for i := range x.group {
		args.A = x.element(m.Ptrs[1], x.entryOffsets[0][entry+i]+row*x.queryStride)
		args.B = x.element(m.Ptrs[2], x.entryOffsets[1][entry+i])
		if t := x.transposed; t != nil {
			*t.of(args) = unsafe.Add(copied, i*t.lanes*x.elemBytes)
		}
		args.C = x.element(scores, i*b.rows*x.rowStride)
		multiplySmall(b.scores, &r.scores, args, work)
	}
	weights, err := b.loops.Do(m, scores, entry, row, memory)
	if err != nil {
		return err
	}
	for i := range x.group {
		args.A = x.element(weights, i*b.rows*x.rowStride)
		args.B = x.element(m.Ptrs[3], x.entryOffsets[2][entry+i])
		args.C = x.element(m.Ptrs[0], x.entryOffsets[3][entry+i]+row*x.outStride)
		multiplySmall(b.values, &r.values, args, work)
	}
	r.scores.Release()
	r.values.Release()
	*args = gemm.Args{}
	return nil
}

// element returns the address of element i of the matrix at p. p is nil for a matrix without elements.
func (x *attention) element(p unsafe.Pointer, i int) unsafe.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, i*x.elemBytes)
}
