package onnxruntime_go

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
)

// source is a model: the path of a file, or the contents.
type source struct {
	path string
	data []byte
}

// graph converts the model. shapes may have shapes of inputs.
func (s source) graph(shapes map[string][]int) (*graph.Graph, error) {
	if err := check(); err != nil {
		return nil, err
	}
	loader := graphrun.Loader{Shapes: shapes}
	if s.path != "" {
		return loader.Load(context.Background(), s.path)
	}
	if len(s.data) == 0 {
		return nil, errors.New("there are no ONNX data")
	}
	return loader.Read(context.Background(), bytes.NewReader(s.data), "model.onnx")
}

// ModelMetadata describes a model.
type ModelMetadata struct {
	producer, graph, domain, description string
	version                              int64
	properties                           map[string]string
}

// metadata reads the metadata, and nothing else of the model.
func (s source) metadata() (*ModelMetadata, error) {
	if err := check(); err != nil {
		return nil, err
	}
	var r io.ReaderAt = bytes.NewReader(s.data)
	size := int64(len(s.data))
	if s.path != "" {
		file, err := os.Open(s.path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		r, size = file, info.Size()
	}
	if size == 0 {
		return nil, errors.New("there are no ONNX data")
	}
	m := &ModelMetadata{properties: map[string]string{}}
	if err := m.read(r, size); err != nil {
		return nil, fmt.Errorf("%s: %w", cmp.Or(s.path, "model.onnx"), err)
	}
	return m, nil
}

// read sets the fields from the message ModelProto.
func (m *ModelMetadata) read(r io.ReaderAt, size int64) error {
	return eachField(r, 0, size, func(number, value uint64, from, to int64) error {
		switch number {
		case 2:
			return readText(&m.producer, r, from, to)
		case 4:
			return readText(&m.domain, r, from, to)
		case 5:
			m.version = int64(value)
		case 6:
			return readText(&m.description, r, from, to)
		case 7: // GraphProto
			return eachField(r, from, to, func(number, _ uint64, from, to int64) error {
				if number == 2 {
					return readText(&m.graph, r, from, to)
				}
				return nil
			})
		case 14: // StringStringEntryProto
			var entry [3]string
			err := eachField(r, from, to, func(number, _ uint64, from, to int64) error {
				return readText(&entry[min(number, 2)], r, from, to)
			})
			m.properties[entry[1]] = entry[2]
			return err
		}
		return nil
	})
}

// eachField calls visit for the fields of a protobuf message between two positions of r: with the number of the field,
// and with the value of an integer, or the positions of a nested message or a string.
func eachField(r io.ReaderAt, from, to int64, visit func(number, value uint64, from, to int64) error) error {
	for from < to {
		var buffer [2 * binary.MaxVarintLen64]byte
		n, err := r.ReadAt(buffer[:min(int64(len(buffer)), to-from)], from)
		if err != nil && err != io.EOF {
			return err
		}
		tag, tagBytes := binary.Uvarint(buffer[:n])
		value, valueBytes := binary.Uvarint(buffer[max(tagBytes, 0):n])
		start := from + int64(tagBytes)
		end := start
		switch wireType := tag & 7; {
		case tagBytes > 0 && wireType == 0 && valueBytes > 0:
			end += int64(valueBytes)
		case tagBytes > 0 && wireType == 1:
			end += 8
		case tagBytes > 0 && wireType == 2 && valueBytes > 0 && value <= uint64(to-start):
			start += int64(valueBytes)
			end = start + int64(value)
		case tagBytes > 0 && wireType == 5:
			end += 4
		}
		if end == from+int64(tagBytes) || end > to {
			return fmt.Errorf("not an ONNX model: the file is truncated, or has another format (byte %d)", from)
		}
		if err := visit(tag>>3, value, start, end); err != nil {
			return err
		}
		from = end
	}
	return nil
}

func readText(text *string, r io.ReaderAt, from, to int64) error {
	data := make([]byte, to-from)
	_, err := r.ReadAt(data, from)
	*text = string(data)
	if err == io.EOF {
		err = nil
	}
	return err
}

// GetModelMetadata returns the metadata of a file.
func GetModelMetadata(path string) (*ModelMetadata, error) { return source{path: path}.metadata() }

// GetModelMetadataWithOptions returns the metadata of a file.
func GetModelMetadataWithOptions(path string, options *SessionOptions) (*ModelMetadata, error) {
	return GetModelMetadata(path)
}

// GetModelMetadataWithONNXData returns the metadata of a model.
func GetModelMetadataWithONNXData(data []byte) (*ModelMetadata, error) {
	return source{data: data}.metadata()
}

// The following methods return the fields of the message ModelProto.

func (m *ModelMetadata) GetProducerName() (string, error) { return m.producer, nil }
func (m *ModelMetadata) GetGraphName() (string, error)    { return m.graph, nil }
func (m *ModelMetadata) GetDomain() (string, error)       { return m.domain, nil }
func (m *ModelMetadata) GetDescription() (string, error)  { return m.description, nil }
func (m *ModelMetadata) GetVersion() (int64, error)       { return m.version, nil }

// LookupCustomMetadataMap returns a property, and whether the model has it.
func (m *ModelMetadata) LookupCustomMetadataMap(key string) (string, bool, error) {
	value, ok := m.properties[key]
	return value, ok, nil
}

// GetCustomMetadataMapKeys returns the names of the properties, sorted.
func (m *ModelMetadata) GetCustomMetadataMapKeys() ([]string, error) {
	return slices.Sorted(maps.Keys(m.properties)), nil
}

// Destroy does nothing.
func (m *ModelMetadata) Destroy() error { return nil }

// InputOutputInfo describes an input or an output of a model.
type InputOutputInfo struct {
	Name         string
	OrtValueType ONNXType
	Dimensions   Shape // of a tensor; -1 for a size that differs between runs
	DataType     TensorElementDataType
}

// String returns a line of text.
func (n *InputOutputInfo) String() string {
	switch n.OrtValueType {
	case ONNXTypeTensor:
		return fmt.Sprintf("Tensor %q: %v, %v", n.Name, n.Dimensions, n.DataType)
	case ONNXTypeSequence:
		return fmt.Sprintf("Sequence %q", n.Name)
	case ONNXTypeMap:
		return fmt.Sprintf("Map %q", n.Name)
	}
	return fmt.Sprintf("%v: %q", n.OrtValueType, n.Name)
}

// infoOf describes a port.
func infoOf(p graph.Port) InputOutputInfo {
	if p.Labels.IsMap() {
		return InputOutputInfo{Name: p.Name, OrtValueType: ONNXTypeSequence}
	}
	info := InputOutputInfo{Name: p.Name, OrtValueType: ONNXTypeTensor, DataType: elementTypeOf(p.DType),
		Dimensions: Shape{}}
	if p.Labels.IsText() {
		info.DataType = TensorElementDataTypeString
	}
	for _, size := range p.Shape {
		info.Dimensions = append(info.Dimensions, int64(size))
	}
	return info
}

// isMap reports whether two inputs of a graph are the keys and the values of an input that is a map.
func isMap(keys, values graph.Port) bool {
	name, hasKeys := strings.CutSuffix(keys.Name, ".keys")
	return hasKeys && values.Name == name+".values" && len(keys.Shape) == 1 && len(values.Shape) == 1
}

// info describes the inputs without default and the outputs.
func (s source) info() (inputs, outputs []InputOutputInfo, err error) {
	g, err := s.graph(nil)
	if err != nil {
		return nil, nil, err
	}
	in, out, err := g.Ports(nil)
	if err != nil {
		return nil, nil, err
	}
	for i, port := range in {
		switch {
		case port.HasDefault || i > 0 && isMap(in[i-1], port):
		case i+1 < len(in) && isMap(port, in[i+1]):
			inputs = append(inputs, InputOutputInfo{Name: strings.TrimSuffix(port.Name, ".keys"), OrtValueType: ONNXTypeMap})
		default:
			inputs = append(inputs, infoOf(port))
		}
	}
	for _, port := range out {
		outputs = append(outputs, infoOf(port))
	}
	return inputs, outputs, nil
}

// GetInputOutputInfo describes the inputs and the outputs of a model.
func GetInputOutputInfo(path string) ([]InputOutputInfo, []InputOutputInfo, error) {
	return source{path: path}.info()
}

// GetInputOutputInfoWithOptions describes the inputs and the outputs of a model.
func GetInputOutputInfoWithOptions(path string, options *SessionOptions) ([]InputOutputInfo, []InputOutputInfo, error) {
	return GetInputOutputInfo(path)
}

// GetInputOutputInfoWithONNXData describes the inputs and the outputs of a model.
func GetInputOutputInfoWithONNXData(data []byte) ([]InputOutputInfo, []InputOutputInfo, error) {
	return source{data: data}.info()
}
