package pointwise

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
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
	Params:  []graph.Param{kit.Self, kit.Weight},
	Compile: prelus.Compile,
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

// prelus reads the weight as it is broadcast along channels; what fused nodes read is broadcast along the last
// dimension.
var prelus = graph.Pointwise{
	Config: func(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
		return iter.Binary(outs[0], c.In[0].Operand(), iter.OfType(alongChannels(c.Type(1), c.Type(0).Rank()))).OpMath(true),
			nil
	},
	Body: fixed("prelu", stated(formula("where(x > 0, x, x * w)", "x", "w"), floats)),
}

// alongChannels is the view of a weight that is broadcast along dimension 1 of a tensor.
func alongChannels(w tensor.Type, rank int) tensor.Type {
	v := tensor.Type{DType: w.DType, Offset: w.Offset}
	if w.Rank() == 0 || rank < 2 {
		return v
	}
	v.Shape, v.Strides = slices.Repeat([]sym.Int{sym.Of(1)}, rank-1), make([]sym.Int, rank-1)
	v.Shape[0], v.Strides[0] = w.Shape[0], w.Strides[0]
	return v
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
