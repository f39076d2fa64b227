package serve

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/graphrun/graphrun/tensor"
)

// encodeResponse returns a response as JSON (text), and the binary data that follow the JSON (tail). out has the
// outputs by name. tail has an entry for each tensor that was requested as binary data. The entries may share memory
// with out. For example, let output y be sent as JSON, and output z as binary data. The tail then has one entry of 8
// bytes, and the text is
//
//	{"model_name":"m","model_version":"1","outputs":[
//	 {"name":"y","shape":[1,2],"datatype":"FP32","data":[0.5,2]},
//	 {"name":"z","shape":[1],"datatype":"INT64","parameters":{"binary_data_size":8}}]}
//
// without the line breaks and the indentation.
func (m *model) encodeResponse(r *request, out map[string]*tensor.Tensor) (text []byte, tail [][]byte, err error) {
	text = appendString(append(text, `{"model_name":`...), m.name)
	text = appendString(append(text, `,"model_version":`...), m.version)
	if r.id != "" {
		text = appendString(append(text, `,"id":`...), r.id)
	}
	text = append(text, `,"outputs":[`...)
	for i, wanted := range r.outputs {
		if i > 0 {
			text = append(text, ',')
		}
		output := out[wanted.port.name]
		data, err := wanted.port.encode(output, wanted.binary)
		if err != nil {
			return nil, nil, fmt.Errorf("output %q: %w", wanted.port.name, err)
		}
		text = appendString(append(text, `{"name":`...), wanted.port.name)
		text = appendShape(append(text, `,"shape":`...), output.Shape)
		text = appendString(append(text, `,"datatype":`...), wanted.port.datatype())
		if wanted.binary {
			text = strconv.AppendInt(append(text, `,"parameters":{"binary_data_size":`...), int64(len(data)), 10)
			text = append(text, "}}"...)
			tail = append(tail, data)
		} else {
			text = append(append(append(text, `,"data":`...), data...), '}')
		}
	}
	return append(text, "]}\n"...), tail, nil
}

// appendShape appends a shape as JSON.
func appendShape(text []byte, shape []int) []byte {
	text = append(text, '[')
	for k, size := range shape {
		if k > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(size), 10)
	}
	return append(text, ']')
}

// appendString appends a string as JSON. Bytes that are not UTF-8 become replacement characters.
func appendString(text []byte, s string) []byte {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		quoted, _ := json.Marshal(s)
		return append(text, quoted...)
	}
	return append(append(append(text, '"'), s...), '"')
}

// encode returns the elements of t in row-major order, as bytes of the binary extension or as JSON. The bytes may share
// memory with t. If the port is text, its labels map integers to strings.
func (p port) encode(t *tensor.Tensor, asBytes bool) ([]byte, error) {
	t = t.Contiguous()
	size := t.DType.Size()
	data := t.Storage().Bytes()[t.Offset*size:][:t.Numel()*size]
	if p.isText() {
		return p.encodeStrings(data, asBytes)
	}
	if asBytes {
		if bigEndian {
			data = slices.Clone(data)
			swapBytes(data, size)
		}
		return data, nil
	}
	const typicalLength = 4 // of an element with its comma
	text := make([]byte, 0, 2+len(data)/size*typicalLength)
	text = append(text, '[')
	for i := 0; i < len(data); i += size {
		if i > 0 {
			text = append(text, ',')
		}
		var ok bool
		if text, ok = appendElement(text, t.DType, data[i:]); !ok {
			return nil, errors.New("the output contains NaN or infinity, which JSON cannot represent: request binary_data")
		}
	}
	return append(text, ']'), nil
}

// encodeStrings returns the strings of codes as JSON, or as bytes of the binary extension: a length of 4 bytes before
// each string. codes has the bytes of int64 numbers: see [graph.Labels].
func (p port) encodeStrings(codes []byte, asBytes bool) (result []byte, err error) {
	if !asBytes {
		result = append(result, '[')
	}
	const codeBytes = 8
	for i := range len(codes) / codeBytes {
		code := int64(binary.NativeEndian.Uint64(codes[i*codeBytes:]))
		if code < 0 || code >= int64(len(p.labels.Strings)) {
			return nil, fmt.Errorf("element %d is %d, which stands for no string of the model", i, code)
		}
		s := p.labels.Strings[code]
		switch {
		case asBytes:
			result = binary.LittleEndian.AppendUint32(result, uint32(len(s)))
			result = append(result, s...)
			continue
		case !utf8.ValidString(s):
			return nil, fmt.Errorf("string %d is not valid UTF-8, which JSON requires: request binary_data", i)
		case i > 0:
			result = append(result, ',')
		}
		result = appendString(result, s)
	}
	if !asBytes {
		result = append(result, ']')
	}
	return result, nil
}

// appendElement appends the element at the start of data as JSON. It returns false for NaN and infinities.
func appendElement(text []byte, dtype tensor.DType, data []byte) ([]byte, bool) {
	x, bits := 0.0, 32 // bits is the precision that determines the number of digits
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
	if x == 0 && math.Signbit(x) {
		return append(text, "-0.0"...), true // many parsers of JSON read -0 as the integer 0
	}
	return strconv.AppendFloat(text, x, 'g', -1, bits), true
}
