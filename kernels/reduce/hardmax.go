package reduce

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type hardmaxAttrs struct {
	Dim int `attr:"dim" default:"-1" doc:"dimension along which one element is 1"`
}

// Hardmax is ONNX's operator.
var Hardmax = kit.Define[hardmaxAttrs](graph.Op{
	Name:   "hardmax",
	Doc:    "Gives 1 at the first greatest element along a dimension and 0 elsewhere. Serves floats only; the result is row-major.",
	Params: []graph.Param{kit.Self},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		m := c.Type(0)
		if _, err := tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, m.Rank()); err != nil {
			return nil, err
		}
		if !m.DType.IsFloat() {
			return nil, kit.NotImplemented("hardmax", m.DType)
		}
		return graph.New1(tensor.NewType(m.DType, m.Shape...)), nil
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		if c.Out[0].Numel() == 0 {
			return &graph.Kernel{}, nil
		}
		if c.Out[0].DType.OpMath() == tensor.Float32 {
			return compileHardmax[float32](c)
		}
		return compileHardmax[float64](c)
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x := in[0]
		out := tensor.Zeros(x.DType, x.Shape...)
		if x.Rank() == 0 {
			out.Set(tensor.IntScalar(1))
			return []*tensor.Tensor{out}, nil
		}
		d, err := tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, x.Rank())
		kit.EachIndex(x.Shape, func(index []int) {
			best, at := x.At(index...).Float(), append([]int{}, index...)
			for i := range x.Shape[d] {
				if at[d] = i; i < index[d] && x.At(at...).Float() >= best || x.At(at...).Float() > best {
					return
				}
			}
			out.Set(tensor.IntScalar(1), index...)
		})
		return []*tensor.Tensor{out}, err
	},
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4)}}, {In: []tensor.Meta{kit.ExTurned}, Attrs: graph.Attrs{"dim": 0}}},
})

func compileHardmax[T float32 | float64](c *graph.Call) (*graph.Kernel, error) {
	d, m := tensor.DTypeOf[T](), c.Meta(0)
	n, inner := 1, 1
	if m.Rank() > 0 {
		dim, err := tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, m.Rank())
		if err != nil {
			return nil, err
		}
		n, inner = m.Shape[dim], tensor.Numel(m.Shape[dim+1:])
	}
	all := m.Numel()
	x := copies.NewCompound(c)
	x.Run(0, 0, []kit.Buffer{x.Result(0, d), x.Dense(x.In(0), d)}, copies.CutUnits(all/n, n, func(mem *graph.Mem, begin, end int) error {
		y, v := kit.ElementsOf[T](mem.Ptrs[0], all), kit.ElementsOf[T](mem.Ptrs[1], all)
		for u := begin; u < end; u++ {
			first := u/inner*n*inner + u%inner
			best := first
			for i := range n {
				at := first + i*inner
				if y[at] = 0; v[at] > v[best] {
					best = at
				}
			}
			y[best] = 1
		}
		return nil
	}))
	return x.Kernel()
}
