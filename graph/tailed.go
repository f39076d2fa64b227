package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// tailed returns the op of nodes in which calls of o are followed by an expression of what they make: see
// [Fusion.Head]. It offers all implementations of o, by their names: those that take no tail have it applied when they
// are done, which costs another pass over the result. It is in no catalogue; nil where no implementation takes one.
func (o *Op) tailed() *Op {
	if o == nil || o.defined == nil || o.defined.behind == nil {
		return nil
	}
	return o.defined.behind()
}

// HasTail reports whether some implementation of the op goes on with what it makes: see [Impl.Tails].
func (o *Op) HasTail() bool { return o.tailed() != nil }

// makeTailed makes what tailed returns.
func (o *Op) makeTailed() *Op {
	if !slices.ContainsFunc(o.Impls, func(m Impl) bool { return m.Tails }) {
		return nil
	}
	t := Op{
		Name: "fused_" + o.Name, Kind: o.Kind, Many: true, AnyOrder: o.AnyOrder, AsInferred: o.AsInferred,
		Images: o.Images,
		Doc:    fmt.Sprintf("Computes %s, and ops that go over the elements of its result. %s", o.Name, o.Doc),
		Params: []Param{{Name: "operands", Variadic: true, Optional: true, Number: true}},
		Infer:  inferFused, NoRef: o.NoRef,
	}
	if o.Ref != nil {
		t.Ref = fusedRef
	}
	for i := range o.Impls {
		t.Impls = append(t.Impls, headed{&o.Impls[i]}.impl())
	}
	op, err := Define(t)
	if err != nil {
		panic("graph: " + err.Error())
	}
	return op
}

// headed is an implementation of a head in nodes with a tail.
type headed struct{ *Impl }

func (h headed) impl() Impl {
	return Impl{Name: h.Name, Doc: h.Doc, Inexact: h.Inexact,
		Walks: h.walks, Read: h.read, Writes: h.writes, Work: h.work, Pack: h.pack, Lower: h.lower}
}

// headOf is the call of the head within a call of the whole, whose operands it shares. Its result lies as one of the
// whole's does.
func headOf(c *Call) (*Fusion, *Call, error) {
	f, ok := c.Attrs.(*Fusion)
	if !ok || f.Head == 0 || f.Head > len(c.In) || len(c.Out) == 0 {
		return nil, nil, errors.New("a fused node is made by passes")
	}
	into := f.into()
	if into < 0 || into >= len(c.Out) {
		return nil, nil, errors.New("no result has room for what the head makes")
	}
	made := c.Out[into]
	made.DType = f.code.In[0] // of the same size
	return f, &Call{Attrs: f.Parts[0].Attrs, In: c.In[:f.Head:f.Head], Out: []tensor.Meta{made}}, nil
}

// at is the head's walk within one of the whole.
func (f *Fusion) at(w Walk) Walk {
	h := Walk{Order: w.Order}
	if into := f.into(); into < len(w.Out) {
		h.Out = w.Out[into : into+1]
	}
	return h
}

// walks are those of the head, which lay all results out alike. Where the results are inferred to lie as the head could
// not write them it has one more.
func (h headed) walks(c *Call, candidates []tensor.Order) []Walk {
	f, head, err := headOf(c)
	if err != nil {
		return nil
	}
	own := f.Parts[0].Op.AnyOrder || isStandard(head.Out[0])
	if m := head.Out[0]; !own {
		head.Out = []tensor.Meta{tensor.New(m.DType, m.Shape...)}
	}
	list := h.Walks(head, candidates)
	out := make([]Walk, 0, len(list))
	for _, w := range list {
		var lies tensor.Order
		if len(w.Out) > 0 {
			lies = w.Out[0]
		}
		if lies == "" && !own {
			lies = tensor.RowMajorOrder(head.Out[0].Rank())
		}
		if lies != "" {
			order := w.Order
			w = c.InOrder(lies)
			w.Order = order
		}
		out = append(out, w)
	}
	return out
}

// isStandard reports whether a result lies as heads lay theirs out by themselves.
func isStandard(m tensor.Meta) bool { return m.IsContiguous() || m.IsChannelsLast() }

// work is that of the head, whose result is not gone over again by who takes a tail, and of the expression, with what
// it reads and makes besides.
func (h headed) work(c *Call, walk Walk) (w Work) {
	f, head, err := headOf(c)
	if err != nil || f.effort == nil {
		return w
	}
	w = h.Work(head, f.at(walk))
	into := f.into()
	tail := Call{In: c.In[f.Head:], Out: slices.Delete(slices.Clone(c.Out), into, into+1)}
	var t Work
	tail.Streamed(&t)
	f.effort().Do(&t, float64(c.Out[into].Numel()), 0)
	if !h.Tails {
		t.Bytes[Copied] = t.Bytes[Dense] + 2*float64(c.Out[into].Bytes()) // the head has been computed by then
		t.Bytes[Dense] = 0
		tail.doRuns(&t, walk.Lay(into, c.Out[into]))
	}
	w = w.Plus(t)
	w.Footprint = c.Footprint()
	return w
}

func (h headed) read(c *Call, walk Walk, i int, m tensor.Meta) (w Work, ok bool) {
	f, is := c.Attrs.(*Fusion)
	if into := 0; is && i >= f.Head {
		if into = f.into(); into < 0 || into >= len(c.Out) {
			return w, true
		}
		w, ok = ReadWork(m, walk.Lay(into, c.Out[into])), true
	} else {
		_, head, err := headOf(c)
		if err != nil {
			return w, true
		}
		w, ok = h.Read(head, f.at(walk), i, m)
	}
	if w != (Work{}) {
		w.Footprint = c.Footprint()
	}
	return w, ok
}

// writes is that of the head for what it makes. The tail writes the others with any strides, and goes over runs of
// elements that lie one behind another.
func (h headed) writes(c *Call, walk Walk, i int, m tensor.Meta) bool {
	f, head, err := headOf(c)
	if err != nil || runOf(m) < 2 {
		return false
	}
	if i != f.into() {
		return true
	}
	return h.Writes != nil && h.Writes(head, f.at(walk), 0, m)
}

// runOf is the number of elements that lie one behind another along one dimension, at the most.
func runOf(m tensor.Meta) (n int) {
	for d, step := range m.Strides {
		if step == 1 {
			n = max(n, m.Shape[d])
		}
	}
	return n
}

func (h headed) pack(c *Call, i int) (Packing, bool) {
	f, head, err := headOf(c)
	if err != nil || i >= f.Head || h.Pack == nil {
		return Packing{}, false
	}
	head.Impl, head.Walk = h.Impl, f.at(c.Walk)
	return h.Pack(head, i)
}

func (h headed) lower(c *Call) (*Kernel, error) {
	f, head, err := headOf(c)
	if err != nil {
		return nil, err
	}
	tail, err := newTail(f, c)
	if err != nil {
		return nil, err
	}
	head.Impl, head.Walk = h.Impl, f.at(c.Walk)
	if h.Tails {
		head.Tail = tail
	}
	k, err := h.Lower(head)
	if err != nil || k == nil {
		return nil, err
	}
	if !tail.absorbed {
		if err := tail.compile(); err != nil {
			return nil, err
		}
	}
	whole := *k
	whole.InPlace, whole.Loop = nil, nil
	if !h.Tails || tail.left {
		whole.Phases = append(slices.Clone(k.Phases), tail.phase())
		whole.Arithmetic += tail.loop.PerElement() * float64(tail.numel)
	}
	if into := f.into(); len(c.Out) > 1 {
		whole.Phases = rearranged(whole.Phases, into, len(c.Out))
	}
	whole.Code = func() (list []expr.Listing) {
		if k.Code != nil {
			list = k.Code()
		}
		if tail.absorbed {
			return list
		}
		return append(list, tail.loop.Listing("tail"))
	}
	return &whole, nil
}

// phase applies the tail to the whole of the head's result.
func (t *Tail) phase() Phase {
	var grain int
	if each := t.loop.PerElement(); each > 0 {
		grain = compiledGrain(each)
	} else {
		grain = grainOf(t.code)
	}
	runs := new(PerWorker[TailRun])
	return Phase{Chunks: (t.numel + grain - 1) / grain, Run: func(m *Mem, chunk int) error {
		r := runs.Of(m)
		t.Enter(r, m)
		for at, end := chunk*grain, min((chunk+1)*grain, t.numel); at < end; {
			n := end - at
			if !t.dense {
				n = min(n, t.sizes[0]-at%t.sizes[0])
			}
			t.Do(r, t.place(at), 1, 0, n, 1)
			at += n
		}
		r.Release()
		return nil
	}}
}

// rearranged has phases see the result of the head as the first address, its operands and those of the tail behind it,
// and then the other results.
func rearranged(phases []Phase, into, results int) []Phase {
	mems, out := new(PerWorker[Mem]), make([]Phase, len(phases))
	for i, ph := range phases {
		out[i] = Phase{Chunks: ph.Chunks, Run: func(m *Mem, chunk int) error {
			in := mems.Of(m)
			m.Within(in, 0)
			in.Ptrs = append(append(in.Ptrs, m.Ptrs[into]), m.Ptrs[results:]...)
			for o, p := range m.Ptrs[:results] {
				if o != into {
					in.Ptrs = append(in.Ptrs, p)
				}
			}
			err := ph.Run(in, chunk)
			in.Release()
			return err
		}}
	}
	return out
}

// Heads tells whether what a node makes can be gone on with, by an expression, in the step of the node: the error says
// why it cannot. It follows from the op, shapes and dtypes alone.
func (f *Fuser) Heads(n *Node) error {
	switch {
	case f == nil || n == nil || n.Op.tailed() == nil || len(n.Out) != 1:
		return errNoTail
	case !loops.Compiles():
		return errors.New("no machine code is made of loops")
	case n.Out[0].Alias != nil:
		return errors.New("makes a view")
	}
	switch d := n.Out[0].Meta.DType; d {
	case tensor.Float32, tensor.Float64, tensor.Int32:
	default:
		return fmt.Errorf("makes %v, which no tail goes on with", d)
	}
	c := n.Call()
	for i := range n.Op.Impls {
		if m := &n.Op.Impls[i]; m.Tails && len(m.Walks(c, nil)) > 0 {
			return nil
		}
	}
	return errNoTail
}

var errNoTail = errors.New("has no kernel that goes on with what it makes")
