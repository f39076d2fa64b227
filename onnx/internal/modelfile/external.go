package modelfile

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// readExternal reads the data of a tensor from another file. neededBytes is the number of bytes that dtype and shape
// require. The file is not mapped into memory, because access to a mapping of a truncated file would end the process.
func (f *File) readExternal(proto *pb.TensorProto, neededBytes int) (*tensor.Storage, error) {
	var location string
	offset, length := 0, -1
	for _, entry := range proto.ExternalData {
		var err error
		switch entry.Key {
		case "location":
			location = entry.Value
		case "offset":
			offset, err = strconv.Atoi(entry.Value)
		case "length":
			length, err = strconv.Atoi(entry.Value)
		}
		if err != nil || entry.Key == "length" && length < 0 {
			return nil, fmt.Errorf("external data: %s %q: want a number of bytes", entry.Key, entry.Value)
		}
	}
	if location == "" {
		return nil, errors.New("external data: the location is missing")
	}
	if length < 0 {
		length = neededBytes
	}
	if length != neededBytes {
		return nil, fmt.Errorf("external data: %d bytes, but dtype and shape need %d", length, neededBytes)
	}
	data, err := f.readRange(location, offset, length)
	if err != nil {
		return nil, fmt.Errorf("external data: %w", err)
	}
	return data, nil
}

// readRange reads `length` bytes of a file in the model's folder, beginning at an offset.
func (f *File) readRange(location string, offset, length int) (*tensor.Storage, error) {
	path, err := f.folderPath(location)
	if err != nil {
		return nil, err
	}
	file, err := f.folder.Open(path)
	if err != nil {
		return nil, files.Reword(location, err)
	}
	defer file.Close()
	if size := int(file.Size); offset < 0 || offset > size || length > size-offset {
		return nil, fmt.Errorf("offset %d and length %d pass the end of %q, which has %d bytes", offset, length,
			location, size)
	}
	if f.storage != nil && length >= minStorage { // the caller's function reads large weights
		return readStorage(f.ctx, f.storage, file, offset, length)
	}
	storage := tensor.NewWeights(length)
	return storage, readPieces(f.ctx, file, appendPieces(nil, storage.Bytes(), offset))
}

// folderPath returns the path of a file in the model's folder.
func (f *File) folderPath(location string) (string, error) {
	if path, ok := f.paths[location]; ok {
		return path, nil
	}
	path, err := f.folder.Path(location)
	if err != nil {
		return "", err
	}
	f.paths[location] = path
	return path, nil
}
