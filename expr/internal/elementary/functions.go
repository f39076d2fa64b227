package elementary

import (
	"math"

	"github.com/graphrun/graphrun/internal/lane"
)

// Unary and Binary map names of operations to functions of float64: the elementary functions, and the primitive
// operations that are not Go operators. The errors of these functions are within 2 ulp. Some functions of package math
// have greater errors.
var (
	Unary = map[string]func(float64) float64{
		"exp": Exp, "exp2": exp2, "expm1": expm1, "log": Log, "log2": log2, "log10": log10, "log1p": log1p, "sin": sin,
		"cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan, "sinh": sinh, "cosh": cosh, "tanh": tanh,
		"asinh": asinh, "acosh": acosh, "atanh": atanh, "erf": erf, "erfc": erfc,
	}
	Binary = map[string]func(a, b float64) float64{
		"pow": Pow, "atan2": atan2, "mod": math.Mod, "scale": lane.Scaled, "limit": lane.Limited,
	}
)

// Complex maps names of operations to functions of a complex number.
var Complex = map[string]func(complex128) complex128{
	"sqrt": complexSqrt, "sin": complexSin, "cos": complexCos, "tan": complexTan, "asin": complexAsin,
	"acos": complexAcos, "atan": complexAtan, "sinh": complexSinh, "cosh": complexCosh, "tanh": complexTanh,
	"asinh": complexAsinh, "acosh": complexAcosh, "atanh": complexAtanh,
}
