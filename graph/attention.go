package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Attend is how an op that multiplies matrices, [..., m, k] by [..., k, n] gives [..., m, n] with batches that
// broadcast, computes nodes that stand for such a product, loops over the rows of what it makes, and a product of
// these rows with another matrix, which is what attention is: some rows after the other, so that what lies between is
// never in memory as a whole.
type Attend struct {
	Doc string // how it computes, in one sentence
	// Work is what there is to do for the two products where query, key and value are row-major.
	Work func(a *Attention) Work
	// Read is what it takes more that the query (0), the key (1) or the value (2) lies as the call has it.
	Read func(a *Attention, i int) Work
	// Lower makes the kernel. Addresses are those of the result, query, key, value, and what the loops read besides.
	Lower func(a *Attention) (*Kernel, error)
}

// Attention is a call of a node that stands for two products and the loops over rows between, as kernels see it: in
// as many dimensions as the batches of all its parts come to. Dimensions in which an operand is broadcast have size 1.
type Attention struct {
	Query, Key, Value tensor.Meta // [..., l, e], [..., e, s] and [..., s, v]
	Out               tensor.Meta // [..., l, v]
	Batch             []int

	others []tensor.Meta // what the loops read besides the scores, of the shape of those: of stride 0 where broadcast
	code   *expr.Code    // operand 0 is the scores
}

// sizes are those of matrices: l queries and s keys of e elements, and values of v.
func (a *Attention) sizes() (l, s, e, v int) {
	rank := len(a.Batch)
	return a.Query.Shape[rank], a.Key.Shape[rank+1], a.Query.Shape[rank+1], a.Value.Shape[rank+1]
}

// columnRows are the rows of scores from which on they lie by columns: loops fold all rows of a register at once then,
// and none of them lane by lane.
const columnRows = 16

// ByColumns reports whether scores lie by columns while loops go over them: it follows from the shape.
func (a *Attention) ByColumns() bool {
	return a != nil && a.code != nil && a.Query.Shape[len(a.Batch)] >= columnRows
}

// turned is a value with its last two dimensions the other way round in memory, and dense.
func turned(m tensor.Meta) tensor.Meta {
	rank := m.Rank()
	t := tensor.New(m.DType, m.Shape...)
	t.Strides[rank-2], t.Strides[rank-1] = 1, m.Shape[rank-2]
	return t
}

// pack has constants that differ from row to row and from column to column lie as scores do.
func (x attended) pack(c *Call, i int) (p Packing, ok bool) {
	if i < 3 || !c.Constant(i) || len(c.Out) != 1 {
		return p, false
	}
	d := c.dense()
	a, err := x.attentionOf(d)
	if err != nil || !a.ByColumns() || !differs(a.others[i-3]) {
		return p, false
	}
	seen := c.Attrs.(*Fusion).Seen[i]
	if _, err = c.Meta(i).View(seen); err != nil {
		return p, false
	}
	m := turned(tensor.New(c.Meta(i).DType, seen...))
	from := func(t *tensor.Tensor) *tensor.Tensor {
		v, err := t.Meta.View(seen)
		if err != nil {
			panic("graph: " + err.Error()) // it was seen so before
		}
		return tensor.Must(t.View(v))
	}
	as := func(row *tensor.Tensor) *tensor.Tensor { return tensor.Must(tensor.Over(m, row.Storage())) }
	return Packing{Form: fmt.Sprintf("%v of %s by columns", m.DType, tensor.ListString(seen)),
		DType: m.DType, Len: m.Numel(),
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			if err := iter.CopyInto(ctx, as(dst), from(src), 1); err != nil {
				ends.Look(ctx)
				panic(err)
			}
		},
		Unpack: func(dst, packed *tensor.Tensor) { tensor.CopyElements(from(dst), as(packed)) }}, true
}

// differs reports whether an operand of loops over scores differs both from row to row and from column to column.
func differs(m tensor.Meta) bool {
	rank := m.Rank()
	return m.Shape[rank-2] > 1 && m.Shape[rank-1] > 1 && m.Strides[rank-2] != 0 && m.Strides[rank-1] != 0
}

// attending returns the op of nodes that begin and end with products of o: see [Attend]. It is in no catalogue; nil
// where there is none.
func (o *Op) attending() *Op {
	if o == nil || o.defined == nil || o.defined.attends == nil {
		return nil
	}
	return o.defined.attends()
}

// Attends reports whether the op computes nodes that begin and end with products of its own: see [Attend].
func (o *Op) Attends() bool { return o.attending() != nil }

// leastExponent is the exponent below which weights are 0 where they are flushed: sums of up to 2^16 of them stay
// below 1e-21 of a weight of 1, and their products with values are far from subnormal.
const leastExponent = -60

// makeAttending makes what attending returns.
func (o *Op) makeAttending() *Op {
	if o.Attend == nil {
		return nil
	}
	t := Op{
		Name: "fused_attention", Kind: Own, Many: true, AnyOrder: true,
		Doc:    "Computes a product of matrices, loops over the rows of what that makes, and a product of these rows.",
		Params: []Param{{Name: "operands", Variadic: true}},
		Infer:  inferFused, Ref: fusedRef,
		Impls: []Impl{
			attended{o.Attend, true}.impl("flushed", o.Attend.Doc+" Weights below e^-60 of the largest are 0."),
			attended{o.Attend, false}.impl("blocks", o.Attend.Doc),
		},
	}
	op, err := Define(t)
	if err != nil {
		panic("graph: " + err.Error())
	}
	return op
}

// attended is an implementation of nodes that begin and end with products: with exponentials flushed, or exactly.
type attended struct {
	*Attend
	flush bool
}

func (x attended) impl(name, doc string) Impl {
	return Impl{Name: name, Doc: doc, Inexact: x.flush, Walks: x.walks, Work: x.work, Read: x.read, Pack: x.pack,
		Lower: x.lower}
}

// attentionOf reads a call; operands lie as it has them.
func (x attended) attentionOf(c *Call) (*Attention, error) {
	f, ok := c.Attrs.(*Fusion)
	if !ok || f.Seen == nil || len(f.Seen) != len(c.In)+1 || len(c.Out) != 1 || f.code == nil {
		return nil, errors.New("a fused node is made by passes")
	}
	metas := make([]tensor.Meta, 0, len(c.In)+1)
	for i, seen := range f.Seen {
		m := c.Out[0]
		if i < len(c.In) {
			m = c.Meta(i)
		}
		m, err := m.View(seen)
		if err != nil {
			return nil, err
		}
		if c.Packed(i) != nil {
			m = turned(m)
		}
		metas = append(metas, m)
	}
	last := len(metas) - 1
	a := &Attention{Query: metas[0], Key: metas[1], Value: metas[2], Out: metas[last], others: metas[3:last], code: f.code}
	a.Batch = a.Out.Shape[:a.Out.Rank()-2]
	l, s, _, _ := a.sizes()
	for i, m := range a.others {
		var err error
		if a.others[i], err = m.Expand(append(slices.Clone(a.Batch), l, s)); err != nil {
			return nil, err
		}
	}
	if x.flush {
		if a.code, ok = f.code.FlushExp(leastExponent); !ok {
			return nil, errors.New("there is nothing to flush")
		}
	}
	return a, nil
}

// dense is a call whose operands are row-major.
func (c *Call) dense() *Call {
	r := *c
	r.In = slices.Clone(c.In)
	for i, a := range c.In {
		m := a.Meta()
		m = tensor.New(m.DType, m.Shape...)
		r.In[i] = Of(&Value{Meta: m, Type: m.Type()})
	}
	return &r
}

func (x attended) walks(c *Call, candidates []tensor.Order) []Walk {
	d := c.dense()
	if len(c.Out) != 1 {
		return nil
	}
	d.Out = []tensor.Meta{tensor.New(c.Out[0].DType, c.Out[0].Shape...)}
	if _, err := x.attentionOf(d); err != nil {
		return nil
	}
	walks := []Walk{{}}
	for _, o := range candidates {
		if o != "" && o.Rank() == c.Out[0].Rank() {
			walks = append(walks, c.InOrder(o))
		}
	}
	return walks
}

// work is that of the products, of the loops, and the bytes of all operands and results once.
func (x attended) work(c *Call, walk Walk) (w Work) {
	d := c.dense()
	d.Out = []tensor.Meta{walk.Lay(0, c.Out[0])}
	f, ok := c.Attrs.(*Fusion)
	a, err := x.attentionOf(d)
	if err != nil || !ok {
		return w
	}
	w = x.Work(a)
	w.Steps = 1
	var moved Work
	c.Streamed(&moved)
	l, s, _, _ := a.sizes()
	rows := float64(tensor.Numel(a.Batch) * l)
	n := rows * float64(s)
	if a.ByColumns() {
		rows = 0
	}
	f.effort().Do(&moved, n, rows)
	w = w.Plus(moved)
	w.Footprint = c.Footprint()
	return w
}

func (x attended) read(c *Call, walk Walk, i int, m tensor.Meta) (w Work, ok bool) {
	if i < 3 && m.IsContiguous() {
		return w, true
	}
	d := c.dense()
	d.Out = []tensor.Meta{walk.Lay(0, c.Out[0])}
	d.In[i] = Of(&Value{Meta: m, Type: m.Type()})
	a, err := x.attentionOf(d)
	switch {
	case err != nil: // rows that are joined, as the scores have them, do not lie so
		return w, false
	case i < 3:
		w = x.Read(a, i)
	case c.Constant(i) && a.ByColumns() && differs(a.others[i-3]): // it is packed
	default:
		l, s, _, _ := a.sizes()
		scores := tensor.New(m.DType, append(slices.Clone(a.Batch), l, s)...)
		if a.ByColumns() {
			scores = turned(scores)
		}
		w = ReadWork(a.others[i-3], scores)
	}
	if w != (Work{}) {
		w.Footprint = c.Footprint()
	}
	return w, true
}

func (x attended) lower(c *Call) (*Kernel, error) {
	a, err := x.attentionOf(c)
	if err != nil {
		return nil, err
	}
	return x.Lower(a)
}

// Attends tells whether nodes, in a valid order, can be one that computes an attention: the first and the last
// multiply matrices, and those between go over rows of what the first makes, or show them in another shape. The error
// says why they cannot. It follows from ops, shapes and dtypes alone.
func (f *Fuser) Attends(nodes []*Node) error {
	if f == nil || f.graph == nil || len(nodes) < 3 {
		return errors.New("an attention is two products and what lies between")
	}
	last := nodes[len(nodes)-1]
	if last == nil || len(last.Out) != 1 {
		return errors.New("an attention ends with a product")
	}
	_, err := f.whole(Together{Nodes: nodes, Attention: true}, func(v *Value) bool { return v == last.Out[0] })
	if err != nil {
		return fmt.Errorf("cannot be one step: %w", err)
	}
	return nil
}
