package serve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/tensor"
)

// This file decodes requests of the Open Inference Protocol, version 2. A request for inference is JSON, which may be
// followed by binary data. The JSON of this request has the elements of input x. The elements of input y, 24 bytes,
// follow the JSON:
//
//	{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[0.5,2]},
//	           {"name":"y","datatype":"FP32","shape":[2,3],"parameters":{"binary_data_size":24}}],
//	 "outputs":[{"name":"z","parameters":{"binary_data":true}}]}

// jsonLengthHeader is the HTTP header of the protocol's binary extension. It has the length in bytes of the JSON, which
// precedes the binary data.
const jsonLengthHeader = "Inference-Header-Content-Length"

// request is a decoded inference request.
type request struct {
	id      string
	inputs  map[string]*tensor.Tensor
	outputs []responseOutput
}

// responseOutput is an output of the model that the response contains.
type responseOutput struct {
	port   port
	binary bool // whether its data follow the JSON as bytes
}

// bytesType is the datatype of strings.
const bytesType = "BYTES"

// datatypes has the names of dtypes in the protocol. Complex numbers have no name.
var datatypes = map[tensor.DType]string{tensor.Bool: "BOOL", tensor.Uint8: "UINT8", tensor.Uint16: "UINT16",
	tensor.Uint32: "UINT32", tensor.Uint64: "UINT64", tensor.Int8: "INT8", tensor.Int16: "INT16", tensor.Int32: "INT32",
	tensor.Int64: "INT64", tensor.Float16: "FP16", tensor.BFloat16: "BF16", tensor.Float32: "FP32",
	tensor.Float64: "FP64"}

// port is an input or output of a model.
type port struct {
	name   string
	dtype  tensor.DType
	shape  []int        // -1 for a size that requests determine; nil if the rank depends on data
	labels graph.Labels // the strings that integer elements stand for, if any

	isOptional bool // whether the input has a default
}

// isText reports whether the elements of the port are strings.
func (p port) isText() bool { return p.labels.IsText() }

// datatype returns the name of the datatype in the protocol; "" if the protocol does not support it.
func (p port) datatype() string {
	if p.isText() {
		return bytesType
	}
	return datatypes[p.dtype]
}

// decodeRequest decodes the body of an inference request. The inputs consume the binary data in the order of the JSON.
// Their tensors may share memory with body; the total size of the tensors is at most a constant multiple of the size of
// body.
func (m *model) decodeRequest(header http.Header, body []byte) (*request, error) {
	jsonText, binaryData, err := splitBody(header, body)
	if err != nil {
		return nil, err
	}
	doc, err := m.parseDoc(jsonText)
	if err != nil {
		return nil, err
	}
	decoded := &request{id: doc.ID, inputs: map[string]*tensor.Tensor{}}
	for i := range doc.Inputs {
		in := &doc.Inputs[i]
		index := slices.IndexFunc(m.inputs, func(p port) bool { return p.name == in.Name })
		p := m.inputs[index]
		input, unread, err := p.decode(in, binaryData)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		decoded.inputs[in.Name], binaryData = input, unread
	}
	if len(binaryData) > 0 {
		return nil, fmt.Errorf("%d bytes follow the data of the last input", len(binaryData))
	}
	for _, p := range m.inputs {
		if decoded.inputs[p.name] == nil && !p.isOptional {
			return nil, fmt.Errorf("input %q is missing", p.name)
		}
	}
	m.chooseOutputs(decoded, doc)
	return decoded, nil
}

// splitBody divides the body of a request into JSON and binary data.
func splitBody(header http.Header, body []byte) (jsonText, binaryData []byte, err error) {
	text := header.Get(jsonLengthHeader)
	if text == "" {
		return body, nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > len(body) {
		return nil, nil, fmt.Errorf("%s is %q, but must be a number of bytes up to %d, the length of the body",
			jsonLengthHeader, text, len(body))
	}
	return body[:n], body[n:], nil
}

// maxKeptDoc is the maximum length, in bytes, of a JSON document that parseDoc keeps.
const maxKeptDoc = 4 << 10

// parsedDoc is the JSON of a request and its parsed form, which must not be changed.
type parsedDoc struct {
	text []byte
	doc  *requestDoc
}

// parseDoc parses the JSON of a request. It keeps the last result, because successive requests of the binary extension
// often have the same JSON.
func (m *model) parseDoc(text []byte) (*requestDoc, error) {
	if last := m.lastDoc.Load(); last != nil && bytes.Equal(last.text, text) {
		return last.doc, nil
	}
	isKept := len(text) <= maxKeptDoc
	if isKept {
		text = bytes.Clone(text) // doc shares its memory
	}
	doc, err := m.parseText(text)
	if isKept && err == nil {
		m.lastDoc.Store(&parsedDoc{text, doc})
	}
	return doc, err
}

// portNames lists the names of ports for messages.
func portNames(list []port) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

// decode returns the tensor of an input, and the bytes of binaryData that it has not read. If the data of the input are
// binary, they are the first bytes of binaryData.
func (p port) decode(doc *tensorDoc, binaryData []byte) (*tensor.Tensor, []byte, error) {
	if doc.Datatype != p.datatype() {
		return nil, nil, fmt.Errorf("the datatype is %.40q, but the model needs %s", doc.Datatype, p.datatype())
	}
	count, err := p.checkShape(doc.Shape)
	if err != nil {
		return nil, nil, err
	}
	if doc.Parameters.BinaryDataSize != nil {
		n := *doc.Parameters.BinaryDataSize
		if doc.Data != nil {
			return nil, nil, errors.New("the input has both data and binary_data_size")
		}
		if n < 0 || n > len(binaryData) {
			return nil, nil, fmt.Errorf("binary_data_size is %d, but %d bytes are left after the JSON", n, len(binaryData))
		}
		t, err := p.decodeBytes(binaryData[:n], doc.Shape, count)
		return t, binaryData[n:], err
	}
	if doc.Data == nil {
		return nil, nil, errors.New("the input has no data")
	}
	t, err := p.decodeJSON(doc.Data, doc.Shape, count)
	return t, binaryData, err
}

// checkShape checks a shape against the shape of the port, and returns the number of elements.
func (p port) checkShape(shape []int) (count int, err error) {
	if slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
		return 0, fmt.Errorf("the shape is %v, but sizes must not be negative", shape)
	}
	isAnyRank := p.shape == nil
	fits := isAnyRank || len(shape) == len(p.shape)
	for i := range shape {
		fits = fits && (isAnyRank || p.shape[i] < 0 || p.shape[i] == shape[i])
	}
	if !fits {
		return 0, fmt.Errorf("the shape is %v, but the model needs %v", shape, p.shape)
	}
	const maxElementBytes = 16 // the size of complex128
	count = 1
	product := 1 // of the sizes that are not 0: a tensor without elements has strides, too
	for _, n := range shape {
		if n > 0 && product > tensor.MaxBytes/maxElementBytes/n {
			return 0, fmt.Errorf("the shape %v has too many elements", shape)
		}
		count *= n
		product *= max(n, 1)
	}
	return count, nil
}

// decodeBytes decodes the data of the binary extension: little-endian elements in row-major order. The four bytes
// before each string have its length. count is the number of elements of the shape. The tensor shares memory with data
// if data is aligned.
func (p port) decodeBytes(data []byte, shape []int, count int) (*tensor.Tensor, error) {
	if p.isText() {
		return p.splitStrings(data, shape, count)
	}
	if size := p.dtype.Size(); len(data)%size != 0 || len(data)/size != count {
		return nil, fmt.Errorf("the data have %d bytes, want %d for %v", len(data), count*size, shape)
	}
	if p.dtype == tensor.Bool {
		if i := slices.IndexFunc(data, func(b byte) bool { return b > 1 }); i >= 0 {
			return nil, fmt.Errorf("element %d is %d, want 0 or 1", i, data[i])
		}
	}
	swapBytes(data, p.dtype.Size())
	meta := tensor.New(p.dtype, shape...)
	if uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(p.dtype.Size()) == 0 {
		return tensor.FromStorage(meta, tensor.StorageOf(data))
	}
	t := tensor.Empty(meta)
	copy(t.Storage().Bytes(), data)
	return t, nil
}

// splitStrings is [port.decodeBytes] for strings.
func (p port) splitStrings(data []byte, shape []int, count int) (*tensor.Tensor, error) {
	const lengthBytes = 4
	if count > len(data)/lengthBytes { // limits the memory of the tensor by the size of the body
		return nil, fmt.Errorf("the data have fewer strings than the shape %v", shape)
	}
	texts, result, n := p.labels.Texts.With(), tensor.Empty(tensor.New(tensor.Int64, shape...)), 0
	result.SetTexts(texts)
	for ; len(data) > 0; n++ {
		if len(data) < lengthBytes || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-lengthBytes) {
			return nil, errors.New("the length of a string exceeds the data")
		}
		if n == count {
			return nil, fmt.Errorf("the data have more than %d strings, the number of elements of the shape %v", count, shape)
		}
		end := lengthBytes + int(binary.LittleEndian.Uint32(data))
		setCode(result, n, texts.Code(string(data[lengthBytes:end])))
		data = data[end:]
	}
	if n != count {
		return nil, fmt.Errorf("the data have %d strings, want %d for the shape %v", n, count, shape)
	}
	return result, nil
}

// setCode sets element n of a row-major int64 tensor.
func setCode(t *tensor.Tensor, n int, code int64) {
	const codeBytes = 8
	binary.NativeEndian.PutUint64(t.Storage().Bytes()[n*codeBytes:], uint64(code))
}

// bigEndian reports whether the machine is big-endian. The protocol is little-endian.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// swapBytes converts elements between the byte orders of the machine and the protocol.
func swapBytes(data []byte, size int) {
	if !bigEndian || size == 1 {
		return
	}
	for i := 0; i < len(data); i += size {
		slices.Reverse(data[i : i+size])
	}
}

// decodeJSON decodes the data of a tensor: a list of elements in row-major order, flat or nested. count is the number
// of elements of the shape.
func (p port) decodeJSON(data []byte, shape []int, count int) (*tensor.Tensor, error) {
	// An element takes at least two characters: itself, and a comma or bracket. The check limits the memory of the tensor
	// by the size of the body.
	if count > len(data)/2 {
		return nil, fmt.Errorf("the data have fewer elements than the shape %v", shape)
	}
	elements := elementScanner{data: data, shape: shape}
	if p.isText() {
		return p.decodeStrings(&elements, shape, count)
	}
	result := tensor.Empty(tensor.New(p.dtype, shape...))
	set := numerals.Setter(p.dtype) // parses a text and stores the element
	elementBytes, size, index := result.Storage().Bytes(), p.dtype.Size(), 0
	for text := range elements.all {
		if index < count {
			if err := set(elementBytes[index*size:], text); err != nil {
				return nil, fmt.Errorf("element %d, %.40s: %w", index, text, err)
			}
		}
		index++
	}
	if elements.err != nil || index != count {
		return nil, elementsError(elements.err, index, count, shape)
	}
	return result, nil
}

// decodeStrings is [port.decodeJSON] for strings.
func (p port) decodeStrings(elements *elementScanner, shape []int, count int) (*tensor.Tensor, error) {
	texts, result, n := p.labels.Texts.With(), tensor.Empty(tensor.New(tensor.Int64, shape...)), 0
	result.SetTexts(texts)
	var unquoted []byte
	for text := range elements.all {
		if n < count {
			var err error
			if unquoted, err = jsontext.AppendUnquote(unquoted[:0], text); err != nil {
				return nil, fmt.Errorf("element %d is not a string", n)
			}
			setCode(result, n, texts.Code(string(unquoted)))
		}
		n++
	}
	if elements.err != nil || n != count {
		return nil, elementsError(elements.err, n, count, shape)
	}
	return result, nil
}

// elementsError returns the error of a list of elements: the syntax error err or, if err is nil, the error that the
// list has n elements instead of count.
func elementsError(err error, n, count int, shape []int) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("the data have %d elements, want %d for the shape %v", n, count, shape)
}

// chooseOutputs sets the outputs that the request names, or all outputs if it names none.
func (m *model) chooseOutputs(decoded *request, doc *requestDoc) {
	binaryByDefault := doc.Parameters.BinaryDataOutput != nil && *doc.Parameters.BinaryDataOutput
	if len(doc.Outputs) == 0 {
		for _, p := range m.outputs {
			decoded.outputs = append(decoded.outputs, responseOutput{port: p, binary: binaryByDefault})
		}
		return
	}
	for _, output := range doc.Outputs {
		index := slices.IndexFunc(m.outputs, func(p port) bool { return p.name == output.Name })
		binary := binaryByDefault
		if output.Parameters.BinaryData != nil {
			binary = *output.Parameters.BinaryData
		}
		decoded.outputs = append(decoded.outputs, responseOutput{port: m.outputs[index], binary: binary})
	}
}
