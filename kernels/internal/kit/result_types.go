package kit

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// LikeType returns the type of the result of empty_like for an operand and a memory format. The format Preserve keeps
// the strides of a non-overlapping and dense operand, and only the order of dimensions of other operands.
func LikeType(t tensor.Type, format tensor.MemoryFormat) (tensor.Type, error) {
	if format == tensor.Preserve {
		return rule.PreserveType(t), nil
	}
	return tensor.NewTypeFormat(t.DType, t.Shape, format)
}

// FreshType returns the row-major type of new memory with user-given sizes. The type refers to the
// slice `size` itself, not to a copy.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func FreshType(dtype tensor.DType, size []sym.Int) (tensor.Type, error) {
	return FreshTypeInFormat(dtype, size, tensor.Contiguous)
}

// FreshTypeInFormat is [FreshType] with a memory format.
func FreshTypeInFormat(dtype tensor.DType, size []sym.Int, format tensor.MemoryFormat) (tensor.Type, error) {
	for _, dimSize := range size {
		if IsNegative(dimSize) {
			return tensor.Type{}, fmt.Errorf("Trying to create tensor with negative dimension %v: %s", dimSize,
				tensor.Sizes(size))
		}
	}
	if err := tensor.CheckSizes(dtype, size); err != nil {
		return tensor.Type{}, err
	}
	if size == nil {
		size = []sym.Int{}
	}
	return tensor.NewTypeFormat(dtype, size, format)
}

// WithIndices returns the results of an op that computes values of type t and their int64 indices. Both results have
// the same layout.
func WithIndices(c *graph.Call, t tensor.Type) []graph.Result {
	return c.NewResults(t, t.WithDType(tensor.Int64))
}

// ElementwiseType returns the type of an elementwise result of a and b, such as a + b. Their shapes must broadcast.
func ElementwiseType(a, b tensor.Type) tensor.Type {
	resultRule, err := rule.Binary(rule.UndefinedOutput(), rule.OperandOfType(a), rule.OperandOfType(b)).Rule()
	if err != nil {
		panic("kernels: the operands of an elementwise result must broadcast: " + err.Error())
	}
	return resultRule.Type(0)
}

// ReshapeRowMajor returns the elements of t in row-major order with the given shape. The result is a view of t if t is
// contiguous, else a copy.
func ReshapeRowMajor(ctx context.Context, t *tensor.Tensor, shape ...int) (*tensor.Tensor, error) {
	if !t.IsContiguous() {
		t = CopyTo(ctx, t, tensor.New(t.DType, t.Shape...))
	}
	meta := tensor.New(t.DType, shape...)
	meta.Offset = t.Offset
	return t.View(meta)
}

// InferWithLayout returns the Infer function of an op that computes element by element, but gives the result another
// layout. layout returns the type of the result, except for the dtype, which pointwise determines.
func InferWithLayout(pointwise *graph.Pointwise,
	layout func(c *graph.Call) (tensor.Type, error)) func(*graph.Call) ([]graph.Result, error) {
	return func(call *graph.Call) ([]graph.Result, error) {
		results, err := pointwise.Infer(call)
		if err != nil {
			return nil, err
		}
		resultType, err := layout(call)
		if err != nil {
			return nil, err
		}
		return call.NewResult(resultType.WithDType(results[0].Type.DType)), nil
	}
}

// FirstResultType returns the type of the first result of an iteration. PyTorch's permutation rule
// (package rule) determines its layout. The dtypes of the operands may differ.
func FirstResultType(iteration rule.Config) (tensor.Type, error) {
	resultRule, err := iteration.CheckAllSameDType(false).Rule()
	if err != nil {
		return tensor.Type{}, err
	}
	return resultRule.Type(0), nil
}
