package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Ndtr is the distribution function of the standard normal distribution.
var Ndtr = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "special_ndtr",
		Doc:    "Returns the probability that a standard normal number is less than the element.",
		Params: unaryParams,
		Infer:  kit.InferWithLayout(&ndtrLoop, ndtrLayout),
		Ref: kit.PointwiseRef(&ndtrLoop, kit.IgnoringCall(kit.ByDTypeKind(nil, func(x []float64) float64 {
			return math.Erfc(-x[0]*math.Sqrt2/2) / 2
		}, nil))),
		Examples: []graph.Example{kit.UnaryExample, kit.Example(nil, kit.IntMatrix)},
	},
	Lowerings: graph.Lowerings{Pointwise: &ndtrLoop},
})

var ndtrLoop = graph.Pointwise{Grain: machine.FunctionGrain, Config: unaryFloat,
	Body: namedBody("erf_vml_cpu", kernelsOf(formula(halvesOfRootTwo+
		"type_as(where(t < -1, 0.5 * erfc(-t) * (1 - 2 * t * r), 0.5 * (1 + erf(t))), x)", "x"), floats))}

// ndtrLayout returns the layout of (1 + erf(self / sqrt(2))) * 0.5, which PyTorch computes in four steps.
func ndtrLayout(c *graph.Call) (tensor.Type, error) {
	number := rule.NumberOperand(tensor.FloatScalar(1))
	byNumber := func(operand rule.Operand) rule.Config {
		return rule.BinaryFloat(rule.UndefinedOutput(), operand, number)
	}
	erf := func(operand rule.Operand) rule.Config { return rule.UnaryFloat(rule.UndefinedOutput(), operand) }
	var result tensor.Type
	operand := c.In[0].Operand()
	for _, step := range []func(rule.Operand) rule.Config{byNumber, erf, byNumber, byNumber} {
		var err error
		if result, err = kit.FirstResultType(step(operand)); err != nil {
			return result, err
		}
		operand = rule.OperandOfType(result)
	}
	return result, nil
}
