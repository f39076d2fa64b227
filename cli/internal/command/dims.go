package command

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// ParseDims parses values of --dim such as N=8, and returns the size of each symbol.
func ParseDims(list []string) (map[string]int, error) {
	dims := map[string]int{}
	for _, dim := range list {
		name, size, ok := strings.Cut(dim, "=")
		number, err := strconv.Atoi(size)
		if !ok || name == "" || err != nil || number < 0 {
			return nil, exit.UsageErrorf("--dim %s: want a symbol and its size, as in N=8", dim)
		}
		if other, exists := dims[name]; exists {
			return nil, exit.UsageErrorf("--dim gives %s twice: %d and %d", name, other, number)
		}
		dims[name] = number
	}
	return dims, nil
}

// Combinations parses values of --dim with one or more sizes, such as N=1,2,4, and returns all combinations of one size
// for each symbol. A combination is a list of values of --dim with one size. For example, N=1,2 and M=3,4 give N=1 M=3,
// N=1 M=4, N=2 M=3 and N=2 M=4.
func Combinations(list []string) ([][]string, error) {
	combinations := [][]string{nil} // the combinations for the symbols so far
	for _, dim := range list {
		name, sizes, _ := strings.Cut(dim, "=")
		var extended [][]string
		choices := strings.Split(sizes, ",")
		for _, combination := range combinations {
			for i, size := range choices {
				if slices.Contains(choices[:i], size) {
					return nil, exit.UsageErrorf("--dim %s: %s is listed twice", dim, size)
				}
				extended = append(extended, append(slices.Clip(combination), name+"="+size)) // Clip: append copies
			}
		}
		combinations = extended
	}
	for _, combination := range combinations {
		if _, err := ParseDims(combination); err != nil {
			return nil, err
		}
	}
	return combinations, nil
}

// SizesOf returns the size of each symbol of a graph and of each symbol in given, the values of --dim. The sizes in
// given are needed for ONNX models: the import replaces the symbols of --dim by their sizes, so the graph lacks these
// symbols. A symbol may have another name in the file, such as batch_size for N; only its name in the graph is listed.
func SizesOf(g *graph.Graph, given []string) (map[string]int, error) {
	sizes, err := ParseDims(given)
	if err != nil {
		return nil, err
	}
	for name, n := range g.BoundSizes() {
		sizes[name] = n
	}
	for _, d := range given {
		name, _, _ := strings.Cut(d, "=")
		if symbol, ok := g.SymbolNamed(name); ok && symbol != name {
			delete(sizes, name) // sizes already has this size under the symbol's name in the graph
		}
	}
	return sizes, nil
}

// checkDims returns an [UnknownDim] error if dims has the size of a symbol that the file at path lacks. symbols are the
// symbols of the file.
func checkDims(path string, dims map[string]int, symbols map[string]graph.Bounds) error {
	g := &graph.Graph{Symbols: symbols}
	known := sorted.Keys(symbols)
	for _, name := range sorted.Keys(dims) {
		if _, ok := g.SymbolNamed(name); ok {
			continue
		}
		hint := format.DidYouMean(name, known)
		if hint == "" {
			symbolTexts := make([]string, len(known))
			for i, symbol := range known {
				symbolTexts[i] = g.SymbolText(symbol)
			}
			hint = "; it has " + strings.Join(symbolTexts, ", ")
		}
		if len(known) == 0 { // no symbol can be suggested; NoSymbolsHelp explains the rows
			hint = fmt.Sprintf(": all its sizes are numbers; to set the number of rows, use --dim N=%d", dims[name])
		}
		message := fmt.Sprintf("%s has no symbolic dimension %q%s", path, name, hint)
		return exit.UsageError(&UnknownDim{name, dims[name], message})
	}
	return nil
}

// UnknownDim is the error for a size of a symbol that a file lacks.
type UnknownDim struct {
	Name string
	Size int
	Why  string // a sentence with the file, the unknown symbol, and the symbols of the file
}

// Error names the flag --dim and the reason.
func (e *UnknownDim) Error() string { return fmt.Sprintf("--dim %s=%d: %s", e.Name, e.Size, e.Why) }

// NoSymbolsHelp is the part of the help of --dim about files without symbols.
const NoSymbolsHelp = "in a file whose sizes are numbers, N is the number of rows, " +
	"and x.0 is the size of dimension 0 of input x"

// DimFlag adds --dim.
func DimFlag(cmd *cobra.Command, dims *[]string) {
	cmd.Flags().StringArrayVar(dims, "dim", nil, "size of a symbolic dimension, as in `N=8` (repeatable); "+
		NoSymbolsHelp)
}

// ShapeFlag adds --shape and --constant.
func (e *Extensions) ShapeFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&e.shapes, "shape", nil, "shape of an input whose rank an ONNX model does not declare, as "+
		"in `x=1,3,H,W` (repeatable); H and W are symbols, whose sizes --dim gives")
	cmd.Flags().StringArrayVar(&e.constants, "constant", nil, "value of an input of an ONNX model that is the same in all "+
		"runs, as in `use_cache_branch=true` (repeatable)")
}

// Constants returns the values of --constant by input.
func (e *Extensions) Constants() (map[string]tensor.Scalar, error) {
	constants := map[string]tensor.Scalar{}
	for _, text := range e.constants {
		name, valueText, ok := strings.Cut(text, "=")
		if _, exists := constants[name]; !ok || name == "" || exists {
			return nil, exit.UsageErrorf("--constant %s: want an input and its value, once for each input, as in x=true", text)
		}
		if number, err := strconv.ParseInt(valueText, 10, 64); err == nil {
			constants[name] = tensor.IntScalar(number)
		} else if number, err := strconv.ParseFloat(valueText, 64); err == nil {
			constants[name] = tensor.FloatScalar(number)
		} else if truth, err := strconv.ParseBool(valueText); err == nil {
			constants[name] = tensor.BoolScalar(truth)
		} else {
			return nil, exit.UsageErrorf("--constant %s: want true, false or a number, not %q", text, valueText)
		}
	}
	return constants, nil
}

// Declared returns the shapes of --shape by input.
func (e *Extensions) Declared() (map[string][]graph.Dim, error) {
	shapes := map[string][]graph.Dim{}
	for _, text := range e.shapes {
		name, sizes, ok := strings.Cut(text, "=")
		if _, exists := shapes[name]; !ok || name == "" || exists {
			return nil, exit.UsageErrorf("--shape %s: want an input and its sizes, once for each input, as in x=1,3,H,W", text)
		}
		shapes[name] = []graph.Dim{}
		for size := range strings.SplitSeq(sizes, ",") {
			if sizes == "" {
				break // no dimensions
			}
			size = strings.TrimSpace(size)
			dim := graph.Dim{Expr: size}
			number, err := strconv.Atoi(size)
			if err == nil {
				dim = graph.Dim{Size: number}
			}
			if dim.Size < 0 || err != nil && !isExpression(size) {
				return nil, exit.UsageErrorf("--shape %s: %q is not a size", text, size)
			}
			shapes[name] = append(shapes[name], dim)
		}
	}
	return shapes, nil
}

// isExpression reports whether a text is a symbol, or an expression over symbols.
func isExpression(text string) bool {
	env, symbols := sym.NewEnv(), map[string]sym.Int{}
	_, err := sym.Parse(text, func(name string) (sym.Int, bool) {
		if _, ok := symbols[name]; !ok {
			symbols[name], _ = env.Symbol(name, 1, math.MaxInt, 2)
		}
		return symbols[name], true
	})
	return err == nil
}
