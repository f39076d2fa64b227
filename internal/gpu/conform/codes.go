// Package conform tests devices: it compares the results of kernels with expr.Code.Eval and with the references of ops.
// It has the expressions, iterations and calls of the tests. [Probe] finds the operations that a device computes
// exactly.
package conform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Code is an expression and its name in reports, such as "add of float32".
type Code struct {
	Name string
	*expr.Code
}

// Zeros returns expressions with the constant 0, which some drivers simplify: see lower.Target.KeepsConstantZeros.
func Zeros() []Code {
	return []Code{{"arithmetic with 0 of float32", withZero(tensor.Float32)},
		{"arithmetic with 0 of float64", withZero(tensor.Float64)}}
}

// Primitives returns an expression for each primitive operation and each dtype that supports it, and for each
// conversion between two dtypes.
func Primitives() []Code {
	var list []Code
	allDTypes := tensor.DTypes()
	for op := expr.Bits + 1; op.Primitive(); op++ { // the operations up to Bits are constants, loads and conversions
		for _, dtype := range allDTypes {
			if lane.Ops[op].OperandDTypes.Has(dtype) {
				list = append(list, primitive(op, dtype))
			}
		}
	}
	for _, from := range allDTypes {
		for _, to := range allDTypes {
			if from != to {
				list = append(list, conversions(from, to)...)
			}
		}
	}
	return list
}

// conversions returns the expressions that convert a dtype to another dtype, or reinterpret its bits.
func conversions(from, to tensor.DType) (list []Code) {
	if !from.IsComplex() && !to.IsComplex() {
		b := expr.NewBuilder(from)
		list = append(list, build(fmt.Sprintf("%v to %v", from, to), b, b.Convert(to, b.Load(0))))
	}
	reinterpretable := lane.Ops[lane.Bits].OperandDTypes
	if reinterpretable.Has(from) && reinterpretable.Has(to) && from.Size() == to.Size() {
		b := expr.NewBuilder(from)
		list = append(list, build(fmt.Sprintf("bits of %v as %v", from, to), b, b.Bits(to, b.Load(0))))
	}
	return list
}

// build returns the expression of b with a single real result. It panics if the expression is invalid, because this is
// a mistake of this package.
func build(name string, b *expr.Builder, result expr.Value) Code {
	code, err := b.Build(b.Real(result))
	if err != nil {
		panic(err)
	}
	return Code{name, code}
}

// primitive returns an expression that applies one operation to its inputs. All inputs except the condition of a Select
// have the given dtype. Values for which the result is unspecified are replaced before the operation.
func primitive(op expr.Op, dtype tensor.DType) Code {
	inputs := slices.Repeat([]tensor.DType{dtype}, op.ArgCount())
	if op == expr.Select {
		inputs[0] = tensor.Bool
	}
	b := expr.NewBuilder(inputs...)
	var operands []expr.Value
	for index := range inputs {
		operands = append(operands, b.Load(index))
	}
	name := fmt.Sprintf("%v of %v", op, dtype)
	switch {
	case op == expr.Lookup: // in table 0
		return build(name, b, b.AddInst(expr.Inst{Op: op, DType: dtype, A: operands[0], B: expr.None, C: expr.None}))
	case op == expr.Div && !dtype.IsFloat(): // an integer division by 0 is unspecified: divide by 3
		operands[1] = b.Emit(expr.Select, b.Emit(expr.Eq, operands[1], b.Int(dtype, 0)), b.Int(dtype, 3), operands[1])
	case op == expr.Limit: // the sign of the result for a NaN is unspecified: replace a NaN by 1
		operands[0] = b.Emit(expr.Select, b.Emit(expr.Eq, operands[0], operands[0]), operands[0], b.Const(dtype, 1))
	}
	return build(name, b, b.Emit(op, operands...))
}

// Functions returns, for each of the dtypes, an expression for each function of the expression language that accepts
// operands of the dtype. For float32 and float64, it also returns an expression for each elementary function of package
// expr.
func Functions(dtypes ...tensor.DType) []Code {
	var list []Code
	for _, dtype := range dtypes {
		for op := expr.Exp; op.Elementary() && (dtype == tensor.Float32 || dtype == tensor.Float64); op++ {
			list = append(list, primitive(op, dtype))
		}
		for _, function := range expr.Functions() {
			call := function.Name + "(" + strings.Join(function.Params, ", ") + ")"
			formula, err := expr.Parse(call, function.Params...)
			if err != nil {
				continue // a function of constants
			}
			code, err := formula.Code(slices.Repeat([]tensor.DType{dtype}, len(function.Params)), expr.Typing{})
			if err == nil && code.Compilable() && !code.Reduces() {
				list = append(list, Code{fmt.Sprintf("%s of %v", call, dtype), code})
			}
		}
	}
	return list
}
