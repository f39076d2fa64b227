package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The ops of this file are exponentials and logarithms. They compute bools and integers as float32.
var (
	Exp   = functionOp("exp", "exp_vml_cpu", "Raises e to the power of each element.", kit.Exp, complexExp)
	Exp2  = functionOp("exp2", "exp2", "Raises 2 to the power of each element.", math.Exp2, nil)
	Expm1 = functionOp("expm1", "expm1_vml_cpu", "Raises e to the power of each element and subtracts 1, "+
		"accurately near 0.", math.Expm1, nil)
	Log = functionOp("log", "log_vml_cpu", "Returns the natural logarithm of each element.", logWithSubnormals,
		complexLog)
	Log2 = functionOp("log2", "log2_vml_cpu", "Returns the logarithm to base 2 of each element.", log2,
		func(z complex128) complex128 { return divideParts(complexLog(z), math.Ln2) })
	Log10 = functionOp("log10", "log10_vml_cpu", "Returns the logarithm to base 10 of each element.",
		func(x float64) float64 { return logWithSubnormals(x) / math.Ln10 },
		func(z complex128) complex128 { return divideParts(complexLog(z), math.Ln10) })
	Log1p = functionOp("log1p", "log1p_vml_cpu", "Returns the natural logarithm of 1+x for each element x, accurately "+
		"near 0.",
		math.Log1p, nil)
)
