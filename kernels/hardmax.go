package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

type hardmaxAttrs struct {
	Dim int `attr:"dim" default:"-1" doc:"dimension along which one element is 1"`
}

// Hardmax is ONNX's operator.
var Hardmax = define[hardmaxAttrs](graph.Op{
	Name:   "hardmax",
	Doc:    "Gives 1 at the first greatest element along a dimension and 0 elsewhere. Serves floats only; the result is row-major.",
	Params: []graph.Param{self},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		m := c.Type(0)
		if _, err := tensor.WrapDim(attrs[hardmaxAttrs](c).Dim, m.Rank()); err != nil {
			return nil, err
		}
		if !m.DType.IsFloat() {
			return nil, notImplemented("hardmax", m.DType)
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
		d, err := tensor.WrapDim(attrs[hardmaxAttrs](c).Dim, x.Rank())
		eachIndex(x.Shape, func(index []int) {
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
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4)}}, {In: []tensor.Meta{exTurned}, Attrs: graph.Attrs{"dim": 0}}},
})

func compileHardmax[T float32 | float64](c *graph.Call) (*graph.Kernel, error) {
	d, m := tensor.DTypeOf[T](), c.Meta(0)
	n, inner := 1, 1
	if m.Rank() > 0 {
		dim, err := tensor.WrapDim(attrs[hardmaxAttrs](c).Dim, m.Rank())
		if err != nil {
			return nil, err
		}
		n, inner = m.Shape[dim], tensor.Numel(m.Shape[dim+1:])
	}
	all := m.Numel()
	x := newCompound(c)
	x.run(0, 0, []spot{x.result(0, d), x.dense(x.in(0), d)}, cutUnits(all/n, n, func(mem *graph.Mem, begin, end int) error {
		y, v := elementsOf[T](mem.Ptrs[0], all), elementsOf[T](mem.Ptrs[1], all)
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
	return x.kernel()
}
