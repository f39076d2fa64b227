package graphrun

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

// constFiles keeps files open while a graph loads: its constants are often many keys of one file.
type constFiles struct {
	archives map[string]*npz.Archive
	mapped   map[string]*safetensors.File
}

func newConstFiles() constFiles {
	return constFiles{archives: map[string]*npz.Archive{}, mapped: map[string]*safetensors.File{}}
}

// open finds one constant: see [graph.OpenConst].
func (c constFiles) open(path, key string) (tensor.Meta, graph.ReadConst, error) {
	ext := strings.ToLower(filepath.Ext(path))
	var err error
	switch {
	case ext != ".npy" && ext != ".npz" && ext != ".safetensors":
		err = fmt.Errorf("%s: want a .npy, .npz or .safetensors file", path)
	case ext == ".npy" && key != "":
		err = fmt.Errorf("%s holds one array: \"key\" has no meaning", path)
	case ext == ".npy":
		m, err := npz.NPYFileMeta(path)
		return m, func() (*tensor.Tensor, error) { return npz.ReadNPYFile(path) }, err
	case key == "":
		err = fmt.Errorf("%s holds several arrays: \"key\" is missing", path)
	case ext == ".npz":
		return c.inArchive(path, key)
	default:
		return c.inMapped(path, key)
	}
	return tensor.Meta{}, nil, err
}

func (c constFiles) inArchive(path, key string) (tensor.Meta, graph.ReadConst, error) {
	a := c.archives[path]
	if a == nil {
		var err error
		if a, err = npz.Open(path); err != nil {
			return tensor.Meta{}, nil, err
		}
		c.archives[path] = a
	}
	m, err := a.Meta(key)
	return m, func() (*tensor.Tensor, error) { return a.ReadAs(key, m) }, err
}

func (c constFiles) inMapped(path, key string) (tensor.Meta, graph.ReadConst, error) {
	f := c.mapped[path]
	if f == nil {
		// The mapping stays: tensors lie in it.
		var err error
		if f, err = safetensors.Open(path); err != nil {
			return tensor.Meta{}, nil, err
		}
		c.mapped[path] = f
	}
	m, ok := f.Meta(key)
	if !ok {
		_, err := f.Tensor(key)
		return m, nil, err
	}
	return m, func() (*tensor.Tensor, error) { return f.Tensor(key) }, nil
}

func (c constFiles) close() {
	for _, a := range c.archives {
		a.Close()
	}
}
