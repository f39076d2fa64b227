package batch

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/arrays"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// extensions are the file extensions of supported inputs.
var extensions = []string{".npz", ".npy", ".png", ".jpg", ".jpeg", ".csv", ".jsonl", ".ndjson"}

// decoder converts the contents of files to inputs of a graph.
type decoder struct {
	graph  *graph.Graph
	images Images
}

// decode returns the inputs of a run as row-major tensors, by name. The extension of path determines the format.
func (d *decoder) decode(path string, data []byte) (map[string]*tensor.Tensor, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".npz":
		return d.decodeArchive(path, data)
	case ".npy":
		v, err := d.onlyInput("an .npy file")
		if err != nil {
			return nil, err
		}
		t, err := npz.ReadNPY(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return nil, err
		}
		t, err = d.convert(v, t)
		return map[string]*tensor.Tensor{v.Name: t}, err
	case ".png", ".jpg", ".jpeg":
		in, err := imageInputOf(d.graph)
		if err != nil {
			return nil, err
		}
		t, err := d.images.decode(data, in)
		return map[string]*tensor.Tensor{in.value.Name: t}, err
	case ".csv":
		return d.decodeCSV(data)
	case ".jsonl", ".ndjson":
		return d.decodeJSONLines(data)
	default:
		return nil, fmt.Errorf("the extension %q is not supported: want one of %s", ext, strings.Join(extensions, ", "))
	}
}

// onlyInput returns the input of a graph with a single input. format names the file format in the error.
func (d *decoder) onlyInput(format string) (*graph.Value, error) {
	if n := len(d.graph.Inputs); n != 1 {
		return nil, fmt.Errorf("the model has %d inputs, but %s has only one array", n, format)
	}
	return d.graph.Inputs[0], nil
}

// decodeArchive decodes an .npz file. Its keys are the names of inputs.
func (d *decoder) decodeArchive(path string, data []byte) (map[string]*tensor.Tensor, error) {
	archive, err := npz.NewArchive(filepath.Base(path), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	in := map[string]*tensor.Tensor{}
	for _, v := range d.graph.Inputs {
		if !slices.Contains(archive.Names(), v.Name) {
			return nil, fmt.Errorf("the file has no array for input %q; it has %s", v.Name, strings.Join(archive.Names(), ", "))
		}
		t, err := archive.Read(v.Name)
		if err != nil {
			return nil, err
		}
		if in[v.Name], err = d.convert(v, t); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// convert returns array t as a row-major tensor with the dtype of input v. Strings become integer codes.
func (d *decoder) convert(v *graph.Value, t *tensor.Tensor) (_ *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	labels := d.graph.Labels[v.Name]
	switch {
	case labels.Strings != nil && arrays.IsText(t.Meta, v):
		return arrays.Encode(t, labels, t.Shape[:t.Rank()-1])
	case !arrays.IsCompatible(t.DType, v.Meta.DType):
		return nil, fmt.Errorf("input %q: the array has dtype %v, want %v", v.Name, t.DType, v.Meta.DType)
	}
	t = t.Contiguous()
	if t.DType != v.Meta.DType {
		return t.View(t.Meta.WithDType(v.Meta.DType))
	}
	return t, nil
}

// rowShape returns the shape of a row of an input: the declared shape without the first dimension. A symbolic
// dimension has size -1.
func rowShape(v *graph.Value) ([]int, error) {
	shape := declaredShape(v)
	if len(shape) == 0 {
		return nil, fmt.Errorf("input %q is a scalar and has no rows", v.Name)
	}
	return shape[1:], nil
}

var errNoRows = errors.New("the file has no rows")
