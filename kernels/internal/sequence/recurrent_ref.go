package sequence

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// cellReference defines a recurrent layer step by step. Its functions read operands and write results by index; those
// of omitted operands are nil.
type cellReference[T kit.Widest] struct {
	l                   *recurrent
	x                   func(t, b, i int) T
	w, r                func(dir, row, k int) T
	inBias, stateBias   func(dir, row int) T
	peep                func(dir, i int) T
	h0, c0              func(dir, b, k int) T
	length              func(b int) int
	y                   func(t, dir, b, k int, v T)
	hn, cn              func(dir, b, k int, v T)
	acts                [3]func(T) T
	direction, sequence int
	ctx                 context.Context // nil: it is not checked
	done                int             // number of terms since the last check
}

func (c *cellReference[T]) run() {
	for dir := range c.l.dirs {
		for b := range c.l.batch {
			c.runSequence(dir, b)
		}
	}
}

// runSequence runs sequence b through all steps of a direction.
func (c *cellReference[T]) runSequence(dir, b int) {
	l := c.l
	for i, a := range l.acts[dir] {
		if c.acts[i] = nil; a.name != "" {
			c.acts[i] = cellScalar[T](l, a)
		}
	}
	c.direction, c.sequence = dir, b
	h, cell := make([]T, l.hidden), make([]T, l.hidden)
	for k := range h {
		if c.h0 != nil {
			h[k] = c.h0(dir, b, k)
		}
		if c.c0 != nil {
			cell[k] = c.c0(dir, b, k)
		}
	}
	n := l.steps
	if c.length != nil {
		n = min(max(c.length(b), 0), n)
	}
	for s := range n {
		t := s
		if l.backward[dir] {
			t = n - 1 - s
		}
		h, cell = c.step(t, h, cell)
		for k, v := range h {
			c.y(t, dir, b, k, v)
		}
	}
	for k := range h {
		c.hn(dir, b, k, h[k])
		if c.cn != nil {
			c.cn(dir, b, k, cell[k])
		}
	}
}

// of returns the input part of a gate, and its state part for the state h.
func (c *cellReference[T]) of(gate, k, t int, h []T) (in, state T) {
	row := c.l.order[gate]*c.l.hidden + k
	kit.Blocks(c.ctx, c.l.inputs, func(begin, end int) {
		for i := begin; i < end; i++ {
			in += c.w(c.direction, row, i) * c.x(t, c.sequence, i)
		}
	})
	kit.Blocks(c.ctx, len(h), func(begin, end int) {
		for i, v := range h[begin:end] {
			state += c.r(c.direction, row, begin+i) * v
		}
	})
	if c.done += c.l.inputs + len(h); c.done >= kit.CheckEvery {
		c.done = 0
		interrupt.Check(c.ctx)
	}
	if c.inBias != nil {
		in += c.inBias(c.direction, row)
		state += c.stateBias(c.direction, row)
	}
	return in, state
}

// act clips a sum and applies function f.
func (c *cellReference[T]) act(f int, sum T) T {
	if v, ok := any(&sum).(*float64); ok && c.l.clip > 0 {
		*v = min(max(*v, -c.l.clip), c.l.clip)
	}
	return c.acts[f](sum)
}

func (c *cellReference[T]) gate(f, gate, k, t int, h []T, more T) T {
	in, state := c.of(gate, k, t, h)
	return c.act(f, in+state+more)
}

func (c *cellReference[T]) step(t int, h, cell []T) (newH, newC []T) {
	newH, newC = make([]T, len(h)), make([]T, len(h))
	switch c.l.kind {
	case cellRNN:
		for k := range h {
			newH[k] = c.gate(0, 0, k, t, h, 0)
		}
	case cellGRU:
		reset := make([]T, len(h))
		for k := range h {
			reset[k] = c.gate(0, 1, k, t, h, 0)
		}
		kept := make([]T, len(h))
		for k, v := range h {
			kept[k] = reset[k] * v
		}
		for k := range h {
			z := c.gate(0, 0, k, t, h, 0)
			in, state := c.of(2, k, t, kept)
			if c.l.resetAfter {
				in, state = c.of(2, k, t, h)
				state *= reset[k]
			}
			newH[k] = (1-z)*c.act(1, in+state) + z*h[k]
		}
	default:
		for k := range h {
			p := func(i int) T {
				if c.peep == nil {
					return 0
				}
				return c.peep(c.direction, i*len(h)+k)
			}
			in := c.gate(0, 0, k, t, h, p(0)*cell[k])
			forget := c.gate(0, 2, k, t, h, p(2)*cell[k])
			if c.l.couple {
				forget = 1 - in
			}
			newC[k] = forget*cell[k] + in*c.gate(1, 3, k, t, h, 0)
			newH[k] = c.gate(0, 1, k, t, h, p(1)*newC[k]) * c.acts[2](newC[k])
		}
	}
	return newH, newC
}

// ref defines ONNX's recurrent ops.
func (o onnxCell) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	res, err := o.infer(c)
	if err != nil {
		return nil, err
	}
	l := o.shape(c)
	a := kit.Attrs[onnxCellAttrs](c)
	if err := o.activations(a, l); err != nil {
		return nil, err
	}
	for len(in) < 8 {
		in = append(in, nil)
	}
	var out []*tensor.Tensor
	for _, r := range res {
		out = append(out, tensor.Zeros(r.Meta().DType, r.Meta().Shape...))
	}
	at := func(t *tensor.Tensor) func(i, j, k int) float64 {
		if t == nil {
			return nil
		}
		return func(i, j, k int) float64 { return t.At(i, j, k).Float() }
	}
	swapped := func(f func(i, j, k int) float64) func(i, j, k int) float64 {
		if f == nil || a.Layout == 0 {
			return f
		}
		return func(i, j, k int) float64 { return f(j, i, k) }
	}
	put := func(t *tensor.Tensor) func(dir, b, k int, v float64) {
		return func(dir, b, k int, v float64) {
			if a.Layout != 0 {
				dir, b = b, dir
			}
			t.Set(tensor.FloatScalar(v), dir, b, k)
		}
	}
	r := &cellReference[float64]{l: l, x: swapped(at(in[0])), w: at(in[1]), r: at(in[2]), h0: swapped(at(in[5])),
		c0: swapped(at(in[6])), hn: put(out[1])}
	r.y = func(t, dir, b, k int, v float64) {
		if a.Layout != 0 {
			out[0].Set(tensor.FloatScalar(v), b, t, dir, k)
			return
		}
		out[0].Set(tensor.FloatScalar(v), t, dir, b, k)
	}
	if o.kind == cellLSTM {
		r.cn = put(out[2])
	}
	r.sideOperands(in, l.hidden*o.kind.gates())
	r.run()
	return out, nil
}

// sideOperands reads B, sequence_lens and P of ONNX if they are given.
func (c *cellReference[T]) sideOperands(in []*tensor.Tensor, rows int) {
	if in[4] != nil {
		c.length = func(b int) int { return int(in[4].At(b).Int()) }
	}
	if in[3] != nil {
		c.inBias = func(dir, row int) T { return kit.WidestOf[T](in[3].At(dir, row)) }
		c.stateBias = func(dir, row int) T { return kit.WidestOf[T](in[3].At(dir, rows+row)) }
	}
	if in[7] != nil {
		c.peep = func(dir, i int) T { return kit.WidestOf[T](in[7].At(dir, i)) }
	}
}
