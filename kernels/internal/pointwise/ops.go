package pointwise

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package, in the order of their files.
func Ops() []*graph.Op {
	return []*graph.Op{
		Abs,
		Sigmoid, Silu, Mish, Softplus, Gelu, Hardswish, Hardsigmoid,
		Add, Sub, Rsub,
		Addcmul, Addcdiv,
		BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, LeftShift, RightShift,
		ChebyshevPolynomialT, ChebyshevPolynomialU, ChebyshevPolynomialV, ChebyshevPolynomialW,
		ShiftedChebyshevPolynomialT, ShiftedChebyshevPolynomialU, ShiftedChebyshevPolynomialV, ShiftedChebyshevPolynomialW,
		Clamp, ClampMin, ClampMax,
		Eq, Ne, Lt, Le, Gt, Ge,
		Real, Imag, ConjPhysical, Angle,
		Div, FloorDivide,
		Elu, Selu, Celu,
		Exp, Exp2, Expm1, Log, Log2, Log10, Log1p,
		Isnan, Isinf, Isfinite, Isposinf, Isneginf, Signbit,
		Gcd, Lcm,
		Lerp,
		LogicalAnd, LogicalOr, LogicalXor, LogicalNot,
		Logit, LogSigmoid,
		Maximum, Minimum, Fmax, Fmin,
		Mul,
		Neg, Positive,
		I0, I0e, I1, I1e, BesselK0, BesselK1, ScaledBesselK0, ScaledBesselK1, Digamma, Erfcx, LogNdtr, Ndtri,
		Sinc, Entr, Ndtr, SphericalBesselJ0, Xlog1py,
		Pow, Square,
		PointwiseExpression,
		Prelu, Glu,
		Relu, Hardtanh, Relu6, LeakyRelu, Threshold, Hardshrink,
		Remainder, Fmod,
		Floor, Ceil, Trunc, Round, Frac,
		Sign, Sgn,
		Softshrink, Shrink,
		Atan2, Hypot, Copysign, Nextafter, Logaddexp, Logaddexp2, Xlogy, Heaviside, NanToNum,
		Sqrt, Rsqrt, Reciprocal,
		Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Erf, Erfinv, Lgamma, Erfc,
		Where,
	}
}
