package reduce

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type rmsNormAttrs struct {
	NormalizedShape []sym.Int `attr:"normalized_shape" doc:"sizes of the last dimensions of input, over which it is normalized"`
	Eps             *float64  `attr:"eps" default:"none" doc:"number added to the mean of squares; none: the difference between 1 and the next greater number of the dtype"`
}

// RmsNorm divides by the root of the mean of squares. A row x has the n elements at one index of the dimensions that
// are not normalized:
//
//	y[i] = x[i] / sqrt((x[0]^2 + ... + x[n-1]^2)/n + eps) * weight[i]
var RmsNorm = kit.Define[*rmsNormAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "rms_norm",
		Doc: "Divides `input` by the root of the mean of squares over its last dimensions, and multiplies by `weight`. " +
			"The result is row-major.",
		Params: []graph.Param{kit.Input, kit.OptWeight},
		Infer:  inferRmsNorm,
		Ref:    rmsNormReference,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4), tensor.New(tensor.Float32, 3, 4)},
			Attrs: graph.Attrs{"normalized_shape": []int{3, 4}}},
			{In: []tensor.Meta{kit.TransposedMatrix}, Attrs: graph.Attrs{"normalized_shape": 3, "eps": 0.1}}},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: graph.ElementFlops{Simple: 2}},
	Lowerings: graph.Lowerings{
		Rows: rmsNormRows,
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			attrs := kit.Attrs[*rmsNormAttrs](c)
			if kernel, err := compileRows(c, rmsNormRows); kernel != nil || err != nil {
				return kernel, err
			}
			return compileRowNorm(c, rmsNorm, len(attrs.NormalizedShape), attrs.eps(c.Meta(0).DType))
		},
	},
})

// inferRmsNorm checks the shapes and dtypes of a call. The result has the type of the input, row-major.
func inferRmsNorm(call *graph.Call) ([]graph.Result, error) {
	shape, inputType := kit.Attrs[*rmsNormAttrs](call).NormalizedShape, call.Type(0)
	if len(shape) == 0 {
		return nil, errors.New("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one " +
			"element, but got normalized_shape = []")
	}
	if firstDim := inputType.Rank() - len(shape); firstDim < 0 ||
		!tensor.SameSizes(inputType.Shape[firstDim:], shape) {
		sizes := tensor.Sizes(shape) // with brackets
		return nil, fmt.Errorf("Given normalized_shape=%s, expected input with shape [*, %s], but got input of size%s",
			sizes, sizes[1:len(sizes)-1], tensor.Sizes(inputType.Shape))
	}
	if weightType := call.Type(1); call.HasOperand(1) && !tensor.SameSizes(weightType.Shape, shape) {
		return nil, fmt.Errorf("Expected weight to be of same shape as normalized_shape, but got weight of shape %s and "+
			"normalized_shape = %s", tensor.Sizes(weightType.Shape), tensor.Sizes(shape))
	}
	if !inputType.DType.IsFloat() {
		return nil, kit.NotImplemented("rms_norm", inputType.DType)
	}
	if err := checkNormDTypes(call, 1); err != nil { // weight
		return nil, err
	}
	return call.NewResult(inputType.RowMajor()), nil
}

// rmsNormRows returns the expression over rows. The mean of squares is computed in float64.
func rmsNormRows(call *graph.Call) (*graph.Rows, error) {
	attrs := kit.Attrs[*rmsNormAttrs](call)
	const params = 1 // weight
	builder, values, in, mask := normOperands(call, len(attrs.NormalizedShape), params)
	x, weight := values[0], values[1]
	x64 := folds.InFloat64(builder, x)
	count := builder.Const(tensor.Float64, float64(folds.Count(call.Meta(0).Shape, mask)))
	meanSquare := builder.Emit(expr.Div, folds.Total(builder, builder.Emit(expr.Mul, x64, x64)), count)
	result := builder.Emit(expr.Mul, x, inverseRoot(builder, meanSquare, attrs.eps(call.Meta(0).DType), builder.DType(x)))
	if weight != expr.None {
		result = builder.Emit(expr.Mul, result, weight)
	}
	return singleResultRows(builder, mask, in, result, call.Meta(0).DType)
}

// eps returns the number that is added to the mean of squares for an input of the given dtype.
func (attrs *rmsNormAttrs) eps(dtype tensor.DType) float64 {
	if attrs.Eps != nil {
		return *attrs.Eps
	}
	// The least number greater than 1 is 1 + 2^-mantissaBits.
	mantissaBits := map[tensor.DType]int{tensor.Float16: 10, tensor.BFloat16: 7, tensor.Float32: 23, tensor.Float64: 52}
	return math.Ldexp(1, -mantissaBits[dtype])
}

// rmsNormReference normalizes row by row, in float64.
func rmsNormReference(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs, input := kit.Attrs[*rmsNormAttrs](c), in[0]
	out := tensor.Zeros(input.DType, input.Shape...)
	firstDim := input.Rank() - len(attrs.NormalizedShape) // the first normalized dimension
	rowShape := input.Shape[firstDim:]
	kit.EachIndex(input.Shape[:firstDim], func(row []int) {
		sum := 0.0
		kit.EachIndex(rowShape, func(indexInRow []int) {
			element := input.At(append(slices.Clone(row), indexInRow...)...).Float()
			sum += float64(element * element)
		})
		scale := 1 / math.Sqrt(sum/float64(tensor.Numel(rowShape))+attrs.eps(input.DType))
		kit.EachIndex(rowShape, func(indexInRow []int) {
			coords := append(slices.Clone(row), indexInRow...)
			element := input.At(coords...).Float() * scale
			if len(in) > 1 && in[1] != nil {
				element *= in[1].At(indexInRow...).Float()
			}
			out.Set(tensor.FloatScalar(element), coords...)
		})
	})
	return []*tensor.Tensor{out}, nil
}
