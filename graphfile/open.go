package graphfile

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

// OpenConst finds the data of a constant. path is the path of the file, relative to the folder of the graph file. key
// is the name of the array in the file, or empty for a file with one array. It returns the meta in the file's header,
// and a function that reads the data. The loader calls this function only if dtype and shape equal the declaration in
// the graph file.
type OpenConst func(path, key string) (tensor.Meta, ReadConst, error)

// ReadConst reads the data of a constant that [OpenConst] found.
type ReadConst func() (*tensor.Tensor, error)

// Held returns the results of an [OpenConst] for a tensor that is already in memory.
func Held(t *tensor.Tensor) (tensor.Meta, ReadConst, error) {
	if t == nil {
		return tensor.Meta{}, nil, errors.New("the tensor is nil")
	}
	return t.Meta, func() (*tensor.Tensor, error) { return t, nil }, nil
}

// constFiles keeps the files of constants open while a graph loads, because a file usually has many constants.
type constFiles struct {
	folder           files.Folder
	archives         map[string]*npz.Archive
	safetensorsFiles map[string]*safetensors.File
	opened           []files.File
}

// newConstFiles returns the files of a folder, without opening them.
func newConstFiles(folder files.Folder) *constFiles {
	return &constFiles{folder: folder, archives: map[string]*npz.Archive{},
		safetensorsFiles: map[string]*safetensors.File{}}
}

// open is the default [OpenConst].
func (c *constFiles) open(path, key string) (tensor.Meta, ReadConst, error) {
	ext := strings.ToLower(filepath.Ext(path))
	var err error
	switch {
	case ext != ".npy" && ext != ".npz" && ext != ".safetensors":
		err = fmt.Errorf("%s: want a .npy, .npz or .safetensors file", path)
	case ext == ".npy" && key != "":
		err = fmt.Errorf("%s holds one array: \"key\" has no meaning", path)
	case ext == ".npy":
		meta, err := readFile(c.folder, path, npz.NPYMeta)
		return meta, func() (*tensor.Tensor, error) { return readFile(c.folder, path, npz.ReadNPY) }, err
	case key == "":
		err = fmt.Errorf("%s holds several arrays: \"key\" is missing", path)
	case ext == ".npz":
		return c.findInArchive(path, key)
	default:
		return c.findInSafetensors(path, key)
	}
	return tensor.Meta{}, nil, err
}

// findInArchive finds an array of an .npz archive. It opens each archive once.
func (c *constFiles) findInArchive(path, key string) (tensor.Meta, ReadConst, error) {
	archive := c.archives[path]
	if archive == nil {
		f, err := c.folder.Open(path)
		if err != nil {
			return tensor.Meta{}, nil, err
		}
		c.opened = append(c.opened, f)
		if archive, err = npz.NewArchive(path, f, f.Size); err != nil {
			return tensor.Meta{}, nil, err
		}
		c.archives[path] = archive
	}
	meta, err := archive.Meta(key)
	// ReadAs fails if the array does not have this meta.
	return meta, func() (*tensor.Tensor, error) { return archive.ReadAs(key, meta) }, err
}

// findInSafetensors finds a tensor of a .safetensors file. It opens each file once.
func (c *constFiles) findInSafetensors(path, key string) (tensor.Meta, ReadConst, error) {
	openedTensors := c.safetensorsFiles[path]
	if openedTensors == nil {
		file, err := c.folder.Open(path)
		if err != nil {
			return tensor.Meta{}, nil, err
		}
		c.opened = append(c.opened, file)
		if openedTensors, err = safetensors.NewFile(path, file, file.Size); err != nil {
			return tensor.Meta{}, nil, err
		}
		c.safetensorsFiles[path] = openedTensors
	}
	meta, ok := openedTensors.Meta(key)
	if !ok { // the error of Tensor lists the keys
		_, err := openedTensors.Tensor(key)
		return meta, nil, err
	}
	return meta, func() (*tensor.Tensor, error) { return openedTensors.Tensor(key) }, nil
}

// readFile reads a file of a folder. The errors name the file.
func readFile[T any](folder files.Folder, path string, read func(io.Reader, int64) (T, error)) (t T, err error) {
	defer tensor.CatchMemory(&err)
	f, err := folder.Open(path)
	if err != nil {
		return t, err
	}
	defer f.Close()
	if t, err = read(f.Reader(), f.Size); err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// close closes all opened files.
func (c *constFiles) close() {
	for _, f := range c.opened {
		f.Close()
	}
}
