package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Logical ops take any dtype, of which 0 is false and all else true, NaN included.
var (
	LogicalAnd = logical("logical_and", "Tells where both self and other are not 0.",
		"x != 0 and y != 0", "x & y",
		func(a, b bool) bool { return a && b })
	LogicalOr = logical("logical_or", "Tells where self or other is not 0.",
		"x != 0 or y != 0", "x | y",
		func(a, b bool) bool { return a || b })
	LogicalXor = logical("logical_xor", "Tells where exactly one of self and other is not 0.",
		"(x != 0) != (y != 0)", "x != y",
		func(a, b bool) bool { return a != b })
)

func logical(name, doc, ofNumbers, ofBools string, f func(a, b bool) bool) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, binary2, &graph.Pointwise{Config: comparison,
		Body: fixed(name, predicate(ofNumbers, ofBools))},
		kit.Always(boolRef(
			func(x []int64) bool { return f(x[0] != 0, x[1] != 0) },
			func(x []float64) bool { return f(x[0] != 0, x[1] != 0) },
			func(x []complex128) bool { return f(x[0] != 0, x[1] != 0) })),
		kit.ExBinary, kit.Example(nil, kit.ExBools, kit.ExBools))
}

// LogicalNot tells where self is 0.
var LogicalNot = elementwise(kit.NoAttrs, "logical_not", "Tells where self is 0.", unary1,
	&graph.Pointwise{Config: unaryTo(tensor.Bool), Body: fixed("logical_not", predicate("x == 0", "not x"))},
	kit.Always(boolRef(
		func(x []int64) bool { return x[0] == 0 },
		func(x []float64) bool { return x[0] == 0 },
		func(x []complex128) bool { return x[0] == 0 })),
	kit.ExUnary, kit.Example(nil, kit.ExBools))

// predicate states what yields bool of any dtype. Bools have a text of their own, as they promote with plain numbers.
func predicate(ofNumbers, ofBools string) bodies {
	return join(statedAs(formula(ofNumbers), toBool, integers, floats, complexes), stated(formula(ofBools), boolean))
}
