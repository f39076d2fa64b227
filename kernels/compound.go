package kernels

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// compound builds a kernel of parts that run one after another: copies into the layout and
// dtype that loops want, kernels of other ops, and phases of the op's own. What they hand
// on to one another lies in scratch memory.
//
// Ops are made so, rather than stated as nodes of others (Decompose), where steps of their own for the parts
// would go over memory more often, or round to the dtype of values in between.
type compound struct {
	c        *graph.Call
	bytes    int // of scratch memory that holds values
	own      int // of scratch memory that a part has for itself
	worker   int
	phases   []graph.Phase
	delivery []copyJob
	err      error
	mems     sync.Pool
}

// spot is a value inside a compound.
type spot struct {
	meta  tensor.Meta
	place int            // in Mem.Ptrs of the run; -1: in scratch memory, or data
	at    int            // in scratch memory
	shift int            // bytes from there to the first element
	data  *tensor.Tensor // what is known when the kernel is compiled
	// packed says that it is an operand in the form for which the implementation asked; meta is that of
	// what it stands for.
	packed bool
}

func newCompound(c *graph.Call) *compound { return &compound{c: c} }

// in returns operand i as it lies; one that is left out has the zero meta.
func (x *compound) in(i int) spot {
	return spot{meta: x.c.Meta(i), place: len(x.c.Out) + i, data: x.c.Const(i), packed: x.c.Packed(i) != nil}
}

// temp returns room for a row-major value.
func (x *compound) temp(d tensor.DType, shape ...int) spot {
	s := spot{meta: tensor.New(d, shape...), place: -1, at: x.bytes}
	x.bytes += alignUp(s.meta.Bytes())
	return s
}

// given reports whether the spot is that of an operand that was not left out.
func (s spot) given() bool { return s.meta.DType != tensor.Invalid }

// show returns the spot under another meta of the same memory; its offset counts from the
// spot's first element.
func (s spot) show(m tensor.Meta) spot {
	s.shift += m.Offset * m.DType.Size()
	if s.data != nil {
		part := m
		part.Offset += s.data.Offset
		s.data = tensor.Must(tensor.Over(part, s.data.Storage()))
	}
	m.Offset = 0
	s.meta = m
	return s
}

// address is where the spot's first element lies in a run.
func (s *spot) address(m *graph.Mem) unsafe.Pointer {
	switch {
	case !s.given():
		return nil
	case s.place >= 0:
		if p := m.Ptrs[s.place]; p != nil {
			return unsafe.Add(p, s.shift)
		}
		return nil
	case s.data != nil:
		return s.data.Pointer()
	case s.meta.Numel() == 0:
		return nil
	}
	return unsafe.Pointer(&m.Scratch[s.at+s.shift])
}

// side is the spot as one end of a copy.
func (s spot) side() side {
	m := s.meta
	m.Offset = 0
	if s.place >= 0 {
		return side{at: s.place, off: s.shift, meta: m}
	}
	return side{at: scratchMem, off: s.at + s.shift, meta: m}
}

// dense returns the spot's elements in dtype d and in row-major order: the spot itself, or
// a copy.
func (x *compound) dense(s spot, d tensor.DType) spot {
	if !s.given() || s.packed || s.meta.DType == d && s.meta.IsContiguous() {
		return s
	}
	if s.data != nil {
		t := s.data.CopyTo(tensor.New(d, s.meta.Shape...))
		return spot{meta: t.Meta, place: -1, data: t}
	}
	t := x.temp(d, s.meta.Shape...)
	x.copies(copyJob{dst: t.side(), src: s.side()})
	return t
}

// operands returns all operands row-major, floats in the dtype in which d computes.
func (x *compound) operands(d tensor.DType) []spot {
	var out []spot
	for i := range x.c.In {
		s := x.in(i)
		if s.meta.DType.IsFloat() || s.meta.DType.IsComplex() {
			s = x.dense(s, d.OpMath())
		} else {
			s = x.dense(s, s.meta.DType)
		}
		out = append(out, s)
	}
	return out
}

// copies adds a phase of copies.
func (x *compound) copies(jobs ...copyJob) {
	ph, worker, err := copyPhase(jobs...)
	if err != nil && x.err == nil {
		x.err = err
	}
	x.phases = append(x.phases, ph)
	x.worker = max(x.worker, worker)
}

// result returns where the parts write output i, row-major and in dtype d: the output, or
// room from which it is copied at the end.
func (x *compound) result(i int, d tensor.DType) spot {
	m := x.c.Out[i]
	if m.DType == d && m.IsContiguous() {
		return spot{meta: m, place: i}
	}
	t := x.temp(d, m.Shape...)
	x.delivery = append(x.delivery, copyJob{dst: outSide(x.c, i), src: t.side()})
	return t
}

// run adds phases. They see the spots' addresses as their Mem.Ptrs, scratch bytes of
// memory for themselves, and worker bytes for each worker.
func (x *compound) run(scratch, worker int, spots []spot, phases ...graph.Phase) {
	x.own, x.worker = max(x.own, scratch), max(x.worker, worker)
	for _, ph := range phases {
		run := ph.Run
		ph.Run = func(m *graph.Mem, chunk int) error {
			in, _ := x.mems.Get().(*graph.Mem)
			if in == nil {
				in = new(graph.Mem)
			}
			in.Ptrs = in.Ptrs[:0]
			for i := range spots {
				in.Ptrs = append(in.Ptrs, spots[i].address(m))
			}
			in.Scratch, in.Worker, in.Cursor = m.Scratch[x.bytes:], m.Worker, m.Cursor
			err := run(in, chunk)
			clear(in.Ptrs)
			in.Scratch, in.Worker, in.Cursor = nil, nil, nil
			x.mems.Put(in)
			return err
		}
		x.phases = append(x.phases, ph)
	}
}

// call adds the kernel of another op. Operands without a meta count as left out.
func (x *compound) call(op *graph.Op, a graph.Attrs, outs []spot, ins ...spot) {
	if x.err != nil {
		return
	}
	c := &graph.Call{}
	if c.Attrs, x.err = op.Schema.Decode(a, nil); x.err != nil {
		return
	}
	for _, o := range outs {
		c.Out = append(c.Out, o.meta)
	}
	spots := append(append([]spot(nil), outs...), ins...)
	for _, s := range ins {
		arg := graph.Arg{}
		if s.given() {
			arg = graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: s.meta, Const: s.data}}
		}
		c.In = append(c.In, arg)
	}
	if x.err = packInner(op, c, spots[len(outs):]); x.err != nil {
		return
	}
	k, err := op.Compile(c)
	if err != nil {
		x.err = fmt.Errorf("%s: %w", op.Name, err)
		return
	}
	for i, t := range k.Bound {
		if t != nil {
			spots[len(outs)+i] = spot{meta: t.Meta, place: -1, data: t}
		}
	}
	x.run(k.Scratch, k.Worker, spots, k.Phases...)
}

// packInner packs the operands of another op's call that are known when the kernel is compiled: no pass
// sees them.
func packInner(op *graph.Op, c *graph.Call, ins []spot) error {
	c.Impl = op.Fitting(c)
	if c.Impl == nil || c.Impl.Pack == nil {
		return nil
	}
	for i := range ins {
		if ins[i].data == nil {
			continue
		}
		form, ok := c.Impl.Pack(c, i)
		if !ok {
			continue
		}
		v, err := graph.PackConstant(c.In[i].Value, form)
		if err != nil {
			return err
		}
		c.In[i].Value = v
		ins[i] = spot{meta: v.Meta, place: -1, data: v.Const}
	}
	return nil
}

// kernel returns the whole.
func (x *compound) kernel() (*graph.Kernel, error) {
	if len(x.delivery) > 0 {
		x.copies(x.delivery...)
	}
	return &graph.Kernel{Phases: x.phases, Scratch: x.bytes + x.own, Worker: x.worker}, x.err
}

// elementsOf is the n elements of a row-major value at p.
func elementsOf[T any](p unsafe.Pointer, n int) []T {
	if p == nil {
		return nil
	}
	return unsafe.Slice((*T)(p), n)
}

// cutUnits parts units of work, each worth some elements, into chunks.
func cutUnits(units, elements int, f func(m *graph.Mem, begin, end int) error) graph.Phase {
	per := max(1, compoundGrain/max(1, elements))
	return graph.Phase{Chunks: divUp(units, per), Run: func(m *graph.Mem, chunk int) error {
		return f(m, chunk*per, min((chunk+1)*per, units))
	}}
}

// compoundGrain is the number of simple steps worth a chunk.
const compoundGrain = 1 << 15
