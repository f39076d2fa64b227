package kernels

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// zeroed adds the parts that subtract zero points from a quantised operand and convert it
// to the float dtype d. The zero points may be left out.
func (x *compound) zeroed(v, zero spot, d tensor.DType, q quantIndex) spot {
	if v.data != nil && (!zero.given() || zero.data != nil) {
		t := v.data.CopyTo(tensor.New(d, v.meta.Shape...))
		if zero.given() {
			z := zero.data.CopyTo(tensor.New(tensor.Float64, zero.meta.Shape...)).Contiguous()
			zs, _ := tensor.ToSlice[float64](z)
			for i := range t.Numel() {
				_, at := q.run(i, i+1)
				index := unravel(i, t.Shape)
				t.Set(tensor.FloatScalar(t.At(index...).Float()-zs[at]), index...)
			}
		}
		return spot{meta: t.Meta, place: -1, data: t}
	}
	from, out := x.dense(v, tensor.Int32), x.temp(d, v.meta.Shape...)
	n, points := v.meta.Numel(), zero.meta.Numel()
	zero = x.dense(zero, tensor.Int32)
	f := subtractZeros[float64]
	if d == tensor.Float32 {
		f = subtractZeros[float32]
	}
	x.run(0, 0, []spot{out, from, zero}, cutUnits(n, 1, func(m *graph.Mem, begin, end int) error {
		f(m, n, points, begin, end, &q)
		return nil
	}))
	return out
}

func subtractZeros[T float32 | float64](m *graph.Mem, n, points, begin, end int, q *quantIndex) {
	y, x, zero := elementsOf[T](m.Ptrs[0], n), elementsOf[int32](m.Ptrs[1], n), elementsOf[int32](m.Ptrs[2], points)
	for begin < end {
		to, at := q.run(begin, end)
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
func (x *compound) wholeNumbers(sums spot) {
	n, single := sums.meta.Numel(), sums.meta.DType == tensor.Float32
	x.run(0, 0, []spot{x.result(0, tensor.Int32), sums}, cutUnits(n, 1, func(m *graph.Mem, begin, end int) error {
		y := elementsOf[int32](m.Ptrs[0], n)[begin:end]
		if single {
			for i, v := range elementsOf[float32](m.Ptrs[1], n)[begin:end] {
				y[i] = int32(v)
			}
			return nil
		}
		for i, v := range elementsOf[float64](m.Ptrs[1], n)[begin:end] {
			y[i] = int32(int64(v))
		}
		return nil
	}))
}

// requantized adds the part that scales exact sums to output 0: by a*b/y, where a and b
// have one scale or one for each index that q tells, and y one. bias is added first.
func (x *compound) requantized(sums, a, b, y, zero, bias spot, qa, qb quantIndex) {
	d := x.c.Out[0].DType
	n := sums.meta.Numel()
	spots := []spot{x.result(0, d), x.dense(sums, tensor.Float64)}
	for _, s := range []spot{a, b, y} {
		spots = append(spots, x.dense(s, tensor.Float32))
	}
	spots = append(spots, x.dense(zero, tensor.Int32), x.dense(bias, tensor.Int32))
	counts := []int{a.meta.Numel(), b.meta.Numel(), bias.meta.Numel()}
	run := func(put func(m *graph.Mem, i int, v float64)) graph.Phase {
		return cutUnits(n, 4, func(m *graph.Mem, begin, end int) error {
			v := elementsOf[float64](m.Ptrs[1], n)
			as, bs := elementsOf[float32](m.Ptrs[2], counts[0]), elementsOf[float32](m.Ptrs[3], counts[1])
			ys, z, plus := elementsOf[float32](m.Ptrs[4], 1)[0], 0.0, elementsOf[int32](m.Ptrs[6], counts[2])
			if p := elementsOf[int32](m.Ptrs[5], 1); p != nil {
				z = float64(p[0])
			}
			for i := begin; i < end; i++ {
				_, ia := qa.run(i, end)
				_, ib := qb.run(i, end)
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
		x.run(0, 0, spots, run(func(m *graph.Mem, i int, v float64) {
			elementsOf[int8](m.Ptrs[0], n)[i] = clipTo[int8](v, math.MinInt8, math.MaxInt8)
		}))
		return
	}
	x.run(0, 0, spots, run(func(m *graph.Mem, i int, v float64) {
		elementsOf[uint8](m.Ptrs[0], n)[i] = clipTo[uint8](v, 0, math.MaxUint8)
	}))
}

// quantMatmul holds the places of the operands of a quantised product; -1: there is none.
type quantMatmul struct {
	name           string
	a, b           int
	aZero, bZero   int
	aScale, bScale int
}

// MatmulInteger and QLinearMatmul are ONNX's operators.
var (
	MatmulInteger = quantMatmulOp("matmul_integer", "Multiplies matrices of bytes after subtracting zero points, into int32. a_zero_point has one element or one for each row of a, b_zero_point one for each column of b.",
		quantMatmul{"matmul_integer", 0, 1, 2, 3, -1, -1}, "a", "b", "?a_zero_point", "?b_zero_point")
	QLinearMatmul = quantMatmulOp("qlinear_matmul", "Multiplies quantised matrices and quantises the product: scales and zero points of a have one element or one for each row, those of b one for each column, those of y one.",
		quantMatmul{"qlinear_matmul", 0, 3, 2, 5, 1, 4}, "a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point")
)

func quantMatmulOp(name, doc string, q quantMatmul, operands ...string) *graph.Op {
	u8, f32 := func(shape ...int) tensor.Meta { return tensor.New(tensor.Uint8, shape...) }, tensor.New(tensor.Float32)
	ex := []graph.Example{{In: []tensor.Meta{u8(2, 3, 4), tensor.New(tensor.Int8, 4, 5), u8(3), tensor.New(tensor.Int8, 5)}}, {In: []tensor.Meta{u8(3, 4), u8(4, 2)}}}
	if q.aScale > 0 {
		ex = []graph.Example{{In: []tensor.Meta{u8(3, 4), f32, u8(), u8(4, 5), tensor.New(tensor.Float32, 5), u8(5), f32, u8()}}}
	}
	return define[none](graph.Op{
		Name: name, Doc: doc, Params: quantParams(operands),
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			t, err := q.result(c)
			return graph.New1(t), err
		},
		Compile:  q.compile,
		Ref:      q.ref,
		Examples: ex,
	})
}

func (q *quantMatmul) result(c *graph.Call) (tensor.Type, error) {
	if err := byteDType(q.name, c, q.a, q.b, q.aZero, q.bZero); err != nil {
		return tensor.Type{}, err
	}
	a, b := c.Type(q.a), c.Type(q.b)
	t, err := matmulType(a.WithDType(tensor.Float32), b.WithDType(tensor.Float32))
	if err != nil {
		return t, err
	}
	t = tensor.NewType(tensor.Int32, t.Shape...)
	if err := q.check(c); err != nil {
		return t, err
	}
	if q.aScale >= 0 {
		if err := byteDType(q.name, c, 7); err != nil {
			return t, err
		}
		if !quantFloat(c.Type(1).DType) || !isOne(c, 6, 7) {
			return t, fmt.Errorf("%s: expected one y_scale and one y_zero_point, and scales of a float dtype", q.name)
		}
		t.DType = c.Type(7).DType
	}
	return t, nil
}

// check compares zero points and scales with the rows of a and the columns of b.
func (q *quantMatmul) check(c *graph.Call) error {
	a, b := c.Type(q.a), c.Type(q.b)
	m, n := sym.Of(1), sym.Of(1)
	if a.Rank() > 1 {
		m = a.Shape[a.Rank()-2]
	}
	if b.Rank() > 1 {
		n = b.Shape[b.Rank()-1]
	}
	for _, f := range []struct {
		operand int
		what    string
		n       sym.Int
	}{{q.aZero, "a_zero_point", m}, {q.bZero, "b_zero_point", n}, {q.aScale, "a_scale", m}, {q.bScale, "b_scale", n}} {
		if err := perIndex(q.name, f.what, c.Type(f.operand), f.n); err != nil {
			return err
		}
	}
	return nil
}

func (q *quantMatmul) places(c *graph.Call) quantPlaces {
	a, b := c.Meta(q.a), c.Meta(q.b)
	m, n, k := 1, 1, a.Shape[a.Rank()-1]
	if a.Rank() > 1 {
		m = a.Shape[a.Rank()-2]
	}
	if b.Rank() > 1 {
		n = b.Shape[b.Rank()-1]
	}
	return quantPlaces{a: quantIndexOf(c.Meta(q.aZero), k, m), b: quantIndexOf(c.Meta(q.bZero), 1, n),
		rows: quantIndexOf(c.Meta(q.aScale), n, m), cols: quantIndexOf(c.Meta(q.bScale), 1, n)}
}

func (q *quantMatmul) compile(c *graph.Call) (*graph.Kernel, error) {
	if err := q.check(c); err != nil || c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, err
	}
	p := q.places(c)
	am, bm := c.Meta(q.a), c.Meta(q.b)
	d := exactDType(am.Shape[am.Rank()-1], am.DType, bm.DType)
	x := newCompound(c)
	a, b := x.zeroed(x.in(q.a), x.in(q.aZero), d, p.a), x.zeroed(x.in(q.b), x.in(q.bZero), d, p.b)
	sums := x.temp(d, c.Out[0].Shape...)
	x.call(Matmul, nil, []spot{sums}, a, b)
	if q.aScale < 0 {
		x.wholeNumbers(sums)
	} else {
		x.requantized(sums, x.in(q.aScale), x.in(q.bScale), x.in(6), x.in(7), spot{}, p.rows, p.cols)
	}
	return x.kernel()
}

// ref defines the product by that of matmul, on float64 operands less their zero points.
func (q *quantMatmul) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t, err := q.result(c)
	if err != nil {
		return nil, err
	}
	m, _ := t.Meta()
	less := func(v, z int, dim int) *tensor.Tensor {
		t := tensor.Zeros(tensor.Float64, in[v].Shape...)
		eachIndex(t.Shape, func(index []int) {
			zero := 0.0
			if z < len(in) && in[z] != nil {
				zero = oneOf(in[z], index, dim)
			}
			t.Set(tensor.FloatScalar(in[v].At(index...).Float()-zero), index...)
		})
		return t
	}
	ra, rb := in[q.a].Rank(), in[q.b].Rank()
	a, b := less(q.a, q.aZero, ra-2), less(q.b, q.bZero, rb-1)
	sums, err := productRef(&graph.Call{Attrs: &none{}, In: c.In, Out: []tensor.Meta{tensor.New(tensor.Float64, m.Shape...)}}, []*tensor.Tensor{a, b})
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(m.DType, m.Shape...)
	eachIndex(m.Shape, func(index []int) {
		v := sums[0].At(index...).Float()
		if q.aScale >= 0 {
			s := float32(oneOf(in[1], index, len(index)-2)) * float32(oneOf(in[4], index, len(index)-1)) / float32(oneOf(in[6], index, 0))
			v = float64(saturated(m.DType, math.RoundToEven(float64(float32(v)*s))+oneOf(in[7], index, 0)))
		}
		out.Set(tensor.IntScalar(int64(v)), index...)
	})
	return []*tensor.Tensor{out}, nil
}
