package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Entry is one tensor to write.
type Entry struct {
	Name   string
	Tensor *tensor.Tensor
}

// Write writes the tensors in row-major order, with the metadata if it is not empty. The same arguments always give the
// same bytes. A file has three parts:
//
//	8 bytes   length of the header in bytes, little-endian
//	header    JSON, such as {"bias":{"dtype":"F32","shape":[10],"data_offsets":[0,40]}}
//	data      the elements of all tensors; data_offsets are relative to its beginning
//
// Entries are written in order of decreasing element size; entries of equal element size keep their order. All data are
// thus aligned, so that [File.Tensor] does not copy them. Names must be unique. Write returns an error for complex128,
// which the format does not support.
func Write(w io.Writer, entries []Entry, metadata map[string]string) error {
	if w == nil {
		return errors.New("the writer is nil")
	}
	for _, e := range entries {
		if err := e.Tensor.Check(); err != nil {
			return fmt.Errorf("tensor %q: %w", e.Name, err)
		}
	}
	entries = slices.Clone(entries)
	sorted.Func(entries, func(a, b Entry) int { return b.Tensor.DType.Size() - a.Tensor.DType.Size() })
	header, err := encodeHeader(entries, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Tensor.Numel() == 0 {
			continue
		}
		contiguous := e.Tensor.Contiguous()
		start := contiguous.Offset * contiguous.DType.Size()
		if _, err := w.Write(contiguous.Storage().Bytes()[start : start+contiguous.Bytes()]); err != nil {
			return fmt.Errorf("tensor %q: %w", e.Name, err)
		}
	}
	return nil
}

// headerEntry is the header's description of one tensor.
type headerEntry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// encodeHeader returns the length of the header and its JSON, padded with blanks to a multiple of 8 bytes.
func encodeHeader(entries []Entry, metadata map[string]string) ([]byte, error) {
	if bigEndian {
		return nil, errors.New("safetensors files are little-endian, and this machine is not")
	}
	header := bytes.NewBuffer(make([]byte, lengthBytes)) // the length is filled in last
	header.WriteByte('{')
	if len(metadata) > 0 {
		if err := addMember(header, metadataKey, metadata); err != nil {
			return nil, fmt.Errorf("%s: %w", metadataKey, err)
		}
	}
	usedNames := map[string]bool{metadataKey: true}
	offset := 0 // of the next tensor
	for _, e := range entries {
		code := codeOf(e.Tensor.DType)
		switch {
		case code == "":
			return nil, fmt.Errorf("tensor %q: the format has no dtype %v", e.Name, e.Tensor.DType)
		case usedNames[e.Name]:
			return nil, fmt.Errorf("tensor %q: duplicate name", e.Name)
		case len(e.Tensor.Shape) > maxRank:
			return nil, fmt.Errorf("tensor %q: %d dimensions: at most %d are supported", e.Name, len(e.Tensor.Shape), maxRank)
		}
		usedNames[e.Name] = true
		description := headerEntry{code, e.Tensor.Shape, [2]int{offset, offset + e.Tensor.Bytes()}}
		if err := addMember(header, e.Name, description); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.Name, err)
		}
		offset = description.Offsets[1]
	}
	header.WriteByte('}')
	for header.Len()%8 != 0 {
		header.WriteByte(' ')
	}
	headerBytes := header.Len() - lengthBytes
	if headerBytes > maxHeader {
		return nil, fmt.Errorf("header takes %d bytes: more than %d", headerBytes, maxHeader)
	}
	binary.LittleEndian.PutUint64(header.Bytes(), uint64(headerBytes))
	return header.Bytes(), nil
}

// addMember appends a member of the JSON object.
func addMember(header *bytes.Buffer, name string, v any) error {
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	value, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	if isFirst := header.Len() == lengthBytes+len("{"); !isFirst {
		header.WriteByte(',')
	}
	header.Write(key)
	header.WriteByte(':')
	header.Write(value)
	return nil
}

// codeOf returns the format's name of a dtype, or "" if it has none.
func codeOf(dtype tensor.DType) string {
	for name, dtypeOfName := range dtypes {
		if dtypeOfName == dtype {
			return name
		}
	}
	return ""
}

// WriteFile writes the tensors to the file at path, as [Write] does. It writes a new file and renames the new file to
// path. A failed write therefore leaves an existing file unchanged. The tensors may alias the existing file. The errors
// name the file.
func WriteFile(path string, entries []Entry, metadata map[string]string) error {
	err := writeFile(path, func(w io.Writer) error { return Write(w, entries, metadata) })
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeFile writes a temporary file and renames it to path. Pipes and devices are written in place.
func writeFile(path string, write func(w io.Writer) error) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // does nothing after the rename
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
