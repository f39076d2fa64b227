package onnx

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
)

// A dim_param may be any text. One that is an identifier is the symbol of that name; arithmetic over identifiers is an
// expression; another text is a symbol whose name is made from it, and a text without a letter names nothing: each of
// these is a size of its own.

// Symbol returns the symbol that a graph of the model has for a dim_param that is no identifier, as "batch-size", or
// for such a size that has no name; any other name is returned as it is.
func (m *Model) Symbol(name string) string {
	if m == nil || m.symbols[name] == "" {
		return name
	}
	return m.symbols[name]
}

// bounds returns those of a new symbol, with the name that the model has for it.
func (m *Model) bounds(symbol string) (b graph.Bounds) {
	for spelled, s := range m.symbols {
		if s == symbol {
			b.Spelled = spelled
		}
	}
	return b
}

// Sizes returns sizes that are given by names of dim_params by those of symbols, see [Model.Symbol]. A symbol that is
// given by both of its names is refused. The map is a new one.
func (m *Model) Sizes(given map[string]int) (map[string]int, error) {
	sizes := make(map[string]int, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		symbol := m.Symbol(name)
		if _, twice := sizes[symbol]; twice {
			return nil, fmt.Errorf("the size %s is given twice: it is also called %s", symbol, name)
		}
		sizes[symbol] = given[name]
	}
	return sizes, nil
}

// nameSymbols finds the names of symbols for the sizes of the model's inputs that have none of their own.
func (m *Model) nameSymbols() {
	own := map[string]bool{} // identifiers of the model
	m.eachDim(func(_, text string) {
		if isSymbol(text) {
			own[text] = true
		}
	})
	m.eachDim(func(unnamed, text string) {
		if !distinct(text) {
			text = unnamed
		}
		if isSymbol(text) || m.symbols[text] != "" || isArithmetic(text, own) {
			return
		}
		symbol := (&graph.Symbolic{}).Name(text)
		for own[symbol] {
			symbol += "_"
		}
		own[symbol], m.symbols[text] = true, symbol
	})
}

// eachDim calls f for the sizes of inputs that are no numbers: with a name for one that has none, and the dim_param.
func (m *Model) eachDim(f func(unnamed, text string)) {
	for _, in := range m.proto.Graph.Input {
		for i, d := range in.GetType().GetTensorType().GetShape().GetDim() {
			if n, is := d.Value.(*pb.TensorShapeProto_Dimension_DimValue); !is || n.DimValue < 0 {
				f(unnamed(in.Name, i), d.GetDimParam())
			}
		}
	}
}

// unnamed is the name of a size that has none.
func unnamed(input string, dim int) string { return fmt.Sprintf("%s_dim%d", input, dim) }

// distinct reports whether a dim_param tells one size from another.
func distinct(text string) bool { return strings.ContainsFunc(text, unicode.IsLetter) }

// isSymbol reports whether a text can be a symbol as it is.
func isSymbol(text string) bool {
	_, err := sym.NewEnv().Symbol(text, 0, 1, 0)
	return err == nil
}

// isArithmetic reports whether a dim_param is an expression over symbols. Words with nothing but minus signs between
// them are a name, as "batch-size", unless each is a symbol of the model by itself.
func isArithmetic(text string, own map[string]bool) bool {
	env, all := sym.NewEnv(), true
	_, err := sym.Parse(text, func(name string) (sym.Int, bool) {
		all = all && own[name]
		s, err := env.Symbol(name, 0, math.MaxInt, 2)
		return s, err == nil
	})
	if err != nil || all {
		return err == nil
	}
	return slices.ContainsFunc(strings.Split(text, "-"), func(word string) bool { return !isSymbol(word) })
}

// dim returns a size of an input that is no number, for the sizes of symbols that are fixed.
func (m *Model) dim(input string, i int, text string, fixed map[string]int) (graph.Dim, error) {
	if !distinct(text) {
		text = unnamed(input, i)
	}
	if symbol := m.Symbol(text); isSymbol(symbol) {
		if n, is := fixed[symbol]; is {
			return graph.Dim{Size: n}, nil
		}
		return graph.Dim{Symbol: symbol}, nil
	}
	env := sym.NewEnv()
	s, err := sym.Parse(text, func(name string) (sym.Int, bool) {
		if n, is := fixed[name]; is {
			return sym.Of(n), true
		}
		s, err := env.Symbol(name, 0, math.MaxInt, 2)
		return s, err == nil
	})
	n, known := s.Known()
	switch {
	case err != nil:
		return graph.Dim{}, fmt.Errorf("size %d: %w", i, err)
	case known && n < 0:
		return graph.Dim{}, fmt.Errorf("size %d: %s is %d", i, text, n)
	case known:
		return graph.Dim{Size: n}, nil
	case isSymbol(s.String()):
		return graph.Dim{Symbol: s.String()}, nil
	}
	return graph.Dim{Expr: s.String()}, nil
}

// symbolsOf returns the symbols that a size depends on, in the order of the text.
func symbolsOf(d graph.Dim) []string {
	var list []string
	if d.IsNumber() {
		return nil
	}
	env := sym.NewEnv()
	_, _ = sym.Parse(d.String(), func(name string) (sym.Int, bool) { // what cannot be read was refused before
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
		s, err := env.Symbol(name, 0, math.MaxInt, 2)
		return s, err == nil
	})
	return list
}
