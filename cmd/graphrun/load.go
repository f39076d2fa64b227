package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

// parseGraph reads a graph file without inferring it. All errors are the file's.
func parseGraph(path string) (*graph.Graph, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, wrong(words.OfFile(path, err))
	}
	defer f.Close()
	files := constFiles{}
	defer files.close()
	g, err := graph.Parse(f, path, filepath.Dir(path), kernels.Lookup, files.open)
	if err != nil {
		return nil, wrong(err)
	}
	return g, nil
}

// constFiles keeps archives open while a graph loads: its constants are often many keys
// of one file.
type constFiles map[string]*npz.Archive

// open reads one constant: see [graph.OpenConst].
func (c constFiles) open(path, key string) (*tensor.Tensor, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".npy":
		if key != "" {
			return nil, fmt.Errorf("%s holds one array: \"key\" has no meaning", path)
		}
		return npz.ReadNPYFile(path)
	case ".npz":
		if key == "" {
			return nil, fmt.Errorf("%s holds several arrays: \"key\" is missing", path)
		}
		if c[path] == nil {
			a, err := npz.Open(path)
			if err != nil {
				return nil, err
			}
			c[path] = a
		}
		return c[path].Read(key)
	case ".safetensors":
		if key == "" {
			return nil, fmt.Errorf("%s holds several tensors: \"key\" is missing", path)
		}
		// The mapping stays: tensors lie in it.
		f, err := safetensors.Open(path)
		if err != nil {
			return nil, err
		}
		return f.Tensor(key)
	}
	return nil, fmt.Errorf("%s: want a .npy, .npz or .safetensors file", path)
}

func (c constFiles) close() {
	for _, a := range c {
		a.Close()
	}
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

// openGraph reads a graph file or a model, with all sizes bound. It is yet to be inferred.
func openGraph(path string, dims []string) (*graph.Graph, error) {
	bound, err := parseDims(dims)
	if err != nil {
		return nil, err
	}
	if isONNX(path) {
		return loadModel(path, bound)
	}
	g, err := parseGraph(path)
	if err != nil {
		return nil, err
	}
	if err := checkDims(path, bound, g.Symbols); err != nil {
		return nil, err
	}
	if err := g.BindOnly(bound); err != nil {
		return nil, wrong(named(path, err))
	}
	return g, nil
}

// loadGraph reads, binds and infers a graph file or a model.
func loadGraph(path string, dims []string) (*graph.Graph, error) {
	g, err := openGraph(path, dims)
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
func loadFor(src sources, path string, list []string) (*graph.Graph, map[string]*tensor.Tensor, error) {
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
func loadGraphFor(src sources, path string, dims map[string]int) (*graph.Graph, map[string]*tensor.Tensor, error) {
	g, err := parseGraph(path)
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
	if err := dimsOf(g, given, dims); err != nil {
		return nil, nil, err
	}
	if err := g.BindOnly(dims); err != nil {
		return nil, nil, wrong(named(path, err))
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
