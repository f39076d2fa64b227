package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The ops of this file are the element-wise parts of losses (package reduce). They are not in the catalogue.
var (
	MseElements = lossElements("mse", "mse_cpu", "d = x - y; d * d", binary, func(*kit.None) numbers { return nil },
		func(x, y float64, _ *kit.None) float64 { return float64((x - y) * (x - y)) })
	SmoothL1Elements = lossElements("smooth_l1", "smooth_l1_cpu",
		"z = abs(x - y); where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)", binary,
		func(a *SmoothL1Attrs) numbers { return numbers{"beta": tensor.FloatScalar(a.Beta)} },
		func(x, y float64, a *SmoothL1Attrs) float64 {
			if z := max(x-y, y-x); !(z < a.Beta) {
				return z - float64(a.Beta*0.5)
			}
			return (x - y) * (x - y) * 0.5 / a.Beta
		})
	HuberElements = lossElements("huber", "huber_cpu",
		"z = abs(x - y); where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))", binary,
		func(a *HuberAttrs) numbers { return numbers{"delta": tensor.FloatScalar(a.Delta)} },
		func(x, y float64, a *HuberAttrs) float64 {
			if z := max(x-y, y-x); !(z <= a.Delta) {
				return a.Delta * (z - float64(a.Delta*0.5))
			}
			return (x - y) * (x - y) * 0.5
		})
	BinaryCrossEntropyElements = lossElements("binary_cross_entropy", "binary_cross_entropy",
		"(y - 1) * maximum(log1p(-x), -100) - y * maximum(log(x), -100)",
		func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
			cfg := rule.New().Output(outs[0]).Input(c.In[0].Operand()).Input(c.In[1].Operand())
			return cfg.OpMath(true), nil
		}, func(*kit.None) numbers { return nil },
		func(x, y float64, _ *kit.None) float64 {
			return float64((y-1)*max(logarithm(1-x), -100)) - float64(y*max(logarithm(x), -100))
		})
)

// SmoothL1Attrs are the attributes of [SmoothL1Elements].
type SmoothL1Attrs struct {
	Beta float64 `attr:"beta" doc:"difference at which the loss becomes linear"`
}

// HuberAttrs are the attributes of [HuberElements].
type HuberAttrs struct {
	Delta float64 `attr:"delta" doc:"difference at which the loss becomes linear"`
}

// lossElements defines the loss of each element of self for the element of target.
func lossElements[A any](name, torchKernel, text string, cfg config, attrs func(*A) numbers,
	f func(x, y float64, a *A) float64) *graph.Op {
	return elementwise(graph.SchemaOf[A](), name+"_elements", "Returns the loss of each element.",
		[]graph.Param{kit.Self, {Name: "target"}},
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: cfg,
			Body: attrCurveBody(torchKernel, formula(text, "x", "y"), attrs)},
		func(c *graph.Call) kit.ScalarFunc {
			return floatRef2(func(x, y float64) float64 { return f(x, y, kit.Attrs[A](c)) })(c)
		})
}
