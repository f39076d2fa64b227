package kernels

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// span is a run of indices of an output dimension that reads the operand at from, from +
// step, ...; step is 1, -1 or 0.
type span struct{ at, n, from, step int }

// spansOf cuts a table, which gives the operand's index for every index of the output,
// into as few spans as go from left to right.
func spansOf(table []int) []span {
	var out []span
	for i := 0; i < len(table); {
		s := span{at: i, n: 1, from: table[i], step: 1}
		if i+1 < len(table) {
			if step := table[i+1] - table[i]; step >= -1 && step <= 1 {
				s.step = step
				for i+s.n < len(table) && table[i+s.n]-table[i+s.n-1] == step {
					s.n++
				}
			}
		}
		out = append(out, s)
		i += s.n
	}
	return out
}

// spanKernel copies from the operand by spans: spans[d] covers dimension d of the output.
// Every combination of spans is one job, a copy forward, backward or broadcast.
func spanKernel(dst, src side, spans [][]span) (*graph.Kernel, error) {
	jobs := []copyJob{{dst: dst, src: src}}
	for d := range spans {
		var next []copyJob
		for _, j := range jobs {
			for _, s := range spans[d] {
				k := j
				var err error
				if k.dst.meta, err = j.dst.meta.Narrow(d, s.at, s.n); err != nil {
					return nil, err
				}
				k.dst = j.dst.show(k.dst.meta)
				if k.src, err = j.src.along(d, s); err != nil {
					return nil, err
				}
				if s.step < 0 {
					k = k.reversed(d)
				}
				next = append(next, k)
			}
		}
		jobs = next
	}
	return copyKernel(jobs...)
}

// along shows the part of a side that a span reads, in ascending order.
func (s side) along(d int, p span) (side, error) {
	least, n := p.from, p.n
	switch p.step {
	case -1:
		least = p.from - (n - 1)
	case 0:
		n = 1
	}
	m, err := s.meta.Narrow(d, least, n)
	if err == nil && p.step == 0 {
		m.Shape[d], m.Strides[d] = p.n, 0
	}
	return s.show(m), err
}

// identitySpans covers every dimension by itself.
func identitySpans(shape []int) [][]span {
	out := make([][]span, len(shape))
	for d, n := range shape {
		out[d] = []span{{0, n, 0, 1}}
	}
	return out
}

// spanRef reads the operand index by index.
func spanRef(in *tensor.Tensor, tables [][]int, shape []int) *tensor.Tensor {
	out := tensor.Zeros(in.DType, shape...)
	eachIndex(shape, func(index []int) {
		at := slices.Clone(index)
		for d, t := range tables {
			if t != nil {
				at[d] = t[index[d]]
			}
		}
		out.Set(in.At(at...), index...)
	})
	return out
}
