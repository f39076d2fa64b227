package composite

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type isinAttrs struct {
	AssumeUnique bool `attr:"assume_unique" default:"false" doc:"has no effect"`
	Invert       bool `attr:"invert" default:"false" doc:"return the opposite"`
}

type iscloseAttrs struct {
	Rtol     float64 `attr:"rtol" default:"1e-5" doc:"permitted difference relative to the magnitude of other"`
	Atol     float64 `attr:"atol" default:"1e-8" doc:"permitted absolute difference"`
	EqualNan bool    `attr:"equal_nan" default:"false" doc:"NaN is close to NaN"`
}

type softminAttrs struct {
	Dim   int          `attr:"dim" doc:"dimension whose elements add to 1"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

type mvlgammaAttrs struct {
	P int `attr:"p" doc:"dimension"`
}

// Functions of each element. The function of an op applies other ops (steps.go) and returns the result. Two steps set
// the layout that PyTorch's result has. s.inPlace(x, y) gives y the dtype and layout of x, because PyTorch stores y in
// the memory of x. s.preserveFormat(x, self) gives x the layout of empty_like(self).
var (
	Softsign = defineOneResult(graph.Semantics{
		Name: "softsign", Doc: "Returns self / (1 + abs(self)).", Params: []graph.Param{kit.Input},
		Examples: unaryExamples,
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		return s.div(in[0], s.add(s.abs(in[0]), integer(1)))
	})
	Tanhshrink = defineOneResult(graph.Semantics{
		Name: "tanhshrink", Doc: "Returns self - tanh(self).", Params: []graph.Param{kit.Input}, Examples: unaryExamples,
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		return s.sub(in[0], s.Apply(pointwise.Tanh, nil, in[0]))
	})
	Softmin = defineOneResult(graph.Semantics{
		Name: "softmin", Doc: "Returns the softmax of -self.", Params: []graph.Param{kit.Input},
		Examples: kit.OneExample(kit.TransposedMatrix, graph.Attrs{"dim": 1}),
	}, func(s applier, a *softminAttrs, in []*graph.Arg) *graph.Arg {
		return s.Apply(reduce.Softmax, graph.Attrs{"dim": a.Dim, "dtype": a.DType}, s.neg(in[0]))
	})
	Mvlgamma = defineOneResult(graph.Semantics{
		Name: "mvlgamma", Doc: "Returns the logarithm of the multivariate gamma function of dimension p.",
		Params: selfOnly, Examples: kit.OneExample(kit.TransposedMatrix, graph.Attrs{"p": 2}),
	}, mvlgamma)
	Deg2rad    = scaled("deg2rad", "Converts degrees to radians.", math.Pi/180)
	Rad2deg    = scaled("rad2deg", "Converts radians to degrees.", 180/math.Pi)
	FloatPower = defineOneResult(graph.Semantics{
		Name: "float_power", Doc: "Raises self to the power `exponent` in float64 or complex128.",
		Params:   []graph.Param{kit.SelfOrNumber, {Name: "exponent", AcceptsNumber: true}},
		Examples: []graph.Example{kit.BinaryExample},
	}, floatPower)
	Ldexp = defineOneResult(graph.Semantics{
		Name: "ldexp", Doc: "Returns self * 2^other.", Params: pair,
		Examples: []graph.Example{kit.BinaryExample},
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		return s.mul(in[0], s.Apply(pointwise.Pow, nil, float(2), in[1]))
	})
	Frexp = define(graph.Semantics{
		Name: "frexp", Doc: "Returns numbers of magnitude 0.5 to 1 and the int32 exponents of 2, whose products are self. " +
			"0, infinity and NaN have the exponent 0.",
		Params: selfOnly, Outputs: []string{"mantissa", "exponent"}, Examples: unaryExamples,
	}, frexp)
	Polar = defineOneResult(graph.Semantics{
		Name: "polar", Doc: "Creates complex numbers of the magnitudes `abs` and the angles `angle`.",
		Params:   []graph.Param{{Name: "abs"}, {Name: "angle"}},
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix)},
	}, polar)
)

// floatPower computes the power in float64, or in complex128 if an operand is complex.
func floatPower(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	dtype := tensor.Float64
	for _, x := range in {
		if x.Type().DType.IsComplex() {
			dtype = tensor.Complex128
		}
	}
	converted := make([]*graph.Arg, 2)
	for i := range in {
		if converted[i] = in[i]; in[i].Kind == graph.TensorArg {
			converted[i] = s.to(in[i], dtype)
		}
	}
	return s.to(s.Apply(pointwise.Pow, nil, converted...), dtype)
}

// polar returns abs * cos(angle) + i * abs * sin(angle).
func polar(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	absDType, angleDType := in[0].Type().DType, in[1].Type().DType
	for _, dtype := range []tensor.DType{absDType, angleDType} {
		s.Reject(dtype != tensor.Float32 && dtype != tensor.Float64,
			"Expected both inputs to be Half, Float or Double tensors but "+
				"got %s and %s", absDType.TorchName(), angleDType.TorchName())
	}
	s.Reject(absDType != angleDType, "Expected object of scalar type %s but got scalar type %s for second argument",
		absDType.TorchName(), angleDType.TorchName())
	component := func(f *graph.Op) *graph.Arg { return s.mul(in[0], s.Apply(f, nil, in[1])) }
	result := s.Apply(view.Complex, nil, component(pointwise.Cos), component(pointwise.Sin))
	return s.WithLayout(result, s.TypeOf(pointwise.Mul, nil, in...))
}

// frexp reads the exponents of float64 numbers: 12 has the mantissa 0.75 and the exponent 4. Subnormal numbers of other
// dtypes are normal in float64.
func frexp(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) []*graph.Arg {
	const (
		fieldStart, fieldMask = 52, 0x7ff // lowest bit and mask of the exponent field of a float64
		bias                  = 1022      // exponent field of the numbers from 0.5 to 1
		scaleExponent         = 54        // exponent of the power of 2 by which subnormal numbers are multiplied
		leastNormal           = 0x1p-1022 // least normal float64
	)
	dtype := in[0].Type().DType
	s.Reject(!dtype.IsFloat(), "torch.frexp() only supports floating-point dtypes")
	x := s.to(in[0], tensor.Float64)
	isSubnormal := s.Apply(pointwise.Lt, nil, s.abs(x), float(leastNormal))
	normal := s.where(isSubnormal, s.mul(x, float(1<<scaleExponent)), x)
	bits := s.Apply(view.View, graph.Attrs{"dtype": tensor.Int64}, normal)
	andBits := func(x *graph.Arg, y int64) *graph.Arg { return s.Apply(pointwise.BitwiseAnd, nil, x, integer(y)) }
	field := andBits(s.Apply(pointwise.RightShift, nil, bits, integer(fieldStart)), fieldMask)
	// isSpecial: 0, infinity or NaN.
	isSpecial := s.Apply(pointwise.LogicalOr, nil, s.Apply(pointwise.Eq, nil, field, integer(0)),
		s.Apply(pointwise.Eq, nil, field, integer(fieldMask)))
	fraction := s.Apply(pointwise.BitwiseOr, nil, andBits(bits, ^int64(fieldMask<<fieldStart)), integer(bias<<fieldStart))
	fraction = s.Apply(view.View, graph.Attrs{"dtype": tensor.Float64}, fraction)
	exponent := s.sub(field, s.where(isSubnormal, integer(bias+scaleExponent), integer(bias)))
	return []*graph.Arg{
		s.preserveFormat(s.to(s.where(isSpecial, x, fraction), dtype), in[0]),
		s.preserveFormat(s.to(s.where(isSpecial, integer(0), exponent), tensor.Int32), in[0]),
	}
}

// maxMvlgammaP limits the memory, which is proportional to p.
const maxMvlgammaP = 1 << 16

// mvlgamma returns log(pi) * p(p-1)/4 plus the sum of lgamma(x + shift) for the shifts (1-p)/2, ..., -1/2, 0.
func mvlgamma(s applier, a *mvlgammaAttrs, in []*graph.Arg) *graph.Arg {
	dtype := in[0].Type().DType
	s.Reject(dtype == tensor.Bool, "The input tensor may not be a boolean tensor.")
	s.Reject(a.P < 1, "p has to be greater than or equal to 1")
	s.Reject(a.P > maxMvlgammaP, "p is %d, more than %d", a.P, maxMvlgammaP)
	if dtype.IsIntegral(true) {
		dtype = tensor.Float32
	}
	p := float64(a.P)
	shifts := s.Apply(view.Arange, graph.Attrs{"start": (1 - p) / 2, "end": 0.5, "step": 0.5, "dtype": dtype})
	logarithms := s.Apply(pointwise.Lgamma, nil, s.add(shifts, s.unsqueeze(in[0], -1)))
	sum := s.sum(logarithms, dropDims, []int{-1})
	return s.inPlace(sum, s.addNumber(sum, p*(p-1)*math.Log(math.Pi)/4))
}

// scaled defines the product of self and a number, which is rounded to the dtype of the result.
func scaled(name, doc string, factor float64) *graph.Op {
	return defineOneResult(graph.Semantics{
		Name: name, Doc: doc, Params: selfOnly, Examples: append(kit.OneExample(kit.IntMatrix, nil), unaryExamples...),
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		s.Reject(in[0].Type().DType.IsComplex(), "%s is not supported for complex tensors.", name)
		return s.preserveFormat(s.mul(in[0], float(factor)), in[0])
	})
}

// Comparisons.
var (
	Isclose = defineOneResult(graph.Semantics{
		Name: "isclose", Doc: "Returns whether abs(self - other) is at most atol + rtol * abs(other).", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix),
			kit.Example(graph.Attrs{"equal_nan": true}, kit.TransposedMatrix, kit.FloatMatrix)},
	}, func(s applier, a *iscloseAttrs, in []*graph.Arg) *graph.Arg { return s.isclose(in[0], in[1], a) })
	Allclose = defineOneResult(graph.Semantics{
		Name: "allclose", Doc: "Returns whether all elements of self and `other` are close, " +
			"as isclose does.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix)},
	}, func(s applier, a *iscloseAttrs, in []*graph.Arg) *graph.Arg {
		return s.Apply(reduce.Every, nil, s.isclose(in[0], in[1], a))
	})
	Equal = defineOneResult(graph.Semantics{
		Name: "equal", Doc: "Returns whether self and `other` have the same shape and equal elements.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix)},
	}, equal)
	Isreal = defineOneResult(graph.Semantics{
		Name: "isreal", Doc: "Returns whether each element has no imaginary part.", Params: selfOnly,
		Examples: append(kit.OneExample(kit.ComplexMatrix, nil), unaryExamples...),
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		if !in[0].Type().DType.IsComplex() {
			return s.Apply(view.OnesLike, graph.Attrs{"dtype": tensor.Bool}, in[0])
		}
		return s.Apply(pointwise.Eq, nil, s.Apply(pointwise.Imag, nil, in[0]), integer(0))
	})
	Isin = defineOneResult(graph.Semantics{
		Name: "isin", Doc: "Returns whether each element of `elements` equals an element of `test_elements`.",
		Params: []graph.Param{{Name: "elements", AcceptsNumber: true, Attr: "element"}, {Name: "test_elements",
			AcceptsNumber: true, Attr: "test_element"}},
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatRow)},
	}, isin)
)

// isclose returns whether elements are equal, both NaN (with equal_nan), or close.
func (s applier) isclose(x, y *graph.Arg, a *iscloseAttrs) *graph.Arg {
	dtype := x.Type().DType
	s.Reject(dtype != y.Type().DType, "%s did not match %s", dtype.TorchName(), y.Type().DType.TorchName())
	s.Reject(!(a.Rtol >= 0), "rtol must be greater than or equal to zero, but got %v", a.Rtol)
	s.Reject(!(a.Atol >= 0), "atol must be greater than or equal to zero, but got %v", a.Atol)
	isnan := func(x *graph.Arg) *graph.Arg { return s.Apply(pointwise.Ne, nil, x, x) }
	either := func(x, y *graph.Arg) *graph.Arg { return s.Apply(pointwise.LogicalOr, nil, x, y) }
	equal := s.Apply(pointwise.Eq, nil, x, y)
	isFloating := dtype.IsFloat() || dtype.IsComplex()
	if a.EqualNan && isFloating {
		equal = s.inPlace(equal, either(equal, s.inPlace(isnan(x), s.and(isnan(x), isnan(y)))))
	}
	if a.Rtol == 0 && a.Atol == 0 {
		return equal
	}
	if !isFloating {
		x, y = s.to(x, tensor.Float32), s.to(y, tensor.Float32)
	}
	// abs(x-y) <= atol + abs(rtol*y)
	allowed := s.addNumber(s.abs(s.mul(y, float(a.Rtol))), a.Atol)
	difference := s.abs(s.sub(x, y))
	isClose := s.and(s.Apply(pointwise.Isfinite, nil, difference), s.Apply(pointwise.Le, nil, difference, allowed))
	return s.inPlace(equal, either(equal, isClose))
}

// equal returns false for different shapes.
func equal(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	xType, yType := in[0].Type(), in[1].Type()
	s.Reject(xType.DType != yType.DType, "Expected object of data type %s but got data type %s for argument 'other' "+
		"in call to 'equal'", kit.CppName(xType.DType), kit.CppName(yType.DType))
	if !tensor.SameSizes(xType.Shape, yType.Shape) {
		return s.Apply(view.NewZeros, graph.Attrs{"size": []sym.Int{}, "dtype": tensor.Bool}, in[0])
	}
	return s.Apply(reduce.Every, nil, s.Apply(pointwise.Eq, nil, in...))
}

// isin compares each element with all test elements.
func isin(s applier, a *isinAttrs, in []*graph.Arg) *graph.Arg {
	x, testElements := in[0], in[1]
	dtype := s.commonDType(in...)
	for _, x := range in {
		if x.Kind == graph.TensorArg {
			operandDType := x.Type().DType
			s.Reject(operandDType.IsComplex() || operandDType == tensor.Bool || operandDType == tensor.BFloat16,
				"Unsupported input type encountered for isin(): %s",
				operandDType.TorchName())
		}
	}
	var isIn *graph.Arg
	if testElements.Kind == graph.NumberArg {
		s.Reject(x.Kind != graph.TensorArg, "isin: expected a tensor")
		isIn = s.Apply(pointwise.Eq, nil, s.to(x, dtype), testElements)
		isIn = s.WithLayout(isIn, isIn.Type().RowMajor()) // as in PyTorch
	} else {
		if x.Kind == graph.TensorArg {
			x = s.unsqueeze(s.to(x, dtype), -1)
		}
		matches := s.Apply(pointwise.Eq, nil, x, s.reshape(s.to(testElements, dtype), sym.Of(-1)))
		isIn = s.Apply(reduce.Any, graph.Attrs{"dim": -1}, matches)
	}
	if a.Invert {
		return s.not(isIn)
	}
	return isIn
}
