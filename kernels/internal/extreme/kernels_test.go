//go:build (linux || darwin) && !386 && !arm

package extreme_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// room bounds the bytes of an operand, a result or the scratch memory of a call.
const room = 1 << 20

// rooms are pieces of memory between guard pages.
type rooms struct {
	near [][]byte
	far  farRoom
}

// place returns n bytes directly before or after a guard page.
func (r *rooms) place(t testing.TB, k, n int, behind bool) []byte {
	for len(r.near) <= k {
		r.near = append(r.near, jittest.Guarded(t, room))
	}
	if behind {
		return r.near[k][:n:n]
	}
	return r.near[k][room-n:]
}

// outOf is memory for a layout, filled as memory of a run may be.
func (r *rooms) outOf(t testing.TB, k int, m tensor.Meta, behind bool) *tensor.Tensor {
	n := m.Extent() * m.DType.Size()
	if n > room {
		return r.far.place(t, m)
	}
	memory := r.place(t, k, n, behind)
	for i := range memory {
		memory[i] = 0x55
	}
	return tensor.Must(tensor.FromStorage(m, tensor.StorageOf(memory)))
}

// operands draws the elements of operands, which are between guard pages.
func (r *rooms) operands(t testing.TB, c *call, n *graph.Node) []*tensor.Tensor {
	now.begin(c, "fill")
	in, d := make([]*tensor.Tensor, len(c.in)), c.choices
	wild, special := d.one(16), d.one(8)
	elementwise := c.op.Kind == graph.FollowsOperands || c.op.Kind == graph.View || c.op.SelectsElements
	rounds := slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return !v.Meta.DType.IsIntegral(true) })
	c.special = rounds && (wild || special) && !elementwise || !c.representable()
	for i, m := range c.in {
		if m.DType == tensor.Invalid || c.numbers[i] != nil {
			continue
		}
		in[i] = r.outOf(t, i, m, d.one(2))
		below, sizes := -1, false
		if i < len(c.op.Params) && c.op.Params[i].IndexBound != nil {
			if sizes = n.Out[0].Dynamic; !sizes {
				below = c.op.Params[i].IndexBound(n.Call())
			}
		}
		mixed := kerneltest.NonzeroValues(d.rng)
		kit.EachIndex(m.Shape, func(at []int) {
			x := mixed(m.DType)
			switch {
			case m.DType.IsIntegral(false) && wild && d.rng.IntN(4) == 0:
				extreme := int64(d.integer())
				if sizes && extreme > mostElements && extreme < tensor.MaxBytes {
					extreme %= mostElements // a valid size, of a result that takes too long to compare
				}
				x = tensor.IntScalar(extreme)
			case m.DType.IsIntegral(false) && below > 0:
				x = tensor.IntScalar(d.rng.Int64N(int64(below)))
			case m.DType.IsIntegral(false):
				x = tensor.IntScalar(d.rng.Int64N(int64(2 + 6*(i&1))))
			case m.DType.IsFloat() && special && d.rng.IntN(4) == 0:
				x = tensor.FloatScalar(d.float())
			case m.DType.IsFloat() && c.recurs():
				x = tensor.FloatScalar(x.Float() / 8)
			}
			in[i].Set(x, at...)
		})
	}
	return in
}

// recurs reports whether results of a step are operands of the next. With large weights each step would multiply the
// rounding of the one before, so that results of long sequences are all rounding.
func (c *call) recurs() bool {
	return slices.ContainsFunc([]string{"lstm", "gru", "rnn"}, func(cell string) bool {
		return strings.Contains(c.op.Name, cell)
	})
}

// representable reports whether the numbers of a call are the same in all floating-point dtypes but for small errors:
// others become infinities or 0, or exceed their addends by orders of magnitude.
func (c *call) representable() bool {
	ok := func(v any) bool {
		switch x := v.(type) {
		case float64:
			return x == 0 || math.Abs(x) > 1e-3 && math.Abs(x) < 1e3
		case int:
			return x > -1e3 && x < 1e3
		case []float64:
			return !slices.ContainsFunc(x, func(x float64) bool { return !(math.Abs(x) < 1e3) })
		}
		return true
	}
	for _, f := range c.op.Schema.Fields {
		if v, given := c.attrs[f.Name]; given && !strings.Contains(f.Type, "int") && !ok(v) {
			return false
		}
	}
	return !slices.ContainsFunc(c.numbers, func(v any) bool { return !ok(v) })
}

// made is the results of a kernel, or its error about the elements of operands.
type made struct {
	name    string
	out     []*tensor.Tensor
	inexact bool
	err     error
}

// kernels runs every implementation of the call in every way that it takes. Results are copied.
func (r *rooms) kernels(t testing.TB, c *call, n *graph.Node, in []*tensor.Tensor) (all []made, err error) {
	switch {
	case n.Out[0].Dynamic || c.op.Decompose != nil:
		return nil, nil
	case n.Out[0].Alias != nil:
		out, err := views(n, in)
		return []made{{name: "view", out: out}}, err
	}
	for i := range c.op.Impls {
		impl := &c.op.Impls[i]
		for k, w := range impl.Walks(n.Call(), orders(n.Out[0].Meta.Rank())) {
			name := fmt.Sprintf("%s, walk %d", impl.Name, k)
			now.begin(c, name)
			out, refused, err := r.lowered(t, c, n, impl, w, in)
			if err != nil {
				return all, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, made{name, out, impl.Inexact, refused})
		}
	}
	return all, nil
}

// views returns results that share the memory of operands.
func views(n *graph.Node, in []*tensor.Tensor) (out []*tensor.Tensor, err error) {
	for _, v := range n.Out {
		x := slices.IndexFunc(n.In, func(a graph.Arg) bool { return a.Value == v.Alias })
		if x < 0 {
			return nil, fmt.Errorf("%s shares the memory of no operand", v.Name)
		}
		y, err := in[x].View(v.Meta)
		if err != nil {
			return nil, fmt.Errorf("a view reaches outside of its operand: %w", err)
		}
		out = append(out, y)
	}
	return out, nil
}

// scratchBytes is the scratch memory that a kernel may want for the few elements of a call.
const scratchBytes = 64 << 20

// lowered runs an implementation on operands that it reads. It may refuse their elements.
func (r *rooms) lowered(t testing.TB, c *call, n *graph.Node, impl *graph.Impl, w graph.Walk,
	in []*tensor.Tensor) (outs []*tensor.Tensor, refused, err error) {
	call, read := n.Call(), slices.Clone(in)
	call.In, call.Out = slices.Clone(call.In), slices.Clone(call.Out)
	call.Impl, call.Walk = impl, w
	outs = make([]*tensor.Tensor, len(call.Out))
	behind := c.choices.one(2)
	for i := range outs {
		call.Out[i] = w.ResultLayout(i, call.Out[i])
		outs[i] = r.outOf(t, len(in)+i, call.Out[i], behind)
	}
	for i, a := range call.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		if _, ok := impl.Read(call, w, i, a.Meta()); !ok && a.Meta().Numel() > 0 {
			read[i] = r.copied(t, len(in)+len(outs)+i, a.Meta(), w, in[i])
			v := *a.Value
			v.SetMeta(read[i].Meta)
			call.In[i].Value = &v
		}
	}
	if err := pack(c, call, read); err != nil {
		return nil, nil, err
	}
	k, err := impl.Lower(call)
	if err != nil {
		return nil, nil, fmt.Errorf("lower: %w", err)
	}
	if k.Scratch < 0 || k.WorkerScratch < 0 || k.Scratch > scratchBytes || k.WorkerScratch > scratchBytes {
		return nil, nil, fmt.Errorf("the kernel wants %d bytes of scratch memory, and %d for each worker", k.Scratch,
			k.WorkerScratch)
	}
	if err := r.run(t, k, call, read, outs); err != nil {
		return nil, err, nil
	}
	for i := range outs {
		outs[i] = outs[i].CopyTo(tensor.New(outs[i].DType, outs[i].Shape...))
	}
	return outs, nil, nil
}

// copied brings an operand into the layout that a walk wants, as the planner would.
func (r *rooms) copied(t testing.TB, k int, m tensor.Meta, w graph.Walk, x *tensor.Tensor) *tensor.Tensor {
	to := tensor.New(m.DType, m.Shape...)
	if w.LoopOrder.Rank() == m.Rank() {
		to = m.WithStrides(w.LoopOrder.Strides(m.Shape))
	}
	y := r.outOf(t, k, to, false)
	tensor.CopyElements(y, x)
	return y
}

// pack makes constants of some operands, in the form that the implementation wants them in.
func pack(c *call, call *graph.Call, in []*tensor.Tensor) error {
	if call.Impl.Pack == nil || c.choices.one(2) {
		return nil
	}
	for i, a := range call.In {
		if a.Kind != graph.TensorArg || i == 0 || isFar(a.Meta()) {
			continue
		}
		v := *a.Value
		v.Const = in[i]
		call.In[i].Value = &v
	}
	for i, a := range call.In {
		if a.Kind != graph.TensorArg || a.Value.Const == nil {
			continue
		}
		form, ok := call.Impl.Pack(call, i)
		if !ok {
			continue
		}
		v, err := graph.PackConstant(a.Value, form)
		if err != nil {
			return fmt.Errorf("packing operand %d: %w", i, err)
		}
		call.In[i].Value = v
	}
	return nil
}

// run runs a kernel, the chunks of a phase from the last to the first.
func (r *rooms) run(t testing.TB, k *graph.Kernel, call *graph.Call, in, outs []*tensor.Tensor) error {
	m := k.NewMem()
	for i, bytes := range []*[]byte{&m.Scratch, &m.WorkerScratch} {
		if n := (len(*bytes) + tensor.Align - 1) &^ (tensor.Align - 1); n <= room && n == len(*bytes) {
			*bytes = r.place(t, 2*len(in)+len(outs)+i, n, false)
		}
	}
	for _, x := range outs {
		m.Ptrs = append(m.Ptrs, x.Pointer())
	}
	for i := range call.In {
		var p unsafe.Pointer
		switch {
		case k.EmbeddedOperands != nil && k.EmbeddedOperands[i] != nil:
			p = k.EmbeddedOperands[i].Pointer()
		case call.Packed(i) != nil:
			p = call.In[i].Value.Const.Pointer()
		case in[i] != nil:
			p = in[i].Pointer()
		}
		m.Ptrs = append(m.Ptrs, p)
	}
	for _, ph := range k.Phases {
		if ph.Chunks < 0 || ph.Chunks > math.MaxInt32 {
			return fmt.Errorf("%d chunks", ph.Chunks)
		}
		for chunk := ph.Chunks - 1; chunk >= 0; chunk-- {
			if err := ph.Run(m, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}
