package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
)

// This file maps the dim_params of a model to symbols. A dim_param is the text of a symbolic size. There are four
// kinds:
//   - An identifier is the symbol of that name.
//   - Arithmetic over identifiers is an expression.
//   - Other text with a letter is a symbol, whose name is derived from the text.
//   - Text without a letter, such as "?", is not a name. Each size with such text is a separate symbol, whose name is
//     generated from the input and the dimension, such as x_dim0.

// Symbol returns the symbol of the graph for a dim_param such as "batch-size", or for a generated name such as x_dim0.
// Any other name is returned unchanged.
func (m *Model) Symbol(name string) string {
	if m == nil || m.symbols[name] == "" {
		return name
	}
	return m.symbols[name]
}

// unlimited returns the Bounds of a symbol without limits. NameInFile is the symbol's dim_param.
func (m *Model) unlimited(symbol string) (bounds graph.Bounds) {
	for spelled, s := range m.symbols {
		if s == symbol {
			bounds.NameInFile = spelled
		}
	}
	return bounds
}

// Sizes returns a new map from symbols to sizes. The keys of `given` are symbols or dim_params: see [Model.Symbol]. If
// both names of a symbol are given, Sizes returns an error.
func (m *Model) Sizes(given map[string]int) (map[string]int, error) {
	sizes, names := make(map[string]int, len(given)), make(map[string]string, len(given))
	for _, name := range sorted.Keys(given) {
		symbol := m.Symbol(name)
		if other, exists := names[symbol]; exists {
			return nil, fmt.Errorf("the size %s is given twice: as %q and as %q", symbol, other, name)
		}
		sizes[symbol], names[symbol] = given[name], name
	}
	return sizes, nil
}

// nameSymbols sets m.symbols: it chooses symbols for the input sizes whose dim_params are not identifiers.
func (m *Model) nameSymbols() {
	identifiers := map[string]bool{} // the dim_params that are identifiers, and the symbols chosen so far
	m.eachDim(func(_, text string) {
		if isSymbol(text) {
			identifiers[text] = true
		}
	})
	m.eachDim(func(generated, text string) {
		if !hasLetter(text) {
			text = generated
		}
		if isSymbol(text) || m.symbols[text] != "" || isArithmetic(text, identifiers) {
			return
		}
		symbol := (&graph.Symbolic{}).Name(text) // a similar identifier
		for identifiers[symbol] {
			symbol += "_"
		}
		identifiers[symbol], m.symbols[text] = true, symbol
	})
}

// eachDim calls visit for each input size that is not a number. text is the dim_param of the size. generated is the
// name that the size has if the dim_param has no letter.
func (m *Model) eachDim(visit func(generated, text string)) {
	for _, input := range m.file.Proto.Graph.Input {
		shape := input.Shape()
		if shape == nil {
			continue
		}
		for i, d := range shape.Dim {
			if d.DimValue == nil || *d.DimValue < 0 {
				visit(generatedName(input.Name, i), d.DimParam)
			}
		}
	}
}

// generatedName returns the name of an input's size whose dim_param has no letter, such as x_dim0.
func generatedName(input string, dim int) string { return fmt.Sprintf("%s_dim%d", input, dim) }

// hasLetter reports whether a dim_param has a letter. A text without a letter, such as "?", is not a name.
func hasLetter(text string) bool { return strings.ContainsFunc(text, unicode.IsLetter) }

// anyHint is the hint (example size) of symbols whose hint does not matter.
const anyHint = 2

// isSymbol reports whether a text is a valid symbol name.
func isSymbol(text string) bool {
	const lo, hi, hint = 0, 1, 0 // arbitrary
	_, err := sym.NewEnv().Symbol(text, lo, hi, hint)
	return err == nil
}

// isArithmetic reports whether a dim_param is an expression over symbols. Words that are joined only by minus signs,
// such as "batch-size", are an expression only if each word is one of the given identifiers. Otherwise they are one
// name.
func isArithmetic(text string, identifiers map[string]bool) bool {
	env, allIdentifiers := sym.NewEnv(), true
	_, err := sym.Parse(text, func(name string) (sym.Int, bool) {
		allIdentifiers = allIdentifiers && identifiers[name]
		s, err := env.Symbol(name, 0, math.MaxInt, anyHint)
		return s, err == nil
	})
	if err != nil || allIdentifiers {
		return err == nil
	}
	return slices.ContainsFunc(strings.Split(text, "-"), func(word string) bool { return !isSymbol(word) })
}

// dim returns size i of an input as a number, a symbol or an expression. text is the dim_param of the size. Symbols in
// fixed are replaced by numbers.
func (m *Model) dim(input string, i int, text string, fixed map[string]int) (graph.Dim, error) {
	if !hasLetter(text) {
		text = generatedName(input, i)
	}
	if symbol := m.Symbol(text); isSymbol(symbol) {
		if fixedSize, exists := fixed[symbol]; exists {
			return graph.Dim{Size: fixedSize}, nil
		}
		return graph.Dim{Symbol: symbol}, nil
	}
	env := sym.NewEnv()
	expression, err := sym.Parse(text, func(name string) (sym.Int, bool) {
		if fixedSize, exists := fixed[name]; exists {
			return sym.Of(fixedSize), true
		}
		expression, err := env.Symbol(name, 0, math.MaxInt, anyHint)
		return expression, err == nil
	})
	fixedSize, known := expression.Known()
	switch {
	case err != nil:
		return graph.Dim{}, fmt.Errorf("size %d: %w", i, err)
	case known && fixedSize < 0:
		return graph.Dim{}, fmt.Errorf("size %d: %s is %d, want at least 0", i, text, fixedSize)
	case known:
		return graph.Dim{Size: fixedSize}, nil
	case isSymbol(expression.String()):
		return graph.Dim{Symbol: expression.String()}, nil
	}
	return graph.Dim{Expr: expression.String()}, nil
}

// symbolsOf returns the symbols in a size, in the order of their first occurrence.
func symbolsOf(d graph.Dim) []string {
	var list []string
	if d.IsNumber() {
		return nil
	}
	env := sym.NewEnv()
	_, _ = sym.Parse(d.String(), func(name string) (sym.Int, bool) { // the parse error was reported before
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
		s, err := env.Symbol(name, 0, math.MaxInt, anyHint)
		return s, err == nil
	})
	return list
}
