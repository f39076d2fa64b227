package pointwise

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Where selects elements by a condition.
var Where = kit.Define[kit.None](graph.Op{
	Semantics: graph.Semantics{
		Name: "where",
		Doc: "Takes self where condition is true and other elsewhere, with broadcasting. The condition is bool, or " +
			"uint8 for compatibility; self and other are promoted.",
		Params: []graph.Param{{Name: "condition"}, kit.SelfNum, kit.OtherNum},
		Infer:  kit.InferWithLayout(&selection, whereLayout),
		Ref: kit.PointwiseRef(&selection, kit.Always(func(_ tensor.DType, x []tensor.Scalar) tensor.Scalar {
			if x[0].Int() != 0 {
				return x[1]
			}
			return x[2]
		})),
		Examples: []graph.Example{
			kit.Example(nil, tensor.New(tensor.Bool, 2, 3), kit.ExTransposed, kit.ExRow),
			kit.Example(nil, tensor.New(tensor.Bool, 3), kit.ExInts, kit.ExTransposed)},
	},
	Lowerings: graph.Lowerings{Pointwise: &selection},
})

var selection = graph.Pointwise{Config: whereConfig, Body: selecting}

func whereCheck(c *graph.Call) (tensor.DType, error) {
	if d := c.Type(0).DType; d != tensor.Bool && d != tensor.Uint8 {
		return d, fmt.Errorf("where expected condition to be a boolean tensor, but got a tensor with dtype %s", d.TorchName())
	}
	return resultType(c.In[1:])
}

// whereConfig keeps the condition a byte if self and other need no conversion. Otherwise the condition is converted
// with them, and loops test for non-zero bits.
func whereConfig(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	d, err := whereCheck(c)
	if err != nil {
		return rule.Config{}, err
	}
	out := outs[0]
	if !out.Defined {
		out = rule.UndefinedOf(d)
	}
	cfg := rule.New().CheckAllSameDType(false).Output(out).Input(c.In[0].Operand())
	for _, a := range c.In[1:] {
		o := a.Operand()
		if a.Kind == graph.NumberArg {
			o = rule.OfType(tensor.Type{DType: d})
		}
		cfg = cfg.Input(o)
		if o.Type.DType != d {
			cfg = cfg.PromoteInputsToCommonDType(true)
		}
	}
	return cfg, nil
}

// whereLayout infers the layout from the condition and the operands as PyTorch converts them first.
func whereLayout(c *graph.Call) (tensor.Type, error) {
	d, err := whereCheck(c)
	if err != nil {
		return tensor.Type{}, err
	}
	cfg := rule.New().Output(rule.UndefinedOf(d)).Input(rule.OfType(rule.CastType(c.Type(0), tensor.Bool)))
	for i := 1; i < 3; i++ {
		cfg = cfg.Input(rule.OfType(rule.CastType(c.Type(i), d)))
	}
	return kit.LaidOutType(cfg)
}

// selects holds the kernels for a condition of one byte, by the dtype of the condition. joint holds the kernels for a
// condition that is converted to the dtype of the other operands.
var (
	choice    = formula("where(c, x, y)", "c", "x", "y")
	allDTypes = [][]tensor.DType{boolean, integers, reduced, floats, complexes}
	selects   = map[tensor.DType]bodies{tensor.Bool: conditional(tensor.Bool), tensor.Uint8: conditional(tensor.Uint8)}
	joint     = bodiesOf(choice, allDTypes...)
)

func conditional(c tensor.DType) bodies {
	return bodiesFor(choice, func(d tensor.DType) []tensor.DType { return []tensor.DType{d, c, d, d} }, allDTypes...)
}

func selecting(_ *graph.Call, it *rule.Rule) (rule.Kernel, error) {
	d, c := it.DType(0), it.DType(1)
	if c == d {
		return joint[d], nil
	}
	return selects[c][d], nil
}
