package fusion

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// This file derives, from the op of a matrix product, the op of a fused attention. An attention computes scores = query
// * key, then weights from the scores by a row program (an expression that reduces rows), and result = weights * value.
// Operands 0 to 2 are query, key and value. All further operands, such as a mask, are operands of the row program.

// productOperands is the number of operands of the two products: query, key and value. The operands of the row program
// follow.
const productOperands = 3

// transposed returns the meta of a dense value whose last two dimensions are exchanged in memory.
func transposed(meta tensor.Meta) tensor.Meta {
	rank := meta.Rank()
	t := tensor.New(meta.DType, meta.Shape...)
	t.Strides[rank-2], t.Strides[rank-1] = 1, meta.Shape[rank-2]
	return t
}

// pack transposes constants of the row program, such as a mask, to the layout of the scores. It applies only to
// constants that vary along rows and along columns.
func (attention attentionImpl) pack(call *graph.Call, i int) (p graph.Packing, ok bool) {
	if i < productOperands || !call.IsConstant(i) || len(call.Out) != 1 {
		return p, false
	}
	dense := denseCall(call)
	a, err := attention.attentionOf(dense)
	if err != nil || !a.ByColumns() || !variesInBothDimensions(a.Others[i-productOperands]) {
		return p, false
	}
	viewShape := call.Attrs.(*Fusion).ViewShapes[i]
	if _, err = call.Meta(i).View(viewShape); err != nil {
		return p, false
	}
	meta := transposed(tensor.New(call.Meta(i).DType, viewShape...))
	viewOf := func(t *tensor.Tensor) *tensor.Tensor {
		v, err := t.Meta.View(viewShape)
		if err != nil {
			panic("fusion: " + err.Error()) // the view succeeded above
		}
		return tensor.Must(t.View(v))
	}
	byColumns := func(packed *tensor.Tensor) *tensor.Tensor {
		return tensor.Must(tensor.FromStorage(meta, packed.Storage()))
	}
	return graph.Packing{Format: fmt.Sprintf("%v of %s by columns", meta.DType, tensor.ListString(viewShape)),
		DType: meta.DType, Len: meta.Numel(),
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			if err := iter.CopyInto(ctx, byColumns(dst), viewOf(src), 1); err != nil {
				interrupt.Check(ctx)
				panic(err)
			}
		},
		Unpack: func(dst, packed *tensor.Tensor) { tensor.CopyElements(viewOf(dst), byColumns(packed)) }}, true
}

// variesInBothDimensions reports whether an operand of the row program varies along rows and along columns of the
// scores.
func variesInBothDimensions(meta tensor.Meta) bool {
	rank := meta.Rank()
	return meta.Shape[rank-2] > 1 && meta.Shape[rank-1] > 1 && meta.Strides[rank-2] != 0 && meta.Strides[rank-1] != 0
}

// attentionOp returns the op of fused attentions whose two products are calls of o: see [graph.Attend]. The returned op
// is in no catalogue. attentionOp returns nil for an op without Attend.
func attentionOp(o *graph.Op) *graph.Op {
	op, _ := o.Derived(attentionKey{}, func() any { return makeAttentionOp(o) }).(*graph.Op)
	return op
}

// attentionKey is the key of the derived op: see [graph.Op.Derived].
type attentionKey struct{}

// Attends reports whether an attention that uses the op for its products can be one node: see [graph.Attend].
func Attends(op *graph.Op) bool { return attentionOp(op) != nil }

// minExponent is the limit of the implementation "flushed", which replaces weights below e^minExponent by 0. The
// largest weight of a row is 1, so that even 2^16 replaced weights add up to less than 1e-21. The remaining weights are
// so large that their products with values are normal numbers; subnormal numbers would be slow.
const minExponent = -60

// makeAttentionOp makes the op of [attentionOp].
func makeAttentionOp(o *graph.Op) *graph.Op {
	if o.Attend == nil {
		return nil
	}
	definition := graph.Op{
		Semantics: graph.Semantics{
			Name: "fused_attention", Kind: graph.OwnLayout, VariadicResults: true,
			Doc:    "Computes a product of matrices, a row program on its result, and a product of these rows.",
			Params: []graph.Param{{Name: "operands", Variadic: true}},
			Infer:  inferFused, Ref: fusedRef,
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true, Flops: func(call *graph.Call) float64 {
			return attentionImpl{Attend: o.Attend}.work(call, graph.Walk{}).Flops
		}},
		Lowerings: graph.Lowerings{
			Impls: []graph.Impl{
				attentionImpl{Attend: o.Attend, flushesWeights: true}.impl("flushed", o.Attend.Doc+
					" Weights below e^-60 of the largest are 0."),
				attentionImpl{Attend: o.Attend}.impl("blocks", o.Attend.Doc),
			},
		},
	}
	op, err := graph.Define(definition)
	if err != nil {
		panic("graph: " + err.Error())
	}
	return op
}

// attentionImpl is an implementation of fused attentions. If flushesWeights is set, it replaces small exponentials by
// 0.
type attentionImpl struct {
	*graph.Attend
	flushesWeights bool
}

// impl returns the implementation with a name and a description.
func (attention attentionImpl) impl(name, doc string) graph.Impl {
	return graph.Impl{Name: name, Doc: doc, Inexact: attention.flushesWeights, Walks: attention.walks,
		Work: attention.work, Read: attention.read, Pack: attention.pack,
		Lower: attention.lower}
}

// attentionOf returns a call as a [graph.Attention], with the layouts of the call.
func (attention attentionImpl) attentionOf(call *graph.Call) (*graph.Attention, error) {
	f, ok := call.Attrs.(*Fusion)
	if !ok || f.ViewShapes == nil || len(f.ViewShapes) != len(call.In)+1 || len(call.Out) != 1 || f.code == nil {
		return nil, errors.New("only passes can make fused nodes")
	}
	metas := make([]tensor.Meta, 0, len(call.In)+1)
	for i, viewShape := range f.ViewShapes {
		meta := call.Out[0]
		if i < len(call.In) {
			meta = call.Meta(i)
		}
		meta, err := meta.View(viewShape)
		if err != nil {
			return nil, err
		}
		if call.Packed(i) != nil {
			meta = transposed(meta)
		}
		metas = append(metas, meta)
	}
	last := len(metas) - 1
	a := &graph.Attention{Query: metas[0], Key: metas[1], Value: metas[2], Out: metas[last],
		Others: metas[productOperands:last], Code: f.code}
	a.Batch = a.Out.Shape[:a.Out.Rank()-2]
	queries, keys, _, _ := a.Sizes()
	for i, meta := range a.Others {
		var err error
		if a.Others[i], err = meta.Expand(append(slices.Clone(a.Batch), queries, keys)); err != nil {
			return nil, err
		}
	}
	if attention.flushesWeights {
		if a.Code, ok = f.code.FlushExp(minExponent); !ok {
			return nil, errors.New("the row program has no exponential to flush")
		}
	}
	return a, nil
}

// denseCall returns the call with row-major operands.
func denseCall(call *graph.Call) *graph.Call {
	dense := *call
	dense.In = slices.Clone(call.In)
	for i, a := range call.In {
		meta := a.Meta()
		meta = tensor.New(meta.DType, meta.Shape...)
		dense.In[i] = graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()})
	}
	return &dense
}

// walks returns the default walk and a walk for each candidate order of the result.
func (attention attentionImpl) walks(call *graph.Call, candidates []tensor.Order) []graph.Walk {
	dense := denseCall(call)
	if len(call.Out) != 1 {
		return nil
	}
	dense.Out = []tensor.Meta{tensor.New(call.Out[0].DType, call.Out[0].Shape...)}
	if _, err := attention.attentionOf(dense); err != nil {
		return nil
	}
	walks := []graph.Walk{{}}
	for _, order := range candidates {
		if order != "" && order.Rank() == call.Out[0].Rank() {
			walks = append(walks, call.WalkInOrder(order))
		}
	}
	return walks
}

// work returns the work of the products and of the row program, and of one access to each byte of operands and results.
func (attention attentionImpl) work(call *graph.Call, walk graph.Walk) (w graph.Work) {
	dense := denseCall(call)
	dense.Out = []tensor.Meta{walk.ResultLayout(0, call.Out[0])}
	f, ok := call.Attrs.(*Fusion)
	a, err := attention.attentionOf(dense)
	if err != nil || !ok {
		return w
	}
	w = attention.Work(a)
	w.StartedSteps = 1
	var streamed graph.Work
	call.AddStreamed(&streamed)
	queries, keys, _, _ := a.Sizes()
	rows := float64(tensor.Numel(a.Batch) * queries)
	scores := rows * float64(keys)
	if a.ByColumns() { // the cost of starting a row does not arise in loops along columns
		rows = 0
	}
	f.effort().AddTo(&streamed, scores, rows)
	w = w.Plus(streamed)
	w.Footprint = call.Footprint()
	return w
}

// read implements [graph.Impl.Read]. The layouts of query, key and value are priced by the implementation of the
// products. An operand of the row program is read in the order of the scores.
func (attention attentionImpl) read(call *graph.Call, walk graph.Walk, i int, meta tensor.Meta) (work graph.Work,
	ok bool) {
	if i < productOperands && meta.IsContiguous() {
		return work, true
	}
	dense := denseCall(call)
	dense.Out = []tensor.Meta{walk.ResultLayout(0, call.Out[0])}
	dense.In[i] = graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()})
	a, err := attention.attentionOf(dense)
	switch {
	case err != nil: // the operand has no view with its shape in ViewShapes
		return work, false
	case i < productOperands:
		work = attention.Read(a, i)
	case call.IsConstant(i) && a.ByColumns() && variesInBothDimensions(a.Others[i-productOperands]):
		// The constant is packed in the order of the scores.
	default:
		queries, keys, _, _ := a.Sizes()
		scores := tensor.New(meta.DType, append(slices.Clone(a.Batch), queries, keys)...)
		if a.ByColumns() {
			scores = transposed(scores)
		}
		work = graph.ReadWork(a.Others[i-productOperands], scores)
	}
	if work != (graph.Work{}) {
		work.Footprint = call.Footprint()
	}
	return work, true
}

// lower makes the kernel.
func (attention attentionImpl) lower(call *graph.Call) (*graph.Kernel, error) {
	a, err := attention.attentionOf(call)
	if err != nil {
		return nil, err
	}
	return attention.Lower(a)
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
