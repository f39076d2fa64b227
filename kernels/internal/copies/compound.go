package copies

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Compound builds a kernel of parts that run one after another: copies into the layout and
// dtype that loops want, kernels of other ops, and phases of the op's own. What they hand
// on to one another lies in scratch memory.
type Compound struct {
	C        *graph.Call
	bytes    int // of scratch memory that holds values
	own      int // of scratch memory that a part has for itself
	worker   int
	phases   []graph.Phase
	delivery []Job
	err      error
	mems     sync.Pool
}

// Spot is a value inside a compound.
type Spot struct {
	Meta  tensor.Meta
	Place int            // in Mem.Ptrs of the run; -1: in scratch memory, or data
	at    int            // in scratch memory
	shift int            // bytes from there to the first element
	Data  *tensor.Tensor // what is known when the kernel is compiled
}

// NewCompound begins the kernel of a call.
func NewCompound(c *graph.Call) *Compound { return &Compound{C: c} }

// In returns operand i as it lies; one that is left out has the zero meta.
func (x *Compound) In(i int) Spot {
	return Spot{Meta: x.C.Meta(i), Place: len(x.C.Out) + i, Data: x.C.Const(i)}
}

// Temp returns room for a row-major value.
func (x *Compound) Temp(d tensor.DType, shape ...int) Spot {
	s := Spot{Meta: tensor.New(d, shape...), Place: -1, at: x.bytes}
	x.bytes += kit.AlignUp(s.Meta.Bytes())
	return s
}

// Given reports whether the spot is that of an operand that was not left out.
func (s Spot) Given() bool { return s.Meta.DType != tensor.Invalid }

// Show returns the spot under another meta of the same memory; its offset counts from the
// spot's first element.
func (s Spot) Show(m tensor.Meta) Spot {
	s.shift += m.Offset * m.DType.Size()
	if s.Data != nil {
		part := m
		part.Offset += s.Data.Offset
		s.Data = tensor.Must(tensor.Over(part, s.Data.Storage()))
	}
	m.Offset = 0
	s.Meta = m
	return s
}

// address is where the spot's first element lies in a run.
func (s *Spot) address(m *graph.Mem) unsafe.Pointer {
	switch {
	case !s.Given():
		return nil
	case s.Place >= 0:
		if p := m.Ptrs[s.Place]; p != nil {
			return unsafe.Add(p, s.shift)
		}
		return nil
	case s.Data != nil:
		return s.Data.Pointer()
	case s.Meta.Numel() == 0:
		return nil
	}
	return unsafe.Pointer(&m.Scratch[s.at+s.shift])
}

// Side is the spot as one end of a copy.
func (s Spot) Side() Side {
	m := s.Meta
	m.Offset = 0
	if s.Place >= 0 {
		return Side{At: s.Place, Off: s.shift, Meta: m}
	}
	return Side{At: ScratchMem, Off: s.at + s.shift, Meta: m}
}

// Dense returns the spot's elements in dtype d and in row-major order: the spot itself, or
// a copy.
func (x *Compound) Dense(s Spot, d tensor.DType) Spot {
	if !s.Given() || s.Meta.DType == d && s.Meta.IsContiguous() {
		return s
	}
	if s.Data != nil {
		t := s.Data.CopyTo(tensor.New(d, s.Meta.Shape...))
		return Spot{Meta: t.Meta, Place: -1, Data: t}
	}
	t := x.Temp(d, s.Meta.Shape...)
	x.Copies(Job{Dst: t.Side(), Src: s.Side()})
	return t
}

// Operands returns all operands row-major, floats in the dtype in which d computes.
func (x *Compound) Operands(d tensor.DType) []Spot {
	var out []Spot
	for i := range x.C.In {
		s := x.In(i)
		if s.Meta.DType.IsFloat() || s.Meta.DType.IsComplex() {
			s = x.Dense(s, d.OpMath())
		} else {
			s = x.Dense(s, s.Meta.DType)
		}
		out = append(out, s)
	}
	return out
}

// Copies adds a phase of copies.
func (x *Compound) Copies(jobs ...Job) {
	ph, worker, err := Phase(jobs...)
	if err != nil && x.err == nil {
		x.err = err
	}
	x.phases = append(x.phases, ph)
	x.worker = max(x.worker, worker)
}

// Result returns where the parts write output i, row-major and in dtype d: the output, or
// room from which it is copied at the end.
func (x *Compound) Result(i int, d tensor.DType) Spot {
	m := x.C.Out[i]
	if m.DType == d && m.IsContiguous() {
		return Spot{Meta: m, Place: i}
	}
	t := x.Temp(d, m.Shape...)
	x.delivery = append(x.delivery, Job{Dst: OutSide(x.C, i), Src: t.Side()})
	return t
}

// Laid is [Compound.Result] for parts that write any strides: the output as it lies, or, where its dtype
// is another, room.
func (x *Compound) Laid(i int, d tensor.DType) Spot {
	if m := x.C.Out[i]; m.DType == d {
		return Spot{Meta: m, Place: i}
	}
	return x.Result(i, d)
}

// Run adds phases. They see the spots' addresses as their Mem.Ptrs, scratch bytes of
// memory for themselves, and worker bytes for each worker.
func (x *Compound) Run(scratch, worker int, spots []Spot, phases ...graph.Phase) {
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

// Call adds the kernel of another op. Operands without a meta count as left out.
func (x *Compound) Call(op *graph.Op, a graph.Attrs, outs []Spot, ins ...Spot) {
	if x.err != nil {
		return
	}
	c := &graph.Call{}
	if c.Attrs, x.err = op.Schema.Decode(a, nil); x.err != nil {
		return
	}
	for _, o := range outs {
		c.Out = append(c.Out, o.Meta)
	}
	for _, s := range ins {
		arg := graph.Arg{}
		if s.Given() {
			arg = graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: s.Meta, Const: s.Data}}
		}
		c.In = append(c.In, arg)
	}
	k, err := op.Compile(c)
	if err != nil {
		x.err = fmt.Errorf("%s: %w", op.Name, err)
		return
	}
	spots := append(append([]Spot(nil), outs...), ins...)
	for i, t := range k.Bound {
		if t != nil {
			spots[len(outs)+i] = Spot{Meta: t.Meta, Place: -1, Data: t}
		}
	}
	x.Run(k.Scratch, k.Worker, spots, k.Phases...)
}

// Kernel returns the whole.
func (x *Compound) Kernel() (*graph.Kernel, error) {
	if len(x.delivery) > 0 {
		x.Copies(x.delivery...)
	}
	return &graph.Kernel{Phases: x.phases, Scratch: x.bytes + x.own, Worker: x.worker}, x.err
}

// CutUnits parts units of work, each worth some elements, into chunks.
func CutUnits(units, elements int, f func(m *graph.Mem, begin, end int) error) graph.Phase {
	per := max(1, UnitGrain/max(1, elements))
	return graph.Phase{Chunks: kit.DivUp(units, per), Run: func(m *graph.Mem, chunk int) error {
		return f(m, chunk*per, min((chunk+1)*per, units))
	}}
}

// UnitGrain is the number of simple steps worth a chunk.
const UnitGrain = 1 << 15
