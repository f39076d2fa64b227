package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/kernels"
)

// parseGraph reads a graph file without inferring it. All errors are the file's.
func parseGraph(path string) (g *graph.Graph, err error) {
	err = withFile(path, func(r io.Reader, o graphfile.Options) error {
		g, err = graphfile.Parse(r, kernels.Lookup, o)
		return err
	})
	return g, err
}

// parseSome is parseGraph that goes on past constants that cannot be read, which it
// returns, and nodes that are wrong.
func parseSome(path string) (g *graph.Graph, missing graph.Errors, err error) {
	err = withFile(path, func(r io.Reader, o graphfile.Options) error {
		g, missing, err = graphfile.ParseSome(r, kernels.Lookup, o)
		return err
	})
	return g, missing, err
}

// parserOf returns parseSome, or parseGraph in its form.
func parserOf(some bool) func(path string) (*graph.Graph, graph.Errors, error) {
	if some {
		return parseSome
	}
	return func(path string) (*graph.Graph, graph.Errors, error) {
		g, err := parseGraph(path)
		return g, nil, err
	}
}

// withFile opens a graph file for parse.
func withFile(path string, parse func(r io.Reader, o graphfile.Options) error) error {
	f, _, err := files.Open(path)
	if err != nil {
		return wrong(err)
	}
	defer f.Close()
	if err := parse(f, graphfile.Options{Name: path, Dir: filepath.Dir(path)}); err != nil {
		return wrong(err)
	}
	return nil
}

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

// checkDims refuses sizes of symbols that there are not.
func checkDims[T any](path string, dims map[string]int, symbols map[string]T) error {
	known := slices.Sorted(maps.Keys(symbols))
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		if slices.Contains(known, name) {
			continue
		}
		hint := didYouMean(name, known)
		if hint == "" {
			hint = "; it has " + strings.Join(known, ", ")
		}
		if len(known) == 0 {
			hint = ": all its sizes are numbers"
		}
		return wrongf("--dim %s=%d: %s has no symbolic dimension %q%s", name, dims[name], path, name, hint)
	}
	return nil
}

// openGraph reads a graph file or a model, with all sizes bound. It is yet to be inferred. With
// some it goes on past what is wrong: see [parseSome].
func openGraph(path string, dims []string, some bool) (_ *graph.Graph, missing graph.Errors, err error) {
	bound, err := parseDims(dims)
	if err != nil {
		return nil, nil, err
	}
	if isONNX(path) {
		return loadModel(path, bound, some)
	}
	g, missing, err := parserOf(some)(path)
	if err != nil {
		return nil, nil, err
	}
	if err := checkDims(path, bound, g.Symbols); err != nil {
		return nil, nil, err
	}
	if err := g.BindOnly(bound); err != nil {
		return nil, nil, wrong(named(path, err))
	}
	return g, missing, nil
}

// loadGraph reads, binds and infers a graph file or a model.
func loadGraph(path string, dims []string) (*graph.Graph, error) {
	g, _, err := openGraph(path, dims, false)
	if err != nil {
		return nil, err
	}
	if err := inferStrictly(g); err != nil {
		return nil, err
	}
	return g, nil
}

// loadFor reads a graph file or a model and the values that files give for its inputs, whose
// shapes bind its symbols together with those of --dim. It is yet to be inferred.
func loadFor(src sources, path string, list []string) (*graph.Graph, *given, error) {
	dims, err := parseDims(list)
	if err != nil {
		return nil, nil, err
	}
	if isONNX(path) {
		return loadModelFor(src, path, dims)
	}
	return loadGraphFor(src, path, dims)
}

// loadGraphFor reads a graph file and the values of its inputs, whose shapes bind its
// symbols together with dims.
func loadGraphFor(src sources, path string, dims map[string]int) (*graph.Graph, *given, error) {
	g, missing, err := parserOf(src.keepGoing)(path)
	if err != nil {
		return nil, nil, err
	}
	if err := checkDims(path, dims, g.Symbols); err != nil {
		return nil, nil, err
	}
	given, err := src.read(g)
	if err != nil {
		return nil, nil, err
	}
	given.missing = missing
	err = bindGiven(g, given, dims)
	if err == nil {
		if err = g.BindOnly(dims); err != nil {
			err = wrong(named(path, err))
		}
	}
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
