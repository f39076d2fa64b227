package view

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// zeroedDoc is a sentence of the docs of this file's ops.
const zeroedDoc = "The elements, which PyTorch leaves uninitialized, are zeros."

// zeroNumber returns 0, the number with which the ops of this file fill their results.
func zeroNumber(*graph.Call) graph.NumberOrSize {
	return graph.NumberOrSize{Number: tensor.IntScalar(0)}
}

// EmptyLike is torch.empty_like.
var EmptyLike = constantLike("empty_like", "Creates a value with the shape, dtype and layout of self. "+zeroedDoc, 0)

// NewEmpty is Tensor.new_empty.
var NewEmpty = fillOp(graph.SchemaOf[*sizeAndDTypeAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "new_empty",
	Doc:      "Creates a row-major value of the dtype of self. " + zeroedDoc,
	Params:   []graph.Param{kit.Self},
	Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), graph.Attrs{"size": []int{2, 3}}),
}}, func(c *graph.Call) (tensor.Type, error) {
	attrs := kit.Attrs[*sizeAndDTypeAttrs](c)
	return resultTypeWithSize(c, attrs.Size, attrs.DType)
}, zeroNumber)

type emptyStridedAttrs struct {
	Size   []sym.Int    `attr:"size" doc:"sizes of the result"`
	Stride []sym.Int    `attr:"stride" doc:"strides of the result, in elements"`
	DType  tensor.DType `attr:"dtype" default:"float32" doc:"dtype of the result"`
}

// EmptyStrided is torch.empty_strided.
var EmptyStrided = fillOp(graph.SchemaOf[*emptyStridedAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "empty_strided",
	Doc:      "Creates a value with the given strides, which may overlap or leave gaps. " + zeroedDoc,
	Examples: []graph.Example{{Attrs: graph.Attrs{"size": []int{2, 3}, "stride": []int{1, 2}}}},
}}, func(c *graph.Call) (tensor.Type, error) {
	attrs := kit.Attrs[*emptyStridedAttrs](c)
	dtype := attrs.DType
	if dtype == tensor.Invalid { // the attribute is null, which selects PyTorch's default dtype
		dtype = tensor.Float32
	}
	return stridedType(dtype, attrs.Size, attrs.Stride)
}, zeroNumber)

// stridedType returns the type of the result of empty_strided. It returns PyTorch's error if the numbers of sizes and
// strides differ, a size or stride is negative, or the value needs too much memory.
func stridedType(dtype tensor.DType, size, stride []sym.Int) (tensor.Type, error) {
	if len(size) != len(stride) {
		return tensor.Type{}, fmt.Errorf("dimensionality of sizes (%d) must match dimensionality of strides (%d)",
			len(size), len(stride))
	}
	result, err := kit.FreshType(dtype, size)
	if err != nil {
		return result, err
	}
	result = result.WithStrides(slices.Clone(stride))
	if slices.ContainsFunc(stride, kit.IsNegative) || result.Check() != nil {
		return result, fmt.Errorf("Storage size calculation overflowed with sizes=%s and strides=%s", tensor.Sizes(size),
			tensor.Sizes(stride))
	}
	return result, nil
}
