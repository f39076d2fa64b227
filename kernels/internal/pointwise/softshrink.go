package pointwise

import (
	"fmt"
	"strconv"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type softshrinkAttrs struct {
	Lambd float64 `attr:"lambd" default:"0.5" doc:"amount by which absolute values shrink"`
}

type biasShrinkAttrs struct {
	Lambd float64 `attr:"lambd" default:"0.5" doc:"absolute value up to which elements become 0"`
	Bias  float64 `attr:"bias" default:"0" doc:"amount by which the absolute values of other elements shrink"`
}

// Softshrink reduces absolute values by lambd. Shrink is ONNX's operator, which generalizes softshrink and hardshrink.
// The first function argument returns the numbers that the formula names. The second returns the reference.
var (
	Softshrink = attrCurve("softshrink", "softshrink_cpu", "Moves each element towards 0 by lambd, and to 0 if it is "+
		"closer. Supports floats only.", "where(abs(x) > lambd, x - copysign(lambd, x), x * 0)", defaultGrain,
		func(a *softshrinkAttrs) numbers { return numbers{"lambd": tensor.FloatScalar(a.Lambd)} },
		func(a *softshrinkAttrs) func(float64) float64 { return biasShrink(a.Lambd, a.Lambd) }, kit.UnaryExample)
	Shrink = attrCurve("shrink", "shrink_cpu", "Sets elements of absolute value up to `lambd` to 0, and moves the "+
		"others towards 0 by `bias`. Supports floats only.",
		"where(x < -lambd, x + bias, where(x > lambd, x - bias, x * 0))", defaultGrain,
		func(a *biasShrinkAttrs) numbers {
			return numbers{"lambd": tensor.FloatScalar(a.Lambd), "bias": tensor.FloatScalar(a.Bias)}
		},
		func(a *biasShrinkAttrs) func(float64) float64 { return biasShrink(a.Lambd, a.Bias) },
		kit.UnaryExample, kit.Example(graph.Attrs{"lambd": 1, "bias": 0.25}, kit.TransposedMatrix))
)

func init() {
	Softshrink.Pointwise.Config = withCheck(unary, func(c *graph.Call) error {
		if l := kit.Attrs[*softshrinkAttrs](c).Lambd; !(l >= 0) { // negative or NaN
			return fmt.Errorf("lambda must be greater or equal to 0, but found to be %s.", strconv.FormatFloat(l, 'g', 6, 64))
		}
		return nil
	})
}

// biasShrink returns the reference function of shrink. If bias equals lambd, this is softshrink. NaN propagates.
func biasShrink(lambd, bias float64) func(float64) float64 {
	return func(x float64) float64 {
		switch {
		case x < -lambd: // tested first, as in ONNX: a negative lambd is valid
			return x + bias
		case x > lambd:
			return x - bias
		}
		return x * 0
	}
}
