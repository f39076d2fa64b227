package program

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
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

// This part finds the binding for the inputs of a run: the program for their sizes. An open symbol takes its size from
// the inputs of each run. A fixed symbol has one size for all runs. A list of sizes has one size for each open symbol.

// bindingForInputs returns the binding for the sizes of a run's inputs. It compiles the binding if necessary.
func (p *Program) bindingForInputs(ctx context.Context, in map[string]*tensor.Tensor) (*Binding, error) {
	if p.Options() == nil {
		return nil, ErrNotCompiled
	}
	if ctx == nil {
		return nil, ErrNoContext
	}
	hasOneBinding := len(p.openSymbols) == 0 && p.firstBinding != nil
	if hasOneBinding && len(p.symbolicIndices) == 0 { // no input has a fixed symbol either, so nothing is checked
		return p.firstBinding, nil
	}
	if found := p.compiledBinding(ctx, in); found != nil {
		return found, nil
	}

	inputs := p.symbolicInputs()
	shapeOf := func(name string) ([]int, bool) {
		if t := in[name]; t != nil {
			return t.Shape, true
		}
		return nil, false
	}
	if err := p.checkFixed(inputs, shapeOf); err != nil {
		return nil, err
	}
	if hasOneBinding {
		return p.firstBinding, nil
	}
	openSizes, err := SizesOf(inputs, shapeOf, p.fixedSizes, p.sourceGraph().Symbols)
	if err != nil {
		return nil, err
	}
	// SizesOf also returns fixed sizes.
	maps.DeleteFunc(openSizes, func(name string, _ int) bool { return !slices.Contains(p.openSymbols, name) })
	const isHint = false // the sizes are inputs' sizes, not hints (typical sizes from the user)
	found, err := p.bindingForSizes(ctx, openSizes, isHint)
	if err != nil && len(openSizes) > 0 {
		return nil, fmt.Errorf("for %s: %w", SizesText(openSizes), err)
	}
	return found, err
}

// compiledBinding returns the binding for the sizes of a run's inputs if it is compiled or being compiled, otherwise
// nil. It is the fast path of bindingForInputs, and does not allocate. It returns nil after a failed compilation, so
// that the caller compiles again.
func (p *Program) compiledBinding(ctx context.Context, in map[string]*tensor.Tensor) *Binding {
	if len(p.openSymbols) > maxInlineSymbols {
		return nil
	}
	var buffer [maxInlineSymbols]int
	sizes := buffer[:len(p.openSymbols)]
	if !p.readSizes(in, sizes) {
		return nil
	}
	return p.findBinding(ctx, keyOf(sizes))
}

// findBinding returns the binding of a key if it is compiled or being compiled, otherwise nil. It does not allocate. It
// returns nil after a failed compilation.
func (p *Program) findBinding(ctx context.Context, key bindingKey) *Binding {
	if found, ok := p.bindings.Find(key); ok && interrupt.Wait(ctx, found.done) == nil && found.err == nil {
		return found
	}
	return nil
}

// symbolicInputs returns the inputs that have symbols.
func (p *Program) symbolicInputs() []*graph.Value {
	g := p.sourceGraph()
	list := make([]*graph.Value, len(p.symbolicIndices))
	for i, input := range p.symbolicIndices {
		list[i] = g.Inputs[input]
	}
	return list
}

// checkFixed returns an error if an input has another rank than its declaration, or if its shape gives a symbol another
// size than its fixed size.
func (p *Program) checkFixed(inputs []*graph.Value, shapeOf func(string) ([]int, bool)) error {
	for _, v := range inputs {
		shape, ok := shapeOf(v.Name)
		if !ok {
			continue // the run reports the error
		}
		if len(shape) != len(v.Dims) {
			return fmt.Errorf("input %q has shape %s, the graph wants [%s]", v.Name, tensor.ListString(shape),
				p.declared(v.Dims))
		}
		for i, d := range v.Dims {
			if n, fixed := p.fixedSizes[d.Symbol]; d.Symbol != "" && fixed && n != shape[i] {
				return fmt.Errorf("input %q has shape %s, so %s is %d, but the program was compiled with the fixed size %s=%d",
					v.Name, tensor.ListString(shape), d.Symbol, shape[i], d.Symbol, n)
			}
		}
	}
	return nil
}

// declared returns the sizes of a declaration as text, with numbers for fixed symbols.
func (p *Program) declared(dims []graph.Dim) string {
	texts := make([]string, len(dims))
	for i, d := range dims {
		if n, fixed := p.fixedSizes[d.Symbol]; fixed {
			d = graph.Dim{Size: n}
		}
		texts[i] = d.String()
	}
	return strings.Join(texts, ", ")
}

// maxInlineSymbols is the number of open symbols up to which sizes are read and looked up without allocation.
const maxInlineSymbols = 16

// bindingKey is the key of a binding. The key of the whole graph has the sizes of the open symbols. If there are more
// than maxInlineSymbols sizes, they are stored as text. The key of a part has the text of [graph.Segment.Class].
type bindingKey struct {
	part  *graph.Segment // nil for the whole graph
	sizes [maxInlineSymbols]int
	text  string
}

// keyOf returns the key of sizes. All keys of a program have the same number of sizes.
func keyOf(sizes []int) (key bindingKey) {
	if len(sizes) > maxInlineSymbols {
		var text []byte // fmt would make the sizes of every caller escape to the heap
		for _, n := range sizes {
			text = append(strconv.AppendInt(text, int64(n), 10), ' ')
		}
		return bindingKey{text: string(text)}
	}
	copy(key.sizes[:], sizes)
	return key
}

// inputSymbols describes an input whose dimensions have symbols.
type inputSymbols struct {
	input string
	dims  []dimSymbol
}

// dimSymbol is the symbol of a dimension. Both fields are -1 for a dimension without a symbol.
type dimSymbol struct {
	openIndex int // the index of the open symbol; -1 if the symbol is fixed
	fixedSize int // the size of the fixed symbol; -1 if the symbol is open
}

// findSymbolDims sets p.symbolDims, which describes the inputs whose dimensions have symbols.
func (p *Program) findSymbolDims() {
	indexOf := map[string]int{}
	for i, name := range p.openSymbols {
		indexOf[name] = i
	}
	for _, i := range p.symbolicIndices {
		v := p.graph.Inputs[i]
		symbols := inputSymbols{input: v.Name}
		for _, dim := range v.Dims {
			symbol := dimSymbol{openIndex: -1, fixedSize: -1}
			if index, ok := indexOf[dim.Symbol]; ok && dim.Symbol != "" {
				symbol.openIndex = index
			} else if n, ok := p.fixedSizes[dim.Symbol]; ok && dim.Symbol != "" {
				symbol.fixedSize = n
			}
			symbols.dims = append(symbols.dims, symbol)
		}
		p.symbolDims = append(p.symbolDims, symbols)
	}
}

// readSizes reads the sizes of the open symbols from inputs. It returns false if a size is missing, contradicts another
// input, or differs from a fixed size. A slower path then reports the error.
func (p *Program) readSizes(in map[string]*tensor.Tensor, sizes []int) bool {
	for i := range sizes {
		sizes[i] = -1
	}
	for i := range p.symbolDims {
		symbols := &p.symbolDims[i]
		t := in[symbols.input]
		if t == nil || len(t.Shape) != len(symbols.dims) {
			return false
		}
		for i, size := range t.Shape {
			switch dim := symbols.dims[i]; {
			case dim.openIndex < 0:
				if dim.fixedSize >= 0 && dim.fixedSize != size {
					return false
				}
			case sizes[dim.openIndex] < 0:
				sizes[dim.openIndex] = size
			case sizes[dim.openIndex] != size:
				return false
			}
		}
	}
	for _, size := range sizes {
		if size < 0 {
			return false
		}
	}
	return true
}

// This part finds the open symbols of a program: the symbols whose sizes come from the inputs of runs.

// findOpenSymbols finds the symbols whose sizes come from runs, with their assumed sizes, and the inputs that have
// symbols.
func (p *Program) findOpenSymbols() {
	for i, v := range p.graph.Inputs {
		isSymbolic := false
		for _, dim := range v.Dims {
			if dim.Expr != "" {
				isSymbolic = true
				p.addOpenSymbols(dim.Expr)
			}
			if dim.Symbol == "" {
				continue
			}
			isSymbolic = true
			if _, fixed := p.fixedSizes[dim.Symbol]; !fixed && !slices.Contains(p.openSymbols, dim.Symbol) {
				p.openSymbols = append(p.openSymbols, dim.Symbol)
			}
		}
		if isSymbolic {
			p.symbolicIndices = append(p.symbolicIndices, i)
		}
	}
	sorted.Strings(p.openSymbols)
	p.findSymbolDims()
	assumed := p.graph.BoundSizes() // hints of the sizes
	for _, name := range p.openSymbols {
		p.assumedSizes = append(p.assumedSizes, assumed[name])
	}
}

// addOpenSymbols adds the symbols of an expression that have no fixed size.
func (p *Program) addOpenSymbols(text string) {
	open, unusedFixedSizes := map[string]sym.Int{}, map[string]int{}
	lookupSymbols(text, sym.NewEnv(), open, unusedFixedSizes, p.fixedSizes)
	for name := range open {
		if !slices.Contains(p.openSymbols, name) {
			p.openSymbols = append(p.openSymbols, name)
		}
	}
}

// checkHints rejects hints for symbols that no input has, and sets p.hints. No run gives the size of a symbol on which
// only strides or offsets of inputs depend, so its first hint is assumed for all runs.
func (p *Program) checkHints() error {
	for i, hint := range p.options.Hints {
		for _, name := range sorted.Keys(hint) {
			if _, ok := p.options.Sizes[name]; ok {
				return fmt.Errorf("Options.Hints[%d]: %s=%d is fixed for all runs", i, name, p.fixedSizes[name])
			}
			if slices.Contains(p.openSymbols, name) {
				continue
			}
			if !slices.ContainsFunc(p.graph.Inputs, func(v *graph.Value) bool { return v.Declared().DependsOn(name) }) {
				return fmt.Errorf("Options.Hints[%d]: no input has a size or stride %s", i, name)
			}
			if _, isHinted := p.strideHints[name]; !isHinted {
				p.strideHints[name] = hint[name]
			}
		}
		p.hints = append(p.hints, p.listOfSizes(hint))
	}
	return nil
}

// listOfSizes returns sizes by open symbol: the given sizes, and assumed sizes for the other symbols.
func (p *Program) listOfSizes(given map[string]int) []int {
	sizes := slices.Clone(p.assumedSizes)
	for i, name := range p.openSymbols {
		if n, ok := given[name]; ok {
			sizes[i] = n
		}
	}
	return sizes
}
