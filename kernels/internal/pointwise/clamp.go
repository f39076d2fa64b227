package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

var (
	minParam = graph.Param{Name: "min", Optional: true, AcceptsNumber: true}
	maxParam = graph.Param{Name: "max", Optional: true, AcceptsNumber: true}
)

// Clamp limits self to at least min and at most max. ClampMin has only the bound min, ClampMax only max.
var (
	Clamp = clampOp(graph.SchemaOf[*clampAttrs](), "clamp",
		"Clamps self to at least `min` and at most `max`; one of them may be omitted. If `min` is above `max`, the "+
			"result is `max`. A bound of a higher dtype category (integer, float) promotes self.",
		[]graph.Param{kit.Self, minParam, maxParam},
		func(c *graph.Call) clampBounds {
			attrs := *kit.Attrs[*clampAttrs](c)
			if !attrs.Min.IsSet() || !attrs.Max.IsSet() {
				// As in PyTorch, a NaN bound has no effect if it is the only bound. With clamp_min the result would be
				// NaN.
				attrs.Min, attrs.Max = infinityForNaN(attrs.Min, -1), infinityForNaN(attrs.Max, 1)
			}
			return clampBounds{lower: attrs.Min, upper: attrs.Max, lowerIsOperand: c.HasOperand(1),
				upperIsOperand: c.HasOperand(2)}
		},
		kit.Example(graph.Attrs{"min": -0.5, "max": 1}, kit.TransposedMatrix), kit.Example(graph.Attrs{"max": 2},
			kit.IntMatrix),
		kit.Example(nil, kit.TransposedMatrix, kit.FloatRow, kit.FloatMatrix),
		kit.Example(nil, kit.TransposedMatrix, tensor.Meta{}, kit.FloatRow))
	ClampMin = clampOp(graph.SchemaOf[*clampMinAttrs](), "clamp_min",
		"Clamps self to at least `min`.", []graph.Param{kit.Self, minParam},
		func(c *graph.Call) clampBounds {
			return clampBounds{lower: kit.Attrs[*clampMinAttrs](c).Min, lowerIsOperand: c.HasOperand(1)}
		},
		kit.Example(graph.Attrs{"min": 0.5}, kit.TransposedMatrix), kit.Example(nil, kit.TransposedMatrix, kit.FloatRow))
	ClampMax = clampOp(graph.SchemaOf[*clampMaxAttrs](), "clamp_max",
		"Clamps self to at most `max`.", []graph.Param{kit.Self, maxParam},
		func(c *graph.Call) clampBounds {
			return clampBounds{upper: kit.Attrs[*clampMaxAttrs](c).Max, upperIsOperand: c.HasOperand(1)}
		},
		kit.Example(graph.Attrs{"max": 0.5}, kit.TransposedMatrix), kit.Example(nil, kit.TransposedMatrix, kit.FloatRow))
)

// infinityForNaN returns the bound, or the infinity with the given sign if the bound is NaN.
func infinityForNaN(bound tensor.Scalar, sign int) tensor.Scalar {
	if bound.IsSet() && math.IsNaN(bound.Float()) {
		return tensor.FloatScalar(math.Inf(sign))
	}
	return bound
}

// clampOp defines an op that clamps self. bounds returns the bounds of a call.
func clampOp(attrs *graph.Schema, name, doc string, params []graph.Param, bounds func(c *graph.Call) clampBounds,
	examples ...graph.Example) *graph.Op {
	pointwise := &graph.Pointwise{
		Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
			given := bounds(c)
			if err := given.check(c); err != nil {
				return rule.Config{}, err
			}
			return given.config(c, outs)
		},
		Body: func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) { return bounds(c).body(name, iteration) },
	}
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: params, Examples: examples,
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				results, err := pointwise.Infer(c)
				if err != nil || hasTensorBound(c) {
					return results, err
				}
				// Bounds that are numbers do not affect the layout.
				t, err := typeAfterCast(c.Type(0), results[0].Type.DType)
				return c.NewResult(t), err
			},
			Ref: kit.PointwiseRef(pointwise, func(c *graph.Call) kit.ScalarFunc { return bounds(c).ref }),
		},
		Lowerings: graph.Lowerings{
			Pointwise:  pointwise,
			Compile:    func(c *graph.Call) (*graph.Kernel, error) { return compilePresentOperands(pointwise, c) },
			Expression: pointwise.Expression, // only calls without omitted operands are fused
		},
	})
}

// hasTensorBound reports whether a bound is a tensor.
func hasTensorBound(c *graph.Call) bool {
	for _, arg := range c.In[1:] {
		if arg.Kind == graph.TensorArg {
			return true
		}
	}
	return false
}
