package reduce

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type cumAttrs struct {
	Dim   int          `attr:"dim" doc:"dimension to run along"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

// Cumsum and Cumprod carry floats in float64.
var (
	Cumsum = scanOp("cumsum", "Gives the running sum along a dimension. Bools and integers give int64.", expr.Add,
		[2]scanLoops{scanOf(0, sumScanZ[complex64], sumLinesZ[complex64]),
			scanOf(0, sumScanZ[complex128], sumLinesZ[complex128])},
		func(a, b complex128) complex128 { return a + b }, func(a, b int64) int64 { return a + b })
	Cumprod = scanOp("cumprod", "Gives the running product along a dimension. Bools and integers give int64.", expr.Mul,
		[2]scanLoops{scanOf(1, prodScanZ[complex64], prodLinesZ[complex64]),
			scanOf(1, prodScanZ[complex128], prodLinesZ[complex128])},
		func(a, b complex128) complex128 { return a * b }, func(a, b int64) int64 { return a * b })
)

// scanLoops has the loops of a running fold on blocks of one dtype.
type scanLoops struct {
	in tensor.DType
	expr.Scanner
}

// scanOf returns the loops for complex numbers, which expressions do not support.
func scanOf[T tensor.Element](first complex128, row func(a *complex128, dst, x []T),
	columns func(a []complex128, dst, x []T)) scanLoops {
	return scanLoops{tensor.DTypeOf[T](), expr.Scanner{
		Carry: int(unsafe.Sizeof(first)),
		Begin: func(acc unsafe.Pointer, n int) {
			a := unsafe.Slice((*complex128)(acc), n)
			for i := range a {
				a[i] = first
			}
		},
		Row: func(acc, dst, x unsafe.Pointer, n int) {
			row((*complex128)(acc), unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(x), n))
		},
		Columns: func(acc, dst, x unsafe.Pointer, n int) {
			columns(unsafe.Slice((*complex128)(acc), n), unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(x), n))
		},
	}}
}

// scanLoopsOf returns the loops of a dtype.
func scanLoopsOf(op expr.Op, d tensor.DType, z [2]scanLoops) scanLoops {
	if s := expr.Scanning(op, kit.Wide(d)); s != nil {
		return scanLoops{kit.Wide(d), *s}
	}
	if d == z[0].in {
		return z[0]
	}
	return z[1]
}

func scanOp(name, doc string, op expr.Op, loops [2]scanLoops, z func(a, b complex128) complex128,
	i func(a, b int64) int64) *graph.Op {
	dtype := func(c *graph.Call) tensor.DType {
		return folds.SumDType(c.Type(0).DType, kit.Attrs[cumAttrs](c).DType)
	}
	return kit.Define[cumAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				m, d := c.Type(0), dtype(c)
				if _, err := tensor.WrapDim(kit.Attrs[cumAttrs](c).Dim, m.Rank()); err != nil {
					return nil, err
				}
				if d == tensor.Bool && m.Rank() > 0 && !kit.Empty(m) {
					return nil, kit.NotImplemented(name+"_out", d)
				}
				return c.One(m.RowMajor().WithDType(d)), nil
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				dim, err := tensor.WrapDim(kit.Attrs[cumAttrs](c).Dim, in[0].Rank())
				if err != nil {
					return nil, err
				}
				return []*tensor.Tensor{scanReference(in[0], dim, dtype(c), z, i)}, nil
			},
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{
			AnyOrder: true,
			Alone:    "carries a running value from element to element in its own kernel",
		},
		Lowerings: graph.Lowerings{
			Rows: func(c *graph.Call) (*graph.Rows, error) { return scanRows(c, op, dtype(c)) },
			Impls: lineOp{
				dim:  dimOf(func(c *graph.Call) int { return kit.Attrs[cumAttrs](c).Dim }),
				each: graph.Each{Simple: fusion.ScanSimple},
				lower: func(c *graph.Call, dim int, by lineWalk) (*graph.Kernel, error) {
					d := dtype(c)
					l := scanLoopsOf(op, d, loops)
					p := newLinePlan(c.Meta(0), dim, by, c.Out[0], nil, d, l.in, 2)
					return p.kernel(p.unit*l.Carry, func(r lineRoom, in, out unsafe.Pointer, n int) error {
						scanLine(p, &l, r, in, out, n)
						return nil
					}), nil
				}}.impls(),
		},
	})
}

// scanRows returns a scan as an expression, or nil for complex numbers and single numbers.
func scanRows(c *graph.Call, op expr.Op, d tensor.DType) (*graph.Rows, error) {
	m := c.Meta(0)
	dim, err := tensor.WrapDim(kit.Attrs[cumAttrs](c).Dim, m.Rank())
	if err != nil || d.IsComplex() || m.Rank() == 0 {
		return nil, err
	}
	b := expr.NewBuilder(m.DType)
	x := b.Convert(kit.Wide(d), folds.Operand(b, 0, d).Re)
	return wholeRows(b, lineMask(m.Rank(), dim), []int{0}, b.Scan(op, x), d)
}

func scanLine(p *linePlan, l *scanLoops, r lineRoom, in, out unsafe.Pointer, n int) {
	k := p.kept[0]
	l.Begin(r.own, n)
	if !p.rows {
		for i := range p.line.N {
			r.look(i, n)
			o := unsafe.Add(out, i*p.line.Out[0])
			x := p.ld.Run(r.buf, r.tmp, unsafe.Add(in, i*p.line.In), k.In, n)
			y := p.target(r.tmp, o, k.Out[0], n)
			l.Columns(r.own, y, x, n)
			p.written(y, o, k.Out[0], n)
		}
		return
	}
	for j := range n {
		acc := unsafe.Add(r.own, j*l.Carry)
		src, dst := unsafe.Add(in, j*k.In), unsafe.Add(out, j*k.Out[0])
		for i := 0; i < p.line.N; i += folds.BlockLen {
			r.look(i, 1)
			c := min(folds.BlockLen, p.line.N-i)
			o := unsafe.Add(dst, i*p.line.Out[0])
			x := p.ld.Run(r.buf, r.tmp, unsafe.Add(src, i*p.line.In), p.line.In, c)
			y := p.target(r.tmp, o, p.line.Out[0], c)
			l.Row(acc, y, x, c)
			p.written(y, o, p.line.Out[0], c)
		}
	}
}

func scanReference(t *tensor.Tensor, dim int, d tensor.DType, z func(a, b complex128) complex128,
	i func(a, b int64) int64) *tensor.Tensor {
	t = t.CopyTo(tensor.New(d, t.Shape...))
	out := tensor.Zeros(d, t.Shape...)
	kit.EachIndex(t.Shape, func(index []int) {
		at := append([]int(nil), index...)
		var sum tensor.Scalar
		last := 0
		if len(at) > 0 {
			last = at[dim]
		}
		for k := range last + 1 {
			if len(at) > 0 {
				at[dim] = k
			}
			v := t.At(at...)
			switch {
			case k == 0:
				sum = v
			case d.IsIntegral(true):
				sum = tensor.IntScalar(i(sum.Int(), v.Int()))
			default:
				sum = tensor.ComplexScalar(z(sum.Complex(), v.Complex()))
			}
		}
		out.Set(sum, index...)
	})
	return out
}

func sumScanZ[T complex64 | complex128](a *complex128, dst, x []T) {
	s := *a
	for i, v := range x {
		s += complex128(v)
		dst[i] = T(s)
	}
	*a = s
}

func prodScanZ[T complex64 | complex128](a *complex128, dst, x []T) {
	s := *a
	for i, v := range x {
		s *= complex128(v)
		dst[i] = T(s)
	}
	*a = s
}

func sumLinesZ[T complex64 | complex128](a []complex128, dst, x []T) {
	for i := range a {
		a[i] += complex128(x[i])
		dst[i] = T(a[i])
	}
}

func prodLinesZ[T complex64 | complex128](a []complex128, dst, x []T) {
	for i := range a {
		a[i] *= complex128(x[i])
		dst[i] = T(a[i])
	}
}
