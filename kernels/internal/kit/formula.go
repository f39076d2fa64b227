package kit

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Formula parses the formula that computes one element of an op's result. Package expr describes the syntax. Formula
// panics on an error.
func Formula(text string, params ...string) *expr.Formula {
	formula, err := expr.Parse(text, params...)
	if err != nil {
		panic("kit: " + text + ": " + err.Error())
	}
	return formula
}

// FormulaKernel returns the kernel of a formula. types has the dtypes of the results, and then of the operands. attrs
// has the plain numbers that the formula uses, by name. The dtypes of intermediate results are inferred when the kernel
// first runs.
func FormulaKernel(formula *expr.Formula, attrs map[string]tensor.Scalar, results int,
	types ...tensor.DType) rule.Kernel {
	return rule.ExprOf(func() (*expr.Code, error) {
		return formula.Code(types[results:], expr.Typing{Attrs: attrs, Out: types[:results]})
	}, results, types...)
}

// FormulaLoop compiles the loop of a formula ([expr.Parse]) for operands with the given names and types. onePerRow[i]
// is set if operand i has only one element per row. A nil onePerRow means that there is no such operand. out has the
// dtypes of the results. If out is omitted, results have the dtypes that the formula computes.
func FormulaLoop(text string, names []string, types []tensor.DType, onePerRow []bool, out ...tensor.DType) (*loops.Loop,
	error) {
	formula, err := expr.Parse(text, names...)
	if err != nil {
		return nil, err
	}
	code, err := formula.Code(types, expr.Typing{Out: out})
	if err != nil {
		return nil, err
	}
	if onePerRow == nil {
		onePerRow = make([]bool, len(types))
	}
	return loops.New(&expr.Loop{Code: code, Uniform: onePerRow}, loops.Options{})
}

var identityFormula = Formula("x", "x")

// Conversion returns the expression that converts an element between two dtypes, as copies do.
func Conversion(from, to tensor.DType) (*expr.Code, error) {
	return identityFormula.Code([]tensor.DType{from}, expr.Typing{Out: []tensor.DType{to}})
}
