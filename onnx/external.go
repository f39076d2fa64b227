package onnx

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// external reads the data of a tensor from another file. need is the number of bytes that dtype and shape
// require. The data are copied instead of mapped: accessing a mapping of a file that was truncated ends the
// process.
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
		return nil, errors.New("external data: the location is missing")
	}
	if length < 0 {
		length = need
	}
	if length != need {
		return nil, fmt.Errorf("external data: %d bytes, dtype and shape need %d", length, need)
	}
	data, err := m.part(location, offset, length)
	if err != nil {
		return nil, fmt.Errorf("external data: %w", err)
	}
	return data, nil
}

// part reads a range of a file in the model's folder.
func (m *Model) part(location string, offset, length int) (*tensor.Storage, error) {
	path, err := m.located(location)
	if err != nil {
		return nil, err
	}
	f, err := m.folder.Open(path)
	if err != nil {
		return nil, files.OfFile(location, err)
	}
	defer f.Close()
	if size := int(f.Size); offset < 0 || offset > size || length > size-offset {
		return nil, fmt.Errorf("offset %d and length %d pass the end of %q, which has %d bytes", offset, length,
			location, size)
	}
	s := tensor.NewStorage(length)
	return s, readPieces(m.ctx, f, pieces(nil, s.Bytes(), offset))
}

// located returns the path of a file in the model's folder.
func (m *Model) located(location string) (string, error) {
	if path, ok := m.files[location]; ok {
		return path, nil
	}
	path, err := m.folder.Path(location)
	if err != nil {
		return "", err
	}
	m.files[location] = path
	return path, nil
}
