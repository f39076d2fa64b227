package pointwise

import "math"

// The ops of this file are circular and hyperbolic functions, their inverses, error functions and lgamma. Angles are in
// radians. The second argument of functionOp is the name of PyTorch's kernel, which error messages contain. The last
// two arguments are the references for floats and for complex numbers.
var (
	Sin  = functionOp("sin", "sin_vml_cpu", "Returns the sine of each element.", math.Sin, complexSin)
	Cos  = functionOp("cos", "cos_vml_cpu", "Returns the cosine of each element.", math.Cos, complexCos)
	Tan  = functionOp("tan", "tan_vml_cpu", "Returns the tangent of each element.", math.Tan, complexTan)
	Asin = functionOp("asin", "asin_vml_cpu", "Returns the inverse sine of each element; NaN outside [-1, 1].",
		math.Asin, complexAsin)
	Acos = functionOp("acos", "acos_vml_cpu", "Returns the inverse cosine of each element; NaN outside [-1, 1].",
		math.Acos, complexAcos)
	Atan = functionOp("atan", "atan_vml_cpu", "Returns the inverse tangent of each element.", math.Atan, complexAtan)
	Sinh = functionOp("sinh", "sinh_cpu", "Returns the hyperbolic sine of each element.", sinh, complexSinh)
	Cosh = functionOp("cosh", "cosh_cpu", "Returns the hyperbolic cosine of each element.", cosh, complexCosh)
	Tanh = functionOp("tanh", "tanh_vml_cpu", "Returns the hyperbolic tangent of each element.", math.Tanh,
		complexTanh)
	Asinh = functionOp("asinh", "asinh_cpu", "Returns the inverse hyperbolic sine of each element.", math.Asinh,
		complexAsinh)
	Acosh = functionOp("acosh", "acosh_cpu", "Returns the inverse hyperbolic cosine of each element; NaN below 1.",
		math.Acosh, complexAcosh)
	Atanh = functionOp("atanh", "atanh_cpu", "Returns the inverse hyperbolic tangent of each element; NaN "+
		"outside [-1, 1].", math.Atanh, complexAtanh)
	Erf    = functionOp("erf", "erf_vml_cpu", "Returns the error function of each element.", math.Erf, nil)
	Erfinv = functionOp("erfinv", "erfinv_vml_cpu", "Returns the inverse of the error function of each element; NaN "+
		"outside [-1, 1].", math.Erfinv, nil)
	Lgamma = functionOp("lgamma", "lgamma_vml_cpu", "Returns the logarithm of the magnitude of the gamma function of "+
		"each element.", lgamma, nil)
	Erfc = functionOp("erfc", "erfc_vml_cpu", "Returns 1 minus the error function of each element, without "+
		"cancellation for large elements.", math.Erfc, nil)
)

// lgamma is the reference function of lgamma, which is -log(|x|) near 0.
func lgamma(x float64) float64 {
	// On some processors math.Log is wrong for subnormal numbers, which are below 2^-1022.
	if magnitude := math.Abs(x); magnitude < 0x1p-1022 && magnitude > 0 {
		return 54*math.Ln2 - math.Log(magnitude*0x1p54)
	}
	logarithm, _ := math.Lgamma(x)
	if math.IsInf(x, -1) {
		return -x // as in C, unlike Go
	}
	return logarithm
}
