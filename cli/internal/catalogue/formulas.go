package catalogue

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// FormulaDoc is the formula of one element for some dtypes. The tag `of` names the set of the strings that the
// JSON Schema permits in a field.
type FormulaDoc struct {
	Expr   string   `json:"expr" doc:"The formula; x, y, z are the operands in order, and other names are attributes."`
	DTypes []string `json:"dtypes" of:"dtype" doc:"The dtypes of the operands."`
}

// FunctionDoc is a function that formulas may call.
type FunctionDoc struct {
	Name   string   `json:"name" doc:"The name of the function."`
	Params []string `json:"params" doc:"The names of the operands, including optional operands."`
	Expr   string   `json:"expr,omitzero" doc:"The definition of the function for floats; absent for a built-in function."`
}

// showFormulas prints the formulas of an op. For expressionOp, it instead prints the functions that formulas may
// call.
func showFormulas(w io.Writer, display term.Display, op *graph.Op) {
	if list := formulasOf(op); list != nil {
		writeFormulas(w, display, list)
	}
	if list := functionsOf(op); list != nil {
		writeFunctions(w, display, list)
	}
}

// writeFormulas prints a table of formulas. If there are several formulas, the first column has the dtypes of each
// formula.
func writeFormulas(w io.Writer, display term.Display, list []FormulaDoc) {
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Formula")+" of one element; x, y, z are the operands in order")
	table := term.NewTable(term.ProseCol(""))
	if len(list) > 1 {
		table = term.NewTable(term.UntruncatedCol(""), term.ProseCol(""))
	}
	for _, f := range list {
		if len(list) == 1 {
			table.Add("  " + f.Expr)
			continue
		}
		supported := dtypeSet{}
		for _, name := range f.DTypes {
			dtype, _ := tensor.ParseDType(name)
			supported[dtype] = true
		}
		table.Add("  "+supported.String(), f.Expr)
	}
	table.Write(w, display)
}

// writeFunctions prints a table of functions, and the other elements of the expression language.
func writeFunctions(w io.Writer, display term.Display, list []FunctionDoc) {
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Functions"))
	table := term.NewTable(term.UntruncatedCol(""), term.ProseCol(""))
	for _, f := range list {
		table.Add("  "+f.Name+"("+strings.Join(f.Params, ", ")+")", f.Expr)
	}
	table.Write(w, display)
	fmt.Fprintln(w, "\nOperators are Python's. float32(x) casts x, and so on for every dtype name. "+
		"In \"t = x * x; t + 1\", t names a value. (x, y) returns two results.")
}

// expressionOp is the op that has a formula as attribute.
const expressionOp = "pointwise"

// formulasOf returns the formulas of an op, and for each formula the dtypes that it applies to. It returns nil for an
// op without formulas.
func formulasOf(op *graph.Op) (list []FormulaDoc) {
	if op.Pointwise == nil || op.Name == expressionOp {
		return nil
	}
	// For each dtype of each example, try every dtype in its place. Calls without a formula are skipped.
	for _, example := range op.Examples {
		for _, exampleDType := range exampleDTypes(example) {
			for _, dtype := range tensor.DTypes() {
				call, err := exampleCall(op, example, exampleDType, dtype)
				if err != nil {
					continue
				}
				if f := op.Formula(call); f != nil {
					list = addFormula(list, f.String(), dtype)
				}
			}
		}
	}
	return list
}

// addFormula adds a dtype to the entry of a formula, or adds an entry for the formula.
func addFormula(list []FormulaDoc, text string, dtype tensor.DType) []FormulaDoc {
	i := slices.IndexFunc(list, func(f FormulaDoc) bool { return f.Expr == text })
	if i < 0 {
		i, list = len(list), append(list, FormulaDoc{Expr: text})
	}
	if !slices.Contains(list[i].DTypes, dtype.String()) {
		list[i].DTypes = append(list[i].DTypes, dtype.String())
	}
	return list
}

// functionsOf returns the functions that a formula may call. It returns nil unless op is expressionOp.
func functionsOf(op *graph.Op) (list []FunctionDoc) {
	if op.Name != expressionOp {
		return nil
	}
	for _, f := range expr.Functions() {
		list = append(list, FunctionDoc{f.Name, f.Params, f.Text})
	}
	return list
}
