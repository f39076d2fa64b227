//go:build (linux || darwin) && !386 && !arm

package extreme_test

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// operands changes dtypes, sizes and layouts of an example's operands. Operands of an op that reads storage have no far
// elements: the op may read between them.
func (d *drawn) operands(example []tensor.Meta, storage bool) []tensor.Meta {
	in := d.dtypes(slices.Clone(example))
	shapes := d.shapes(in)
	for i, m := range in {
		if m.DType == tensor.Invalid {
			continue
		}
		in[i] = d.laid(m.DType, shapes[i])
		if slices.Equal(shapes[i], m.Shape) && d.one(3) {
			in[i] = m
		}
	}
	if len(in) > 0 && d.one(24) {
		d.expand(&in[d.n(len(in))])
	}
	if len(in) > 0 && !storage && d.one(12) {
		d.far(&in[d.n(len(in))])
	}
	return in
}

// expand gives a dimension a size beyond all memory, with a stride of 0.
func (d *drawn) expand(m *tensor.Meta) {
	if m.Rank() == 0 {
		return
	}
	x := *m
	x.Shape, x.Strides = slices.Clone(m.Shape), slices.Clone(m.Strides)
	k := d.n(m.Rank())
	x.Shape[k], x.Strides[k] = d.power(), 0
	if x.Check() == nil {
		*m = x
	}
}

// far gives a dimension a stride that exceeds 32 bits, in elements or in bytes.
func (d *drawn) far(m *tensor.Meta) {
	if m.Rank() == 0 || m.Numel() > 64 {
		return
	}
	x, k, size := *m, d.n(m.Rank()), m.DType.Size()
	n := m.Shape[k]
	if n < 2 {
		return
	}
	x.Strides = slices.Clone(m.Strides)
	bytes := pick(d, 1<<31, 1<<32, 1<<31/(n-1), 1<<32/(n-1), farBytes/n)
	x.Strides[k] = max(bytes/size+pick(d, -1, 0, 0, 1), m.Extent())
	if x.Check() == nil && x.Extent()*size <= farBytes {
		*m = x
	}
}

// isFar reports whether a layout reaches farther than other rooms have memory for.
func isFar(m tensor.Meta) bool {
	return m.DType != tensor.Invalid && m.Numel() <= mostElements && m.Extent()*m.DType.Size() > room
}

// dtypes gives all operands that have the first one's dtype another, or all of them, or leaves them.
func (d *drawn) dtypes(in []tensor.Meta) []tensor.Meta {
	if len(in) == 0 {
		return in
	}
	was, to, how := in[0].DType, pick(d, tensor.DTypes()...), d.n(6)
	for i := range in {
		switch {
		case in[i].DType == tensor.Invalid:
		case how == 0, how < 5 && in[i].DType == was:
			in[i].DType = to
		}
	}
	return in
}

// shapes changes sizes, mostly the same ones alike, so that operands still fit one another.
func (d *drawn) shapes(in []tensor.Meta) [][]int {
	shapes := make([][]int, len(in))
	how, to := d.n(6), map[int]int{}
	for i, m := range in {
		shapes[i] = slices.Clone(m.Shape)
		for k, n := range m.Shape {
			if _, ok := to[n]; !ok || how == 0 {
				to[n] = d.size(n)
			}
			if how > 2 || how == 0 && !d.one(4) {
				continue // as in the example
			}
			if shapes[i][k] = to[n]; tensor.Numel(shapes[i]) > mostElements {
				shapes[i][k] = n
			}
		}
	}
	return shapes
}

func (d *drawn) size(n int) int {
	return pick(d, n, n, 0, 1, 1, 2, 3, 4, 5, n+1, 2*n, 3*n, 7, 8, 16, 17)
}

// laid lays a shape out: dense in any order, with gaps, broadcast, as a slice.
func (d *drawn) laid(t tensor.DType, shape []int) tensor.Meta {
	m := tensor.New(t, shape...)
	if len(shape) == 0 || d.one(2) {
		return m
	}
	order := d.rng.Perm(len(shape))
	if d.one(3) { // channels last
		for i := range order {
			order[i] = i
		}
		if len(order) > 2 {
			order = append(append(order[:1:1], order[2:]...), 1)
		}
	}
	gaps, step := d.one(2), 1
	for _, k := range slices.Backward(order) {
		m.Strides[k] = step
		n := max(shape[k], 1)
		if gaps && d.one(3) {
			n += d.n(4)
		}
		step *= n
	}
	if d.one(6) {
		m.Strides[d.n(len(shape))] = 0
	}
	for k, n := range shape {
		if n < 2 && d.one(3) { // any stride of such a dimension is valid
			m.Strides[k] = pick(d, 0, 1, 1<<31, 1<<32, 1<<30+1, 1<<40, 1<<43)
		}
	}
	if d.one(4) {
		m.Offset = 1 + d.n(5)
	}
	if m.Check() != nil || m.Extent()*t.Size() > room {
		return tensor.New(t, shape...)
	}
	return m
}

// plainNumbers puts plain numbers in the place of some operands that may be numbers.
func (d *drawn) plainNumbers(op *graph.Op, in []tensor.Meta) []any {
	numbers := make([]any, len(in))
	for i := range in {
		if i >= len(op.Params) || !op.Params[i].AcceptsNumber || op.Params[i].Variadic || !d.one(4) {
			continue
		}
		d.theme = d.power()
		if numbers[i] = any(d.integer()); d.one(2) {
			numbers[i] = d.float()
		}
	}
	return numbers
}
