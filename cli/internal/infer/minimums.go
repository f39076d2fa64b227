package infer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/graph"
)

// RaisedMinimums lists symbols for which a greater minimum removes guards.
type RaisedMinimums struct {
	Symbols   []string `json:"symbols" doc:"The symbols whose minimum is raised."`
	Min       int      `json:"min" doc:"Their minimum: 2."`
	Disappear int      `json:"disappear" doc:"The number of guards that it removes."`
	Of        int      `json:"of" doc:"The number of guards without it."`
}

func (f *RaisedMinimums) String() string {
	list := make([]string, len(f.Symbols))
	for i, name := range f.Symbols {
		list[i] = fmt.Sprintf("%s: {\"min\": %d}", strconv.Quote(name), f.Min)
	}
	verb := "disappear"
	if f.Disappear == 1 {
		verb = "disappears"
	}
	return fmt.Sprintf("with %s %d of %s %s", strings.Join(list, ", "), f.Disappear, format.Count(f.Of, "guard"), verb)
}

const (
	// raisedMin is the minimum that is tried. With sizes of at least 2, no dimension is empty or broadcast.
	raisedMin = 2
	// maxRaised bounds the symbols that are tried one by one, each with an inference of the graph.
	maxRaised = 16
)

// raisedMinimumsOf infers the graph again with raised minimums if inference s has guards. It returns a small set of
// symbols. If only their minimums are raised, the number of removed guards is the same as if the minimums of all
// symbols are raised. It returns nil if no guard disappears.
func raisedMinimumsOf(g *graph.Graph, s *graph.Symbolic, errs []*graph.Error, classes bool) *RaisedMinimums {
	if s == nil || s.Cut != nil {
		return nil
	}
	f := &RaisedMinimums{Min: raisedMin, Of: len(GuardsOf(s))}
	if f.Of == 0 {
		return nil
	}
	assumed := g.Assumed()
	for _, name := range slices.Sorted(maps.Keys(g.Symbols)) {
		if assumed[name] >= raisedMin && g.Symbols[name].Min < raisedMin {
			f.Symbols = append(f.Symbols, name)
		}
	}
	if len(f.Symbols) == 0 {
		return nil
	}
	left := func(symbols []string) int {
		raised := g.Clone()
		raised.Symbols = maps.Clone(g.Symbols)
		for _, name := range symbols {
			b := raised.Symbols[name]
			b.Min = raisedMin
			raised.Symbols[name] = b
		}
		if again, err := SymbolicOf(raised, errs, classes); err == nil && again != nil && again.Cut == nil {
			return len(GuardsOf(again))
		}
		return f.Of
	}
	least := left(f.Symbols)
	if least >= f.Of {
		return nil
	}
	if len(f.Symbols) > 1 && len(f.Symbols) <= maxRaised {
		for _, name := range slices.Clone(f.Symbols) {
			others := slices.DeleteFunc(slices.Clone(f.Symbols), func(s string) bool { return s == name })
			if len(others) == 0 {
				break
			}
			if n := left(others); n <= least {
				f.Symbols, least = others, n
			}
		}
	}
	f.Disappear = f.Of - least
	return f
}
