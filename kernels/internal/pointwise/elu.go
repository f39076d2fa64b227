package pointwise

import (
	"errors"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type eluAttrs struct {
	Alpha      float64 `attr:"alpha" default:"1" doc:"scale of the exponential below 0"`
	Scale      float64 `attr:"scale" default:"1" doc:"factor of the result"`
	InputScale float64 `attr:"input_scale" default:"1" doc:"factor of self below 0"`
}

type celuAttrs struct {
	Alpha float64 `attr:"alpha" default:"1" doc:"scale and width of the exponential below 0"`
}

// Elu, Selu and Celu are exponential linear units. They are linear above 0 and exponential below 0. The functions curve
// and attrCurve define an op by a formula and a reference function. machine.FunctionGrain is the number of elements per
// chunk.
var (
	Elu = attrCurve("elu", "elu_cpu", "Multiplies positive elements by `scale`, and replaces other elements by "+
		"scale * alpha * (exp(x * input_scale) - 1). Supports floats only.", "where(x <= 0, alpha * scale * expm1(x * "+
		"input_scale), x * scale)",
		machine.FunctionGrain, func(a *eluAttrs) numbers {
			return numbers{"alpha": tensor.FloatScalar(a.Alpha), "scale": tensor.FloatScalar(a.Scale),
				"input_scale": tensor.FloatScalar(a.InputScale)}
		}, elu, kit.UnaryExample, kit.Example(graph.Attrs{"alpha": 2, "scale": 0.5, "input_scale": 1.5},
			kit.TransposedMatrix))
	Selu = curve("selu", "elu_cpu", "Applies elu with the constants of self-normalizing networks. "+
		"Supports floats only.",
		// ATen's SELU_ALPHA and SELU_SCALE.
		"a = 1.6732632423543772; s = 1.0507009873554805; where(x <= 0, a * s * expm1(x), x * s)",
		machine.FunctionGrain, elu(&eluAttrs{1.6732632423543772, 1.0507009873554805, 1}))
	Celu = attrCurve("celu", "elu_cpu", "Keeps positive elements and replaces other elements by alpha * (exp(x / alpha) "+
		"- 1). Supports floats only.", "where(x <= 0, alpha * expm1(x * (1 / alpha)), x)",
		machine.FunctionGrain, func(a *celuAttrs) numbers { return numbers{"alpha": tensor.FloatScalar(a.Alpha)} },
		func(a *celuAttrs) func(float64) float64 { return elu(&eluAttrs{a.Alpha, 1, 1 / a.Alpha}) },
		kit.UnaryExample, kit.Example(graph.Attrs{"alpha": 0.5}, kit.TransposedMatrix))
)

func init() {
	Celu.Pointwise.Config = withCheck(unary, func(c *graph.Call) error {
		if kit.Attrs[*celuAttrs](c).Alpha == 0 {
			return errors.New("ZeroDivisionError: alpha cannot be 0 for CELU")
		}
		return nil
	})
}

// elu returns the reference function of the attributes.
func elu(attrs *eluAttrs) func(float64) float64 {
	negativeFactor, positiveFactor := attrs.Alpha*attrs.Scale, attrs.Scale
	return func(x float64) float64 {
		if x <= 0 {
			return negativeFactor * math.Expm1(x*attrs.InputScale)
		}
		return x * positiveFactor
	}
}
