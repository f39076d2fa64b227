package kit

import (
	"github.com/graphrun/graphrun/tensor"
)

// AxisIndexOf says how scales or zero points that fit stand to a value: one for all, or one for
// each index of the axis of n whose indices are followed by inner elements.
func AxisIndexOf(m tensor.Meta, inner, n int) AxisIndex {
	if m.DType == tensor.Invalid || m.Numel() == 1 {
		return AxisIndex{Inner: 1 << 62, N: 1}
	}
	return AxisIndex{Inner: max(inner, 1), N: n}
}

// OneOf is the only element of t, or that of the index in dimension dim.
func OneOf(t *tensor.Tensor, index []int, dim int) float64 {
	i := 0
	if t.Numel() > 1 {
		i = index[dim]
	}
	return t.At(Unravel(i, t.Shape)...).Float()
}

// AxisIndex tells which of the scales an element has, by its place in row-major order:
// inner elements in a row share an index of the axis of n, block indices a scale. With
// blocks, scales differ in the other dimensions too.
type AxisIndex struct{ Inner, N, Block int }

// Run returns the scale of the element at begin, and the end of the run that shares it.
func (q *AxisIndex) Run(begin, end int) (to, at int) {
	row := begin / q.Inner
	if q.Block > 0 {
		a := row % q.N
		return begin + 1, (row/q.N*DivUp(q.N, q.Block)+a/q.Block)*q.Inner + begin%q.Inner
	}
	return min(end, (row+1)*q.Inner), row % q.N
}
