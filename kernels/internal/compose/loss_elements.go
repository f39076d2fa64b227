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
	MseElements = loss[*kit.EmptyAttrs]{
		name: "mse", torchKernel: "mse_cpu", config: rule.Binary,
		formula: "d = x - y; d * d",
		numbersOf: func(*kit.EmptyAttrs) map[string]tensor.Scalar {
			return nil
		},
		reference: func(x, y float64, _ *kit.EmptyAttrs) float64 { return (x - y) * (x - y) },
	}.define()
	SmoothL1Elements = loss[*SmoothL1Attrs]{
		name: "smooth_l1", torchKernel: "smooth_l1_cpu", config: rule.Binary,
		formula: "z = abs(x - y); where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)",
		numbersOf: func(a *SmoothL1Attrs) map[string]tensor.Scalar {
			return map[string]tensor.Scalar{"beta": tensor.FloatScalar(a.Beta)}
		},
		reference: func(x, y float64, a *SmoothL1Attrs) float64 {
			if z := math.Abs(x - y); !(z < a.Beta) { // also for NaN
				return z - float64(a.Beta*0.5)
			}
			return (x - y) * (x - y) * 0.5 / a.Beta
		},
	}.define()
	HuberElements = loss[*HuberAttrs]{
		name: "huber", torchKernel: "huber_cpu", config: rule.Binary,
		formula: "z = abs(x - y); where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))",
		numbersOf: func(a *HuberAttrs) map[string]tensor.Scalar {
			return map[string]tensor.Scalar{"delta": tensor.FloatScalar(a.Delta)}
		},
		reference: func(x, y float64, a *HuberAttrs) float64 {
			if z := math.Abs(x - y); !(z <= a.Delta) { // also for NaN
				return a.Delta * (z - float64(a.Delta*0.5))
			}
			return (x - y) * (x - y) * 0.5
		},
	}.define()
	BinaryCrossEntropyElements = loss[*kit.EmptyAttrs]{
		name: "binary_cross_entropy", torchKernel: "binary_cross_entropy",
		config:  func(out, x, y rule.Operand) rule.Config { return rule.New().Output(out).Input(x).Input(y) },
		formula: "(y - 1) * maximum(log1p(-x), -100) - y * maximum(log(x), -100)",
		numbersOf: func(*kit.EmptyAttrs) map[string]tensor.Scalar {
			return nil
		},
		reference: func(x, y float64, _ *kit.EmptyAttrs) float64 {
			return float64((y-1)*max(math.Log1p(-x), -100)) - float64(y*max(math.Log(x), -100))
		},
	}.define()
)

// SmoothL1Attrs are the attributes of [SmoothL1Elements].
type SmoothL1Attrs struct {
	Beta float64 `attr:"beta" doc:"difference at which the loss becomes linear"`
}

// HuberAttrs are the attributes of [HuberElements].
type HuberAttrs struct {
	Delta float64 `attr:"delta" doc:"difference at which the loss becomes linear"`
}

// loss describes the loss of each element x of self for the element y of target. A is a pointer to the struct of
// attributes.
type loss[A any] struct {
	name        string
	torchKernel string // PyTorch's name of the kernel, for errors
	config      func(out, x, y rule.Operand) rule.Config
	formula     string                           // of x, y and attributes
	numbersOf   func(A) map[string]tensor.Scalar // the attributes that the formula names
	reference   func(x, y float64, a A) float64  // the formula in Go; float64(...) prevents fused multiply-adds
}

// define defines the op of a loss.
func (l loss[A]) define() *graph.Op {
	element := kit.Formula(l.formula, "x", "y")
	loop := &graph.Pointwise{Grain: machine.FunctionGrain,
		Config: func(c *graph.Call, outputs []rule.Operand) (rule.Config, error) {
			return l.config(outputs[0], c.In[0].Operand(), c.In[1].Operand()).OpMath(true), nil
		},
		Body: func(c *graph.Call, it *rule.Rule) (rule.Kernel, error) {
			// OpMath has replaced 16-bit floats by float32 in the iteration's dtypes.
			if dtype := it.DType(1); dtype != tensor.Float32 && dtype != tensor.Float64 {
				return rule.Kernel{}, rule.NotImplemented(l.torchKernel, it)
			}
			const results = 1
			return kit.FormulaKernel(element, l.numbersOf(kit.Attrs[A](c)), results, it.DType(0), it.DType(1),
				it.DType(2)), nil
		}}
	return kit.Define[A](graph.Op{
		Semantics: graph.Semantics{
			Name: l.name + "_elements", Doc: "Returns the loss of each element.",
			Params: []graph.Param{kit.Self, {Name: "target"}},
			Ref: kit.PointwiseRef(loop, func(c *graph.Call) kit.ScalarFunc {
				floats := func(x []float64) float64 { return l.reference(x[0], x[1], kit.Attrs[A](c)) }
				return kit.ByDTypeKind(nil, floats, nil) // not for integers, not for complex numbers
			}),
		},
		Lowerings: graph.Lowerings{Pointwise: loop},
	})
}
