package reduce

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type hardmaxAttrs struct {
	Dim int `attr:"dim" default:"-1" doc:"dimension along which one element is 1"`
}

// Hardmax is ONNX's operator.
var Hardmax = kit.Define[hardmaxAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "hardmax",
		Doc: "Gives 1 at the first greatest element along a dimension and 0 elsewhere. Supports floats only; the " +
			"result is row-major.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			m := c.Type(0)
			if _, err := tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, m.Rank()); err != nil {
				return nil, err
			}
			if !m.DType.IsFloat() {
				return nil, kit.NotImplemented("hardmax", m.DType)
			}
			return c.One(m.RowMajor()), nil
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			x := in[0]
			out := tensor.Zeros(x.DType, x.Shape...)
			if x.Rank() == 0 {
				out.Set(tensor.IntScalar(1))
				return []*tensor.Tensor{out}, nil
			}
			d, err := tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, x.Rank())
			line := make([]tensor.Scalar, x.Shape[d])
			kit.EachIndex(x.Shape, func(index []int) {
				if index[d] > 0 {
					return
				}
				for i := range line {
					index[d] = i
					line[i] = tensor.FloatScalar(x.At(index...).Float())
				}
				index[d] = refBest(line, true)
				out.Set(tensor.IntScalar(1), index...)
				index[d] = 0
			})
			return []*tensor.Tensor{out}, err
		},
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4)}},
			{In: []tensor.Meta{kit.ExTransposed}, Attrs: graph.Attrs{"dim": 0}}},
	},
	Facts: graph.Facts{
		AsInferred: "a row is written in the order in which it is read",
		Alone:      "reads a whole row before it writes one, in its own kernel",
	},
	Lowerings: graph.Lowerings{
		Rows: hardmaxRows,
		Impls: lineOp{
			dim:  dimOf(func(c *graph.Call) int { return kit.Attrs[hardmaxAttrs](c).Dim }),
			each: graph.Each{Simple: 2}, rows: hardmaxRows, attrs: &hardmaxAttrs{Dim: 1},
			lower: func(c *graph.Call, dim int, by lineWalk) (*graph.Kernel, error) {
				if k, err := compileSuitedRows(c, by.rows(hardmaxRows)); k != nil || err != nil {
					return k, err
				}
				d := c.Out[0].DType
				p := newLinePlan(c.Meta(0), dim, by, c.Out[0], nil, d, d.OpMath(), 2)
				if p.ld.Size == 4 {
					return hardmaxKernel[float32](p), nil
				}
				return hardmaxKernel[float64](p), nil
			}}.impls(),
	},
})

// hardmaxRows finds the position of the first greatest element as [bestRow] does, and compares positions with it.
func hardmaxRows(c *graph.Call) (*graph.Rows, error) {
	dim, err := tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, c.Meta(0).Rank())
	if err != nil {
		return nil, err
	}
	d := c.Meta(0).DType
	b := expr.NewBuilder(d)
	x := folds.Operand(b, 0, d).Re
	place := b.Position()
	is := b.Do(expr.Eq, place, firstWhere(b, isBest(b, x, b.Reduce(expr.Max, x)), place))
	y := b.Do(expr.Select, is, b.Const(b.DType(x), 1), b.Const(b.DType(x), 0))
	return wholeRows(b, lineMask(c.Meta(0).Rank(), dim), []int{0}, y, d)
}

// hardmaxKernel finds the positions of all lines of a unit before it writes, because the result may alias the operand.
func hardmaxKernel[T float32 | float64](p *linePlan) *graph.Kernel {
	one := T(1)
	return p.kernel(p.unit*int(unsafe.Sizeof(best[T]{})), func(r lineRoom, in, out unsafe.Pointer, n int) error {
		k, a := p.kept[0], unsafe.Slice((*best[T])(r.own), n)
		for j := range a {
			a[j].i = -1
		}
		if p.rows {
			for j := range a {
				for i := 0; i < p.line.N; i += folds.BlockLen {
					r.look(i, 1)
					c := min(folds.BlockLen, p.line.N-i)
					x := p.ld.Run(r.buf, r.tmp, unsafe.Add(in, j*k.In+i*p.line.In), p.line.In, c)
					greatestRow(&a[j], unsafe.Slice((*T)(x), c), i)
				}
				p.clear(unsafe.Add(out, j*k.Out[0]), p.line.Out[0], p.line.N)
			}
		} else {
			for i := range p.line.N {
				r.look(i, n)
				x := p.ld.Run(r.buf, r.tmp, unsafe.Add(in, i*p.line.In), k.In, n)
				greatestColumns(a, unsafe.Slice((*T)(x), n), i)
			}
			for i := range p.line.N {
				r.look(i, n)
				p.clear(unsafe.Add(out, i*p.line.Out[0]), k.Out[0], n)
			}
		}
		for j := range a {
			p.store(unsafe.Add(out, j*k.Out[0]+int(a[j].i)*p.line.Out[0]), unsafe.Pointer(&one), 0, 0, 1)
		}
		return nil
	})
}
