package onnx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/edsrzf/mmap-go"

	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// external returns the bytes of a tensor that are in another file. need is what dtype and
// shape ask for.
func (m *Model) external(t *pb.TensorProto, need int) ([]byte, error) {
	var location string
	offset, length := 0, -1
	for _, e := range t.ExternalData {
		var err error
		switch e.Key {
		case "location":
			location = e.Value
		case "offset":
			offset, err = strconv.Atoi(e.Value)
		case "length":
			length, err = strconv.Atoi(e.Value)
		}
		if err != nil || e.Key == "length" && length < 0 {
			return nil, fmt.Errorf("external data: %s %q: want a number of bytes", e.Key, e.Value)
		}
	}
	if location == "" {
		return nil, errors.New("external data: it has no location")
	}
	data, err := m.mapped(location)
	if err != nil {
		return nil, fmt.Errorf("external data: %w", err)
	}
	if length < 0 {
		length = need
	}
	if length != need {
		return nil, fmt.Errorf("external data: %d bytes, where dtype and shape want %d", length, need)
	}
	if offset < 0 || offset > len(data) || length > len(data)-offset {
		return nil, fmt.Errorf("external data: offset %d and length %d pass the end of %q, which has %d bytes", offset,
			length, location, len(data))
	}
	return data[offset : offset+length : offset+length], nil
}

// mapped maps a file of the model's folder into memory. The mapping stays: tensors are in
// it.
func (m *Model) mapped(location string) ([]byte, error) {
	if data, ok := m.files[location]; ok {
		return data, nil
	}
	if m.dir == "" {
		return nil, fmt.Errorf("file %q cannot be opened here", location)
	}
	path, err := inside(m.dir, location)
	if err != nil {
		return nil, files.OfFile(location, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, files.OfFile(location, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", location)
	}
	if info.Size() == 0 {
		m.files[location] = nil
		return nil, nil
	}
	// Copy-on-write: a write through a tensor must not reach the file.
	data, err := mmap.Map(f, mmap.COPY, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", location, err)
	}
	m.files[location] = data
	return data, nil
}

// inside returns the path of a file in the folder, with symbolic links followed: neither
// ".." nor a link may lead out of it.
func inside(dir, file string) (string, error) {
	outside := fmt.Errorf("file %q is outside the folder of the model", file)
	local := filepath.FromSlash(file)
	if !filepath.IsLocal(local) {
		return "", outside
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(root, local))
	if err != nil {
		return "", err
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(rel) {
		return "", outside
	}
	return path, nil
}
