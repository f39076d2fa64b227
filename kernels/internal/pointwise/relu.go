package pointwise

import (
	"errors"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The arguments of elementwise are an op's attributes, name, doc, operands, computation (Pointwise), and a function
// that returns the reference for a call. kit.ByDTypeKind makes a reference from functions for integers, floats and
// complex numbers. A nil function means that the kind is not supported. kit.WithUint64Case adds a function for uint64.

// Relu is max(self, 0).
var Relu = elementwise(kit.NoAttrs, "relu", "Clamps self to at least 0; NaN propagates. Bools are not "+
	"supported.", unaryParams,
	&graph.Pointwise{
		Config: withCheck(rejectComplex(unary, "clamp is not supported for complex types"),
			boolCheck("Boolean inputs not supported for relu")),
		Body: bodyByDType("clamp_min", kernelsOf(formula("maximum(x, 0)", "x"), signedInts, unsignedInts, floats)),
	},
	kit.IgnoringCall(kit.WithUint64Case(func(x []uint64) uint64 { return x[0] },
		kit.ByDTypeKind(
			func(x []int64) int64 { return max(x[0], 0) },
			func(x []float64) float64 { return max(x[0], 0) }, nil))),
	kit.UnaryExample, kit.Example(nil, kit.IntMatrix))

// withBool is the argument of [tensor.DType.IsIntegral]: bool does not count as an integer.
const withBool = false

// Hardtanh clamps self to [min_val, max_val]. Relu6 clamps self to [0, 6].
var (
	Hardtanh = hardtanhOp(graph.SchemaOf[*hardtanhAttrs](), "hardtanh",
		"Clamps self to [min_val, max_val]; NaN propagates. Bools are not supported.",
		func(c *graph.Call) (low, high tensor.Scalar) {
			attrs := kit.Attrs[*hardtanhAttrs](c)
			return attrs.Min, attrs.Max
		},
		kit.UnaryExample, kit.Example(graph.Attrs{"min_val": 0, "max_val": 2}, kit.IntMatrix))
	Relu6 = hardtanhOp(kit.NoAttrs, "relu6", "Clamps self to [0, 6]; NaN propagates. Bools are not supported.",
		func(*graph.Call) (low, high tensor.Scalar) { return tensor.IntScalar(0), tensor.IntScalar(6) },
		kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
)

// hardtanhOp defines an op that clamps self. The result has the layout of empty_like(self).
func hardtanhOp(attrs *graph.Schema, name, doc string, bounds func(c *graph.Call) (low, high tensor.Scalar),
	examples ...graph.Example) *graph.Op {
	check := func(c *graph.Call) error {
		low, high := bounds(c)
		switch dtype := c.Type(0).DType; {
		case dtype == tensor.Bool:
			return errors.New("Bool inputs not supported for hardtanh")
		case dtype.IsComplex():
			return errors.New("clamp is not supported for complex types")
		case dtype.IsIntegral(withBool) && !dtype.IsSigned() && (low.Float() < 0 || high.Float() < 0):
			return errors.New("cannot do hardtanh on an unsigned type with negative limits")
		default:
			return errors.Join(fitsNumber(dtype, low), fitsNumber(dtype, high))
		}
	}
	pointwise := &graph.Pointwise{Config: withCheck(unary, check),
		Body: func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
			low, high := bounds(c)
			return clampBetween("clamp_scalar", iteration, low, high)
		}}
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: unaryParams,
			Infer: kit.InferWithLayout(pointwise, preservedType), Examples: examples,
			Ref: kit.PointwiseRef(pointwise, func(c *graph.Call) kit.ScalarFunc {
				low, high := bounds(c)
				return clampBounds{lower: low, upper: high}.ref
			}),
		},
		Lowerings: graph.Lowerings{Pointwise: pointwise},
	})
}

type leakyAttrs struct {
	Slope float64 `attr:"negative_slope" default:"0.01" doc:"factor of negative elements"`
}

// LeakyRelu multiplies negative elements by a constant, which is rounded to the dtype of the computation.
var LeakyRelu = elementwise(graph.SchemaOf[*leakyAttrs](), "leaky_relu",
	"Multiplies elements below 0 by `negative_slope`. Supports floats only.", unaryParams,
	&graph.Pointwise{Config: unary, Body: attrBody("leaky_relu_cpu", formula("where(x > 0, x, x * slope)", "x"),
		func(c *graph.Call) numbers {
			return numbers{"slope": tensor.FloatScalar(kit.Attrs[*leakyAttrs](c).Slope)}
		}, floats)},
	func(c *graph.Call) kit.ScalarFunc {
		return func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
			element := x[0].Float()
			if !(element > 0) {
				element *= roundTo(dtype)(kit.Attrs[*leakyAttrs](c).Slope)
			}
			return tensor.FloatScalar(element)
		}
	}, kit.UnaryExample, kit.Example(graph.Attrs{"negative_slope": 0.2}, kit.TransposedMatrix))

type thresholdAttrs struct {
	Threshold tensor.Scalar `attr:"threshold" doc:"upper bound, inclusive, of the elements to replace"`
	Value     tensor.Scalar `attr:"value" doc:"number that replaces these elements"`
}

// Threshold sets elements that do not exceed a threshold to a value.
var Threshold = elementwise(graph.SchemaOf[*thresholdAttrs](), "threshold",
	"Sets elements that do not exceed `threshold` to `value`; NaN propagates.", unaryParams,
	&graph.Pointwise{
		Config: withCheck(unary, func(c *graph.Call) error {
			attrs, dtype := kit.Attrs[*thresholdAttrs](c), c.Type(0).DType
			return errors.Join(fitsNumber(dtype, attrs.Threshold), fitsNumber(dtype, attrs.Value))
		}),
		Body: attrBody("threshold_cpu", formula("where(x <= type_as(limit, x), type_as(value, x), x)", "x"),
			func(c *graph.Call) numbers {
				attrs := kit.Attrs[*thresholdAttrs](c)
				return numbers{"limit": attrs.Threshold, "value": attrs.Value}
			}, integers, floats),
	},
	func(c *graph.Call) kit.ScalarFunc {
		attrs := kit.Attrs[*thresholdAttrs](c)
		limit, value := attrs.Threshold.Int(), attrs.Value.Int()
		if dtype := c.Type(0).DType; dtype.IsIntegral(withBool) { // negative numbers wrap in unsigned dtypes
			limit, value = attrs.Threshold.Tensor(dtype).At().Int(), attrs.Value.Tensor(dtype).At().Int()
		}
		return kit.WithUint64Case(func(x []uint64) uint64 {
			if x[0] <= uint64(limit) {
				return uint64(value)
			}
			return x[0]
		}, kit.ByDTypeKind(
			func(x []int64) int64 {
				if x[0] <= limit {
					return value
				}
				return x[0]
			},
			func(x []float64) float64 {
				if x[0] <= attrs.Threshold.Float() {
					return attrs.Value.Float()
				}
				return x[0]
			}, nil))
	},
	kit.Example(graph.Attrs{"threshold": 0.5, "value": -3}, kit.TransposedMatrix),
	kit.Example(graph.Attrs{"threshold": 1, "value": 7}, kit.IntMatrix))

type shrinkAttrs struct {
	Lambd tensor.Scalar `attr:"lambd" default:"0.5" doc:"absolute value up to which elements become 0"`
}

// Hardshrink sets small elements to 0.
var Hardshrink = attrCurve("hardshrink", "hardshrink_cpu", "Sets elements of absolute value up to `lambd` to 0; "+
	"NaN propagates. Supports floats only.", "where(abs(x) <= l, 0, x)", defaultGrain,
	func(attrs *shrinkAttrs) numbers { return numbers{"l": tensor.FloatScalar(attrs.Lambd.Float())} },
	func(attrs *shrinkAttrs) func(float64) float64 {
		return func(x float64) float64 {
			if math.Abs(x) <= attrs.Lambd.Float() {
				return 0
			}
			return x
		}
	}, kit.UnaryExample, kit.Example(graph.Attrs{"lambd": 1}, kit.TransposedMatrix))
