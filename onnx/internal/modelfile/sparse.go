package modelfile

import (
	"errors"
	"fmt"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// Sparse returns a sparse tensor of the model with all its elements, of which most are 0. The first call for a tensor
// decodes it. Later calls return the same tensor.
//
// A sparse tensor has a list of elements, and the index of each. An index is a position in row-major order, or a number
// for each dimension. For example, both [4] and [[1, 1]] are the index of the only element of [[0, 0, 0], [0, 7, 0]].
func (f *File) Sparse(proto *pb.SparseTensorProto) (*tensor.Tensor, error) {
	if dense := f.sparse[proto]; dense != nil {
		return dense, nil
	}
	dense, err := f.decodeSparse(proto)
	if err == nil {
		f.sparse[proto] = dense
	}
	return dense, err
}

func (f *File) decodeSparse(proto *pb.SparseTensorProto) (*tensor.Tensor, error) {
	if proto == nil || proto.Values == nil {
		return nil, errors.New("the sparse tensor has no values")
	}
	if pb.DataType(proto.Values.DataType) == pb.String {
		return nil, errors.New("sparse tensors of strings are not supported")
	}
	meta, err := declaredMeta(&pb.TensorProto{Dims: proto.Dims, DataType: proto.Values.DataType})
	if err != nil {
		return nil, err
	}
	values, err := f.Tensor(proto.Values)
	if err != nil {
		return nil, err
	}
	indices := tensor.Zeros(tensor.Int64, 0)
	if proto.Indices != nil {
		if indices, err = f.Tensor(proto.Indices); err != nil {
			return nil, fmt.Errorf("indices: %w", err)
		}
	}
	count, rank := values.Numel(), len(meta.Shape)
	perElement := 1
	if indices.Rank() == 2 {
		perElement = rank
	}
	if values.Rank() != 1 || indices.DType != tensor.Int64 || indices.Numel() != count*perElement {
		return nil, fmt.Errorf("a sparse tensor of rank %d with values of the shape %s and indices of %v of the shape %s",
			rank, tensor.ListString(values.Shape), indices.DType, tensor.ListString(indices.Shape))
	}
	list, err := tensor.ToSlice[int64](indices)
	if err != nil {
		return nil, err
	}
	dense := tensor.Zeros(values.DType, meta.Shape...)
	for i := range count {
		position := 0
		for k, index := range list[i*perElement : (i+1)*perElement] {
			size := meta.Numel()
			if indices.Rank() == 2 {
				size = meta.Shape[k]
			}
			if index < 0 || index >= int64(size) {
				return nil, fmt.Errorf("index %d of element %d is out of range: the shape is %s", index, i,
					tensor.ListString(meta.Shape))
			}
			position = position*size + int(index)
		}
		dense.SetFlat(position, values.At(i))
	}
	return dense, nil
}
