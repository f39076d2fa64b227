package compose

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The ops of this file are the element-wise parts of losses. They are not in the catalogue.
var (
	MseElements = lossElements("mse", "mse_cpu", "d = x - y; d * d", rule.Binary,
		func(*kit.EmptyAttrs) map[string]tensor.Scalar { return nil },
		func(x, y float64, _ *kit.EmptyAttrs) float64 { return (x - y) * (x - y) })
	SmoothL1Elements = lossElements("smooth_l1", "smooth_l1_cpu",
		"z = abs(x - y); where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)", rule.Binary,
		func(a *SmoothL1Attrs) map[string]tensor.Scalar {
			return map[string]tensor.Scalar{"beta": tensor.FloatScalar(a.Beta)}
		},
		func(x, y float64, a *SmoothL1Attrs) float64 {
			if z := math.Abs(x - y); !(z < a.Beta) {
				return z - float64(a.Beta*0.5)
			}
			return (x - y) * (x - y) * 0.5 / a.Beta
		})
	HuberElements = lossElements("huber", "huber_cpu",
		"z = abs(x - y); where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))", rule.Binary,
		func(a *HuberAttrs) map[string]tensor.Scalar {
			return map[string]tensor.Scalar{"delta": tensor.FloatScalar(a.Delta)}
		},
		func(x, y float64, a *HuberAttrs) float64 {
			if z := math.Abs(x - y); !(z <= a.Delta) {
				return a.Delta * (z - float64(a.Delta*0.5))
			}
			return (x - y) * (x - y) * 0.5
		})
	BinaryCrossEntropyElements = lossElements("binary_cross_entropy", "binary_cross_entropy",
		"(y - 1) * maximum(log1p(-x), -100) - y * maximum(log(x), -100)",
		func(out, x, y rule.Operand) rule.Config { return rule.New().Output(out).Input(x).Input(y) },
		func(*kit.EmptyAttrs) map[string]tensor.Scalar { return nil },
		func(x, y float64, _ *kit.EmptyAttrs) float64 {
			return float64((y-1)*max(math.Log1p(-x), -100)) - float64(y*max(math.Log(x), -100))
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

// lossElements defines the loss of each element x of self for the element y of target, by a formula. torchKernel is
// PyTorch's name of the kernel, for errors. config returns the configuration of the iteration. numbersOf returns the
// attributes that the formula names.
func lossElements[A any](name, torchKernel, formula string, config func(out, x, y rule.Operand) rule.Config,
	numbersOf func(A) map[string]tensor.Scalar, reference func(x, y float64, a A) float64) *graph.Op {
	element := kit.Formula(formula, "x", "y")
	loop := &graph.Pointwise{Grain: machine.FunctionGrain,
		Config: func(c *graph.Call, outputs []rule.Operand) (rule.Config, error) {
			return config(outputs[0], c.In[0].Operand(), c.In[1].Operand()).OpMath(true), nil
		},
		Body: func(c *graph.Call, it *rule.Rule) (rule.Kernel, error) {
			if dtype := it.DType(1); dtype != tensor.Float32 && dtype != tensor.Float64 {
				return rule.Kernel{}, rule.NotImplemented(torchKernel, it)
			}
			return kit.FormulaKernel(element, numbersOf(kit.Attrs[A](c)), 1, it.DType(0), it.DType(1), it.DType(2)), nil
		}}
	return kit.Define[A](graph.Op{
		Semantics: graph.Semantics{
			Name: name + "_elements", Doc: "Returns the loss of each element.",
			Params: []graph.Param{kit.Self, {Name: "target"}},
			Ref: kit.PointwiseRef(loop, func(c *graph.Call) kit.ScalarFunc {
				return kit.ByDTypeKind(nil, func(x []float64) float64 { return reference(x[0], x[1], kit.Attrs[A](c)) }, nil)
			}),
		},
		Lowerings: graph.Lowerings{Pointwise: loop},
	})
}
