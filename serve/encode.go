package serve

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/graphrun/graphrun/tensor"
)

// answer is a response that is being written. Its memory does not depend on the length of the response: the text is
// written in pieces. A response that fits in one piece is written at once, with its length in the header.
type answer struct {
	ctx    context.Context // ends the answer
	writer http.ResponseWriter
	buffer []byte // the next piece; it has maxPiece bytes at most, and the text of one element
	begun  bool   // whether a piece was written, after which the status cannot change
	// If counting is set, pieces are not written, and counted has the sum of their lengths.
	counting bool
	counted  int
}

// maxPiece is the length, in bytes, at which a piece of an answer is written.
const maxPiece = 64 << 10

// buffers has buffers of answers, *[]byte.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// writeAnswer writes the response to a request. out has the outputs by name. The response is JSON. The data of the
// outputs that were requested as binary data follow it. For example, let output y be sent as JSON, and output z as
// binary data. The JSON, which 8 bytes follow, is
//
//	{"model_name":"m","model_version":"1","outputs":[
//	 {"name":"y","shape":[1,2],"datatype":"FP32","data":[0.5,2]},
//	 {"name":"z","shape":[1],"datatype":"INT64","parameters":{"binary_data_size":8}}]}
//
// without the line breaks and the indentation. The error has a status. It is a *cutError if the response has begun.
func (m *model) writeAnswer(ctx context.Context, w http.ResponseWriter, r *request,
	out map[string]*tensor.Tensor) (err error) {
	var binarySizes []int // by output; nil if no output is binary
	for i, wanted := range r.outputs {
		size, err := wanted.check(ctx, out[wanted.port.name])
		if ctx.Err() != nil {
			return endedError(ctx)
		}
		if err != nil {
			return &statusError{http.StatusBadRequest, fmt.Errorf("output %q: %w", wanted.port.name, err)}
		}
		if wanted.binary {
			if binarySizes == nil {
				binarySizes = make([]int, len(r.outputs))
			}
			binarySizes[i] = size
		}
	}
	buffer := buffers.Get().(*[]byte)
	a := answer{ctx: ctx, writer: w, buffer: (*buffer)[:0]}
	defer func() { // after CatchMemory
		if err != nil && a.begun {
			err = &cutError{err}
		}
		if cap(a.buffer) <= 2*maxPiece {
			*buffer = a.buffer
			buffers.Put(buffer)
		}
	}()
	defer tensor.CatchMemory(&err)
	return m.encode(&a, r, out, binarySizes)
}

// encode writes the whole answer.
func (m *model) encode(a *answer, r *request, out map[string]*tensor.Tensor, binarySizes []int) error {
	header := a.writer.Header()
	if binarySizes == nil {
		header.Set("Content-Type", "application/json")
		if err := m.encodeText(a, r, out, nil); err != nil {
			return err
		}
		return a.end()
	}
	a.counting = true // a header states the length of the text
	err := m.encodeText(a, r, out, binarySizes)
	a.counting = false
	if err != nil {
		return err
	}
	textLength, length := a.counted+len(a.buffer), a.counted+len(a.buffer)
	for _, size := range binarySizes {
		length += size
	}
	header.Set("Content-Type", "application/octet-stream")
	header.Set(jsonLengthHeader, strconv.Itoa(textLength))
	header.Set("Content-Length", strconv.Itoa(length))
	if a.counted > 0 { // the buffer does not have the whole text
		a.buffer = a.buffer[:0]
		if err := m.encodeText(a, r, out, binarySizes); err != nil {
			return err
		}
	}
	for _, wanted := range r.outputs {
		if wanted.binary {
			if err := wanted.port.encodeBytes(a, out[wanted.port.name]); err != nil {
				return err
			}
		}
	}
	return a.end()
}

// encodeText writes the JSON of an answer.
func (m *model) encodeText(a *answer, r *request, out map[string]*tensor.Tensor, binarySizes []int) error {
	text := appendString(append(a.buffer, `{"model_name":`...), m.name)
	text = appendString(append(text, `,"model_version":`...), m.version)
	if r.id != "" {
		text = appendString(append(text, `,"id":`...), r.id)
	}
	a.buffer = append(text, `,"outputs":[`...)
	for i, wanted := range r.outputs {
		text = a.buffer
		if i > 0 {
			text = append(text, ',')
		}
		output := out[wanted.port.name]
		text = appendString(append(text, `{"name":`...), wanted.port.name)
		text = appendShape(append(text, `,"shape":`...), output.Shape)
		text = appendString(append(text, `,"datatype":`...), wanted.port.datatype())
		if wanted.binary {
			text = strconv.AppendInt(append(text, `,"parameters":{"binary_data_size":`...), int64(binarySizes[i]), 10)
			a.buffer = append(text, "}}"...)
			continue
		}
		a.buffer = append(text, `,"data":[`...)
		if err := wanted.port.encodeElements(a, output); err != nil {
			return err
		}
		a.buffer = append(a.buffer, "]}"...)
	}
	a.buffer = append(a.buffer, "]}\n"...)
	return nil
}

// flush writes the buffer and empties it. It returns an error if the answer must end.
func (a *answer) flush() error {
	if err := endedError(a.ctx); err != nil {
		return err
	}
	if a.counting {
		a.counted += len(a.buffer)
	} else if err := a.write(a.buffer); err != nil {
		return err
	}
	a.buffer = a.buffer[:0]
	return nil
}

// write writes data.
func (a *answer) write(data []byte) error {
	a.begun = true
	_, err := a.writer.Write(data)
	return answerError(err)
}

// end writes what is left.
func (a *answer) end() error {
	if !a.begun {
		a.writer.Header().Set("Content-Length", strconv.Itoa(len(a.buffer)))
	}
	return a.flush()
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

// check returns an error if the output cannot be represented in the requested form. size is the number of its bytes in
// binary form.
func (o responseOutput) check(ctx context.Context, t *tensor.Tensor) (size int, err error) {
	if o.port.isText() {
		err = o.port.eachString(ctx, t, func(i int, s string) error {
			if !o.binary && !utf8.ValidString(s) {
				return fmt.Errorf("string %d is not valid UTF-8, which JSON requires: request binary_data", i)
			}
			size += stringLengthBytes + len(s)
			return nil
		})
		return size, err
	}
	if isFinite := finiteTest(t.DType); isFinite != nil && !o.binary {
		err = t.EachBlock(maxPiece, func(block []byte) error {
			if !isFinite(block) {
				return errors.New("the output contains NaN or infinity, which JSON cannot represent: request binary_data")
			}
			return endedError(ctx)
		})
	}
	return t.Bytes(), err
}

// finiteTest returns a function that reports whether all elements of a block are finite; nil for integers and bools.
// The exponent of NaN and infinities has only ones.
func finiteTest(dtype tensor.DType) func(block []byte) bool {
	const half, bfloat, single, double = 0x7c00, 0x7f80, 0x7f80_0000, 0x7ff0_0000_0000_0000
	switch dtype {
	case tensor.Float16, tensor.BFloat16:
		exponent := uint16(half)
		if dtype == tensor.BFloat16 {
			exponent = bfloat
		}
		return func(block []byte) bool {
			for ; len(block) > 0; block = block[2:] {
				if binary.NativeEndian.Uint16(block)&exponent == exponent {
					return false
				}
			}
			return true
		}
	case tensor.Float32:
		return func(block []byte) bool {
			for ; len(block) > 0; block = block[4:] {
				if binary.NativeEndian.Uint32(block)&single == single {
					return false
				}
			}
			return true
		}
	case tensor.Float64:
		return func(block []byte) bool {
			for ; len(block) > 0; block = block[8:] {
				if binary.NativeEndian.Uint64(block)&double == double {
					return false
				}
			}
			return true
		}
	}
	return nil
}

// encodeElements writes the elements of t in row-major order as JSON, with commas between them. They are finite.
func (p port) encodeElements(a *answer, t *tensor.Tensor) error {
	if p.isText() {
		return p.eachString(a.ctx, t, func(i int, s string) error {
			if i > 0 {
				a.buffer = append(a.buffer, ',')
			}
			a.buffer = appendString(a.buffer, s)
			return a.flushIfFull()
		})
	}
	size, isFirst := t.DType.Size(), true
	return t.EachBlock(maxPiece, func(block []byte) error {
		for ; len(block) > 0; block = block[size:] {
			if !isFirst {
				a.buffer = append(a.buffer, ',')
			}
			isFirst = false
			a.buffer = appendElement(a.buffer, t.DType, block)
			if err := a.flushIfFull(); err != nil {
				return err
			}
		}
		return nil
	})
}

// flushIfFull flushes the buffer if it has maxPiece bytes or more.
func (a *answer) flushIfFull() error {
	if len(a.buffer) < maxPiece {
		return nil
	}
	return a.flush()
}

// encodeBytes writes the elements of t in row-major order in the form of the binary extension.
func (p port) encodeBytes(a *answer, t *tensor.Tensor) error {
	if p.isText() {
		return p.eachString(a.ctx, t, func(_ int, s string) error {
			a.buffer = binary.LittleEndian.AppendUint32(a.buffer, uint32(len(s)))
			a.buffer = append(a.buffer, s...)
			return a.flushIfFull()
		})
	}
	const maxBytes = 16 * maxPiece
	return t.EachBlock(maxBytes, func(block []byte) error {
		if bigEndian {
			block = slices.Clone(block)
			swapBytes(block, t.DType.Size())
		}
		if len(a.buffer)+len(block) <= maxPiece {
			a.buffer = append(a.buffer, block...)
			return nil
		}
		if err := a.flush(); err != nil {
			return err
		}
		return a.write(block)
	})
}

// stringLengthBytes is the size of the length before each string in the binary extension.
const stringLengthBytes = 4

// eachString calls visit with the index and the string of each element of t. It stops when the context ends.
func (p port) eachString(ctx context.Context, t *tensor.Tensor, visit func(i int, s string) error) error {
	return p.labels.Each(t, func(i int, s string) error {
		if i%(1<<12) == 0 && ctx.Err() != nil {
			return endedError(ctx)
		}
		return visit(i, s)
	})
}

// appendElement appends the element at the start of data as JSON. A float must be finite.
func appendElement(text []byte, dtype tensor.DType, data []byte) []byte {
	x, bits := 0.0, 32 // bits is the precision that determines the number of digits
	switch dtype {
	case tensor.Bool:
		return strconv.AppendBool(text, data[0] != 0)
	case tensor.Uint8:
		return strconv.AppendUint(text, uint64(data[0]), 10)
	case tensor.Uint16:
		return strconv.AppendUint(text, uint64(binary.NativeEndian.Uint16(data)), 10)
	case tensor.Uint32:
		return strconv.AppendUint(text, uint64(binary.NativeEndian.Uint32(data)), 10)
	case tensor.Uint64:
		return strconv.AppendUint(text, binary.NativeEndian.Uint64(data), 10)
	case tensor.Int8:
		return strconv.AppendInt(text, int64(int8(data[0])), 10)
	case tensor.Int16:
		return strconv.AppendInt(text, int64(int16(binary.NativeEndian.Uint16(data))), 10)
	case tensor.Int32:
		return strconv.AppendInt(text, int64(int32(binary.NativeEndian.Uint32(data))), 10)
	case tensor.Int64:
		return strconv.AppendInt(text, int64(binary.NativeEndian.Uint64(data)), 10)
	case tensor.Float16:
		x = float64(tensor.Half(binary.NativeEndian.Uint16(data)).Float32())
	case tensor.BFloat16:
		x = float64(tensor.BF16(binary.NativeEndian.Uint16(data)).Float32())
	case tensor.Float32:
		x = float64(math.Float32frombits(binary.NativeEndian.Uint32(data)))
	default:
		x, bits = math.Float64frombits(binary.NativeEndian.Uint64(data)), 64
	}
	if x == 0 && math.Signbit(x) {
		return append(text, "-0.0"...) // many parsers of JSON read -0 as the integer 0
	}
	return strconv.AppendFloat(text, x, 'g', -1, bits)
}
