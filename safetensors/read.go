// Package safetensors reads and writes files in the safetensors format. Such a file has a JSON header with dtype, shape
// and offsets of each tensor, followed by the bytes of the tensors.
//
// [Open] opens a file and checks its header. [File.Tensor] reads a tensor. [Write] and [WriteFile] write tensors.
//
// Files are not trusted. [Open] and [Parse] check that each byte after the header belongs to exactly one tensor, as the
// reference implementation does.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

const (
	// lengthBytes is the size of the first field of a file, the length of the header as uint64.
	lengthBytes = 8
	// maxHeader is the limit of the format on the size of a header in bytes.
	maxHeader = 100_000_000
	// maxRank is the greatest rank that PyTorch allows.
	maxRank = 64
	// metadataKey is the key of the only member of the header that is not a tensor.
	metadataKey = "__metadata__"
)

// bigEndian reports whether the machine is big-endian.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// dtypes has the dtypes by their names in the header.
var dtypes = map[string]tensor.DType{
	"BOOL": tensor.Bool, "U8": tensor.Uint8, "I8": tensor.Int8,
	"I16": tensor.Int16, "U16": tensor.Uint16, "I32": tensor.Int32, "U32": tensor.Uint32,
	"I64": tensor.Int64, "U64": tensor.Uint64,
	"F16": tensor.Float16, "BF16": tensor.BFloat16, "F32": tensor.Float32, "F64": tensor.Float64,
	"C64": tensor.Complex64,
}

// File is an open safetensors file. Its methods, except Close, may be called concurrently.
//
// A file of 89 bytes with one tensor, for example, has three parts: the length of the header as uint64, the header, and
// the bytes of the tensors. data_offsets are relative to the end of the header.
//
//	bytes 0 to 7    57
//	bytes 8 to 64   {"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}
//	bytes 65 to 88  six float32, row-major
type File struct {
	path      string            // for errors; empty for a file of Parse
	source    io.ReaderAt       // the whole file
	closer    io.Closer         // nil unless the file was made by Open
	dataStart int64             // offset of the tensors in source
	data      []byte            // the tensors of a file of Parse; otherwise nil
	names     []string          // of the tensors, in the order of their bytes
	entries   map[string]entry  // by name of the tensor
	metadata  map[string]string // free-form
}

// entry is a tensor's description and the range of its bytes, relative to the end of the header.
type entry struct {
	meta       tensor.Meta
	begin, end int64
}

// Open opens the file at path and checks its header. [File.Tensor] copies the data from the file, so that later changes
// of the file do not affect a tensor. The errors name the file.
func Open(path string) (*File, error) {
	r, info, err := files.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	f, err := NewFile(path, r, info.Size())
	if err != nil {
		r.Close()
		return nil, err
	}
	f.closer = r
	return f, nil
}

// NewFile checks the header of a file of size bytes. [File.Tensor] reads the data from r. The errors name path.
func NewFile(path string, r io.ReaderAt, size int64) (*File, error) {
	if r == nil {
		return nil, fmt.Errorf("%s: the reader is nil", path)
	}
	f := &File{path: path, source: r, entries: map[string]entry{}}
	if err := f.readHeader(size); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Parse checks the header of a file in memory. Tensors of the result may alias data.
func Parse(data []byte) (*File, error) {
	f := &File{source: bytes.NewReader(data), entries: map[string]entry{}}
	if err := f.readHeader(int64(len(data))); err != nil {
		return nil, err
	}
	f.data = data[f.dataStart:]
	return f, nil
}

// readHeader reads and checks the header of a file of size bytes.
func (f *File) readHeader(size int64) error {
	if bigEndian {
		return errors.New("safetensors files are little-endian, and this machine is not")
	}
	if size < lengthBytes {
		return errors.New("the file is truncated: it ends before its header")
	}
	beginning, err := f.read(0, int(min(size, 64))) // files.Kind recognizes other formats by these bytes
	if err != nil {
		return err
	}
	headerBytes, bytesAfterLength := binary.LittleEndian.Uint64(beginning), size-lengthBytes
	if headerBytes > maxHeader || headerBytes > uint64(bytesAfterLength) {
		if kind := files.Kind(beginning); kind != "" {
			return errors.New("not a safetensors file: " + kind)
		}
		return fmt.Errorf("header claims %d bytes, %d follow: the file is truncated, or not in the safetensors format",
			headerBytes, bytesAfterLength)
	}
	if headerBytes == 0 || beginning[lengthBytes] != '{' {
		return errors.New("header does not start with '{'")
	}
	header, err := f.read(lengthBytes, int(headerBytes))
	if err != nil {
		return err
	}
	if err := f.parseHeader(header); err != nil {
		return err
	}
	f.dataStart = lengthBytes + int64(headerBytes)
	return f.sortTensors(size - f.dataStart)
}

// read reads n bytes of the source.
func (f *File) read(offset int64, n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(f.source, offset, int64(n)), b); err != nil {
		return nil, rewordReadError(err)
	}
	return b, nil
}

// rewordReadError rewords the error of a file that ended early.
func rewordReadError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file was truncated while it was read")
	}
	return err
}

// parseHeader parses the JSON header. The JSON decoder rejects duplicate names and invalid UTF-8.
func (f *File) parseHeader(text []byte) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("header: %w", rewordJSONError(err))
	}
	for name, member := range members {
		if name == metadataKey {
			if err := json.Unmarshal(member, &f.metadata); err != nil {
				return fmt.Errorf("header: %s: %w", metadataKey, rewordJSONError(err))
			}
			continue
		}
		parsed, err := parseEntry(member)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		f.entries[name] = parsed
		f.names = append(f.names, name)
	}
	return nil
}

// parseEntry parses the header's description of one tensor. Its data_offsets must span the bytes of the shape.
func parseEntry(v jsontext.Value) (parsed entry, err error) {
	var raw struct {
		DType   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(v, &raw, json.RejectUnknownMembers(true)); err != nil {
		return parsed, rewordJSONError(err)
	}
	dtype, ok := dtypes[raw.DType]
	if !ok {
		return parsed, fmt.Errorf("unsupported dtype %q", raw.DType)
	}
	if raw.Shape == nil {
		return parsed, errors.New("no shape")
	}
	if len(raw.Shape) > maxRank {
		return parsed, fmt.Errorf("%d dimensions: at most %d are supported", len(raw.Shape), maxRank)
	}
	if len(raw.Offsets) != 2 || raw.Offsets[0] < 0 || raw.Offsets[1] < raw.Offsets[0] {
		return parsed, fmt.Errorf("data_offsets %v are not a range", raw.Offsets)
	}
	shape, err := toInts(raw.Shape)
	if err != nil {
		return parsed, err
	}
	parsed.meta = tensor.New(dtype, shape...)
	if err := parsed.meta.Check(); err != nil {
		return parsed, err
	}
	parsed.begin, parsed.end = raw.Offsets[0], raw.Offsets[1]
	if size := int64(parsed.meta.Bytes()); size != parsed.end-parsed.begin {
		return parsed, fmt.Errorf("shape %s of %v takes %d bytes, but data_offsets %v span %d", tensor.ListString(shape),
			dtype, size, raw.Offsets, parsed.end-parsed.begin)
	}
	return parsed, nil
}

// toInts converts the sizes of a shape.
func toInts(sizes []int64) ([]int, error) {
	shape := make([]int, len(sizes))
	for dim, size := range sizes {
		if shape[dim] = int(size); int64(shape[dim]) != size { // int has 32 bits on some platforms
			return nil, fmt.Errorf("size %d of dimension %d exceeds %d, the limit of this platform", size, dim, math.MaxInt)
		}
	}
	return shape, nil
}

// rewordJSONError rewords JSON errors: it removes the names of Go's types.
func rewordJSONError(err error) error {
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntactic):
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("duplicate key %q", strings.TrimPrefix(string(syntactic.JSONPointer), "/"))
		}
		return fmt.Errorf("invalid JSON at byte %d: the file is damaged", syntactic.ByteOffset)
	case errors.As(err, &semantic):
		key := strings.TrimPrefix(string(semantic.JSONPointer), "/")
		switch {
		case errors.Is(err, json.ErrUnknownName):
			return fmt.Errorf("unknown key %q: want dtype, shape and data_offsets", key)
		case len(semantic.JSONValue) > 0 && len(semantic.JSONValue) < 40: // short enough for a message
			return fmt.Errorf("%q has the wrong type: %s", key, semantic.JSONValue)
		case key != "":
			return fmt.Errorf("%q has the wrong type", key)
		}
		return errors.New("it is not an object, or its members have the wrong type")
	}
	return err
}

// sortTensors sorts the names by offset. It checks that the tensors fill the data of size bytes without overlap or gap.
func (f *File) sortTensors(size int64) error {
	sorted.Func(f.names, func(nameA, nameB string) int {
		a, b := f.entries[nameA], f.entries[nameB]
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), strings.Compare(nameA, nameB))
	})
	previousEnd := int64(0)
	for _, name := range f.names {
		e := f.entries[name]
		if e.begin != previousEnd {
			return fmt.Errorf("tensor %q starts at %d, but the tensor before it ends at %d", name, e.begin, previousEnd)
		}
		if e.end > size {
			return fmt.Errorf("tensor %q ends at %d, past the end of the data at %d", name, e.end, size)
		}
		previousEnd = e.end
	}
	if previousEnd != size {
		return fmt.Errorf("the tensors end at %d, the data at %d", previousEnd, size)
	}
	return nil
}

// Names returns the tensors' names in file order, in a fresh slice.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Metadata returns a copy of the header's free-form metadata.
func (f *File) Metadata() map[string]string {
	out := make(map[string]string, len(f.metadata))
	for k, v := range f.metadata {
		out[k] = v
	}
	return out
}

// Meta returns a tensor's row-major meta without reading its data.
func (f *File) Meta(name string) (tensor.Meta, bool) {
	e, ok := f.entries[name]
	return e.meta, ok
}

// Tensor returns the named tensor, which is row-major. It reads the data from the file. For a file of [Parse], the
// tensor aliases the data if the data are aligned to the element size. Bools are copied instead, and bytes other than 0
// become 1.
func (f *File) Tensor(name string) (_ *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	e, ok := f.entries[name]
	if !ok {
		nearest := suggest.DidYouMean(suggest.Nearest(name, slices.Values(f.names)))
		return nil, fmt.Errorf("%sno tensor %q: %s%s", f.errorPrefix(), name, files.KeysMessage(f.names), nearest)
	}
	s, err := f.storage(e)
	if err != nil {
		return nil, fmt.Errorf("%stensor %q: %w", f.errorPrefix(), name, err)
	}
	t, err := tensor.FromStorage(e.meta, s)
	if err != nil {
		return nil, fmt.Errorf("%stensor %q: %w", f.errorPrefix(), name, err)
	}
	return t, nil
}

// storage returns the data of a tensor.
func (f *File) storage(e entry) (*tensor.Storage, error) {
	isBool := e.meta.DType == tensor.Bool
	if f.data != nil && isAligned(f.data[e.begin:e.end], e.meta.DType.Size()) && !isBool {
		return tensor.StorageOf(f.data[e.begin:e.end:e.end]), nil
	}
	s := tensor.NewWeights(int(e.end - e.begin)) // fits an int: it is the size of a checked meta
	r := io.NewSectionReader(f.source, f.dataStart+e.begin, e.end-e.begin)
	if _, err := io.ReadFull(r, s.Bytes()); err != nil {
		return nil, rewordReadError(err)
	}
	if isBool {
		for i, b := range s.Bytes() {
			s.Bytes()[i] = min(b, 1)
		}
	}
	return s, nil
}

func isAligned(b []byte, size int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(size) == 0
}

func (f *File) errorPrefix() string {
	if f.path == "" {
		return ""
	}
	return f.path + ": "
}

// Close closes the file. A closed File has no tensors.
func (f *File) Close() error {
	f.names, f.entries = nil, nil
	closer := f.closer
	f.closer = nil
	if closer == nil {
		return nil
	}
	return closer.Close()
}
