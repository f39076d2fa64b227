package fusion

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// withEpilogue returns the op of nodes in which an expression of each element follows a call of o, the anchor: see
// [Fusion.Anchor]. It has all implementations of o, by their names. Those without Epilogues apply the expression when
// they are done, in another pass over the result. The op is in no catalogue; nil if no implementation of o has
// Epilogues.
func withEpilogue(o *graph.Op) *graph.Op {
	op, _ := o.Derived(epilogueKey{}, func() any { return makeWithEpilogue(o) }).(*graph.Op)
	return op
}

type epilogueKey struct{}

// TakesEpilogue reports whether some implementation of the op applies an epilogue to its result: see
// [graph.Impl.Epilogues].
func TakesEpilogue(o *graph.Op) bool { return withEpilogue(o) != nil }

// makeWithEpilogue makes the op of [withEpilogue].
func makeWithEpilogue(o *graph.Op) *graph.Op {
	if !slices.ContainsFunc(o.Impls, func(m graph.Impl) bool { return m.Epilogues }) {
		return nil
	}
	t := graph.Op{
		Semantics: graph.Semantics{
			Name: "fused_" + o.Name, Kind: o.Kind, Many: true,
			Doc:    fmt.Sprintf("Computes %s, and ops that go over the elements of its result. %s", o.Name, o.Doc),
			Params: []graph.Param{{Name: "operands", Variadic: true, Optional: true, Number: true}},
			Infer:  inferFused, NoRef: o.NoRef,
		},
		Facts: graph.Facts{AnyOrder: o.AnyOrder, AsInferred: o.AsInferred, ImageRole: o.ImageRole},
	}
	if o.Ref != nil {
		t.Ref = fusedRef
	}
	for i := range o.Impls {
		t.Impls = append(t.Impls, anchored{&o.Impls[i]}.impl())
	}
	op, err := graph.Define(t)
	if err != nil {
		panic("graph: " + err.Error())
	}
	return op
}

// anchored is an implementation of an anchor in nodes with an epilogue.
type anchored struct{ *graph.Impl }

func (h anchored) impl() graph.Impl {
	return graph.Impl{Name: h.Name, Doc: h.Doc, Inexact: h.Inexact,
		Walks: h.walks, Read: h.read, Writes: h.writes, Work: h.work, Pack: h.pack, Lower: h.lower}
}

// anchorOf returns the call of the anchor within a call of the whole, with the same operands. Its result has the
// layout of one of the results of the whole.
func anchorOf(c *graph.Call) (*Fusion, *graph.Call, error) {
	f, ok := c.Attrs.(*Fusion)
	if !ok || f.Anchor == 0 || f.Anchor > len(c.In) || len(c.Out) == 0 {
		return nil, nil, errors.New("a fused node is made by passes")
	}
	into := f.into()
	if into < 0 || into >= len(c.Out) {
		return nil, nil, errors.New("no result has room for what the head makes")
	}
	made := c.Out[into]
	made.DType = f.code.In[0] // of the same size
	return f, &graph.Call{Attrs: f.Parts[0].Attrs, In: c.In[:f.Anchor:f.Anchor], Out: []tensor.Meta{made}}, nil
}

// at returns the walk of the anchor within a walk of the whole.
func (f *Fusion) at(w graph.Walk) graph.Walk {
	h := graph.Walk{Order: w.Order}
	if into := f.into(); into < len(w.Out) {
		h.Out = w.Out[into : into+1]
	}
	return h
}

// walks returns those of the anchor, which give all results one layout. If the anchor cannot write the inferred
// layout, there is one more, row-major.
func (h anchored) walks(c *graph.Call, candidates []tensor.Order) []graph.Walk {
	f, anchor, err := anchorOf(c)
	if err != nil {
		return nil
	}
	own := f.Parts[0].Op.AnyOrder || isStandard(anchor.Out[0])
	if m := anchor.Out[0]; !own {
		anchor.Out = []tensor.Meta{tensor.New(m.DType, m.Shape...)}
	}
	list := h.Walks(anchor, candidates)
	out := make([]graph.Walk, 0, len(list))
	for _, w := range list {
		var lies tensor.Order
		if len(w.Out) > 0 {
			lies = w.Out[0]
		}
		if lies == "" && !own {
			lies = tensor.RowMajorOrder(anchor.Out[0].Rank())
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

// isStandard reports whether a result has a layout that anchors choose by themselves.
func isStandard(m tensor.Meta) bool { return m.IsContiguous() || m.IsChannelsLast() }

// work is the work of the anchor and of the expression, with the operands and results of the expression.
// Implementations without Epilogues read and write the anchor's result once more.
func (h anchored) work(c *graph.Call, walk graph.Walk) (w graph.Work) {
	f, anchor, err := anchorOf(c)
	if err != nil || f.effort == nil {
		return w
	}
	w = h.Work(anchor, f.at(walk))
	into := f.into()
	epilogue := graph.Call{In: c.In[f.Anchor:], Out: slices.Delete(slices.Clone(c.Out), into, into+1)}
	var t graph.Work
	epilogue.Streamed(&t)
	f.effort().Do(&t, float64(c.Out[into].Numel()), 0)
	if !h.Epilogues {
		t.Bytes[graph.Copied] = t.Bytes[graph.Dense] + 2*float64(c.Out[into].Bytes()) // the anchor has been computed by then
		t.Bytes[graph.Dense] = 0
		epilogue.AddRuns(&t, walk.Lay(into, c.Out[into]))
	}
	w = w.Plus(t)
	w.Footprint = c.Footprint()
	return w
}

func (h anchored) read(c *graph.Call, walk graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
	f, is := c.Attrs.(*Fusion)
	if into := 0; is && i >= f.Anchor {
		if into = f.into(); into < 0 || into >= len(c.Out) {
			return w, true
		}
		w, ok = graph.ReadWork(m, walk.Lay(into, c.Out[into])), true
	} else {
		_, anchor, err := anchorOf(c)
		if err != nil {
			return w, true
		}
		w, ok = h.Read(anchor, f.at(walk), i, m)
	}
	if w != (graph.Work{}) {
		w.Footprint = c.Footprint()
	}
	return w, ok
}

// writes is that of the anchor for its result. The epilogue writes other results with any strides; it computes runs
// of contiguous elements.
func (h anchored) writes(c *graph.Call, walk graph.Walk, i int, m tensor.Meta) bool {
	f, anchor, err := anchorOf(c)
	if err != nil || runOf(m) < 2 {
		return false
	}
	if i != f.into() {
		return true
	}
	return h.Writes != nil && h.Writes(anchor, f.at(walk), 0, m)
}

// runOf returns the largest number of elements that are contiguous along one dimension.
func runOf(m tensor.Meta) (n int) {
	for d, step := range m.Strides {
		if step == 1 {
			n = max(n, m.Shape[d])
		}
	}
	return n
}

func (h anchored) pack(c *graph.Call, i int) (graph.Packing, bool) {
	f, anchor, err := anchorOf(c)
	if err != nil || i >= f.Anchor || h.Pack == nil {
		return graph.Packing{}, false
	}
	anchor.Impl, anchor.Walk = h.Impl, f.at(c.Walk)
	return h.Pack(anchor, i)
}

func (h anchored) lower(c *graph.Call) (*graph.Kernel, error) {
	f, anchor, err := anchorOf(c)
	if err != nil {
		return nil, err
	}
	epilogue, err := newEpilogue(f, c)
	if err != nil {
		return nil, err
	}
	anchor.Impl, anchor.Walk = h.Impl, f.at(c.Walk)
	if h.Epilogues {
		anchor.Epilogue = epilogue
	}
	k, err := h.Lower(anchor)
	if err != nil || k == nil {
		return nil, err
	}
	if !epilogue.absorbed {
		if err := epilogue.compile(); err != nil {
			return nil, err
		}
	}
	whole := *k
	whole.InPlace, whole.Loop = nil, nil
	if !h.Epilogues || epilogue.left {
		whole.Phases = append(slices.Clone(k.Phases), epilogue.phase())
		whole.Arithmetic += epilogue.loop.PerElement() * float64(epilogue.numel)
	}
	if into := f.into(); len(c.Out) > 1 {
		whole.Phases = rearranged(whole.Phases, into, len(c.Out))
	}
	whole.Code = func() (list []expr.Listing) {
		if k.Code != nil {
			list = k.Code()
		}
		if epilogue.absorbed {
			return list
		}
		return append(list, epilogue.loop.Listing("tail"))
	}
	return &whole, nil
}

// phase applies the epilogue to the whole of the anchor's result.
func (t *Epilogue) phase() graph.Phase {
	var grain int
	if each := t.loop.PerElement(); each > 0 {
		grain = compiledGrain(each)
	} else {
		grain = grainOf(t.code)
	}
	runs := new(graph.PerWorker[EpilogueRun])
	return graph.Phase{Chunks: (t.numel + grain - 1) / grain, Run: func(m *graph.Mem, chunk int) error {
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

// rearranged gives phases the anchor's result as the first address, then the operands of the anchor and the epilogue,
// and then the other results.
func rearranged(phases []graph.Phase, into, results int) []graph.Phase {
	mems, out := new(graph.PerWorker[graph.Mem]), make([]graph.Phase, len(phases))
	for i, ph := range phases {
		out[i] = graph.Phase{Chunks: ph.Chunks, Run: func(m *graph.Mem, chunk int) error {
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

// Anchors returns nil if the step of a node can continue with an expression of its result, else an error with the
// reason. It depends on the op, shapes and dtypes only.
func (f *Fuser) Anchors(n *graph.Node) error {
	switch {
	case f == nil || n == nil || withEpilogue(n.Op) == nil || len(n.Out) != 1:
		return errNoEpilogue
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
		if m := &n.Op.Impls[i]; m.Epilogues && len(m.Walks(c, nil)) > 0 {
			return nil
		}
	}
	return errNoEpilogue
}

var errNoEpilogue = errors.New("has no kernel that goes on with what it makes")
