package graphfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

// OpenConst finds a constant's data: the file, which is in the graph file's folder, and
// the key inside it, empty for a file of one array. It returns what the file's header says
// of the data, and what reads them: that is called only if dtype and shape are those that
// the graph file declares.
type OpenConst func(path, key string) (tensor.Meta, ReadConst, error)

// ReadConst reads the data of a constant that [OpenConst] found.
type ReadConst func() (*tensor.Tensor, error)

// Held is what an [OpenConst] returns for data that it has in memory.
func Held(t *tensor.Tensor) (tensor.Meta, ReadConst, error) {
	if t == nil {
		return tensor.Meta{}, nil, errors.New("the tensor is nil")
	}
	return t.Meta, func() (*tensor.Tensor, error) { return t, nil }, nil
}

// constFiles keeps files open while a graph loads: its constants are often many keys of
// one file.
type constFiles struct {
	archives map[string]*npz.Archive
	mapped   map[string]*safetensors.File
}

func newConstFiles() constFiles {
	return constFiles{archives: map[string]*npz.Archive{}, mapped: map[string]*safetensors.File{}}
}

// open finds one constant: see [OpenConst].
func (c constFiles) open(path, key string) (tensor.Meta, ReadConst, error) {
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

func (c constFiles) inArchive(path, key string) (tensor.Meta, ReadConst, error) {
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

func (c constFiles) inMapped(path, key string) (tensor.Meta, ReadConst, error) {
	f := c.mapped[path]
	if f == nil {
		// The mapping stays: tensors are in it.
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
