package modelfile

import (
	"fmt"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// StringCode returns the code of a string, which is its index in the list of all strings of the model. If the string is
// new, StringCode adds it to the list.
func (f *File) StringCode(text string) int { return int(f.texts.Enlist(text)) }

// Strings returns the list of all strings of the model that were read. The caller must not change it.
func (f *File) Strings() []string { return f.texts.List() }

// decodeStrings returns a tensor of strings as codes.
func (f *File) decodeStrings(t *pb.TensorProto, shape []int) (*tensor.Tensor, error) {
	if len(t.StringData) != tensor.Numel(shape) {
		return nil, fmt.Errorf("%d strings of data, but the shape needs %d", len(t.StringData), tensor.Numel(shape))
	}
	data := make([]int64, len(t.StringData))
	for i, s := range t.StringData {
		data[i] = int64(f.StringCode(string(s)))
	}
	return tensor.FromSlice(data, shape...)
}
