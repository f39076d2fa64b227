package graph

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/sweeps"
	"github.com/graphrun/graphrun/tensor"
)

// Rows is what a call that folds computes, as an expression over the rows of operand 0: the elements that differ in the
// reduced dimensions alone. Passes can put it into larger ones.
type Rows struct {
	// Mask marks the reduced dimensions of operand 0. Results have its shape or that which is left of it, with size 1
	// in reduced dimensions where Keepdim says so.
	Mask    []bool
	Keepdim bool
	// In holds, by operand of Code, that of the call. They are broadcast to the shape of operand 0.
	In []int
	// Code has the dtypes that operands and results have in memory.
	Code *expr.Code
	// Way is how loops go, where an implementation decides it.
	Way sweeps.Way

	full []int // the shape that operands are broadcast to, where that is not operand 0's own
}

// rowWorkerBytes bounds the memory of a worker: rows that are longer, and would be put aside, are left to kernels that
// need none.
const rowWorkerBytes = 4 << 20

// Compile returns the kernel; nil, without an error, where machine code cannot be made of all its loops, or rows
// would take much memory.
func (r *Rows) Compile(c *Call) (*Kernel, error) {
	p, err := r.plan(c)
	if err != nil || !p.Compiled() || p.Worker() > rowWorkerBytes {
		return nil, err
	}
	return r.kernel(c, p), nil
}

// kernel runs a plan.
func (r *Rows) kernel(c *Call, p *sweeps.Plan) *Kernel {
	w := &rowWork{plan: p, in: r.In, outs: len(c.Out), places: len(c.Out) + len(c.In)}
	k := &Kernel{Scratch: p.Scratch(), Worker: p.Worker(), Code: p.Listings}
	full := r.full
	if full == nil {
		full = c.Meta(0).Shape
	}
	k.Arithmetic = p.PerElement() * float64(tensor.Numel(full))
	for phase := range p.Phases() {
		k.Phases = append(k.Phases, Phase{Chunks: p.Chunks(phase), Run: func(m *Mem, chunk int) error {
			return w.run(m, phase, chunk)
		}})
	}
	for _, pair := range p.InPlace() {
		if in := r.In[pair[1]]; slices.Equal(c.Meta(in).Shape, c.Out[pair[0]].Shape) {
			k.InPlace = append(k.InPlace, InPlace{Out: pair[0], In: in})
		}
	}
	return k
}

// plan prepares the sweeps for the layouts of the call.
func (r *Rows) plan(c *Call) (*sweeps.Plan, error) {
	full := r.full
	if full == nil {
		full = c.Meta(0).Shape
	}
	if len(r.Mask) != len(full) {
		return nil, fmt.Errorf("rows of %d dimensions in an operand of shape %s", len(r.Mask), tensor.ListString(full))
	}
	var outs, ins []tensor.Meta
	for i, m := range c.Out {
		switch {
		case slices.Equal(m.Shape, full):
		case !slices.Equal(m.Shape, iter.ReduceShape(full, r.Mask, r.Keepdim)):
			return nil, fmt.Errorf("result %d has shape %s, neither that of the operand nor of its rows", i,
				tensor.ListString(m.Shape))
		default:
			m = iter.ReduceOutput(m, r.Mask, r.Keepdim)
		}
		outs = append(outs, m)
	}
	for _, i := range r.In {
		if i < 0 || i >= len(c.In) || c.In[i].Kind != TensorArg {
			return nil, errors.New("rows of an operand that is no tensor")
		}
		m, err := c.Meta(i).Expand(full)
		if err != nil {
			return nil, err
		}
		ins = append(ins, m)
	}
	return sweeps.New(r.Code, outs, ins, r.Mask, r.Way)
}

// rowWork runs the chunks of a kernel.
type rowWork struct {
	plan         *sweeps.Plan
	in           []int
	outs, places int
	state        PerWorker[rowState]
}

type rowState struct {
	sweeps.State
	ptrs []unsafe.Pointer
}

func (w *rowWork) run(m *Mem, phase, chunk int) error {
	if len(m.Ptrs) < w.places {
		return fmt.Errorf("%d addresses of %d", len(m.Ptrs), w.places)
	}
	s := w.state.Of(m)
	s.ptrs = append(s.ptrs[:0], m.Ptrs[:w.outs]...)
	for _, i := range w.in {
		s.ptrs = append(s.ptrs, m.Ptrs[w.outs+i])
	}
	err := w.plan.Run(&s.State, phase, chunk, s.ptrs, m.Scratch, m.Worker)
	clear(s.ptrs)
	return err
}
