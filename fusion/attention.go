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

// This file derives, from the op of a matrix product, the op of a fused attention: scores = query * key, a row program
// that computes weights from scores, and result = weights * value. Operands 0 to 2 are query, key and value. All
// further operands, such as a mask, are operands of the row program.

// transposed returns the meta of a dense value whose last two dimensions are exchanged in memory.
func transposed(m tensor.Meta) tensor.Meta {
	rank := m.Rank()
	t := tensor.New(m.DType, m.Shape...)
	t.Strides[rank-2], t.Strides[rank-1] = 1, m.Shape[rank-2]
	return t
}

// pack transposes constants of the row program, such as a mask, to the layout of the scores. It applies to constants
// that differ from row to row and from column to column.
func (x attentionImpl) pack(c *graph.Call, i int) (p graph.Packing, ok bool) {
	if i < 3 || !c.Constant(i) || len(c.Out) != 1 {
		return p, false
	}
	dense := denseCall(c)
	a, err := x.attentionOf(dense)
	if err != nil || !a.ByColumns() || !variesInBothDimensions(a.Others[i-3]) {
		return p, false
	}
	viewShape := c.Attrs.(*Fusion).Seen[i]
	if _, err = c.Meta(i).View(viewShape); err != nil {
		return p, false
	}
	m := transposed(tensor.New(c.Meta(i).DType, viewShape...))
	viewOf := func(t *tensor.Tensor) *tensor.Tensor {
		v, err := t.Meta.View(viewShape)
		if err != nil {
			panic("graph: " + err.Error()) // the view succeeded above
		}
		return tensor.Must(t.View(v))
	}
	byColumns := func(row *tensor.Tensor) *tensor.Tensor { return tensor.Must(tensor.Over(m, row.Storage())) }
	return graph.Packing{Form: fmt.Sprintf("%v of %s by columns", m.DType, tensor.ListString(viewShape)),
		DType: m.DType, Len: m.Numel(),
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			if err := iter.CopyInto(ctx, byColumns(dst), viewOf(src), 1); err != nil {
				interrupt.Check(ctx)
				panic(err)
			}
		},
		Unpack: func(dst, packed *tensor.Tensor) { tensor.CopyElements(viewOf(dst), byColumns(packed)) }}, true
}

// variesInBothDimensions reports whether an operand of row programs differs both from row to row and from column to
// column.
func variesInBothDimensions(m tensor.Meta) bool {
	rank := m.Rank()
	return m.Shape[rank-2] > 1 && m.Shape[rank-1] > 1 && m.Strides[rank-2] != 0 && m.Strides[rank-1] != 0
}

// attentionOp returns the op of fused attentions whose two products are calls of o: see [graph.Attend]. The returned op
// is in no catalogue. attentionOp returns nil for an op without Attend.
func attentionOp(o *graph.Op) *graph.Op {
	op, _ := o.Derived(attentionKey{}, func() any { return makeAttentionOp(o) }).(*graph.Op)
	return op
}

type attentionKey struct{}

// Attends reports whether attentions whose products are calls of the op can be one node: see [graph.Attend].
func Attends(o *graph.Op) bool { return attentionOp(o) != nil }

// minExponent is the limit of the implementation "flushed", which replaces weights below e^minExponent by 0. The
// largest weight of a row is 1, and 2^16 replaced weights have a sum below 1e-21. Products of the remaining weights
// with values are far from subnormal.
const minExponent = -60

// makeAttentionOp makes the op of [attentionOp].
func makeAttentionOp(o *graph.Op) *graph.Op {
	if o.Attend == nil {
		return nil
	}
	definition := graph.Op{
		Semantics: graph.Semantics{
			Name: "fused_attention", Kind: graph.OwnLayout, Many: true,
			Doc:    "Computes a product of matrices, a row program on its result, and a product of these rows.",
			Params: []graph.Param{{Name: "operands", Variadic: true}},
			Infer:  inferFused, Ref: fusedRef,
		},
		Facts: graph.Facts{AnyOrder: true, Flops: func(c *graph.Call) float64 {
			return attentionImpl{o.Attend, false}.work(c, graph.Walk{}).Flops
		}},
		Lowerings: graph.Lowerings{
			Impls: []graph.Impl{
				attentionImpl{o.Attend, true}.impl("flushed", o.Attend.Doc+" Weights below e^-60 of the largest are 0."),
				attentionImpl{o.Attend, false}.impl("blocks", o.Attend.Doc),
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

func (x attentionImpl) impl(name, doc string) graph.Impl {
	return graph.Impl{Name: name, Doc: doc, Inexact: x.flushesWeights, Walks: x.walks, Work: x.work, Read: x.read,
		Pack:  x.pack,
		Lower: x.lower}
}

// attentionOf returns a call as a [graph.Attention], with the layouts of the call.
func (x attentionImpl) attentionOf(c *graph.Call) (*graph.Attention, error) {
	f, ok := c.Attrs.(*Fusion)
	if !ok || f.Seen == nil || len(f.Seen) != len(c.In)+1 || len(c.Out) != 1 || f.code == nil {
		return nil, errors.New("only passes can make fused nodes")
	}
	metas := make([]tensor.Meta, 0, len(c.In)+1)
	for i, viewShape := range f.Seen {
		m := c.Out[0]
		if i < len(c.In) {
			m = c.Meta(i)
		}
		m, err := m.View(viewShape)
		if err != nil {
			return nil, err
		}
		if c.Packed(i) != nil {
			m = transposed(m)
		}
		metas = append(metas, m)
	}
	last := len(metas) - 1
	a := &graph.Attention{Query: metas[0], Key: metas[1], Value: metas[2], Out: metas[last], Others: metas[3:last],
		Code: f.code}
	a.Batch = a.Out.Shape[:a.Out.Rank()-2]
	l, s, _, _ := a.Sizes()
	for i, m := range a.Others {
		var err error
		if a.Others[i], err = m.Expand(append(slices.Clone(a.Batch), l, s)); err != nil {
			return nil, err
		}
	}
	if x.flushesWeights {
		if a.Code, ok = f.code.FlushExp(minExponent); !ok {
			return nil, errors.New("the row program has no exponential to flush")
		}
	}
	return a, nil
}

// denseCall returns the call with row-major operands.
func denseCall(c *graph.Call) *graph.Call {
	r := *c
	r.In = slices.Clone(c.In)
	for i, a := range c.In {
		m := a.Meta()
		m = tensor.New(m.DType, m.Shape...)
		r.In[i] = graph.Of(&graph.Value{Meta: m, Type: m.Type()})
	}
	return &r
}

func (x attentionImpl) walks(c *graph.Call, candidates []tensor.Order) []graph.Walk {
	dense := denseCall(c)
	if len(c.Out) != 1 {
		return nil
	}
	dense.Out = []tensor.Meta{tensor.New(c.Out[0].DType, c.Out[0].Shape...)}
	if _, err := x.attentionOf(dense); err != nil {
		return nil
	}
	walks := []graph.Walk{{}}
	for _, o := range candidates {
		if o != "" && o.Rank() == c.Out[0].Rank() {
			walks = append(walks, c.InOrder(o))
		}
	}
	return walks
}

// work returns the work of the products and of the row program, plus one access to every byte of operands and results.
func (x attentionImpl) work(c *graph.Call, walk graph.Walk) (w graph.Work) {
	dense := denseCall(c)
	dense.Out = []tensor.Meta{walk.ResultLayout(0, c.Out[0])}
	f, ok := c.Attrs.(*Fusion)
	a, err := x.attentionOf(dense)
	if err != nil || !ok {
		return w
	}
	w = x.Work(a)
	w.Steps = 1
	var streamed graph.Work
	c.AddStreamed(&streamed)
	l, s, _, _ := a.Sizes()
	rows := float64(tensor.Numel(a.Batch) * l)
	n := rows * float64(s)
	if a.ByColumns() {
		rows = 0
	}
	f.effort().Do(&streamed, n, rows)
	w = w.Plus(streamed)
	w.Footprint = c.Footprint()
	return w
}

func (x attentionImpl) read(c *graph.Call, walk graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
	if i < 3 && m.IsContiguous() {
		return w, true
	}
	dense := denseCall(c)
	dense.Out = []tensor.Meta{walk.ResultLayout(0, c.Out[0])}
	dense.In[i] = graph.Of(&graph.Value{Meta: m, Type: m.Type()})
	a, err := x.attentionOf(dense)
	switch {
	case err != nil: // the operand has no view in the shape of Seen
		return w, false
	case i < 3:
		w = x.Read(a, i)
	case c.Constant(i) && a.ByColumns() && variesInBothDimensions(a.Others[i-3]): // the constant is packed
	default:
		l, s, _, _ := a.Sizes()
		scores := tensor.New(m.DType, append(slices.Clone(a.Batch), l, s)...)
		if a.ByColumns() {
			scores = transposed(scores)
		}
		w = graph.ReadWork(a.Others[i-3], scores)
	}
	if w != (graph.Work{}) {
		w.Footprint = c.Footprint()
	}
	return w, true
}

func (x attentionImpl) lower(c *graph.Call) (*graph.Kernel, error) {
	a, err := x.attentionOf(c)
	if err != nil {
		return nil, err
	}
	return x.Lower(a)
}

// Attends returns nil if nodes can be fused to one attention, otherwise an error with the reason. The nodes must be in
// a valid order. The first and the last node must multiply matrices. The nodes between them must compute or reshape the
// rows of the first product. Attends depends only on ops, shapes and dtypes.
func (f *Fuser) Attends(nodes []*graph.Node) error {
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
