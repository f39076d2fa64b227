package infer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
)

// RaisedMinimums describes how many guards disappear if the file declares a higher minimum for some symbols.
type RaisedMinimums struct {
	Symbols []string `json:"symbols" doc:"The symbols whose minimum is raised."`
	Min     int      `json:"min" doc:"The raised minimum, which is 2."`
	Removed int      `json:"disappear" doc:"The number of guards that disappear with the raised minimum."`
	Guards  int      `json:"of" doc:"The number of guards with the present minimums."`
}

// String returns the note for users.
func (m *RaisedMinimums) String() string {
	list := make([]string, len(m.Symbols))
	for i, name := range m.Symbols {
		list[i] = fmt.Sprintf("%s: {\"min\": %d}", strconv.Quote(name), m.Min)
	}
	verb := "disappear"
	if m.Removed == 1 {
		verb = "disappears"
	}
	return fmt.Sprintf("with %s, %d of %s %s", strings.Join(list, ", "), m.Removed, format.Count(m.Guards, "guard"),
		verb)
}

const (
	// raisedMin is the raised minimum. A dimension of size 2 or more is neither empty nor broadcast.
	raisedMin = 2
	// maxRaised is the maximum number of symbols for which raisedMinimumsOf looks for a smaller set of symbols. The search
	// infers the graph once for each symbol.
	maxRaised = 16
)

// raisedMinimumsOf finds symbols whose raised minimum makes guards disappear. symbolic is the inference with the
// present minimums, SymbolicOf(g, errs, allBranches); errs lists the nodes that inference rejected. raisedMinimumsOf
// infers the graph again, at first with raised minimums of all symbols. Then, for each symbol, it restores the present
// minimum. The minimum stays restored if no guard comes back. raisedMinimumsOf returns nil if symbolic is nil,
// incomplete or without guards, or if no guard disappears.
func raisedMinimumsOf(g *graph.Graph, symbolic *graph.Symbolic, errs []*graph.Error, allBranches bool) *RaisedMinimums {
	if symbolic == nil || symbolic.IncompleteReason != nil {
		return nil
	}
	result := &RaisedMinimums{Min: raisedMin, Guards: len(GuardsOf(symbolic))}
	if result.Guards == 0 {
		return nil
	}
	result.Symbols = raisableSymbols(g)
	if len(result.Symbols) == 0 {
		return nil
	}
	guardsWith := func(symbols []string) int { // the number of guards if the minimums of symbols are raised
		raised, err := SymbolicOf(withRaisedMinimums(g, symbols), errs, allBranches)
		if err == nil && raised != nil && raised.IncompleteReason == nil {
			return len(GuardsOf(raised))
		}
		return result.Guards // unknown: count no guard as removed
	}
	fewest := guardsWith(result.Symbols)
	if fewest >= result.Guards {
		return nil
	}
	if len(result.Symbols) > 1 && len(result.Symbols) <= maxRaised {
		for _, name := range slices.Clone(result.Symbols) {
			others := slices.DeleteFunc(slices.Clone(result.Symbols), func(s string) bool { return s == name })
			if len(others) == 0 {
				break
			}
			if n := guardsWith(others); n <= fewest {
				result.Symbols, fewest = others, n
			}
		}
	}
	result.Removed = result.Guards - fewest
	return result
}

// raisableSymbols returns the symbols whose minimum is below raisedMin and whose assumed size is at least raisedMin.
func raisableSymbols(g *graph.Graph) (names []string) {
	assumed := g.Assumed()
	for _, name := range sorted.Keys(g.Symbols) {
		// If the user gave a size for a symbol (Graph.Bind), assumed lacks the symbol, so that assumed[name] is 0.
		if assumed[name] >= raisedMin && g.Symbols[name].Min < raisedMin {
			names = append(names, name)
		}
	}
	return names
}

// withRaisedMinimums returns a copy of a graph in which the minimum of each given symbol is raisedMin.
func withRaisedMinimums(g *graph.Graph, symbols []string) *graph.Graph {
	raised := g.Clone()
	raised.Symbols = maps.Clone(g.Symbols)
	for _, name := range symbols {
		bounds := raised.Symbols[name]
		bounds.Min = raisedMin
		raised.Symbols[name] = bounds
	}
	return raised
}
