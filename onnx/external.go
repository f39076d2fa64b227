package onnx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// external reads the bytes of a tensor that are in another file. need is what dtype and shape ask for. They are read
// rather than mapped: to touch a mapping of a file that was made shorter meanwhile ends the process.
func (m *Model) external(t *pb.TensorProto, need int) (*tensor.Storage, error) {
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
	if length < 0 {
		length = need
	}
	if length != need {
		return nil, fmt.Errorf("external data: %d bytes, where dtype and shape want %d", length, need)
	}
	data, err := m.part(location, offset, length)
	if err != nil {
		return nil, fmt.Errorf("external data: %w", err)
	}
	return data, nil
}

// part reads a part of a file of the model's folder.
func (m *Model) part(location string, offset, length int) (*tensor.Storage, error) {
	path, err := m.located(location)
	if err != nil {
		return nil, err
	}
	f, info, err := files.OpenRegular(path)
	if err != nil {
		return nil, files.OfFile(location, err)
	}
	defer f.Close()
	if size := int(info.Size()); offset < 0 || offset > size || length > size-offset {
		return nil, fmt.Errorf("offset %d and length %d pass the end of %q, which has %d bytes", offset, length,
			location, size)
	}
	s := tensor.NewStorage(length)
	return s, readPieces(m.ctx, f, pieces(nil, s.Bytes(), offset))
}

// located returns the path of a file of the model's folder.
func (m *Model) located(location string) (string, error) {
	if path, ok := m.files[location]; ok {
		return path, nil
	}
	if m.dir == "" {
		return "", fmt.Errorf("file %q cannot be opened here", location)
	}
	path, err := inside(m.dir, location)
	if err != nil {
		return "", files.OfFile(location, err)
	}
	m.files[location] = path
	return path, nil
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
	path := filepath.Join(root, local)
	if _, err := os.Stat(path); errors.Is(err, syscall.ELOOP) { // of which EvalSymlinks says nothing by which to know it
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
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
