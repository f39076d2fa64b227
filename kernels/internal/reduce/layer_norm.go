package reduce

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type layerNormAttrs struct {
	NormalizedShape []sym.Int `attr:"normalized_shape" doc:"sizes of the last dimensions of input, over which it is normalized"`
	Eps             float64   `attr:"eps" default:"1e-5" doc:"number added to the variance"`
	CuDNN           bool      `attr:"cudnn_enable" default:"true" doc:"has no effect"`
}

// LayerNorm normalizes over the last dimensions. The inferred layout of the result is row-major.
var LayerNorm = kit.Define[*layerNormAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "layer_norm",
		Doc: "Normalizes over the last dimensions, then multiplies by `weight` and adds `bias`, both of shape " +
			"`normalized_shape`. The result is row-major.",
		Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias},
		Infer:  inferLayerNorm,
		Ref:    layerNormRef,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4), tensor.New(tensor.Float32, 4),
			tensor.New(tensor.Float32, 4)},
			Attrs: graph.Attrs{"normalized_shape": []int{4}}}},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: graph.ElementFlops{Simple: 3}},
	Lowerings: graph.Lowerings{
		Rows: layerNormRows,
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			attrs := kit.Attrs[*layerNormAttrs](c)
			if kernel, err := compileRows(c, layerNormRows); kernel != nil || err != nil {
				return kernel, err
			}
			// Without machine code, loops in Go are faster than the interpreter of expressions.
			return compileRowNorm(c, layerNorm, len(attrs.NormalizedShape), attrs.Eps)
		},
	},
})

// layerNormRef is the reference of layer_norm.
func layerNormRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*layerNormAttrs](c)
	in = append(slices.Clone(in), nil, nil)[:3] // omitted weight and bias are nil
	shape := in[0].Shape
	firstDim := len(shape) - len(attrs.NormalizedShape) // the first normalized dimension
	rowIndexOf := func(index []int) int { return rowMajorIndex(index, shape[:firstDim]) }
	paramIndexOf := func(index []int) int { return rowMajorIndex(index[firstDim:], shape[firstDim:]) }
	var mean, variance *tensor.Tensor // nil: normReference computes them
	return []*tensor.Tensor{normReference(in[0], attrs.Eps, rowIndexOf, paramIndexOf, in[1], in[2], mean, variance)}, nil
}

// rowMajorIndex returns the number of an element in row-major order.
func rowMajorIndex(index, shape []int) int {
	i := 0
	for dim, size := range shape {
		i = i*size + index[dim]
	}
	return i
}

// inferLayerNorm checks a call in PyTorch's order and infers the row-major result.
func inferLayerNorm(call *graph.Call) ([]graph.Result, error) {
	shape, input := kit.Attrs[*layerNormAttrs](call).NormalizedShape, call.Type(0)
	if len(shape) == 0 {
		return nil, fmt.Errorf("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one " +
			"element, but got normalized_shape = []")
	}
	for i, name := range []string{"weight", "bias"} {
		if param := call.Type(i + 1); call.HasOperand(i+1) && !tensor.SameSizes(param.Shape, shape) {
			return nil, fmt.Errorf("Expected %s to be of same shape as normalized_shape, but got %s of shape %s and "+
				"normalized_shape = %s",
				name, name, tensor.Sizes(param.Shape), tensor.Sizes(shape))
		}
	}
	if first := input.Rank() - len(shape); first < 0 || !tensor.SameSizes(input.Shape[first:], shape) {
		sizes := tensor.Sizes(shape) // with brackets
		return nil, fmt.Errorf("Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s", sizes,
			sizes[1:], tensor.Sizes(input.Shape))
	}
	if !input.DType.IsFloat() {
		return nil, kit.NotImplementedBy("LayerNormKernelImpl", input.DType)
	}
	if err := checkNormDTypes(call, 1, 2); err != nil { // weight and bias
		return nil, err
	}
	return call.NewResult(input.RowMajor()), nil
}

// layerNormRows returns the normalization as an expression that is evaluated for each row ([graph.Rows]). Mean and
// variance are computed in float64.
func layerNormRows(c *graph.Call) (*graph.Rows, error) {
	attrs := kit.Attrs[*layerNormAttrs](c)
	const params = 2 // weight and bias
	builder, loaded, operands, mask := normOperands(c, len(attrs.NormalizedShape), params)
	normalized := affineNormRow(builder, loaded, float64(folds.Count(c.Meta(0).Shape, mask)), attrs.Eps)
	return singleResultRows(builder, mask, operands, normalized, c.Meta(0).DType)
}
