package pointwise

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type gluAttrs struct {
	Dim int `attr:"dim" default:"-1" doc:"dimension that is halved"`
}

// Prelu scales what is below 0 by a weight, one for all or one for each channel.
var Prelu = kit.Define[kit.None](graph.Op{
	AnyOrder: true, Images: graph.ImagePasser,
	Name: "prelu",
	Doc: "Multiplies elements that are not above 0 by weight: one for all, or one for each channel (dimension 1). " +
		"The result has the memory format that self suggests.",
	Params: []graph.Param{kit.Self, kit.Weight},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		m, w := c.Type(0), c.Type(1)
		channels := sym.Of(1)
		if m.Rank() > 1 {
			channels = m.Shape[1]
		}
		switch {
		case m.Rank() == 0 && !kit.Is(w.Numel(), 1):
			return nil, fmt.Errorf("Not allow zero-dim input tensor.")
		case !kit.Is(w.Numel(), 1) && w.Numel().Ne(channels).Holds():
			return nil, fmt.Errorf("Mismatch of parameter numbers and input channel size. Found parameter numbers = %v and "+
				"channel size = %v.", w.Numel(), channels)
		case w.Rank() > 1:
			return nil, fmt.Errorf("prelu: Expected `weight` to be a scalar or 1D tensor, but got ndim = %d", w.Rank())
		case !m.DType.IsFloat():
			return nil, kit.NotImplemented("prelu", m.DType)
		case w.DType != m.DType:
			return nil, fmt.Errorf("expected scalar type %s but found %s", m.DType.TorchName(), w.DType.TorchName())
		}
		t, err := tensor.NewTypeFormat(m.DType, m.Shape, m.SuggestMemoryFormat(false))
		return c.One(t), err
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		m := c.Meta(0)
		q := kit.AxisIndex{Inner: max(1, m.Numel()), N: 1}
		if c.Meta(1).Numel() != 1 && m.Numel() > 0 {
			q = kit.AxisIndex{Inner: tensor.Numel(m.Shape[2:]), N: m.Shape[1]}
		}
		if m.DType.OpMath() == tensor.Float32 {
			return compilePrelu[float32](c, q)
		}
		return compilePrelu[float64](c, q)
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		out := tensor.Zeros(in[0].DType, in[0].Shape...)
		kit.EachIndex(out.Shape, func(index []int) {
			v := in[0].At(index...).Float()
			if !(v > 0) {
				v *= kit.OneOf(in[1], index, 1)
			}
			out.Set(tensor.FloatScalar(v), index...)
		})
		return []*tensor.Tensor{out}, nil
	},
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4), tensor.New(tensor.Float32, 3)}},
		{In: []tensor.Meta{kit.ExTurned, tensor.New(tensor.Float32, 1)}}},
})

func compilePrelu[T float32 | float64](c *graph.Call, q kit.AxisIndex) (*graph.Kernel, error) {
	d, n := tensor.DTypeOf[T](), c.Out[0].Numel()
	if n == 0 {
		return &graph.Kernel{}, nil
	}
	x := copies.NewCompound(c)
	ins := x.Operands(d)
	weights := ins[1].Meta.Numel()
	x.Run(0, 0, []kit.Buffer{x.Result(0, d), ins[0], ins[1]},
		copies.CutUnits(n, 1, func(m *graph.Mem, begin, end int) error {
			y, v, w := kit.ElementsOf[T](m.Ptrs[0], n), kit.ElementsOf[T](m.Ptrs[1], n), kit.ElementsOf[T](m.Ptrs[2], weights)
			for begin < end {
				to, at := q.Run(begin, end)
				f := w[at]
				for i, e := range v[begin:to] {
					if !(e > 0) {
						e *= f
					}
					y[begin+i] = e
				}
				begin = to
			}
			return nil
		}))
	return x.Kernel()
}

// Glu multiplies one half of a dimension by the sigmoid of the other.
var Glu = kit.Define[gluAttrs](graph.Op{
	AsInferred: "halves are multiplied in row-major blocks",
	Name:       "glu",
	Doc:        "Halves a dimension and multiplies the first half by the sigmoid of the second. Supports floats only.",
	Params:     []graph.Param{kit.Self},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		a, b, err := gluHalves(c)
		if err != nil {
			return nil, err
		}
		if !a.DType.IsFloat() {
			return nil, kit.NotImplemented("glu", a.DType)
		}
		return c.One(kit.SumType(a, b)), nil
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		a, b, err := gluHalves(c)
		if err != nil || c.Out[0].Numel() == 0 {
			return &graph.Kernel{}, err
		}
		if a.DType.OpMath() == tensor.Float32 {
			return compileGlu[float32](c, kit.OfNumbers(a), kit.OfNumbers(b))
		}
		return compileGlu[float64](c, kit.OfNumbers(a), kit.OfNumbers(b))
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		a, b, err := gluHalves(c)
		if err != nil {
			return nil, err
		}
		ta, tb := tensor.Must(in[0].View(kit.OfNumbers(a))), tensor.Must(in[0].View(kit.OfNumbers(b)))
		out := tensor.Zeros(ta.DType, ta.Shape...)
		kit.EachIndex(ta.Shape, func(i []int) {
			out.Set(tensor.FloatScalar(ta.At(i...).Float()*kit.Sigmoid(tb.At(i...).Float())), i...)
		})
		return []*tensor.Tensor{out}, nil
	},
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4)}},
		{In: []tensor.Meta{tensor.New(tensor.Float64, 4, 3, 2)}, Attrs: graph.Attrs{"dim": 0}}},
})

// gluHalves are the views of both halves.
func gluHalves(c *graph.Call) (a, b tensor.Type, err error) {
	m := c.Type(0)
	if m.Rank() == 0 {
		return a, b, fmt.Errorf("glu does not support 0-dimensional tensors")
	}
	d, err := tensor.WrapDim(kit.Attrs[gluAttrs](c).Dim, m.Rank())
	if err != nil {
		return a, b, err
	}
	n := m.Shape[d]
	if !kit.Is(n.Mod(sym.Of(2)), 0) {
		return a, b, fmt.Errorf("Halving dimension must be even, but dimension %d is size %v", d, n)
	}
	half := n.Div(sym.Of(2))
	if a, err = m.Narrow(d, sym.Int{}, half); err == nil {
		b, err = m.Narrow(d, half, half)
	}
	return a, b, err
}

func compileGlu[T float32 | float64](c *graph.Call, a, b tensor.Meta) (*graph.Kernel, error) {
	d, n := tensor.DTypeOf[T](), a.Numel()
	x := copies.NewCompound(c)
	half := func(m tensor.Meta) kit.Buffer {
		m.Offset -= c.Meta(0).Offset
		s := x.In(0)
		s.Data = nil
		return x.Dense(s.Show(m), d)
	}
	left, right := half(a), half(b)
	x.Run(0, 0, []kit.Buffer{x.Result(0, d), left, right}, copies.CutUnits(n, 8, func(m *graph.Mem, begin, end int) error {
		y, u, v := kit.ElementsOf[T](m.Ptrs[0], n), kit.ElementsOf[T](m.Ptrs[1], n), kit.ElementsOf[T](m.Ptrs[2], n)
		for i := begin; i < end; i++ {
			y[i] = T(float64(u[i]) / (1 + math.Exp(-float64(v[i]))))
		}
		return nil
	}))
	return x.Kernel()
}
