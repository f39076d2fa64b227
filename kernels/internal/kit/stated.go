package kit

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Formula reads what an op computes for one element: see package expr. A mistake in it is one in the program.
func Formula(text string, params ...string) *expr.Formula {
	f, err := expr.Parse(text, params...)
	if err != nil {
		panic("kit: " + text + ": " + err.Error())
	}
	return f
}

// Stated returns the kernel of a formula for loops that see these dtypes, those of the results before those of the
// operands. attrs are the plain numbers that the formula names. Nothing is typed before the kernel is first run.
func Stated(f *expr.Formula, attrs map[string]tensor.Scalar, results int, types ...tensor.DType) rule.Kernel {
	return rule.ExprOf(func() (*expr.Code, error) {
		return f.Code(types[results:], expr.Typing{Attrs: attrs, Out: types[:results]})
	}, results, types...)
}

var itself = Formula("x", "x")

// Conversion returns the expression that converts elements, as a copy does.
func Conversion(from, to tensor.DType) (*expr.Code, error) {
	return itself.Code([]tensor.DType{from}, expr.Typing{Out: []tensor.DType{to}})
}
