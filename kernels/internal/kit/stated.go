package kit

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Formula parses the formula of an op for one element: see package expr. It panics on an error.
func Formula(text string, params ...string) *expr.Formula {
	f, err := expr.Parse(text, params...)
	if err != nil {
		panic("kit: " + text + ": " + err.Error())
	}
	return f
}

// Stated returns the kernel of a formula for loops of these dtypes, those of the results first. attrs are the plain
// numbers that the formula names. The formula is typed when the kernel first runs.
func Stated(f *expr.Formula, attrs map[string]tensor.Scalar, results int, types ...tensor.DType) rule.Kernel {
	return rule.ExprOf(func() (*expr.Code, error) {
		return f.Code(types[results:], expr.Typing{Attrs: attrs, Out: types[:results]})
	}, results, types...)
}

// FormulaLoop compiles the loop of a formula: see [expr.Parse]. names and types are those of its operands. single marks
// the operands with one element for each row of the loop; nil: none. The results have the dtypes out; without out, they
// have those of the formula.
func FormulaLoop(text string, names []string, types []tensor.DType, single []bool, out ...tensor.DType) (*loops.Loop,
	error) {
	f, err := expr.Parse(text, names...)
	if err != nil {
		return nil, err
	}
	code, err := f.Code(types, expr.Typing{Out: out})
	if err != nil {
		return nil, err
	}
	if single == nil {
		single = make([]bool, len(types))
	}
	return loops.New(&expr.Loop{Code: code, Scalar: single}, loops.Options{})
}

var itself = Formula("x", "x")

// Conversion returns the expression that converts elements in a copy.
func Conversion(from, to tensor.DType) (*expr.Code, error) {
	return itself.Code([]tensor.DType{from}, expr.Typing{Out: []tensor.DType{to}})
}
