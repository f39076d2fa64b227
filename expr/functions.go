package expr

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Function is a function of the language.
type Function struct {
	Name string
	// Params are the names of the operands, optional operands included.
	Params []string
	// Text is the definition for floats, or "" for a built-in function.
	Text string
}

// Functions returns the functions of the language, sorted by name, without the casts to dtypes.
func Functions() []Function {
	var list []Function
	for name, builtin := range builtins {
		if _, err := tensor.ParseDType(name); err != nil && isName(name) && !keywords[name] {
			list = append(list, Function{Name: name, Params: slices.Clone(defaultParams[:builtin.argCount])})
		}
	}
	for name, definitions := range library {
		if !isName(name) {
			continue // an operator of complex numbers
		}
		longest := slices.MaxFunc(definitions, func(a, b definition) int {
			return len(a.operandNames()) - len(b.operandNames())
		})
		list = append(list, Function{Name: name, Params: longest.operandNames(), Text: longest.text})
	}
	sorted.Func(list, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// DefaultParams returns the names of operands, in order, that [Parse] uses if its caller gives none.
func DefaultParams() []string { return slices.Clone(defaultParams) }
