// Package modelfile reads the files of ONNX models: the protobuf message, the data of weights, and external data. Each
// weight has separate memory.
package modelfile

import (
	"context"
	"errors"
	"io"

	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// File is a model file. It is not safe for concurrent use.
type File struct {
	Proto *pb.ModelProto // its graph is not nil

	ctx     context.Context                     // see [File.SetContext]
	folder  files.Folder                        // the folder of external data
	paths   map[string]string                   // the path of each file of external data, by its location in the model
	storage StorageFunc                         // reads the data of large weights; may be nil
	raw     map[*pb.TensorProto]*tensor.Storage // the raw data of initializers; the reader leaves them out of the messages
	tensors map[*pb.TensorProto]*tensor.Tensor  // decoded tensors
	sparse  map[*pb.SparseTensorProto]*tensor.Tensor
	texts   tensor.Texts // the strings that were read
}

// Read reads a model of size bytes. folder has the external data. If storage is not nil, it reads the data of large
// weights.
func Read(ctx context.Context, src io.ReaderAt, size int, folder files.Folder, storage StorageFunc) (*File, error) {
	if size == 0 {
		return nil, errors.New("not an ONNX model: the file is empty")
	}
	proto, raw, err := readModel(ctx, src, size, storage)
	if err != nil {
		return nil, err
	}
	if proto.Graph == nil {
		return nil, errors.New("not an ONNX model: it has no graph")
	}
	return &File{Proto: proto, folder: folder, paths: map[string]string{}, raw: raw, storage: storage,
		tensors: map[*pb.TensorProto]*tensor.Tensor{}, sparse: map[*pb.SparseTensorProto]*tensor.Tensor{}}, nil
}

// SetContext sets the context that cancels the reading of external data. It may be nil.
func (f *File) SetContext(ctx context.Context) { f.ctx = ctx }

// notModelError replaces protobuf's error by an error that names the kind of the file.
func notModelError(data []byte, err error) error {
	if err == nil {
		return nil
	}
	if kind := files.Kind(data); kind != "" {
		return errors.New("not an ONNX model: " + kind)
	}
	return errors.New("not an ONNX model: the file is truncated, or has another format")
}
