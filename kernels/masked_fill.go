package kernels

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

var maskFilling = graph.Pointwise{Config: maskedFillConfig, Body: chosen(iter.NewTable("masked_fill",
	iter.Slice3(fillWhere[uint8]).Bits(), iter.Slice3(fillWhere[uint16]).Bits(), iter.Slice3(fillWhere[uint32]).Bits(),
	iter.Slice3(fillWhere[uint64]).Bits(), iter.Slice3(fillWhere[complex128]).Bits()))}

// MaskedFill is torch.masked_fill.
var MaskedFill = define[none](graph.Op{
	Name:      "masked_fill",
	Doc:       "Puts a number, or a 0-dim value, where mask holds, and self elsewhere; self and mask broadcast together.",
	Params:    []graph.Param{self, {Name: "mask"}, {Name: "value", Number: true}},
	Pointwise: &maskFilling,
	Infer:     laidBy(&maskFilling, rowMajorResult),
	Ref: pointwiseRef(&maskFilling, always(func(_ tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if x[1].Int() != 0 {
			return x[2]
		}
		return x[0]
	})),
	Examples: []graph.Example{example(nil, exTurned, tensor.New(tensor.Bool, 3), tensor.New(tensor.Float32))},
})

func maskedFillConfig(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	d := c.Meta(0).DType
	if k := c.Meta(1).DType; k != tensor.Bool {
		return iter.Config{}, fmt.Errorf("masked_fill only supports boolean masks, but got mask with dtype %s", k)
	}
	value := c.In[2].Operand()
	switch {
	case c.In[2].Kind == graph.NumberArg:
		if err := numberFits(c.In[2].Number, d); err != nil {
			return iter.Config{}, err
		}
		value = iter.Of(tensor.New(d))
	case c.Meta(2).Rank() > 0:
		return iter.Config{}, fmt.Errorf("masked_fill only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).", c.Meta(2).Rank())
	case c.Meta(2).DType != d:
		return iter.Config{}, errors.New("masked_fill: value must have the dtype of self")
	}
	out := outs[0]
	if !out.Defined {
		out = iter.UndefinedOf(d)
	}
	return iter.New().CheckAllSameDType(false).Output(out).Input(c.In[0].Operand()).Input(c.In[1].Operand()).Input(value), nil
}

// rowMajorResult lays a result of operands 0 and 1, broadcast together, out row-major.
func rowMajorResult(c *graph.Call) (tensor.Meta, error) {
	shape, err := tensor.Broadcast(c.Meta(0).Shape, c.Meta(1).Shape)
	return tensor.New(c.Meta(0).DType, shape...), err
}

func fillWhere[T uint8 | uint16 | uint32 | uint64 | complex128](dst, a []T, mask []uint8, v []T) {
	a, mask, v = a[:len(dst)], mask[:len(dst)], v[:len(dst)]
	for i := range dst {
		x := a[i]
		if mask[i] != 0 {
			x = v[i]
		}
		dst[i] = x
	}
}
