package graph

import (
	"fmt"
	"maps"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Bind sets the sizes of symbols, decodes attributes that depend on them, and infers the graph. sizes has the sizes by
// symbol. A symbol without a size gets its hint ([Bounds.Hint]). Without a hint it gets the smallest size over 1 within
// its bounds, because sizes 0 and 1 permit layouts that are invalid for larger sizes. [Graph.Assumed] lists such
// symbols. For example, Bind(map[string]int{"n": 8}) gives an input of shape [n, m, 3] the shape [8, 2, 3].
func (g *Graph) Bind(sizes map[string]int) error {
	if err := g.BindWithoutInference(sizes); err != nil {
		return err
	}
	return g.Infer()
}

// BindWithoutInference sets sizes and decodes attributes as [Graph.Bind] does, without inference.
func (g *Graph) BindWithoutInference(sizes map[string]int) error {
	sizes, err := g.SizesBySymbol(sizes)
	if err != nil {
		return err
	}
	if len(g.Symbols) == 0 {
		return nil
	}
	if err := g.bindSymbols(sizes); err != nil {
		return err
	}
	if err := g.setInputTypes(); err != nil {
		return err
	}
	g.decodeAll()
	return nil
}

// SizesBySymbol returns the given sizes in a new map whose keys are symbols. The keys of given are any names that
// [Graph.SymbolNamed] accepts. SizesBySymbol fails if a key names no symbol, or if both names of a symbol are given.
func (g *Graph) SizesBySymbol(given map[string]int) (map[string]int, error) {
	sizes := make(map[string]int, len(given))
	for _, name := range sorted.Keys(given) {
		symbol, ok := g.SymbolNamed(name)
		if !ok {
			return nil, fmt.Errorf("the graph has no symbolic dimension %q%s", name,
				suggest.DidYouMean(suggest.Nearest(name, maps.Keys(g.Symbols))))
		}
		if _, isDuplicate := sizes[symbol]; isDuplicate {
			return nil, fmt.Errorf("the size %s is given twice: %s is another name of %s", symbol,
				g.Symbols[symbol].NameInFile, symbol)
		}
		sizes[symbol] = given[name]
	}
	return sizes, nil
}

// SymbolNamed returns the symbol that has the given name in the graph or in the file ([Bounds.NameInFile]). ok is false
// if no symbol has that name.
func (g *Graph) SymbolNamed(name string) (symbol string, ok bool) {
	if _, ok := g.Symbols[name]; ok {
		return name, true
	}
	for symbol, bounds := range g.Symbols {
		if bounds.NameInFile == name && name != "" {
			return symbol, true
		}
	}
	return "", false
}

// bindSymbols sets g.sizes: a given or an assumed size for each symbol.
func (g *Graph) bindSymbols(sizes map[string]int) error {
	g.sizes = map[string]sym.Int{}
	for _, name := range sorted.Keys(g.Symbols) {
		bounds := g.Symbols[name]
		size, ok := sizes[name]
		if ok {
			g.clearAssumed(name)
		} else {
			size = bounds.assumedSize()
			g.Assume(name, size)
		}
		if size < bounds.Min || bounds.Max > 0 && size > bounds.Max {
			return fmt.Errorf("%s=%d is outside its bounds: %s", g.SymbolText(name), size, bounds.text())
		}
		g.sizes[name] = sym.Of(size)
	}
	return nil
}

// assumedSize returns the size that an unbound symbol gets in [Graph.Bind].
func (b Bounds) assumedSize() int {
	if b.Hint != nil {
		return *b.Hint
	}
	return b.Clamp(2)
}

// Clamp returns the size nearest to n within the bounds.
func (b Bounds) Clamp(n int) int {
	if n = max(n, b.Min); b.Max > 0 {
		n = min(n, b.Max)
	}
	return n
}

// text formats the bounds for messages.
func (b Bounds) text() string {
	if b.Max > 0 {
		return fmt.Sprintf("min %d, max %d", b.Min, b.Max)
	}
	return fmt.Sprintf("min %d, no max", b.Min)
}

// SymbolText returns the text of a symbol for messages: its name, and also its name in the file if the two differ.
func (g *Graph) SymbolText(symbol string) string {
	if nameInFile := g.Symbols[symbol].NameInFile; nameInFile != "" && nameInFile != symbol {
		return fmt.Sprintf("%s (%s)", symbol, nameInFile)
	}
	return symbol
}

// setInputTypes sets the types of the inputs with symbolic dimensions from g.sizes.
func (g *Graph) setInputTypes() error {
	for _, v := range g.Inputs {
		if v.Dims == nil {
			continue
		}
		declared, err := v.decl.Type(g.sizes)
		if err != nil {
			return g.valueError(v, err)
		}
		v.Type = declared
		v.Meta, _ = declared.Meta() // the type has only numbers: g.sizes has a number for each symbol
	}
	return nil
}

// decodeAll decodes attributes that depend on symbols or are not yet decoded. Attributes that several nodes share are
// decoded once.
func (g *Graph) decodeAll() {
	decoded := map[*attributes]any{}
	for _, n := range g.Nodes {
		if n.Op == nil || n.Op.Schema == nil { // the op has no attributes
			continue
		}
		if n.Attrs != nil && !n.undecoded.dependOn(g.sizes) { // already decoded, independent of sizes
			continue
		}
		attrs, ok := decoded[n.undecoded]
		// n.undecoded is nil if no attribute is given. Nodes of different ops share this key, so each such node is
		// decoded separately.
		if !ok || n.undecoded == nil {
			attrs, _ = n.decode(g.sizes) // inference decodes again and reports the error
			decoded[n.undecoded] = attrs
		}
		n.Attrs = attrs
	}
}

// dependOn reports whether at least one of the attributes depends on one of the symbols.
func (a *attributes) dependOn(symbols map[string]sym.Int) bool {
	if a == nil {
		return false
	}
	for _, v := range a.given {
		if attrDependsOnAny(v, symbols) {
			return true
		}
	}
	return false
}

// ResultsFor infers a subgraph, such as the body of a loop, for inputs with the given metas. It returns the types of
// the outputs. All results have fresh storage. Results whose shapes depend on data are [Result.Dynamic].
func (g *Graph) ResultsFor(in []tensor.Meta) ([]Result, error) {
	bound, err := g.withInputs(in)
	if err != nil {
		return nil, err
	}
	// If sizes depend on data, unbacked is a copy with symbols for these sizes (see Unbacked). The copy has the same
	// outputs.
	unbacked := bound
	if bound.Dynamic() {
		unbacked = bound.Unbacked().Graph
	}
	results := make([]Result, len(bound.Outputs))
	for i, output := range bound.Outputs {
		if output.Value.Dynamic {
			// The outline has only the facts that are known before the run, such as the rank.
			results[i] = unbacked.Outputs[i].Value.outline().Result()
			continue
		}
		results[i] = Result{Type: output.Value.Meta.Type(), Alias: NoAlias}
	}
	return results, nil
}

// withInputs returns an inferred copy of the graph whose inputs have the given metas, in order.
func (g *Graph) withInputs(metas []tensor.Meta) (*Graph, error) {
	if len(metas) != len(g.Inputs) {
		return nil, fmt.Errorf("want %d inputs, got %d", len(g.Inputs), len(metas))
	}
	bound := g.Clone()
	for i, v := range bound.Inputs {
		if err := metas[i].Check(); err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		bound.sizes = v.bindTo(metas[i].Shape, bound.sizes)
		v.SetMeta(metas[i])
		v.Dims, v.Dynamic = nil, false
	}
	if !maps.EqualFunc(bound.sizes, g.sizes, sym.Int.Same) {
		bound.decodeAll()
	}
	return bound, bound.inlineAndInfer()
}

// bindTo sets the sizes of the symbols of input v from shape. sizes has the sizes so far, by symbol. bindTo returns
// sizes, or a changed copy if a size differs. If shape has another rank than v, bindTo sets no sizes.
func (v *Value) bindTo(shape []int, sizes map[string]sym.Int) map[string]sym.Int {
	if len(shape) != len(v.Dims) {
		return sizes
	}
	isCopied := false
	for i, dim := range v.Dims {
		if dim.Symbol == "" || sizes[dim.Symbol].Same(sym.Of(shape[i])) {
			continue
		}
		if !isCopied {
			sizes, isCopied = maps.Clone(sizes), true
			if sizes == nil {
				sizes = map[string]sym.Int{}
			}
		}
		sizes[dim.Symbol] = sym.Of(shape[i])
	}
	return sizes
}

// Assumed returns a new map with the assumed size of each symbol whose size was not given ([Graph.Bind]). Results and
// plans depend on these sizes. Symbols of the graph on which no input or attribute depends are omitted. A symbol that
// an importer replaced by a size is included: see [Graph.Assume].
func (g *Graph) Assumed() map[string]int {
	used := map[string]int{}
	for name, size := range g.assumed {
		if _, isDeclared := g.Symbols[name]; !isDeclared || g.usesSymbol(name) {
			used[name] = size
		}
	}
	return used
}

// Assume records that a symbol has an assumed size because none was given: see [Graph.Assumed]. The graph need not have
// the symbol. An importer may have replaced a symbol of the file by the size.
func (g *Graph) Assume(symbol string, size int) {
	g.assumed = maps.Clone(g.assumed) // copies of the graph do not see the change
	if g.assumed == nil {
		g.assumed = map[string]int{}
	}
	g.assumed[symbol] = size
}

// clearAssumed records that the size of a symbol was given, not assumed.
func (g *Graph) clearAssumed(symbol string) {
	g.assumed = maps.Clone(g.assumed)
	delete(g.assumed, symbol)
}

// usesSymbol reports whether an attribute, or the declaration of an input, depends on a symbol.
func (g *Graph) usesSymbol(symbol string) bool {
	for _, v := range g.Inputs {
		if v.Dims != nil && v.decl != nil && v.decl.DependsOn(symbol) {
			return true
		}
	}
	for _, n := range g.Nodes {
		for _, attr := range n.givenAttrs() {
			if attrDependsOn(attr, symbol) {
				return true
			}
		}
	}
	return false
}
