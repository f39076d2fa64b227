package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
)

// parseDims reads values of --dim: N=8. A symbol has one size.
func parseDims(list []string) (map[string]int, error) {
	dims := map[string]int{}
	for _, s := range list {
		name, size, ok := strings.Cut(s, "=")
		n, err := strconv.Atoi(size)
		if !ok || name == "" || err != nil || n < 0 {
			return nil, wrongf("--dim %s: want a symbol and its size, as in N=8", s)
		}
		if other, twice := dims[name]; twice {
			return nil, wrongf("--dim gives %s twice: %d and %d", name, other, n)
		}
		dims[name] = n
	}
	return dims, nil
}

// sweepOf reads values of --dim that may have several sizes, N=1,2,4, and returns every combination as values that
// have one each; the last symbol changes fastest.
func sweepOf(list []string) ([][]string, error) {
	all := [][]string{nil}
	for _, s := range list {
		name, sizes, _ := strings.Cut(s, "=")
		var more [][]string
		each := strings.Split(sizes, ",")
		for _, combination := range all {
			for i, size := range each {
				if slices.Contains(each[:i], size) {
					return nil, wrongf("--dim %s: %s is there twice", s, size)
				}
				more = append(more, append(slices.Clip(combination), name+"="+size))
			}
		}
		all = more
	}
	for _, combination := range all {
		if _, err := parseDims(combination); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkDims refuses sizes of symbols that there are not.
func checkDims(path string, dims map[string]int, symbols map[string]graph.Bounds) error {
	g := &graph.Graph{Symbols: symbols}
	known := slices.Sorted(maps.Keys(symbols))
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		if _, ok := g.SymbolNamed(name); ok {
			continue
		}
		hint := didYouMean(name, known)
		if hint == "" {
			all := make([]string, len(known))
			for i, symbol := range known {
				all[i] = g.SymbolText(symbol)
			}
			hint = "; it has " + strings.Join(all, ", ")
		}
		if len(known) == 0 {
			hint = ": all its sizes are numbers"
		}
		return wrongf("--dim %s=%d: %s has no symbolic dimension %q%s", name, dims[name], path, name, hint)
	}
	return nil
}

// openFile reads a graph file or a model, with sizes still open but for those of --dim. With some it
// goes on past what is wrong.
func openFile(ctx context.Context, path string, dims []string, some bool) (*graphrun.File, error) {
	bound, err := parseDims(dims)
	if err != nil {
		return nil, err
	}
	l := graphrun.Loader{Sizes: bound, KeepGoing: some, Lookup: own.lookup, Operators: own.operators}
	f, err := l.OpenContext(ctx, path)
	if err != nil {
		return nil, wrong(err)
	}
	return f, checkDims(path, f.Loader.Sizes, f.Symbols())
}

// graphOf returns the graph of a file, with all sizes bound, and what was read past. It is yet to be
// inferred.
func graphOf(ctx context.Context, f *graphrun.File) (g *graph.Graph, missing graph.Errors, err error) {
	g, err = f.GraphContext(ctx)
	if err != nil && (g == nil || !errors.As(err, &missing)) {
		return nil, nil, wrong(err)
	}
	return g, missing, nil
}

// openGraph is openFile and graphOf.
func openGraph(ctx context.Context, path string, dims []string, some bool) (*graph.Graph, graph.Errors, error) {
	f, err := openFile(ctx, path, dims, some)
	if err != nil {
		return nil, nil, err
	}
	return graphOf(ctx, f)
}

// loadGraph reads, binds and infers a graph file or a model.
func loadGraph(ctx context.Context, path string, dims []string) (*graph.Graph, error) {
	g, _, err := openGraph(ctx, path, dims, false)
	if err != nil {
		return nil, err
	}
	return g, inferStrictly(ctx, g)
}

// loadPinned is loadGraph with the pins of the command line.
func loadPinned(ctx context.Context, path string, dims, pins []string) (*graph.Graph, error) {
	g, err := loadGraph(ctx, path, dims)
	if err == nil {
		err = applyPins(ctx, g, pins)
	}
	return g, err
}

// loadFor reads a graph file or a model and the values that files give for its inputs, whose
// shapes bind its symbols together with those of --dim. It is yet to be inferred.
func loadFor(ctx context.Context, src sources, path string, dims []string) (*graph.Graph, *given, error) {
	f, err := openFile(ctx, path, dims, src.keepGoing)
	if err != nil {
		return nil, nil, err
	}
	given, err := src.read(f.Inputs())
	if err != nil {
		return nil, nil, err
	}
	g, err := bindGiven(ctx, f, given)
	if err != nil {
		given.close()
		return nil, nil, err
	}
	return g, given, nil
}

// named puts the file's name before an error that has no place in it.
func named(path string, err error) error {
	var one *graph.Error
	if errors.As(err, &one) && one.File != "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
