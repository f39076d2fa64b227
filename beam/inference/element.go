package inference

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

// Element has the inputs or outputs of one run. It is encoded in the safetensors format, which has no complex128.
type Element struct {
	// Name identifies the element in errors and names of files. An output has the name of its input.
	Name string
	// Tensors has the tensors by name. In an input, the name "" stands for the only input of the model. Strings are
	// tensors with one more dimension, for the characters, as npz.Strings describes. Tensors must not be changed: other
	// transforms may read them.
	Tensors map[string]*tensor.Tensor
}

// Failure is an element that could not be read or run.
type Failure struct {
	Name  string // name of the element
	Error string
}

// nameKey is the key of Element.Name in the metadata of the encoding.
const nameKey = "name"

func init() {
	beam.RegisterType(reflect.TypeFor[Element]())
	beam.RegisterType(reflect.TypeFor[Failure]())
	beam.RegisterCoder(reflect.TypeFor[Element](), encodeElement, decodeElement)
}

func encodeElement(element Element) ([]byte, error) {
	var list []safetensors.Entry
	for name, t := range element.Tensors {
		list = append(list, safetensors.Entry{Name: name, Tensor: t})
	}
	var data bytes.Buffer
	if err := safetensors.Write(&data, list, map[string]string{nameKey: element.Name}); err != nil {
		return nil, fmt.Errorf("element %q: %w", element.Name, err)
	}
	return data.Bytes(), nil
}

// decodeElement copies the tensors, because the runner may reuse data.
func decodeElement(data []byte) (Element, error) {
	file, err := safetensors.Parse(bytes.Clone(data))
	if err != nil {
		return Element{}, err
	}
	element := Element{Name: file.Metadata()[nameKey], Tensors: map[string]*tensor.Tensor{}}
	for _, name := range file.Names() {
		if element.Tensors[name], err = file.Tensor(name); err != nil {
			return Element{}, fmt.Errorf("element %q: %w", element.Name, err)
		}
	}
	return element, nil
}
