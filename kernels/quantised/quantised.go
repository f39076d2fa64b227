package quantised

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
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
			return kit.NotImplemented(name, d)
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

// lessZero is v in float64, less its zero point: none, one, or one for each index along dim.
func lessZero(v, zero *tensor.Tensor, dim int) *tensor.Tensor {
	t := tensor.Zeros(tensor.Float64, v.Shape...)
	kit.EachIndex(t.Shape, func(index []int) {
		z := 0.0
		if zero != nil {
			z = kit.OneOf(zero, index, dim)
		}
		t.Set(tensor.FloatScalar(v.At(index...).Float()-z), index...)
	})
	return t
}

// quantPlaces are the places of zero points and scales: in a and b, and in the product.
type quantPlaces struct{ a, b, rows, cols kit.AxisIndex }

// quantFloat: as in ONNX there are no quantised doubles.
func quantFloat(d tensor.DType) bool { return d.IsFloat() && d != tensor.Float64 }

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

// zeroed adds the parts that subtract zero points from a quantised operand and convert it
// to the float dtype d. The zero points may be left out.
func zeroed(x *copies.Compound, v, zero kit.Buffer, d tensor.DType, q kit.AxisIndex) kit.Buffer {
	if v.Data != nil && (!zero.Given() || zero.Data != nil) {
		t := v.Data.CopyTo(tensor.New(d, v.Meta.Shape...))
		if zero.Given() {
			z := zero.Data.CopyTo(tensor.New(tensor.Float64, zero.Meta.Shape...)).Contiguous()
			zs, _ := tensor.ToSlice[float64](z)
			for i := range t.Numel() {
				_, at := q.Run(i, i+1)
				index := kit.Unravel(i, t.Shape)
				t.Set(tensor.FloatScalar(t.At(index...).Float()-zs[at]), index...)
			}
		}
		return kit.DataBuffer(t)
	}
	from, out := x.Dense(v, tensor.Int32), x.Temp(d, v.Meta.Shape...)
	n, points := v.Meta.Numel(), zero.Meta.Numel()
	zero = x.Dense(zero, tensor.Int32)
	f := subtractZeros[float64]
	if d == tensor.Float32 {
		f = subtractZeros[float32]
	}
	x.Run(0, 0, []kit.Buffer{out, from, zero}, copies.CutUnits(n, 1, func(m *graph.Mem, begin, end int) error {
		f(m, n, points, begin, end, &q)
		return nil
	}))
	return out
}

func subtractZeros[T float32 | float64](m *graph.Mem, n, points, begin, end int, q *kit.AxisIndex) {
	y, x, zero := kit.ElementsOf[T](m.Ptrs[0], n), kit.ElementsOf[int32](m.Ptrs[1], n),
		kit.ElementsOf[int32](m.Ptrs[2], points)
	for begin < end {
		to, at := q.Run(begin, end)
		z := int32(0)
		if zero != nil {
			z = zero[at]
		}
		for i := begin; i < to; i++ {
			y[i] = T(x[i] - z)
		}
		begin = to
	}
}

// wholeNumbers adds the part that turns exact sums into output 0 of int32, which wraps.
func wholeNumbers(x *copies.Compound, sums kit.Buffer) {
	n, single := sums.Meta.Numel(), sums.Meta.DType == tensor.Float32
	x.Run(0, 0, []kit.Buffer{x.Result(0, tensor.Int32), sums},
		copies.CutUnits(n, 1, func(m *graph.Mem, begin, end int) error {
			y := kit.ElementsOf[int32](m.Ptrs[0], n)[begin:end]
			if single {
				for i, v := range kit.ElementsOf[float32](m.Ptrs[1], n)[begin:end] {
					y[i] = int32(v)
				}
				return nil
			}
			for i, v := range kit.ElementsOf[float64](m.Ptrs[1], n)[begin:end] {
				y[i] = int32(int64(v))
			}
			return nil
		}))
}

// requantized adds the part that scales exact sums to output 0: by a*b/y, where a and b
// have one scale or one for each index that q tells, and y one. bias is added first.
func requantized(x *copies.Compound, sums, a, b, y, zero, bias kit.Buffer, qa, qb kit.AxisIndex) {
	d := x.C.Out[0].DType
	n := sums.Meta.Numel()
	buffers := []kit.Buffer{x.Result(0, d), x.Dense(sums, tensor.Float64)}
	for _, s := range []kit.Buffer{a, b, y} {
		buffers = append(buffers, x.Dense(s, tensor.Float32))
	}
	buffers = append(buffers, x.Dense(zero, tensor.Int32), x.Dense(bias, tensor.Int32))
	counts := []int{a.Meta.Numel(), b.Meta.Numel(), bias.Meta.Numel()}
	run := func(put func(m *graph.Mem, i int, v float64)) graph.Phase {
		return copies.CutUnits(n, 4, func(m *graph.Mem, begin, end int) error {
			v := kit.ElementsOf[float64](m.Ptrs[1], n)
			as, bs := kit.ElementsOf[float32](m.Ptrs[2], counts[0]), kit.ElementsOf[float32](m.Ptrs[3], counts[1])
			ys, z, plus := kit.ElementsOf[float32](m.Ptrs[4], 1)[0], 0.0, kit.ElementsOf[int32](m.Ptrs[6], counts[2])
			if p := kit.ElementsOf[int32](m.Ptrs[5], 1); p != nil {
				z = float64(p[0])
			}
			for i := begin; i < end; i++ {
				_, ia := qa.Run(i, end)
				_, ib := qb.Run(i, end)
				sum := v[i]
				if plus != nil {
					sum += float64(plus[ib%len(plus)])
				}
				put(m, i, math.RoundToEven(float64(float32(sum)*(as[ia]*bs[ib]/ys)))+z)
			}
			return nil
		})
	}
	if d == tensor.Int8 {
		x.Run(0, 0, buffers, run(func(m *graph.Mem, i int, v float64) {
			kit.ElementsOf[int8](m.Ptrs[0], n)[i] = clipTo[int8](v, math.MinInt8, math.MaxInt8)
		}))
		return
	}
	x.Run(0, 0, buffers, run(func(m *graph.Mem, i int, v float64) {
		kit.ElementsOf[uint8](m.Ptrs[0], n)[i] = clipTo[uint8](v, 0, math.MaxUint8)
	}))
}
