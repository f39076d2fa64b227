package pointwise

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Where picks elements by a condition.
var Where = kit.Define[kit.None](graph.Op{
	Name: "where",
	Doc: "Takes self where condition holds and other elsewhere, all broadcast together. The condition is bool, or " +
		"uint8 as of old; self and other promote.",
	Params:    []graph.Param{{Name: "condition"}, kit.SelfNum, kit.OtherNum},
	Pointwise: &selection,
	Infer:     kit.LaidBy(&selection, whereLayout),
	Ref: kit.PointwiseRef(&selection, kit.Always(func(_ tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if x[0].Int() != 0 {
			return x[1]
		}
		return x[2]
	})),
	Examples: []graph.Example{
		kit.Example(nil, tensor.New(tensor.Bool, 2, 3), kit.ExTurned, kit.ExRow),
		kit.Example(nil, tensor.New(tensor.Bool, 3), kit.ExInts, kit.ExTurned)},
})

var selection = graph.Pointwise{Config: whereConfig, Body: chosen(selects)}

func whereCheck(c *graph.Call) (tensor.DType, error) {
	if d := c.Type(0).DType; d != tensor.Bool && d != tensor.Uint8 {
		return d, fmt.Errorf("where expected condition to be a boolean tensor, but got a tensor with dtype %s", d.TorchName())
	}
	return resultType(c.In[1:])
}

// whereConfig leaves the condition a byte where self and other need no conversion. Where
// they do, the condition is converted along with them: loops look for a bit that is not 0.
func whereConfig(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	d, err := whereCheck(c)
	if err != nil {
		return iter.Config{}, err
	}
	out := outs[0]
	if !out.Defined {
		out = iter.UndefinedOf(d)
	}
	cfg := iter.New().CheckAllSameDType(false).Output(out).Input(c.In[0].Operand())
	for _, a := range c.In[1:] {
		o := a.Operand()
		if a.Kind == graph.NumberArg {
			o = iter.OfType(tensor.Type{DType: d})
		}
		cfg = cfg.Input(o)
		if o.Type.DType != d {
			cfg = cfg.PromoteInputsToCommonDType(true)
		}
	}
	return cfg, nil
}

// whereLayout lays the result out by the condition and the operands as PyTorch converts
// them beforehand.
func whereLayout(c *graph.Call) (tensor.Type, error) {
	d, err := whereCheck(c)
	if err != nil {
		return tensor.Type{}, err
	}
	cfg := iter.New().Output(iter.UndefinedOf(d)).Input(iter.OfType(iter.CastType(c.Type(0), tensor.Bool)))
	for i := 1; i < 3; i++ {
		cfg = cfg.Input(iter.OfType(iter.CastType(c.Type(i), d)))
	}
	return kit.LaidOut(cfg)
}

// selects moves elements of a size, whatever they mean.
var selects = iter.NewTable("where_cpu",
	iter.Slice3(selectSlice[uint8, uint8]).Bits(),
	iter.Slice3(selectSlice[uint16, uint8]).Bits(), iter.Slice3(selectSlice[uint16, uint16]).Bits(),
	iter.Slice3(selectSlice[uint32, uint8]).Bits(), iter.Slice3(selectSlice[uint32, uint32]).Bits(),
	iter.Slice3(selectSlice[uint64, uint8]).Bits(), iter.Slice3(selectSlice[uint64, uint64]).Bits(),
	iter.Slice3(selectSlice[complex128, uint8]).Bits(), iter.Slice3(selectSlice[complex128, complex128]).Bits())

func selectSlice[T, C uint8 | uint16 | uint32 | uint64 | complex128](dst []T, c []C, a, b []T) {
	c, a, b = c[:len(dst)], a[:len(dst)], b[:len(dst)]
	for i := range dst {
		v := b[i]
		if c[i] != 0 {
			v = a[i]
		}
		dst[i] = v
	}
}
