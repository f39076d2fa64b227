package pointwise

import (
	"errors"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Functions of two real numbers. In formulas and references, x is self and y is `other`. The arguments binary and
// binaryFloat configure the iteration: binaryFloat converts integers to float32. formula(text, names...) parses a
// formula whose operands have these names, and kernelsOf(formula, dtypes...) makes one kernel for each dtype. angle64
// is math.Atan2 with the sign of its first argument even if the result underflows to 0.
var (
	Atan2 = binaryFunction("atan2", "Returns the angle in radians of the complex number `other` + self*i.",
		"atan2(x, y)", binaryParams, binaryFloat, angle64, kit.IntegersExample)
	Hypot = elementwise(kit.NoAttrs, "hypot", "Returns the length of the hypotenuse of the legs self and `other`. "+
		"Supports floats only.", binaryParams,
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: binary, Body: bodyByDType("hypot", hypotKernels)},
		floatRef2(math.Hypot), kit.BinaryExample)
	Copysign = binaryFunction("copysign",
		"Returns the absolute value of self with the sign of `other`, including the sign of -0.",
		"copysign(x, y)", []graph.Param{kit.Self, kit.OtherOrNumber}, binaryFloat, math.Copysign, kit.IntegersExample)
	Nextafter = elementwise(kit.NoAttrs, "nextafter",
		"Returns the next number of the dtype after self in the direction of `other`. Supports float32, float64 and "+
			"bfloat16.", binaryParams,
		&graph.Pointwise{Config: binaryWithoutWidening, Body: bodyByDType("nextafter",
			kernelsOf(formula("nextafter(x, y)", "x", "y"), floats, []tensor.DType{tensor.BFloat16}))},
		kit.IgnoringCall(nextafter), kit.BinaryExample)
	Logaddexp = binaryFunction("logaddexp",
		"Returns the logarithm of the sum of the exponentials of self and `other`. Supports floats only.",
		"where(x == y and isinf(x), x, maximum(x, y) + log1p(exp(-abs(x - y))))", binaryParams, binary, logaddexp)
	Logaddexp2 = binaryFunction("logaddexp2", "Returns the logarithm to base 2 of the sum of the powers of 2 of "+
		"self and `other`. Supports floats only.",
		"where(x == y and isinf(x), x, maximum(x, y) + log1p(exp2(-abs(x - y))) / 0.6931471805599453)", binaryParams, binary,
		func(x, y float64) float64 { return logaddexp(x*math.Ln2, y*math.Ln2) / math.Ln2 })
	Xlogy = binaryFunction("xlogy", "Multiplies self by the logarithm of `other`; a self of 0 gives 0 unless "+
		"`other` is NaN.",
		"where(y != y, y, where(x == 0, 0, x * log(y)))", numberParams, binaryFloat, xlogy, kit.IntegersExample)
)

// hypotKernels are the kernels of hypot. Float32 numbers are squared and summed in float64, where their squares do not
// overflow.
var hypotKernels = mergeKernels(kernelsOf(formula("a = float64(x); b = float64(y); "+
	"r = sqrt(a * a + b * b); float32(where(isnan(r), where(isinf(a) or isinf(b), inf, r), r))", "x", "y"),
	[]tensor.DType{tensor.Float32}),
	kernelsOf(formula("hypot(x, y)", "x", "y"), []tensor.DType{tensor.Float64}))

// binaryFunction defines a binary op on floats by the text of its formula, by the configuration of its iteration, and
// by its reference function.
func binaryFunction(name, doc, formulaText string, params []graph.Param, iteration config,
	reference func(x, y float64) float64, moreExamples ...graph.Example) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, params, &graph.Pointwise{Grain: machine.FunctionGrain, Config: iteration,
		Body: bodyByDType(name, kernelsOf(formula(formulaText, "x", "y"), floats))},
		floatRef2(reference), append([]graph.Example{kit.BinaryExample}, moreExamples...)...)
}

// nextafter is the reference function of nextafter.
func nextafter(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
	from, to := x[0].Float(), x[1].Float()
	switch {
	case from == to: // the second zero if they differ
		return tensor.FloatScalar(to)
	case dtype == tensor.Float64:
		return tensor.FloatScalar(math.Nextafter(from, to))
	case dtype == tensor.Float32:
		return tensor.FloatScalar(float64(math.Nextafter32(float32(from), float32(to))))
	}
	// A bfloat16 has the upper 16 bits of a float32. The least bfloat16 above 0 is 2^-133.
	switch bits := math.Float32bits(float32(from)); {
	case from != from:
		return tensor.FloatScalar(from)
	case to != to:
		return tensor.FloatScalar(to)
	case from == 0:
		return tensor.FloatScalar(math.Copysign(0x1p-133, to))
	case (from < to) == (from > 0): // away from 0
		return tensor.FloatScalar(float64(math.Float32frombits(bits + 1<<16)))
	default:
		return tensor.FloatScalar(float64(math.Float32frombits(bits - 1<<16)))
	}
}

// logaddexp is the reference function of logaddexp. The maximum is factored out, so that exponentials do not overflow.
func logaddexp(x, y float64) float64 {
	if math.IsInf(x, 0) && x == y {
		return x
	}
	return max(x, y) + math.Log1p(math.Exp(-math.Abs(x-y)))
}

// xlogy is the reference function of xlogy.
func xlogy(x, y float64) float64 {
	switch {
	case y != y:
		return y
	case x == 0:
		return 0
	}
	return x * logWithSubnormals(y)
}

// Heaviside is the step function.
var Heaviside = elementwise(kit.NoAttrs, "heaviside",
	"Returns 0 for negative elements and NaN, 1 for positive elements, and the corresponding element of `values` for "+
		"0. Both operands must have the same dtype.",
	[]graph.Param{kit.Self, {Name: "values"}},
	&graph.Pointwise{
		Config: withCheck(rejectComplex(binary, "heaviside is not yet implemented for complex tensors."),
			func(c *graph.Call) error {
				if c.Type(0).DType != c.Type(1).DType {
					return errors.New("heaviside is not yet implemented for tensors with different dtypes.")
				}
				return nil
			}),
		Body: bodyByDType("heaviside",
			mergeKernels(kernelsOf(formula("heaviside(x, y)"), integers, floats), kernelsOf(formula("x | y"), bools))),
	},
	kit.IgnoringCall(func(_ tensor.DType, x []tensor.Scalar) tensor.Scalar {
		switch {
		case x[0].Float() == 0:
			return x[1]
		case x[0].Float() > 0:
			return tensor.IntScalar(1)
		}
		return tensor.IntScalar(0)
	}),
	kit.BinaryExample, kit.IntegersExample)

type nanToNumAttrs struct {
	NaN    *float64 `attr:"nan" default:"none" doc:"replacement of NaN; null: 0"`
	PosInf *float64 `attr:"posinf" default:"none" doc:"replacement of infinity; null: the greatest finite number"`
	NegInf *float64 `attr:"neginf" default:"none" doc:"replacement of negative infinity; null: the least finite number"`
}

// NanToNum replaces non-finite numbers.
var NanToNum = kit.Define[*nanToNumAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "nan_to_num",
		Doc: "Replaces NaN and infinities by numbers. Integers are copied; complex numbers are not " +
			"supported.",
		Params: unaryParams, Infer: kit.InferWithLayout(&nanReplacement, preservedType),
		Ref: kit.PointwiseRef(&nanReplacement, replaceRef),
		Examples: []graph.Example{kit.UnaryExample, kit.Example(graph.Attrs{"nan": 1.5, "posinf": 7}, kit.TransposedMatrix),
			kit.Example(nil, kit.IntMatrix)},
	},
	Lowerings: graph.Lowerings{Pointwise: &nanReplacement},
})

var nanReplacement = graph.Pointwise{
	Config: unary,
	Body: func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
		if !iteration.DType(1).IsFloat() { // operand 0 of the iteration is the result, and operand 1 is self
			return copyKernels.kernelNamed("nan_to_num", iteration)
		}
		ofNaN, ofInf, ofNegInf := replacements(c, iteration.Type(0).DType)
		return kernelWith(replaceFormula, iteration, numbers{"n": tensor.FloatScalar(ofNaN),
			"up": tensor.FloatScalar(ofInf), "down": tensor.FloatScalar(ofNegInf)}), nil
	},
}

var (
	copyKernels    = kernelsOf(formula("x"), bools, integers)
	replaceFormula = formula("nan_to_num(x, n, up, down)", "x")
)

// replaceRef returns the reference of nan_to_num.
func replaceRef(c *graph.Call) kit.ScalarFunc {
	ofNaN, ofInf, ofNegInf := replacements(c, c.Type(0).DType)
	return kit.ByDTypeKind(
		func(x []int64) int64 { return x[0] },
		func(x []float64) float64 {
			switch {
			case x[0] != x[0]:
				return ofNaN
			case math.IsInf(x[0], 1):
				return ofInf
			case math.IsInf(x[0], -1):
				return ofNegInf
			}
			return x[0]
		}, nil)
}

// replacements returns the replacements of NaN, infinity and negative infinity in a dtype.
func replacements(c *graph.Call, dtype tensor.DType) (ofNaN, ofInf, ofNegInf float64) {
	limit := map[tensor.DType]float64{tensor.Float16: 65504, tensor.BFloat16: 0x1.fep127, tensor.Float32: math.MaxFloat32,
		tensor.Float64: math.MaxFloat64}[dtype]
	numberOrDefault := func(attr *float64, defaultNumber float64) float64 {
		if attr != nil {
			return *attr
		}
		return defaultNumber
	}
	attrs := kit.Attrs[*nanToNumAttrs](c)
	return numberOrDefault(attrs.NaN, 0), numberOrDefault(attrs.PosInf, limit), numberOrDefault(attrs.NegInf, -limit)
}
