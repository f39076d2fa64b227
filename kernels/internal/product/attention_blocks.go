package product

// The kernel of attention: a block is a number of rows of scores (queries) of one entry of the batch. A worker
// multiplies the queries of a block by all keys, which gives scores, runs the row program that makes weights of the
// scores, and multiplies the weights by the values. Calls of scaled_dot_product_attention and attentions that package
// fusion has found in a graph use the same kernel.

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

// attend computes attention by matrix products.
var attend = &graph.Attend{
	Doc:  "Computes blocks of rows of scores, which stay in the cache until they are multiplied by the values.",
	Work: attentionWork, Read: attentionRead, Lower: compileAttention,
}

// scoreBytes is the maximum size, in bytes, of a block of scores, so that it stays in the L2 cache beside keys and
// values.
const scoreBytes = 256 << 10

// fewScoreRows is the minimum number of rows of a block, even if its scores then exceed scoreBytes.
const fewScoreRows = 16

// attentionSizes has the sizes of an attention and of its blocks. They depend on shapes only.
type attentionSizes struct {
	entries      int // number of entries of the batch
	l, s         int // queries and keys of an entry
	e, v         int // elements of a query or key, and of a value
	rows, blocks int // rows of a block, blocks of an entry
	row, col     int // strides of scores between rows and between columns, in elements
	room         int // elements of memory for a block of scores
}

func attentionSizesOf(a *graph.Attention) (z attentionSizes) {
	size := a.Out.DType.Size()
	z.entries = tensor.Numel(a.Batch)
	z.l, z.s, z.e, z.v = a.Sizes()
	line := func(n int) int { return kit.AlignUp(n*size) / size }
	z.rows = kit.DivUp(z.l, kit.DivUp(z.l, max(fewScoreRows, scoreBytes/(z.s*size))))
	z.blocks = kit.DivUp(z.l, z.rows)
	if z.row, z.col, z.room = line(z.s), 1, z.rows*line(z.s); a.ByColumns() {
		z.row, z.col, z.room = 1, line(z.rows), z.s*line(z.rows)
	}
	return z
}

// specs returns the two products of a block of n rows: queries by keys, which gives scores, and weights by values.
func (z attentionSizes) specs(a *graph.Attention, n int) (scores, values gemm.Spec) {
	rank := len(a.Batch)
	strides := func(m tensor.Meta) gemm.Operand {
		return gemm.Operand{RowStride: m.Strides[rank], ColStride: m.Strides[rank+1]}
	}
	c := strides(a.Out)
	scores = gemm.Spec{DType: a.Out.DType, M: n, N: z.s, K: z.e, A: strides(a.Query), B: strides(a.Key),
		CRowStride: z.row, CColStride: z.col}
	values = gemm.Spec{DType: a.Out.DType, M: n, N: z.v, K: z.s,
		A: gemm.Operand{RowStride: z.row, ColStride: z.col}, B: strides(a.Value),
		CRowStride: c.RowStride, CColStride: c.ColStride}
	return scores, values
}

// attentionWork returns the cost of the products.
func attentionWork(a *graph.Attention) (w graph.Work) {
	z, d := attentionSizesOf(a), a.Out.DType
	n := float64(z.entries * z.blocks)
	w.Do(multiply.Start, 1)
	w.Do(multiply.Begin, 2*n)
	thin := thinProducts(a)
	for i, m := range [2][3]int{{z.rows, z.s, z.e}, {z.rows, z.v, z.s}} {
		if thin[i] {
			multiply.ThinProduct(&w, d, n, float64(m[0])*float64(m[1])*float64(m[2]))
		} else {
			multiply.Product(&w, d, n, m[0], m[1], m[2])
		}
	}
	packs := attentionPacks(a)
	for i, kernel := range packs {
		pack(&w, kernel, z.packed(i))
	}
	return w
}

// thinProducts reports whether the product with the keys reads the keys once and in place, and likewise the product
// with the values.
func thinProducts(a *graph.Attention) [2]bool {
	z := attentionSizesOf(a)
	scores, values := z.specs(a, z.rows)
	return [2]bool{gemm.Supports(scores, gemm.Thin), gemm.Supports(values, gemm.Thin)}
}

// packed returns the number of elements that are packed if operand i (query, key or value) is packed: keys and values
// once for each block.
func (z attentionSizes) packed(i int) float64 {
	keys := float64(z.blocks) * float64(z.s)
	return float64(z.entries) * [3]float64{float64(z.l) * float64(z.e), keys * float64(z.e), keys * float64(z.v)}[i]
}

// attentionPacks returns the names of the inner kernels that pack query, key and value. The name is empty if products
// read the operand in place.
func attentionPacks(a *graph.Attention) (kernels [3]string) {
	z := attentionSizesOf(a)
	scores, values := z.specs(a, z.rows)
	q, k := gemm.Packs(scores)
	_, v := gemm.Packs(values)
	thin := thinProducts(a)
	if q && !thin[0] {
		kernels[0] = packing(scores.A.ColStride, scores.A.RowStride)
	}
	if k && !thin[0] {
		kernels[1] = packing(scores.B.RowStride, scores.B.ColStride)
	}
	if v && !thin[1] {
		kernels[2] = packing(values.B.RowStride, values.B.ColStride)
	}
	return kernels
}

// attentionRead returns the cost of reading operand i in its layout, less the cost in row-major order.
func attentionRead(a *graph.Attention, i int) (w graph.Work) {
	dense := *a
	for _, m := range []*tensor.Meta{&dense.Query, &dense.Key, &dense.Value} {
		*m = tensor.New(m.DType, m.Shape...)
	}
	is, was, n := attentionPacks(a)[i], attentionPacks(&dense)[i], attentionSizesOf(a).packed(i)
	if is != was {
		pack(&w, is, n)
		pack(&w, was, -n)
	}
	return w
}

// attentionBlock has the products and loops of a block of rows.
type attentionBlock struct {
	rows           int
	scores, values *gemm.Plan
	loops          *fusion.ScoreRows
}

// attention is the state of a compiled attention.
type attention struct {
	attentionSizes
	size   int      // bytes of an element
	at     [4][]int // offsets of the entries of query, key, value and result, in elements
	q, c   int      // strides of rows of query and result, in elements
	blocks []attentionBlock
	// The bytes of a worker's memory for scores, for scratch and shared panels of the products, and for the loops.
	own, work, shared, loops int
	args                     graph.PerWorker[gemm.Args]
}

func compileAttention(a *graph.Attention) (*graph.Kernel, error) {
	x := &attention{attentionSizes: attentionSizesOf(a)}
	rank := len(a.Batch)
	x.size = a.Out.DType.Size()
	for i, m := range []tensor.Meta{a.Query, a.Key, a.Value, a.Out} {
		x.at[i] = a.Entries(m)
	}
	x.q, x.c = a.Query.Strides[rank], a.Out.Strides[rank]
	for _, n := range []int{x.rows, x.l % x.rows} {
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
		if b.loops, err = fusion.NewScoreRows(a, n, x.row, x.col); err != nil {
			return nil, err
		}
		x.blocks = append(x.blocks, b)
		for _, p := range []*gemm.Plan{b.scores, b.values} {
			x.work = max(x.work, kit.AlignUp(p.WorkerBytes()))
			x.shared = max(x.shared, kit.AlignUp(p.SharedBytes()))
		}
		x.loops = max(x.loops, b.loops.Bytes())
	}
	x.own = kit.AlignUp(x.room * x.size)
	count := x.entries * x.attentionSizes.blocks
	group := max(1, machine.MACGrain/max(1, x.rows*x.s*(x.e+x.v)))
	return &graph.Kernel{
		Worker: x.own + x.work + x.shared + x.loops, Code: x.listings,
		Phases: []graph.Phase{{Chunks: kit.DivUp(count, group), Run: func(m *graph.Mem, chunk int) error {
			for i := chunk * group; i < min(count, (chunk+1)*group); i++ {
				if err := x.block(m, i/x.attentionSizes.blocks, i%x.attentionSizes.blocks*x.rows); err != nil {
					return err
				}
			}
			return nil
		}}}}, nil
}

// listings returns the code of the products and loops of whole blocks.
func (x *attention) listings() (list []expr.Listing) {
	b := x.blocks[0]
	add := func(name, assembly string) { list = append(list, expr.Listing{Name: name, Assembly: assembly}) }
	b.scores.Listings(add)
	list = append(list, b.loops.Listings()...)
	b.values.Listings(add)
	return list
}

// block computes the block of an entry that starts at a row.
func (x *attention) block(m *graph.Mem, entry, row int) error {
	b := x.blocks[0]
	if x.l-row < b.rows {
		b = x.blocks[1]
	}
	memory := m.Worker[x.own:]
	work, shared := memory[:x.work], memory[x.work:][:x.shared]
	args := x.args.Of(m)
	scores := unsafe.Pointer(unsafe.SliceData(m.Worker))
	*args = gemm.Args{Shared: shared, A: x.element(m.Ptrs[1], x.at[0][entry]+row*x.q),
		B: x.element(m.Ptrs[2], x.at[1][entry]), C: scores}
	b.scores.RunAll(args, work)
	weights, err := b.loops.Do(m, scores, entry, row, memory[x.work+x.shared:])
	if err != nil {
		return err
	}
	args.A, args.B, args.C = weights, x.element(m.Ptrs[3], x.at[2][entry]),
		x.element(m.Ptrs[0], x.at[3][entry]+row*x.c)
	b.values.RunAll(args, work)
	*args = gemm.Args{}
	return nil
}

// element returns the address of element i of a matrix at p. A matrix without elements has no address.
func (x *attention) element(p unsafe.Pointer, i int) unsafe.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, i*x.size)
}
