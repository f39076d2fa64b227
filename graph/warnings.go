package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Assumed returns the sizes of symbols that nobody gave, by symbol: results and plans rest on
// them. It is empty once all are given ([Graph.Bind]); symbols that nothing depends on are
// left out. The map is the caller's.
func (g *Graph) Assumed() map[string]int {
	used := map[string]int{}
	for name, n := range g.assumed {
		if _, own := g.Symbols[name]; !own || g.uses(name) {
			used[name] = n
		}
	}
	return used
}

// Assume notes that a symbol of the file which the graph was made from has a size that
// nobody gave, and is no symbol of the graph any more. Importers call it.
func (g *Graph) Assume(symbol string, size int) {
	g.assumed = maps.Clone(g.assumed) // copies of the graph have their own
	if g.assumed == nil {
		g.assumed = map[string]int{}
	}
	g.assumed[symbol] = size
}

// wasGiven notes that somebody gave a symbol its size.
func (g *Graph) wasGiven(symbol string) {
	g.assumed = maps.Clone(g.assumed)
	delete(g.assumed, symbol)
}

// uses reports whether a size of an input or an attribute depends on a symbol.
func (g *Graph) uses(symbol string) bool {
	for _, v := range g.Inputs {
		if v.Dims != nil && v.decl != nil && v.decl.uses(symbol) {
			return true
		}
	}
	for _, n := range g.Nodes {
		for _, a := range n.written() {
			if attrUses(a, symbol) {
				return true
			}
		}
	}
	return false
}

// Warnings returns what a user should know of the graph that is no mistake: that it has no
// outputs, or that a part of it suits some sizes only. Each has its place or its node, as
// mistakes do. Copies of the graph, and what passes make of it, keep them.
func (g *Graph) Warnings() []*Error {
	list := append([]*Error(nil), g.warnings...)
	if len(g.Outputs) == 0 && !slices.ContainsFunc(list, func(e *Error) bool { return errors.Is(e, ErrNoOutputs) }) {
		list = append(list, &Error{Err: ErrNoOutputs})
	}
	return list
}

// ErrNoOutputs is the warning about a graph without outputs.
var ErrNoOutputs = errors.New("the graph has no outputs: a run of it gives nothing")

// Warn adds a warning about a node of the file that the graph was made from, by its name and
// op there; both are empty for one about the whole. One that is there already is not
// repeated.
func (g *Graph) Warn(node, op, format string, args ...any) {
	g.warn(&Error{Node: node, Op: op, Err: fmt.Errorf(format, args...)})
}

func (g *Graph) warn(e *Error) {
	if g.warned == nil {
		// A copy of a graph has the list in common with it, and adds to one of its own.
		g.warned, g.warnings = make(map[string]bool, len(g.warnings)+1), slices.Clip(g.warnings)
		for _, w := range g.warnings {
			g.warned[w.Error()] = true
		}
	}
	if text := e.Error(); !g.warned[text] {
		g.warned[text] = true
		g.warnings = append(g.warnings, e)
	}
}
