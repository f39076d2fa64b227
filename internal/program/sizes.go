package program

import (
	"fmt"
	"maps"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
)

// UnknownSymbol is the error of a size for a symbol that the graph does not have.
func UnknownSymbol(name string, g *graph.Graph) error {
	hint := suggest.DidYouMean(suggest.Nearest(name, maps.Keys(g.Symbols)))
	switch {
	case len(g.Symbols) == 0:
		hint = ": all its sizes are numbers"
	case hint == "":
		var all []string
		for _, symbol := range sorted.Keys(g.Symbols) {
			all = append(all, g.SymbolText(symbol))
		}
		hint = "; it has " + strings.Join(all, ", ")
	}
	return fmt.Errorf("the graph has no symbolic dimension %q%s", name, hint)
}

// sizesByName returns sizes by the names of the graph's symbols. The keys of sizes are these names or the names in the
// original model.
func sizesByName(g *graph.Graph, sizes map[string]int) (map[string]int, error) {
	for _, name := range sorted.Keys(sizes) {
		if _, ok := g.SymbolNamed(name); !ok {
			return nil, UnknownSymbol(name, g)
		}
	}
	return g.SizesBySymbol(sizes)
}

// SizesOf returns the given sizes of symbols, and the sizes that follow from shapes of inputs. An input may be declared
// with expressions of symbols, which are solved for sizes within bounds. shapeOf returns false for an input without a
// known shape. A shape that contradicts a given size is not an error here: the comparison of the input with its
// declaration reports it.
func SizesOf(inputs []*graph.Value, shapeOf func(name string) ([]int, bool),
	given map[string]int, bounds map[string]graph.Bounds) (map[string]int, error) {
	sizes, inputOf := maps.Clone(given), map[string]string{}
	if sizes == nil {
		sizes = map[string]int{}
	}
	for _, v := range inputs {
		shape, ok := shapeOf(v.Name)
		if !ok || len(shape) != len(v.Dims) {
			continue
		}
		for i, dim := range v.Dims {
			if dim.Symbol == "" {
				continue
			}
			n, known := sizes[dim.Symbol]
			if !known {
				sizes[dim.Symbol], inputOf[dim.Symbol] = shape[i], v.Name
			} else if other := inputOf[dim.Symbol]; n != shape[i] && other != "" { // the size was not given
				return nil, fmt.Errorf("%s is %d in input %q, but %d in input %q", dim.Symbol, n, other,
					shape[i], v.Name)
			}
		}
	}
	// solve adds the sizes that follow from expressions.
	return sizes, solve(inputs, shapeOf, sizes, bounds)
}
