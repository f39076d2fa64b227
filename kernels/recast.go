package kernels

import (
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// converted compiles a call such that it computes in dtype d: operands of other dtypes are
// converted into scratch memory by a phase of their own, and the results by one at the
// end, which rounds once. Packed operands are in dtype d already. Layouts stay as they are, but for
// operands that are not dense.
//
// It serves kernels that use every element many times, for which the copies are cheap.
func converted(c *graph.Call, d tensor.DType, compile func(*graph.Call) (*graph.Kernel, error)) (*graph.Kernel, error) {
	r := &recast{nout: len(c.Out)}
	in := inDType(c, d)
	for i, m := range c.Out {
		if err := r.pass(i, m, in.Out[i]); err != nil {
			return nil, err
		}
	}
	for i, a := range c.In {
		if a.Kind != graph.TensorArg || c.Packed(i) != nil {
			continue
		}
		if err := r.pass(len(c.Out)+i, a.Meta(), in.Meta(i)); err != nil {
			return nil, err
		}
	}
	k, err := compile(in)
	if err != nil || len(r.copies) == 0 {
		return k, err
	}
	return r.wrap(k), nil
}

// inDType is the call as a kernel that computes in dtype d sees it.
func inDType(c *graph.Call, d tensor.DType) *graph.Call {
	as := func(m tensor.Meta) tensor.Meta {
		if m.DType == d || m.DType == tensor.Invalid {
			return m
		}
		return denseAs(m, d)
	}
	in := &graph.Call{Attrs: c.Attrs, Impl: c.Impl, Walk: c.Walk}
	for _, m := range c.Out {
		in.Out = append(in.Out, as(m))
	}
	for _, a := range c.In {
		if a.Kind == graph.TensorArg {
			v := *a.Value
			if p := v.Packed; p != nil {
				q := *p
				q.Meta = as(p.Meta)
				q.Type = q.Meta.Type()
				v.Packed = &q
			} else if m := as(v.Meta); m.DType != v.Meta.DType {
				v.SetMeta(m)
				v.Const = nil // it is the copy that is read
			}
			a.Value = &v
		}
		in.In = append(in.In, a)
	}
	return in
}

// denseAs is the meta of a dense copy in dtype d with the order of dimensions of m.
func denseAs(m tensor.Meta, d tensor.DType) tensor.Meta {
	if m.IsNonOverlappingAndDense() {
		return tensor.Meta{DType: d, Shape: m.Shape, Strides: m.Strides}
	}
	return tensor.Meta{DType: d, Shape: m.Shape, Strides: tensor.DenseStrides(m.Shape, m.Strides)}
}

// recast stands between a run and a kernel that computes in another dtype.
type recast struct {
	nout   int
	copies []converting
	bytes  int
	inner  *graph.Kernel
	mems   sync.Pool
}

// converting is an operand or output that passes through scratch memory.
type converting struct {
	place  int // in Mem.Ptrs
	at     int // in scratch
	it     *iter.Iterator
	loop   iter.Loop
	chunks int
}

// pass plans the conversion of an operand or output that lies as m and stands as dense inside.
func (r *recast) pass(place int, m, dense tensor.Meta) error {
	if m.DType == dense.DType {
		return nil
	}
	from, to := m, dense
	if place < r.nout {
		from, to = dense, m
	}
	it, err := iter.Copy(iter.Of(to), iter.Of(from)).Build()
	if err != nil {
		return err
	}
	cv := directConverter(to.DType, from.DType)
	r.copies = append(r.copies, converting{place: place, at: r.bytes, it: it,
		chunks: it.Chunks(iter.GrainSize),
		loop: func(p []unsafe.Pointer, st []int, n0, n1 int) error {
			for j := range n1 {
				cv(unsafe.Add(p[0], j*st[2]), unsafe.Add(p[1], j*st[3]), st[0], st[1], n0)
			}
			return nil
		}})
	r.bytes += alignUp(dense.Bytes())
	return nil
}

// wrap puts the conversions around the kernel's phases. Its own scratch lies behind the
// copies.
func (r *recast) wrap(k *graph.Kernel) *graph.Kernel {
	r.inner = k
	out := &graph.Kernel{Scratch: r.bytes + k.Scratch, Worker: k.Worker}
	out.Phases = append(out.Phases, r.convert(r.nout, 1<<30)...)
	for _, ph := range k.Phases {
		out.Phases = append(out.Phases, graph.Phase{Chunks: ph.Chunks, Run: func(m *graph.Mem, chunk int) error {
			in := r.mem(m)
			err := ph.Run(&in.Mem, chunk)
			r.release(in)
			return err
		}})
	}
	out.Phases = append(out.Phases, r.convert(0, r.nout)...)
	return out
}

// convert is the phase that converts the operands in [first, end); none if there is none.
func (r *recast) convert(first, end int) []graph.Phase {
	var list []converting
	chunks := 0
	for _, c := range r.copies {
		if c.place >= first && c.place < end {
			list = append(list, c)
			chunks += c.chunks
		}
	}
	if chunks == 0 {
		return nil
	}
	return []graph.Phase{{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
		i := 0
		for chunk >= list[i].chunks {
			chunk -= list[i].chunks
			i++
		}
		c := &list[i]
		in := r.mem(m)
		var p [2]unsafe.Pointer
		p[0], p[1] = in.Ptrs[c.place], m.Ptrs[c.place]
		if c.place < r.nout {
			p[0], p[1] = p[1], p[0]
		}
		in.pair = append(in.pair[:0], p[:]...)
		err := c.it.ForRange(m.Cursor, in.pair, c.it.Chunk(chunk, iter.GrainSize), c.loop)
		r.release(in)
		return err
	}}}
}

// innerMem is the memory of the inner kernel in one chunk. It is kept from run to run.
type innerMem struct {
	graph.Mem
	pair []unsafe.Pointer
}

func (r *recast) mem(m *graph.Mem) *innerMem {
	in, _ := r.mems.Get().(*innerMem)
	if in == nil {
		in = new(innerMem)
	}
	in.Ptrs = append(in.Ptrs[:0], m.Ptrs...)
	for i := range r.copies {
		c := &r.copies[i]
		if in.Ptrs[c.place] != nil {
			in.Ptrs[c.place] = unsafe.Pointer(unsafe.SliceData(m.Scratch[c.at:]))
		}
	}
	in.Scratch, in.Worker, in.Cursor = m.Scratch[r.bytes:], m.Worker, m.Cursor
	return in
}

// release returns the memory without the addresses of the run.
func (r *recast) release(in *innerMem) {
	clear(in.Ptrs)
	clear(in.pair)
	in.Scratch, in.Worker, in.Cursor = nil, nil, nil
	r.mems.Put(in)
}

// directConverter converts between 16-bit floats and float32 without a stage between, and
// other dtypes as tensor.Converter does.
func directConverter(to, from tensor.DType) tensor.ConvertFunc {
	switch {
	case to == tensor.Float32 && from == tensor.Float16:
		return convertBy(tensor.Half.Float32)
	case to == tensor.Float32 && from == tensor.BFloat16:
		return convertBy(tensor.Brain.Float32)
	case to == tensor.Float16 && from == tensor.Float32:
		return convertBy(tensor.HalfOf)
	case to == tensor.BFloat16 && from == tensor.Float32:
		return convertBy(tensor.BrainOf)
	}
	return tensor.Converter(to, from)
}

func convertBy[D, S any](f func(S) D) tensor.ConvertFunc {
	return func(dst, src unsafe.Pointer, ds, ss, n int) {
		for i := range n {
			*(*D)(unsafe.Add(dst, i*ds)) = f(*(*S)(unsafe.Add(src, i*ss)))
		}
	}
}
