package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// headerLength is the header of the binary extension: the length of the JSON, after which the bytes of tensors follow.
const headerLength = "Inference-Header-Content-Length"

// requestDoc is the JSON of an inference request.
type requestDoc struct {
	ID         string          `json:"id"`
	Parameters parameters      `json:"parameters"`
	Inputs     []tensorDoc     `json:"inputs"`
	Outputs    []requestOutput `json:"outputs"`
}

type requestOutput struct {
	Name       string     `json:"name"`
	Parameters parameters `json:"parameters"`
}

// tensorDoc is a tensor of a request or a response.
type tensorDoc struct {
	Name       string          `json:"name"`
	Shape      []int           `json:"shape"`
	Datatype   string          `json:"datatype"`
	Parameters *parameters     `json:"parameters,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// parameters has the parameters of the binary extension. Other parameters are ignored.
type parameters struct {
	BinaryDataSize   *int  `json:"binary_data_size,omitempty"`
	BinaryData       *bool `json:"binary_data,omitempty"`
	BinaryDataOutput *bool `json:"binary_data_output,omitempty"`
}

type responseDoc struct {
	ModelName    string      `json:"model_name"`
	ModelVersion string      `json:"model_version"`
	ID           string      `json:"id,omitempty"`
	Outputs      []tensorDoc `json:"outputs"`
}

// request is a decoded inference request.
type request struct {
	id     string
	inputs map[string]*tensor.Tensor
	wants  []wantedOutput
}

// wantedOutput is an output that a request asks for.
type wantedOutput struct {
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
	shape  []int // -1 for a size that requests determine; nil if the rank depends on data
	labels graph.Labels
}

func (p port) isText() bool { return p.labels.Strings != nil }

func (p port) datatype() string {
	if p.isText() {
		return bytesType
	}
	return datatypes[p.dtype]
}

// decodeRequest decodes the body of an inference request. Tensors do not share memory with body. The memory that it
// takes is proportional to the size of body.
func (m *model) decodeRequest(header http.Header, body []byte) (*request, error) {
	var rest []byte
	if text := header.Get(headerLength); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > len(body) {
			return nil, fmt.Errorf("%s is %q, want a number of bytes up to %d, the length of the body", headerLength, text,
				len(body))
		}
		body, rest = body[:n], body[n:]
	}
	var doc requestDoc
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("the request is not valid JSON: %w", err)
	}
	r := &request{id: doc.ID, inputs: map[string]*tensor.Tensor{}}
	for i := range doc.Inputs {
		in := &doc.Inputs[i]
		j := slices.IndexFunc(m.inputs, func(p port) bool { return p.name == in.Name })
		switch {
		case j < 0:
			return nil, fmt.Errorf("the model has no input %q; its inputs are %s", in.Name, portNames(m.inputs))
		case r.inputs[in.Name] != nil:
			return nil, fmt.Errorf("input %q is given twice", in.Name)
		}
		t, remaining, err := m.inputs[j].decode(in, rest)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		r.inputs[in.Name], rest = t, remaining
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow the data of the last input", len(rest))
	}
	for _, p := range m.inputs {
		if r.inputs[p.name] == nil {
			return nil, fmt.Errorf("input %q is missing", p.name)
		}
	}
	return r, m.chooseOutputs(r, &doc)
}

// chooseOutputs sets the outputs that a request asks for: all outputs if it names none.
func (m *model) chooseOutputs(r *request, doc *requestDoc) error {
	all := doc.Parameters.BinaryDataOutput != nil && *doc.Parameters.BinaryDataOutput
	if len(doc.Outputs) == 0 {
		for _, p := range m.outputs {
			r.wants = append(r.wants, wantedOutput{p, all})
		}
		return nil
	}
	for _, output := range doc.Outputs {
		j := slices.IndexFunc(m.outputs, func(p port) bool { return p.name == output.Name })
		if j < 0 {
			return fmt.Errorf("the model has no output %q; its outputs are %s", output.Name, portNames(m.outputs))
		}
		if slices.ContainsFunc(r.wants, func(w wantedOutput) bool { return w.port.name == output.Name }) {
			return fmt.Errorf("output %q is requested twice", output.Name)
		}
		binary := all
		if output.Parameters.BinaryData != nil {
			binary = *output.Parameters.BinaryData
		}
		r.wants = append(r.wants, wantedOutput{m.outputs[j], binary})
	}
	return nil
}

func portNames(list []port) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

// decode returns the tensor of an input, and the bytes of rest that follow the tensor's data.
func (p port) decode(doc *tensorDoc, rest []byte) (*tensor.Tensor, []byte, error) {
	if doc.Datatype != p.datatype() {
		return nil, nil, fmt.Errorf("the datatype is %q, want %s", doc.Datatype, p.datatype())
	}
	count, err := p.checkShape(doc.Shape)
	if err != nil {
		return nil, nil, err
	}
	if doc.Parameters != nil && doc.Parameters.BinaryDataSize != nil {
		n := *doc.Parameters.BinaryDataSize
		if doc.Data != nil {
			return nil, nil, errors.New("it has both data and binary_data_size")
		}
		if n < 0 || n > len(rest) {
			return nil, nil, fmt.Errorf("binary_data_size is %d, but %d bytes are left after the JSON", n, len(rest))
		}
		t, err := p.decodeBytes(rest[:n], doc.Shape, count)
		return t, rest[n:], err
	}
	if doc.Data == nil {
		return nil, nil, errors.New("it has no data")
	}
	t, err := p.decodeJSON(doc.Data, doc.Shape, count)
	return t, rest, err
}

// checkShape checks a shape against that of the port, and returns the number of elements.
func (p port) checkShape(shape []int) (count int, err error) {
	fits := p.shape == nil || len(shape) == len(p.shape)
	for i := range shape {
		fits = fits && shape[i] >= 0 && (p.shape == nil || p.shape[i] < 0 || p.shape[i] == shape[i])
	}
	if !fits {
		return 0, fmt.Errorf("the shape is %v, want %v", shape, p.shape)
	}
	count = 1
	for _, n := range shape {
		if n > 0 && count > math.MaxInt32*16/n {
			return 0, fmt.Errorf("the shape %v has too many elements", shape)
		}
		count *= n
	}
	return count, nil
}

// decodeBytes decodes the data of the binary extension: elements in row-major order and little-endian, and strings with
// their length in four bytes before them.
func (p port) decodeBytes(data []byte, shape []int, count int) (*tensor.Tensor, error) {
	if p.isText() {
		var list []string
		for len(data) > 0 {
			if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
				return nil, errors.New("the length of a string exceeds the data")
			}
			n := int(binary.LittleEndian.Uint32(data))
			list, data = append(list, string(data[4:4+n])), data[4+n:]
		}
		if len(list) != count {
			return nil, fmt.Errorf("the data have %d strings, want %d for the shape %v", len(list), count, shape)
		}
		return p.labels.Encode(list, shape...)
	}
	if size := p.dtype.Size(); len(data)%size != 0 || len(data)/size != count {
		return nil, fmt.Errorf("the data have %d bytes, want %d for %v", len(data), count*size, shape)
	}
	if p.dtype == tensor.Bool {
		if i := slices.IndexFunc(data, func(b byte) bool { return b > 1 }); i >= 0 {
			return nil, fmt.Errorf("element %d is %d, want 0 or 1", i, data[i])
		}
	}
	t := tensor.Empty(tensor.New(p.dtype, shape...))
	copy(t.Storage().Bytes(), data)
	swapBytes(t.Storage().Bytes(), p.dtype.Size())
	return t, nil
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

// decodeJSON decodes the data of a tensor: a list of elements in row-major order, flat or nested.
func (p port) decodeJSON(data []byte, shape []int, count int) (*tensor.Tensor, error) {
	// Each element has at least one character and a comma or bracket, so that this bounds the memory.
	if count > len(data)/2 {
		return nil, fmt.Errorf("the data have fewer elements than the shape %v", shape)
	}
	elements := elementScanner{remaining: data}
	if p.isText() {
		list := make([]string, 0, count)
		for text := range elements.all {
			var s string
			if err := json.Unmarshal(text, &s); err != nil {
				return nil, fmt.Errorf("element %d is not a string", len(list))
			}
			list = append(list, s)
		}
		if elements.err != nil || len(list) != count {
			return nil, countError(elements.err, len(list), count, shape)
		}
		return p.labels.Encode(list, shape...)
	}
	t := tensor.Empty(tensor.New(p.dtype, shape...))
	set := setters[p.dtype]
	bytesOf, size, i := t.Storage().Bytes(), p.dtype.Size(), 0
	for text := range elements.all {
		if i < count {
			if err := set(bytesOf[i*size:], text); err != nil {
				return nil, fmt.Errorf("element %d, %.40s: %w", i, text, err)
			}
		}
		i++
	}
	if elements.err != nil || i != count {
		return nil, countError(elements.err, i, count, shape)
	}
	return t, nil
}

func countError(err error, n, count int, shape []int) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("the data have %d elements, want %d for the shape %v", n, count, shape)
}

// elementScanner finds the elements of valid JSON that consists of nested lists.
type elementScanner struct {
	remaining []byte
	err       error
}

// all calls yield with the text of each number, literal or string.
func (s *elementScanner) all(yield func(text []byte) bool) {
	data := bytes.TrimSpace(s.remaining)
	if len(data) == 0 || data[0] != '[' {
		s.err = errors.New("data is not a list")
		return
	}
	for i := 0; i < len(data); {
		c := data[i]
		switch {
		case c == '{':
			s.err = errors.New("data contains an object")
			return
		case c == '[' || c == ']' || c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r':
			i++
			continue
		}
		end := i + 1
		if c == '"' {
			for data[end] != '"' { // the JSON is valid, so that the string ends
				if data[end] == '\\' {
					end++
				}
				end++
			}
			end++
		} else {
			for end < len(data) && !strings.ContainsRune(",] \n\t\r", rune(data[end])) {
				end++
			}
		}
		if !yield(data[i:end]) {
			return
		}
		i = end
	}
}

// setters convert the text of a JSON number to an element.
var setters = map[tensor.DType]func(dst, text []byte) error{
	tensor.Bool: func(dst, text []byte) error {
		switch string(text) {
		case "true", "1":
			dst[0] = 1
		case "false", "0":
			dst[0] = 0
		default:
			return errors.New("want true or false")
		}
		return nil
	},
	tensor.Uint8: unsigned(8), tensor.Uint16: unsigned(16), tensor.Uint32: unsigned(32), tensor.Uint64: unsigned(64),
	tensor.Int8: signed(8), tensor.Int16: signed(16), tensor.Int32: signed(32), tensor.Int64: signed(64),
	tensor.Float16: float(64, func(dst []byte, x float64) {
		binary.NativeEndian.PutUint16(dst, uint16(tensor.HalfOf(float32(x))))
	}),
	tensor.BFloat16: float(64, func(dst []byte, x float64) {
		binary.NativeEndian.PutUint16(dst, uint16(tensor.BF16Of(float32(x))))
	}),
	tensor.Float32: float(32, func(dst []byte, x float64) {
		binary.NativeEndian.PutUint32(dst, math.Float32bits(float32(x)))
	}),
	tensor.Float64: float(64, func(dst []byte, x float64) { binary.NativeEndian.PutUint64(dst, math.Float64bits(x)) }),
}

func putInteger(dst []byte, bits int, x uint64) {
	switch bits {
	case 8:
		dst[0] = byte(x)
	case 16:
		binary.NativeEndian.PutUint16(dst, uint16(x))
	case 32:
		binary.NativeEndian.PutUint32(dst, uint32(x))
	default:
		binary.NativeEndian.PutUint64(dst, x)
	}
}

func unsigned(bits int) func(dst, text []byte) error {
	return func(dst, text []byte) error {
		x, err := strconv.ParseUint(string(text), 10, bits)
		if err != nil {
			return fmt.Errorf("want an unsigned integer of %d bits", bits)
		}
		putInteger(dst, bits, x)
		return nil
	}
}

func signed(bits int) func(dst, text []byte) error {
	return func(dst, text []byte) error {
		x, err := strconv.ParseInt(string(text), 10, bits)
		if err != nil {
			return fmt.Errorf("want an integer of %d bits", bits)
		}
		putInteger(dst, bits, uint64(x))
		return nil
	}
}

// float returns a setter of floating-point numbers. Numbers beyond the range of the dtype are rejected.
func float(bits int, put func(dst []byte, x float64)) func(dst, text []byte) error {
	return func(dst, text []byte) error {
		x, err := strconv.ParseFloat(string(text), bits)
		if err != nil || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
			return errors.New("want a number within the range of the datatype")
		}
		put(dst, x)
		return nil
	}
}

// encodeResponse returns the body of a response. jsonLength is the length of the JSON before the bytes of tensors, or -1
// if all tensors are JSON.
func (m *model) encodeResponse(r *request, out map[string]*tensor.Tensor) (body []byte, jsonLength int, err error) {
	doc := responseDoc{ModelName: m.name, ModelVersion: m.version, ID: r.id, Outputs: []tensorDoc{}}
	var tail [][]byte
	for _, w := range r.wants {
		t := out[w.port.name]
		d := tensorDoc{Name: w.port.name, Shape: append([]int{}, t.Shape...), Datatype: w.port.datatype()}
		data, err := w.port.encode(t, w.binary)
		if err != nil {
			return nil, 0, fmt.Errorf("output %q: %w", w.port.name, err)
		}
		if w.binary {
			d.Parameters = &parameters{BinaryDataSize: new(len(data))}
			tail = append(tail, data)
		} else {
			d.Data = data
		}
		doc.Outputs = append(doc.Outputs, d)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(&doc); err != nil {
		return nil, 0, err
	}
	if tail == nil {
		return b.Bytes(), -1, nil
	}
	jsonLength = b.Len()
	for _, data := range tail {
		b.Write(data)
	}
	return b.Bytes(), jsonLength, nil
}

// encode returns the elements of t in row-major order, as bytes of the binary extension or as JSON.
func (p port) encode(t *tensor.Tensor, asBytes bool) ([]byte, error) {
	if p.isText() {
		list, err := p.labels.Decode(t)
		if err != nil {
			return nil, err
		}
		return encodeStrings(list, asBytes)
	}
	c := t.Contiguous()
	size := c.DType.Size()
	data := c.Storage().Bytes()[c.Offset*size:][:c.Bytes()]
	if asBytes {
		data = slices.Clone(data)
		swapBytes(data, size)
		return data, nil
	}
	text := make([]byte, 0, 2+len(data)/size*4)
	text = append(text, '[')
	for i := 0; i < len(data); i += size {
		if i > 0 {
			text = append(text, ',')
		}
		var ok bool
		if text, ok = appendElement(text, c.DType, data[i:]); !ok {
			return nil, errors.New("it contains NaN or infinity, which JSON cannot represent: request binary_data")
		}
	}
	return append(text, ']'), nil
}

func encodeStrings(list []string, asBytes bool) ([]byte, error) {
	if !asBytes {
		if i := slices.IndexFunc(list, func(s string) bool { return !utf8.ValidString(s) }); i >= 0 {
			return nil, fmt.Errorf("string %d is not UTF-8: request binary_data", i)
		}
		return json.Marshal(list)
	}
	var data []byte
	for _, s := range list {
		data = binary.LittleEndian.AppendUint32(data, uint32(len(s)))
		data = append(data, s...)
	}
	return data, nil
}

// appendElement appends an element as JSON. It returns false for NaN and infinities.
func appendElement(text []byte, dtype tensor.DType, data []byte) ([]byte, bool) {
	x, bits := 0.0, 32
	switch dtype {
	case tensor.Bool:
		return strconv.AppendBool(text, data[0] != 0), true
	case tensor.Uint8:
		return strconv.AppendUint(text, uint64(data[0]), 10), true
	case tensor.Uint16:
		return strconv.AppendUint(text, uint64(binary.NativeEndian.Uint16(data)), 10), true
	case tensor.Uint32:
		return strconv.AppendUint(text, uint64(binary.NativeEndian.Uint32(data)), 10), true
	case tensor.Uint64:
		return strconv.AppendUint(text, binary.NativeEndian.Uint64(data), 10), true
	case tensor.Int8:
		return strconv.AppendInt(text, int64(int8(data[0])), 10), true
	case tensor.Int16:
		return strconv.AppendInt(text, int64(int16(binary.NativeEndian.Uint16(data))), 10), true
	case tensor.Int32:
		return strconv.AppendInt(text, int64(int32(binary.NativeEndian.Uint32(data))), 10), true
	case tensor.Int64:
		return strconv.AppendInt(text, int64(binary.NativeEndian.Uint64(data)), 10), true
	case tensor.Float16:
		x = float64(tensor.Half(binary.NativeEndian.Uint16(data)).Float32())
	case tensor.BFloat16:
		x = float64(tensor.BF16(binary.NativeEndian.Uint16(data)).Float32())
	case tensor.Float32:
		x = float64(math.Float32frombits(binary.NativeEndian.Uint32(data)))
	default:
		x, bits = math.Float64frombits(binary.NativeEndian.Uint64(data)), 64
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return text, false
	}
	return strconv.AppendFloat(text, x, 'g', -1, bits), true
}
