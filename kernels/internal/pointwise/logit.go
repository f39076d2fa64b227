package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type logitAttrs struct {
	Eps *float64 `attr:"eps" default:"none" doc:"clamp self to [eps, 1-eps] first; null: do not clamp"`
}

// Logit is the inverse of sigmoid.
var Logit = elementwise(graph.SchemaOf[*logitAttrs](), "logit",
	"Returns log(x / (1 - x)) of each element, clamped to [eps, 1-eps] if "+
		"eps is given.", unaryParams,
	&graph.Pointwise{Grain: machine.FunctionGrain, Config: unaryFloat,
		Body: func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
			if kit.Attrs[*logitAttrs](c).Eps == nil {
				return logitKernels.kernelFor("logit", iteration)
			}
			return boundedLogit(c, iteration)
		}},
	logitRef, kit.UnaryExample, kit.Example(graph.Attrs{"eps": 0.1}, kit.TransposedMatrix))

var (
	logitKernels = kernelsOf(formula("log(x / (1 - x))", "x"), floats)
	boundedLogit = attrBody("logit_cpu",
		formula("t = where(x < eps, eps, where(x > 1 - eps, 1 - eps, x)); log(t / (1 - t))", "x"),
		func(c *graph.Call) numbers { return numbers{"eps": tensor.FloatScalar(*kit.Attrs[*logitAttrs](c).Eps)} }, floats)
)

// logitRef is the reference of logit.
func logitRef(c *graph.Call) kit.ScalarFunc { return floatRef(logit(kit.Attrs[*logitAttrs](c)))(c) }

// logit returns the function of one element for the attributes of a call.
func logit(attrs *logitAttrs) func(float64) float64 {
	return func(x float64) float64 {
		if attrs.Eps != nil {
			switch lower, upper := *attrs.Eps, 1-*attrs.Eps; {
			case x < lower:
				x = lower
			case x > upper:
				x = upper
			}
		}
		return logWithSubnormals(x / (1 - x))
	}
}

// LogSigmoid is the logarithm of sigmoid.
var LogSigmoid = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "log_sigmoid",
		Doc: "Returns the logarithm of the sigmoid of each element; the result is row-major. Supports " +
			"floats only.",
		Params:   unaryParams,
		Infer:    kit.InferWithLayout(&logSigmoidLoop, rowMajorType),
		Ref:      kit.PointwiseRef(&logSigmoidLoop, kit.IgnoringCall(logSigmoid)),
		Examples: []graph.Example{kit.UnaryExample},
	},
	Lowerings: graph.Lowerings{Pointwise: &logSigmoidLoop},
})

var logSigmoidLoop = graph.Pointwise{Grain: machine.FunctionGrain, Config: unary,
	Body: bodyByDType("log_sigmoid", kernelsOf(formula("minimum(x, 0) - log1p(exp(-abs(x)))", "x"), floats))}

// logSigmoid is the reference function of log_sigmoid. As in the kernel, the logarithm is rounded to the dtype before
// the subtraction.
func logSigmoid(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
	element := x[0].Float()
	return tensor.FloatScalar(min(element, 0) - roundTo(dtype)(math.Log1p(math.Exp(-math.Abs(element)))))
}
