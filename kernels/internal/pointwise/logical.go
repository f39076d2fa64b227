package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Logical ops support any dtype. The number 0 is false. All other numbers and NaN are true.
var (
	LogicalAnd = logicalOp("logical_and", "Returns whether both self and `other` are non-zero.",
		"x != 0 and y != 0", "x & y",
		func(a, b bool) bool { return a && b })
	LogicalOr = logicalOp("logical_or", "Returns whether self or `other` is non-zero.",
		"x != 0 or y != 0", "x | y",
		func(a, b bool) bool { return a || b })
	LogicalXor = logicalOp("logical_xor", "Returns whether exactly one of self and `other` is non-zero.",
		"(x != 0) != (y != 0)", "x != y",
		func(a, b bool) bool { return a != b })
)

// logicalOp defines an op by its formulas for numbers and for bools. reference is its definition, for
// [graph.Semantics.Ref].
func logicalOp(name, doc, numberFormula, boolFormula string, reference func(a, b bool) bool) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, binaryParams, &graph.Pointwise{Config: comparison,
		Body: bodyByDType(name, predicateKernels(numberFormula, boolFormula))},
		kit.IgnoringCall(boolRef(
			func(x []int64) bool { return reference(x[0] != 0, x[1] != 0) },
			func(x []float64) bool { return reference(x[0] != 0, x[1] != 0) },
			func(x []complex128) bool { return reference(x[0] != 0, x[1] != 0) })),
		kit.BinaryExample, kit.Example(nil, kit.BoolMatrix, kit.BoolMatrix))
}

// LogicalNot returns whether self is 0.
var LogicalNot = elementwise(kit.NoAttrs, "logical_not", "Returns whether self is 0.", unaryParams,
	&graph.Pointwise{Config: unaryWithResult(tensor.Bool),
		Body: bodyByDType("logical_not", predicateKernels("x == 0", "not x"))},
	kit.IgnoringCall(boolRef(
		func(x []int64) bool { return x[0] == 0 },
		func(x []float64) bool { return x[0] == 0 },
		func(x []complex128) bool { return x[0] == 0 })),
	kit.UnaryExample, kit.Example(nil, kit.BoolMatrix))

// predicateKernels returns the kernels of a predicate on any dtype. Bools have a separate formula, because a comparison
// of a bool with the literal 0 would first promote the bool.
func predicateKernels(numberFormula, boolFormula string) kernelTable {
	return mergeKernels(kernelsWithResultDType(formula(numberFormula), toBool, integers, floats, complexes),
		kernelsOf(formula(boolFormula), bools))
}
