package fusion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file derives, from the op of a matrix product, the op of a fused attention. An attention computes scores = query
// * key. A row program (an expression that reduces rows) computes weights from the scores. The result is weights *
// value. Operands 0 to 2 are query, key and value. All further operands, such as a mask, are operands of the row
// program. For example, with a batch b, m queries and n keys:
//
//	scores  [b, m, n] = query [b, m, k] * key [b, k, n]
//	weights [b, m, n] = softmax(scores + mask [n])         the row program
//	result  [b, m, v] = weights * value [b, n, v]

// productOperandCount is the number of operands of the two products: query, key and value. The operands of the row
// program follow.
const productOperandCount = 3

// attentionOp returns the op of fused attentions in which both products are calls of the op `product`. The Attend of
// product computes them: see [graph.Attend]. attentionOp returns nil if product has no Attend. No catalogue has the
// returned op.
func attentionOp(product *graph.Op) *graph.Op {
	derived, _ := product.Derived(attentionKey{}, func() any { return makeAttentionOp(product) }).(*graph.Op)
	return derived
}

// attentionKey is the key of the derived op: see [graph.Op.Derived].
type attentionKey struct{}

// Attends reports whether an attention whose two products are calls of the op can be one node: see [graph.Attend].
func Attends(op *graph.Op) bool { return attentionOp(op) != nil }

// makeAttentionOp makes the op of [attentionOp].
func makeAttentionOp(product *graph.Op) *graph.Op {
	if product.Attend == nil {
		return nil
	}
	definition := graph.Op{
		Semantics: graph.Semantics{
			Name: "fused_attention", Kind: graph.OwnLayout, VariadicResults: true,
			Doc:    "Computes a product of matrices, a row program on its result, and a product of these rows.",
			Params: []graph.Param{{Name: "operands", Variadic: true}},
			Infer:  inferFused, Ref: fusedRef,
		},
		Facts: graph.Facts{ConstantsByAddress: true, WritesAnyDenseLayout: true, Flops: func(call *graph.Call) float64 {
			return attentionImpl{Attend: product.Attend}.work(call, graph.Walk{}).Flops
		}},
		Lowerings: graph.Lowerings{
			Impls: []graph.Impl{
				attentionImpl{Attend: product.Attend, flushesWeights: true}.impl("flushed", product.Attend.Doc+
					" Weights below e^-60 of the largest are 0."),
				attentionImpl{Attend: product.Attend}.impl("blocks", product.Attend.Doc),
			},
		},
	}
	derived, err := graph.Define(definition)
	if err != nil {
		panic("graph: " + err.Error())
	}
	return derived
}

// minExponent is the limit of the implementation "flushed", which replaces weights below e^minExponent by 0. The
// largest weight of a row is 1, so that even 2^16 replaced weights have a sum below 1e-21. The remaining weights are so
// large that their products with values are normal numbers; subnormal numbers would be slow.
const minExponent = -60

// attentionImpl is an implementation of fused attentions. If flushesWeights is set, it replaces small exponentials by
// 0. The methods work, read and lower take a call. They call Work, Read and Lower of graph.Attend, which take the
// [graph.Attention] of the call.
type attentionImpl struct {
	*graph.Attend
	flushesWeights bool
}

// impl returns the implementation with a name and a description.
func (implementation attentionImpl) impl(name, doc string) graph.Impl {
	return graph.Impl{Name: name, Doc: doc, Inexact: implementation.flushesWeights, Walks: implementation.walks,
		Work: implementation.work, Read: implementation.read, Pack: implementation.pack,
		Lower: implementation.lower}
}

// attentionOf returns a call as a [graph.Attention], with the layouts of the call. Models reshape between the parts of
// an attention. Therefore the attention accesses views of the operands and of the result, such as [b, h, m, k] for a
// query [b*h, m, k]. [Fusion.ViewShapes] has the shapes of these views.
func (implementation attentionImpl) attentionOf(call *graph.Call) (*graph.Attention, error) {
	return implementation.viewed(call, func(fused *Fusion, i int) (meta tensor.Meta, err error) {
		if i == len(call.In) {
			return call.Out[0].View(fused.ViewShapes[i])
		}
		if meta, err = call.Meta(i).View(fused.ViewShapes[i]); err == nil && call.Packed(i) != nil {
			meta = transposed(meta) // attentionImpl.pack packs by columns
		}
		return meta, err
	})
}

// inRowMajor returns a call as a [graph.Attention] with row-major operands, except that operand i has layout meta, and
// with the given layout of the result. A negative i stands for no operand. Walks, work and packing must not depend on
// the layouts of the operands, which are chosen later: see [graph.Impl.Read].
func (implementation attentionImpl) inRowMajor(call *graph.Call, out tensor.Meta, i int, meta tensor.Meta) (
	*graph.Attention, error) {
	return implementation.viewed(call, func(fused *Fusion, k int) (tensor.Meta, error) {
		switch k {
		case len(call.In):
			return out.View(fused.ViewShapes[k])
		case i:
			return meta.View(fused.ViewShapes[k])
		}
		operand := call.Meta(k)
		if tensor.Numel(fused.ViewShapes[k]) != operand.Numel() {
			return operand, fmt.Errorf("operand %d of shape %v has no view of shape %v", k, operand.Shape, fused.ViewShapes[k])
		}
		return tensor.New(operand.DType, fused.ViewShapes[k]...), nil
	})
}

// viewed returns a call as a [graph.Attention]. view returns the meta of operand i, or of the result after the last
// operand, in its shape in [Fusion.ViewShapes].
func (implementation attentionImpl) viewed(call *graph.Call, view func(fused *Fusion, i int) (tensor.Meta, error)) (
	*graph.Attention, error) {
	fused, ok := call.Attrs.(*Fusion)
	if !ok || !fused.isAttention() || len(fused.ViewShapes) != len(call.In)+1 || len(call.Out) != 1 ||
		fused.code == nil {
		return nil, errors.New("only passes can make fused nodes")
	}
	last := len(call.In)
	metas := make([]tensor.Meta, last+1)
	var err error
	for i := range metas {
		if metas[i], err = view(fused, i); err != nil {
			return nil, err
		}
	}
	attention := &graph.Attention{Query: metas[0], Key: metas[1], Value: metas[2], Out: metas[last],
		Others: metas[productOperandCount:last], Code: fused.code}
	attention.Batch = attention.Out.Shape[:attention.Out.Rank()-2]
	scores := scoresShape(attention)
	for i, meta := range attention.Others { // expand the operands of the row program to the scores
		if attention.Others[i], err = meta.Expand(scores); err != nil {
			return nil, err
		}
	}
	if implementation.flushesWeights {
		if attention.Code, ok = fused.code.FlushExp(minExponent); !ok {
			return nil, errors.New("the row program has no exponential to flush")
		}
	}
	return attention, nil
}

// scoresShape returns the shape of the scores: the batch, the number of queries and the number of keys.
func scoresShape(attention *graph.Attention) []int {
	queries, keys, _, _ := attention.Sizes()
	return append(slices.Clone(attention.Batch), queries, keys)
}

// lower makes the kernel.
func (implementation attentionImpl) lower(call *graph.Call) (*graph.Kernel, error) {
	attention, err := implementation.attentionOf(call)
	if err != nil {
		return nil, err
	}
	return implementation.Lower(attention)
}

// noOperand is the argument i of inRowMajor for no operand.
const noOperand = -1

// walks returns the default walk of a call and a walk for each candidate order of the result. A walk is an order of the
// loops, with the layout of the result.
func (implementation attentionImpl) walks(call *graph.Call, candidates []tensor.Order) []graph.Walk {
	if len(call.Out) != 1 {
		return nil
	}
	out := tensor.New(call.Out[0].DType, call.Out[0].Shape...)
	if _, err := implementation.inRowMajor(call, out, noOperand, tensor.Meta{}); err != nil {
		return nil
	}
	walks := []graph.Walk{{}} // the zero Walk is the default
	for _, order := range candidates {
		if order != "" && order.Rank() == call.Out[0].Rank() {
			walks = append(walks, call.WalkInOrder(order))
		}
	}
	return walks
}

// work returns the work of the products and of the row program, and of one access to each byte of operands and results.
func (implementation attentionImpl) work(call *graph.Call, walk graph.Walk) (total pricing.Work) {
	fused, ok := call.Attrs.(*Fusion)
	attention, err := implementation.inRowMajor(call, walk.ResultLayout(0, call.Out[0]), noOperand, tensor.Meta{})
	if err != nil || !ok {
		return total
	}
	total = implementation.Work(attention)
	total.StartedSteps = 1 // the fixed cost of a step
	var streamed pricing.Work
	call.AddStreamed(&streamed)
	queries, keys, _, _ := attention.Sizes()
	rows := float64(tensor.Numel(attention.Batch) * queries)
	scores := rows * float64(keys)
	if attention.ByColumns() { // vectors compute many rows at once, so no row is started separately
		rows = 0
	}
	fused.effort().AddTo(&streamed, scores, rows)
	total = total.Plus(streamed)
	total.Footprint = call.Footprint()
	return total
}

// read implements [graph.Impl.Read]: the work of reading operand i in layout meta. The implementation of the products
// estimates the work for query, key and value. An operand of the row program is read in the order of the scores.
func (implementation attentionImpl) read(call *graph.Call, walk graph.Walk, i int, meta tensor.Meta) (work pricing.Work,
	ok bool) {
	if i < productOperandCount && meta.IsContiguous() { // no additional work
		return work, true
	}
	attention, err := implementation.inRowMajor(call, walk.ResultLayout(0, call.Out[0]), i, meta)
	switch {
	case err != nil: // with layout meta, the operand has no view with the shape in ViewShapes
		return work, false
	case i < productOperandCount:
		work = implementation.Read(attention, i)
	case call.IsConstant(i) && attention.ByColumns() && variesInBothDimensions(attention.Others[i-productOperandCount]):
		// The constant is packed in the order of the scores, so that there is no additional work.
	default:
		scores := tensor.New(meta.DType, scoresShape(attention)...)
		if attention.ByColumns() {
			scores = transposed(scores)
		}
		work = graph.ReadWork(attention.Others[i-productOperandCount], scores)
	}
	if work != (pricing.Work{}) {
		work.Footprint = call.Footprint()
	}
	return work, true
}

// pack transposes operand i if the scores are stored by columns ([graph.Attention.ByColumns]). Operand i is a constant
// operand of the row program, such as a mask. It must vary along rows and along columns of the scores.
func (implementation attentionImpl) pack(call *graph.Call, i int) (packing graph.Packing, ok bool) {
	if i < productOperandCount || !call.IsConstant(i) || len(call.Out) != 1 {
		return packing, false
	}
	viewed, err := implementation.inRowMajor(call, call.Out[0], noOperand, tensor.Meta{})
	if err != nil || !viewed.ByColumns() || !variesInBothDimensions(viewed.Others[i-productOperandCount]) {
		return packing, false
	}
	viewShape := call.Attrs.(*Fusion).ViewShapes[i] // the shape in which the attention reads the operand
	if _, err = call.Meta(i).View(viewShape); err != nil {
		return packing, false
	}
	// The views of the operand and of its packed form have the same shape, and different orders in memory.
	meta := transposed(tensor.New(call.Meta(i).DType, viewShape...))
	viewOf := func(data *tensor.Tensor) *tensor.Tensor {
		viewMeta, err := data.Meta.View(viewShape)
		if err != nil {
			panic("fusion: " + err.Error()) // the view succeeded above
		}
		return tensor.Must(data.View(viewMeta))
	}
	byColumns := func(packed *tensor.Tensor) *tensor.Tensor {
		return tensor.Must(tensor.FromStorage(meta, packed.Storage()))
	}
	return graph.Packing{Format: fmt.Sprintf("%v of %s by columns", meta.DType, tensor.ListString(viewShape)),
		DType: meta.DType, Len: meta.Numel(),
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			const workers = 1
			if err := iter.CopyInto(ctx, byColumns(dst), viewOf(src), workers); err != nil {
				interrupt.Check(ctx)
				panic(err)
			}
		},
		Unpack: func(dst, packed *tensor.Tensor) { tensor.CopyElements(viewOf(dst), byColumns(packed)) }}, true
}

// transposed returns the meta of a dense value whose last two dimensions are exchanged in memory.
func transposed(meta tensor.Meta) tensor.Meta {
	rank := meta.Rank()
	exchanged := tensor.New(meta.DType, meta.Shape...)
	exchanged.Strides[rank-2], exchanged.Strides[rank-1] = 1, meta.Shape[rank-2]
	return exchanged
}

// variesInBothDimensions reports whether an operand of the row program varies along rows and along columns of the
// scores.
func variesInBothDimensions(meta tensor.Meta) bool {
	rank := meta.Rank()
	return meta.Shape[rank-2] > 1 && meta.Shape[rank-1] > 1 && meta.Strides[rank-2] != 0 && meta.Strides[rank-1] != 0
}

// CheckAttention returns nil if nodes can be fused to one attention, otherwise an error with the reason. The nodes must
// be in a valid order. The first and the last node must multiply matrices. The nodes between them must compute or
// reshape the rows of the first product. The outcome depends only on ops, shapes and dtypes.
func (f *Fuser) CheckAttention(nodes []*graph.Node) error {
	if f == nil || f.graph == nil || len(nodes) < 3 {
		return errors.New("an attention has two products and nodes between them")
	}
	last := nodes[len(nodes)-1]
	if last == nil || len(last.Out) != 1 {
		return errors.New("an attention ends with a product")
	}
	_, err := f.fusedNode(Group{Nodes: nodes, Attention: true}, func(v *graph.Value) bool { return v == last.Out[0] })
	if err != nil {
		return fmt.Errorf("cannot be one step: %w", err)
	}
	return nil
}

// ScoreRows computes the weights of an attention from a block of consecutive rows of scores. Scores are the products of
// queries and keys, and the weights multiply the values. With a mask, for example, a row of weights is
//
//	weights[row, :] = softmax(scores[row, :] + mask[row, :])
//
// This expression is the row program (Code of [graph.Attention]), and mask is one of the other operands (Others).
// ScoreRows may be used by several goroutines.
type ScoreRows struct {
	plan        *rowprog.Plan             // of the row program, the expression that computes a row of weights
	inPlace     bool                      // weights overwrite the scores
	operands    []scoreOperand            // the operands of the attention after query, key and value
	weightBytes int                       // bytes of the weights if they do not overwrite the scores, else 0
	state       graph.PerWorker[rowState] // addresses of outputs and operands, and the state of the plan
}

// scoreOperand describes the memory of an operand of the row program.
type scoreOperand struct {
	matrixOffsets []int // byte offset of each matrix of the batch
	rowStride     int   // stride of rows in bytes
}

// scoreOperandOf returns the scoreOperand for offsets and a stride in elements.
func scoreOperandOf(matrixOffsets []int, rowStride, elementBytes int) scoreOperand {
	byteOffsets := make([]int, len(matrixOffsets))
	for i, offset := range matrixOffsets {
		byteOffsets[i] = offset * elementBytes
	}
	return scoreOperand{matrixOffsets: byteOffsets, rowStride: rowStride * elementBytes}
}

// NewScoreRows prepares the row program of an attention for blocks of scores. A block consists of the given number of
// rows from each of `matrices` consecutive matrices of the batch. rowStride and colStride are the strides of the scores
// between rows and between columns, in elements. One of the two strides must be 1. Inner loops run along the dimension
// of stride 1. The first row of a matrix is rowStride after the last row of the previous matrix. If matrices > 1,
// consecutive matrices of each operand in a.Others must have a constant distance in memory. NewScoreRows does not check
// this.
func NewScoreRows(a *graph.Attention, matrices, rows, rowStride, colStride int) (*ScoreRows, error) {
	if a == nil || a.Code == nil || matrices <= 0 || rows <= 0 || rowStride != 1 && colStride != 1 {
		return nil, errors.New("an attention needs code, rows, and scores that are contiguous along rows or columns")
	}
	_, keys, _, _ := a.Sizes() // a row has a score for each key
	block := func(dtype tensor.DType, matrixStride, rowStride, colStride int) tensor.Meta {
		return tensor.Meta{DType: dtype, Shape: []int{matrices, rows, keys},
			Strides: []int{matrixStride, rowStride, colStride}}
	}
	r := &ScoreRows{}
	outs := []tensor.Meta{block(a.Code.Out[0].DType, rows*rowStride, rowStride, colStride)}
	ins := []tensor.Meta{block(a.Code.In[0], rows*rowStride, rowStride, colStride)}
	direction := rowprog.ByRows
	if rowStride == 1 {
		direction = rowprog.ByColumns
	}
	rank := len(a.Batch) // the dimensions of the batch precede rows and columns
	for _, meta := range a.Others {
		operandRowStride, operandColStride := meta.Strides[rank], meta.Strides[rank+1]
		offsets := a.Entries(meta) // the offset of each matrix of the batch, in elements
		matrixStride := 0          // distance of these offsets
		if matrices > 1 && len(offsets) > 1 {
			matrixStride = offsets[1] - offsets[0]
		}
		ins = append(ins, block(meta.DType, matrixStride, operandRowStride, operandColStride))
		r.operands = append(r.operands, scoreOperandOf(offsets, operandRowStride, meta.DType.Size()))
	}
	reduced := []bool{false, false, true} // folds are over the keys
	var err error
	if r.plan, err = rowprog.New(a.Code, outs, ins, reduced, direction); err != nil {
		return nil, err
	}
	r.inPlace = slices.Contains(r.plan.InPlace(), [2]int{0, 0}) // output 0, the weights, may overwrite operand 0
	if !r.inPlace {
		r.weightBytes = outs[0].Extent() * outs[0].DType.Size()
	}
	return r, nil
}

// Bytes returns the size of the memory that [ScoreRows.Weigh] needs.
func (r *ScoreRows) Bytes() int {
	if r == nil || r.plan == nil {
		return 0
	}
	// Scratch is shared by the chunks of a run. One worker runs all chunks, and needs WorkerScratch once.
	return align(r.plan.WorkerScratch()) + align(r.plan.Scratch()) + align(r.weightBytes)
}

// align rounds a size in bytes up to whole cache lines of 64 bytes.
func align(bytes int) int { return (bytes + 63) &^ 63 }

// FoldOrder describes the order in which the row program folds: see FoldOrder of [graph.Kernel].
func (r *ScoreRows) FoldOrder() string {
	if r == nil || r.plan == nil {
		return ""
	}
	return r.plan.FoldOrder()
}

// Listings returns descriptions of the code of all loops, in the order in which the loops run.
func (r *ScoreRows) Listings() []expr.Listing {
	if r == nil || r.plan == nil {
		return nil
	}
	return r.plan.Listings()
}

// Weigh computes the weights of a block of scores. The block starts at the given row of the given matrix of the batch.
// Weigh returns the address of the weights, which is `scores` or an address in `memory`. memory must be 64-byte aligned
// and have [ScoreRows.Bytes] bytes. Addresses are not checked.
func (r *ScoreRows) Weigh(m *graph.Mem, scores unsafe.Pointer, matrix, row int, memory []byte) (unsafe.Pointer, error) {
	weights := scores
	if !r.inPlace {
		weights = unsafe.Pointer(unsafe.SliceData(memory))
		memory = memory[align(r.weightBytes):]
	}
	state := r.state.Get(m)
	state.ptrs = append(state.ptrs[:0], weights, scores)
	others := m.Ptrs[1+productOperandCount:] // after the result, query, key and value
	for i, operand := range r.operands {
		state.ptrs = append(state.ptrs, unsafe.Add(others[i], operand.matrixOffsets[matrix]+row*operand.rowStride))
	}
	workerScratch, scratch := memory, memory[align(r.plan.WorkerScratch()):]
	for phase := range r.plan.Phases() {
		for chunk := range r.plan.Chunks(phase) {
			state.Context = m.Context
			if err := r.plan.Run(&state.State, phase, chunk, state.ptrs, scratch, workerScratch); err != nil {
				return nil, err
			}
		}
	}
	clear(state.ptrs) // the state must not keep memory alive
	return weights, nil
}
