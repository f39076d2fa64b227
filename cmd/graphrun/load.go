package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// parseDims reads values of --dim: N=8.
func parseDims(list []string) (map[string]int, error) {
	dims := map[string]int{}
	for _, s := range list {
		name, size, ok := strings.Cut(s, "=")
		n, err := strconv.Atoi(size)
		if !ok || name == "" || err != nil || n < 0 {
			return nil, wrongf("--dim %s: want a symbol and its size, as in N=8", s)
		}
		dims[name] = n
	}
	return dims, nil
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

// named puts the file's name before an error that has no place in it.
func named(path string, err error) error {
	var one *graph.Error
	if errors.As(err, &one) && one.File != "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
