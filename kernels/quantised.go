package kernels

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Products and convolutions of quantised values are computed by the kernels of floats:
// sums of products of whole numbers are exact in float32 below 2^24, in float64 below
// 2^53.

// exactDType is the dtype in which n products of quantised values add up exactly.
func exactDType(n int, a, b tensor.DType) tensor.DType {
	if n<<(8*(a.Size()+b.Size())) <= 1<<24 {
		return tensor.Float32
	}
	return tensor.Float64
}

// byteDType checks that operands are bytes.
func byteDType(name string, c *graph.Call, operands ...int) error {
	for _, i := range operands {
		if d := c.Type(i).DType; c.Has(i) && d != tensor.Int8 && d != tensor.Uint8 {
			return notImplemented(name, d)
		}
	}
	return nil
}

// perIndex checks scales or zero points, which may be left out: there is one for all, or one for
// each of n indices.
func perIndex(name, what string, t tensor.Type, n sym.Int) error {
	count := t.Numel()
	if t.DType == tensor.Invalid || count.Eq(sym.Of(1)).Or(count.Eq(n)).Holds() {
		return nil
	}
	return fmt.Errorf("%s: expected %s to have 1 or %v elements, but got shape %s", name, what, n, tensor.Sizes(t.Shape))
}

// quantIndexOf says how scales or zero points that fit stand to a value: one for all, or one for
// each index of the axis of n whose indices are followed by inner elements.
func quantIndexOf(m tensor.Meta, inner, n int) quantIndex {
	if m.DType == tensor.Invalid || m.Numel() == 1 {
		return quantIndex{inner: 1 << 62, n: 1}
	}
	return quantIndex{inner: max(inner, 1), n: n}
}

// quantParams makes operands of names; optional ones begin with a question mark.
func quantParams(names []string) (p []graph.Param) {
	for _, n := range names {
		optional := n[0] == '?'
		if optional {
			n = n[1:]
		}
		p = append(p, graph.Param{Name: n, Optional: optional})
	}
	return p
}

// quantPlaces are the places of zero points and scales: in a and b, and in the product.
type quantPlaces struct{ a, b, rows, cols quantIndex }

// oneOf is the only element of t, or that of the index in dimension dim.
func oneOf(t *tensor.Tensor, index []int, dim int) float64 {
	i := 0
	if t.Numel() > 1 {
		i = index[dim]
	}
	return t.At(unravel(i, t.Shape)...).Float()
}

// quantFloat: as in ONNX there are no quantised doubles.
func quantFloat(d tensor.DType) bool { return d.IsFloat() && d != tensor.Float64 }

// quantIndex tells which of the scales an element has, by its place in row-major order:
// inner elements in a row share an index of the axis of n, block indices a scale. With
// blocks, scales differ in the other dimensions too.
type quantIndex struct{ inner, n, block int }

// run returns the scale of the element at begin, and the end of the run that shares it.
func (q *quantIndex) run(begin, end int) (to, at int) {
	row := begin / q.inner
	if q.block > 0 {
		a := row % q.n
		return begin + 1, (row/q.n*divUp(q.n, q.block)+a/q.block)*q.inner + begin%q.inner
	}
	return min(end, (row+1)*q.inner), row % q.n
}

// quantInt is an element of a quantised value.
type quantInt interface {
	int8 | uint8 | int16 | uint16 | int32
}

// clipTo saturates; NaN becomes 0.
func clipTo[T quantInt](x, least, most float64) T {
	if x != x {
		return 0
	}
	return T(int64(min(max(x, least), most)))
}

func saturated(d tensor.DType, x float64) int64 {
	bits := 8 * d.Size()
	least, most := 0.0, math.Ldexp(1, bits)-1
	if d.IsSigned() {
		least, most = -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1)-1
	}
	if x != x {
		return 0
	}
	return int64(min(max(x, least), most))
}
