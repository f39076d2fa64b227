package pointwise

import (
	"errors"
	"fmt"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type lerpAttrs struct {
	Weight tensor.Scalar `attr:"weight" default:"none" doc:"weight, if it is a plain number"`
}

// Lerp is self + weight * (end - self).
var Lerp = kit.Define[lerpAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "lerp",
		Doc: "Interpolates from self to end by weight, a tensor or a plain number. All tensors must have the same " +
			"dtype.",
		Params: []graph.Param{kit.Self, {Name: "end"}, {Name: "weight", Optional: true, Number: true}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			res, err := interpolation.Infer(c)
			if err != nil || len(c.In) < 3 || c.In[2].Kind != graph.NumberArg {
				return res, err
			}
			// A plain weight does not affect the layout.
			t, err := kit.FirstResultType(rule.Binary(rule.Undefined(), c.In[0].Operand(), c.In[1].Operand()))
			return c.One(t), err
		},
		Ref: kit.PointwiseRef(&interpolation, lerpRef),
		Examples: []graph.Example{kit.Example(nil, kit.ExTransposed, kit.ExRow, kit.ExMatrix),
			kit.Example(graph.Attrs{"weight": 0.25}, kit.ExTransposed, kit.ExRow)},
	},
	Lowerings: graph.Lowerings{
		Pointwise:  &interpolation,
		Compile:    func(c *graph.Call) (*graph.Kernel, error) { return compileWithOmitted(&interpolation, c) },
		Expression: interpolation.Expression, // only calls without omitted operands are fused
	},
})

var interpolation = graph.Pointwise{Config: lerpConfig, Body: lerpBody}

func lerpConfig(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	d := c.Type(0).DType
	for i, name := range []string{"end", "weight"} {
		if i+1 < len(c.In) && c.In[i+1].Kind == graph.TensorArg && c.Type(i+1).DType != d {
			return rule.Config{}, fmt.Errorf("expected dtype %s for `%s` but got dtype %s", kit.CppName(d), name,
				kit.CppName(c.Type(i+1).DType))
		}
	}
	if c.Has(2) == kit.Attrs[lerpAttrs](c).Weight.IsSet() {
		return rule.Config{}, errors.New("lerp: weight must be given, as an operand or an attribute")
	}
	if !d.IsFloat() && !d.IsComplex() {
		torchKernel := "lerp_kernel_scalar"
		if c.Has(2) && c.In[2].Kind == graph.TensorArg {
			torchKernel = "lerp_kernel_tensor"
		}
		return rule.Config{}, kit.NotImplementedBy(torchKernel, d)
	}
	if c.Has(2) {
		return ternary(c, outs)
	}
	return binary(c, outs)
}

// Interpolation starts from the closer end, so that a weight of 1 gives exactly end (native::lerp).
var (
	lerpBodies    = bodiesOf(formula("lerp(x, y, z)"), floats, complexes)
	lerpFromStart = formula("w = type_as(weight, x); x + w * (y - x)", "x", "y")
	lerpFromEnd   = formula("w = type_as(weight, x); y - (y - x) * (1 - w)", "x", "y")
)

func lerpBody(c *graph.Call, it *rule.Rule) (rule.Kernel, error) {
	w := kit.Attrs[lerpAttrs](c).Weight
	if !w.IsSet() {
		return lerpBodies.kernelNamed("lerp_kernel_tensor", it)
	}
	if err := kit.NumberFits(w, c.Type(0).DType); err != nil {
		return rule.Kernel{}, err
	}
	converted := w.Tensor(it.DType(1)).At()
	fromStart := converted.Float() < 0.5
	if it.DType(1).IsComplex() {
		fromStart = cmplx.Abs(converted.Complex()) < 0.5
	}
	if fromStart {
		return kernelWith(lerpFromStart, it, numbers{"weight": w}), nil
	}
	return kernelWith(lerpFromEnd, it, numbers{"weight": w}), nil
}

func lerpRef(c *graph.Call) kit.ScalarFunc {
	w := kit.Attrs[lerpAttrs](c).Weight
	return func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if w.IsSet() {
			x = append(x[:2:2], w)
		}
		round := roundTo(d)
		return kit.ByKind(nil,
			func(x []float64) float64 {
				diff := round(x[1] - x[0]) // the difference may overflow d
				if x[2] < 0.5 {
					return x[0] + round(float64(x[2]*diff))
				}
				return x[1] - round(float64(diff*round(1-x[2])))
			},
			func(x []complex128) complex128 {
				round := roundComplexTo(d)
				diff := round(x[1] - x[0])
				if cmplx.Abs(x[2]) < 0.5 {
					return x[0] + round(kit.MulComplex(x[2], diff))
				}
				return x[1] - round(kit.MulComplex(diff, round(1-x[2])))
			})(d, x)
	}
}
