package pointwise

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Prelu multiplies elements that are not positive by a weight. There is one weight for all elements or one per channel.
var Prelu = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "prelu",
		Doc: "Multiplies each element that is not positive by a weight. `weight` has one element, or one per channel " +
			"(dimension 1). The result is channels-last if the strides of self are, else row-major.",
		Params: []graph.Param{kit.Self, kit.Weight},
		Infer:  inferPrelu,
		Ref:    preluRef,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4), tensor.New(tensor.Float32, 3)}},
			{In: []tensor.Meta{kit.TransposedMatrix, tensor.New(tensor.Float32, 1)}}},
	},
	Lowerings: graph.Lowerings{Decompose: decomposePrelu},
})

// inferPrelu is the Infer function of prelu.
func inferPrelu(call *graph.Call) ([]graph.Result, error) {
	self, weight := call.Type(0), call.Type(1)
	channels := sym.Of(1)
	if self.Rank() > 1 {
		channels = self.Shape[1]
	}
	switch {
	case self.Rank() == 0 && !kit.SizeIs(weight.Numel(), 1):
		return nil, fmt.Errorf("Not allow zero-dim input tensor.")
	case !kit.SizeIs(weight.Numel(), 1) && weight.Numel().Ne(channels).Holds():
		return nil, fmt.Errorf("Mismatch of parameter numbers and input channel size. Found parameter numbers = %v and "+
			"channel size = %v.", weight.Numel(), channels)
	case weight.Rank() > 1:
		return nil, fmt.Errorf("prelu: Expected `weight` to be a scalar or 1D tensor, but got ndim = %d", weight.Rank())
	case !self.DType.IsFloat():
		return nil, kit.NotImplemented("prelu", self.DType)
	case weight.DType != self.DType:
		return nil, fmt.Errorf("expected scalar type %s but found %s", self.DType.TorchName(), weight.DType.TorchName())
	}
	const exactMatch = false
	t, err := tensor.NewTypeFormat(self.DType, self.Shape, self.SuggestMemoryFormat(exactMatch))
	return call.NewResult(t), err
}

// preluRef is the reference of prelu.
func preluRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := tensor.Zeros(in[0].DType, in[0].Shape...)
	kit.EachIndex(out.Shape, func(index []int) {
		element := in[0].At(index...).Float()
		if !(element > 0) {
			const channelDim = 1
			element *= kit.ElementAlong(in[1], index, channelDim)
		}
		out.Set(tensor.FloatScalar(element), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// decomposePrelu replaces prelu by a comparison, a product and a selection.
func decomposePrelu(parts *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
	builder, self, rank := compose.NewBuilder(parts, c), c.In[0], c.Meta(0).Rank()
	channelDim := min(1, max(rank-1, 0)) // 0 for a vector, whose weight has one element
	weight := builder.BroadcastAlong(c.In[1], channelDim, rank)
	isPositive := builder.Add(Gt, nil, self, compose.Number(0))
	return builder.Result(builder.Add(Where, nil, isPositive, self, builder.Add(Mul, nil, self, weight)))
}

type gluAttrs struct {
	Dim int `attr:"dim" default:"-1" doc:"dimension to split into halves"`
}

// Glu multiplies the first half of a dimension by the sigmoid of the second half.
var Glu = kit.Define[*gluAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "glu",
		Doc:    "Splits a dimension into halves and multiplies the first by the sigmoid of the second. Supports floats only.",
		Params: []graph.Param{kit.Self},
		Infer:  inferGlu,
		Ref:    gluRef,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4)}},
			{In: []tensor.Meta{tensor.New(tensor.Float64, 4, 3, 2)}, Attrs: graph.Attrs{"dim": 0}}},
	},
	Lowerings: graph.Lowerings{Decompose: decomposeGlu},
})

// inferGlu is the Infer function of glu.
func inferGlu(c *graph.Call) ([]graph.Result, error) {
	firstHalf, secondHalf, err := gluHalves(c)
	if err != nil {
		return nil, err
	}
	if !firstHalf.DType.IsFloat() {
		return nil, kit.NotImplemented("glu", firstHalf.DType)
	}
	return c.NewResult(kit.ElementwiseType(firstHalf, secondHalf)), nil
}

// gluRef is the reference of glu.
func gluRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	firstType, secondType, err := gluHalves(c)
	if err != nil {
		return nil, err
	}
	firstHalf := tensor.Must(in[0].View(kit.KnownMeta(firstType)))
	secondHalf := tensor.Must(in[0].View(kit.KnownMeta(secondType)))
	out := tensor.Zeros(firstHalf.DType, firstHalf.Shape...)
	kit.EachIndex(firstHalf.Shape, func(i []int) {
		out.Set(tensor.FloatScalar(firstHalf.At(i...).Float()*kit.Sigmoid(secondHalf.At(i...).Float())), i...)
	})
	return []*tensor.Tensor{out}, nil
}

// decomposeGlu replaces glu by views of both halves, a sigmoid and a product.
func decomposeGlu(parts *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
	firstType, _, err := gluHalves(c)
	if err != nil {
		return nil, err
	}
	builder, dim := compose.NewBuilder(parts, c), kit.Attrs[*gluAttrs](c).Dim
	// half returns half i of self, 0 or 1.
	half := func(i int) graph.Arg {
		size := kit.SizeOrMissing(kit.KnownMeta(firstType), dim)
		return builder.Add(view.Narrow, graph.Attrs{"dim": dim, "start": i * size, "length": size}, c.In[0])
	}
	// The sigmoid is computed in OpMath, so that only the product is rounded to the dtype.
	firstHalf, secondHalf := half(0), builder.Convert(firstType.DType.OpMath(), half(1))
	return builder.Result(builder.Add(Mul, nil, firstHalf, builder.Add(Sigmoid, nil, secondHalf)))
}

// gluHalves returns the types of the views of both halves of self.
func gluHalves(c *graph.Call) (firstHalf, secondHalf tensor.Type, err error) {
	self := c.Type(0)
	if self.Rank() == 0 {
		return firstHalf, secondHalf, fmt.Errorf("glu does not support 0-dimensional tensors")
	}
	dim, err := tensor.WrapDim(kit.Attrs[*gluAttrs](c).Dim, self.Rank())
	if err != nil {
		return firstHalf, secondHalf, err
	}
	size := self.Shape[dim]
	if !kit.SizeIs(size.Mod(sym.Of(2)), 0) {
		return firstHalf, secondHalf, fmt.Errorf("Halving dimension must be even, but dimension %d is size %v", dim, size)
	}
	half := size.Div(sym.Of(2))
	if firstHalf, err = self.Narrow(dim, sym.Int{}, half); err == nil {
		secondHalf, err = self.Narrow(dim, half, half)
	}
	return firstHalf, secondHalf, err
}
