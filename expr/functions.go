package expr

import (
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Function is a function of the language.
type Function struct {
	Name string
	// Params are the names of the operands, in the longest form if several are accepted.
	Params []string
	// Text is the definition for floats; empty for built-in functions.
	Text string
}

// Functions returns the functions of the language, sorted by name, without the casts to dtypes.
func Functions() []Function {
	var list []Function
	for name, b := range builtins {
		if _, err := tensor.ParseDType(name); err != nil && isName(name) && !keywords[name] {
			list = append(list, Function{Name: name, Params: slices.Clone(defaultParams[:b.most])})
		}
	}
	for name, forms := range library {
		if !isName(name) {
			continue // an operator of complex numbers
		}
		longest := slices.MaxFunc(forms, func(a, b definition) int { return len(a.names()) - len(b.names()) })
		list = append(list, Function{name, longest.names(), longest.text})
	}
	slices.SortFunc(list, func(a, b Function) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}

// Names returns the names of operands if [Parse] is given none, in order.
func Names() []string { return slices.Clone(defaultParams) }
