package reduce

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/pointwise"
	"github.com/graphrun/graphrun/kernels/view"
	"github.com/graphrun/graphrun/tensor"
)

type hardmaxAttrs struct {
	Dim int `attr:"dim" default:"-1" doc:"dimension along which one element is 1"`
}

// Hardmax is ONNX's operator.
var Hardmax = kit.Define[hardmaxAttrs](graph.Op{
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
	Decompose: func(into *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
		p, m, d := compose.Of(into, c), c.Meta(0), c.Out[0].DType
		if m.Numel() == 0 || m.Rank() == 0 {
			return p.Result(p.Add(view.Full, graph.Attrs{"size": m.Shape, "fill_value": 1, "dtype": d}))
		}
		dim, err := tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, m.Rank())
		if err != nil {
			return nil, err
		}
		best := p.Add(Argmax, graph.Attrs{"dim": dim, "keepdim": true}, c.In[0])
		places := p.Along(p.Add(view.Arange, graph.Attrs{"end": m.Shape[dim]}), dim, m.Rank())
		return p.Result(p.Add(pointwise.Eq, nil, places, best))
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
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4)}},
		{In: []tensor.Meta{kit.ExTurned}, Attrs: graph.Attrs{"dim": 0}}},
})
