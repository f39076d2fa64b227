package batch

import (
	"bytes"
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

// decoder converts the contents of files to inputs of a graph. A file has the arrays of one run:
//   - an .npz file has an array for each input of the graph; the other formats do not override defaults,
//   - an .npy file has the array of the only input,
//   - an image is the only input, with the batch size 1 (images.go),
//   - a .csv or .jsonl file has one row of all inputs in each line (rows.go).
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
		return d.decodeArray(data)
	case ".png", ".jpg", ".jpeg":
		return d.decodeImage(data)
	case ".csv":
		return d.decodeCSV(data)
	case ".jsonl", ".ndjson":
		return d.decodeJSONLines(data)
	default:
		return nil, fmt.Errorf("the extension %q is not supported: want one of %s", ext, strings.Join(extensions, ", "))
	}
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
			if v.Default != nil {
				continue
			}
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

// decodeArray decodes an .npy file.
func (d *decoder) decodeArray(data []byte) (map[string]*tensor.Tensor, error) {
	inputs := requiredInputs(d.graph)
	if n := len(inputs); n != 1 {
		return nil, fmt.Errorf("the model has %d inputs, but an .npy file has only one array", n)
	}
	v := inputs[0]
	t, err := npz.ReadNPY(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	t, err = d.convert(v, t)
	return map[string]*tensor.Tensor{v.Name: t}, err
}

// requiredInputs returns the inputs without a default.
func requiredInputs(g *graph.Graph) []*graph.Value {
	return slices.DeleteFunc(slices.Clone(g.Inputs), func(v *graph.Value) bool { return v.Default != nil })
}

// decodeImage decodes a PNG or JPEG file.
func (d *decoder) decodeImage(data []byte) (map[string]*tensor.Tensor, error) {
	in, err := imageInputOf(d.graph)
	if err != nil {
		return nil, err
	}
	t, err := d.images.decode(data, in)
	return map[string]*tensor.Tensor{in.value.Name: t}, err
}

// convert returns array t as a row-major tensor with the dtype of input v. Strings become integer codes.
func (d *decoder) convert(v *graph.Value, t *tensor.Tensor) (_ *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	labels := d.graph.Labels[v.Name]
	switch {
	case labels.IsText() && arrays.IsText(t.Meta, v):
		return arrays.Encode(t, labels, t.Shape[:t.Rank()-1]) // the last dimension has the characters
	case !arrays.IsCompatible(t.DType, v.Meta.DType):
		return nil, fmt.Errorf("input %q: the array has dtype %v, want %v", v.Name, t.DType, v.Meta.DType)
	}
	t = t.Contiguous()
	if t.DType != v.Meta.DType {
		return t.View(t.Meta.WithDType(v.Meta.DType))
	}
	return t, nil
}
