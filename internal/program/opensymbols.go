package program

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
)

// This file finds the open symbols of a program: the symbols whose sizes come from the inputs of runs.

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
