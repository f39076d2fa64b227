package kernels

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// shapeOp defines an op that gives its operand another shape: a view where the strides
// allow it, else a row-major copy. shape gives the shape, which may hold a -1; nil stands
// for self as it is. An op that has a rule of its own sets Infer.
func shapeOp[A any](o graph.Op, shape func(c *graph.Call, m tensor.Meta) ([]int, error)) *graph.Op {
	if o.Params == nil {
		o.Params = []graph.Param{self}
	}
	o.Kind = graph.View
	if o.Infer == nil {
		o.Infer = func(c *graph.Call) ([]graph.Result, error) {
			m := c.Meta(0)
			size, err := shape(c, m)
			if err != nil || size == nil {
				return []graph.Result{{Meta: m, Alias: 0}}, err
			}
			return reshaped(m, size)
		}
	}
	o.Compile = func(c *graph.Call) (*graph.Kernel, error) { return copyOrdered(outSide(c, 0), inSide(c, 0)) }
	o.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		res, err := o.Infer(c)
		if err != nil {
			return nil, err
		}
		out := tensor.Zeros(in[0].DType, res[0].Meta.Shape...)
		i := 0
		eachIndex(in[0].Shape, func(index []int) {
			out.SetFlat(i, in[0].At(index...))
			i++
		})
		return []*tensor.Tensor{out}, nil
	}
	return define[A](o)
}

// reshaped is at::reshape: computeStride decides, and a copy is a view of the row-major
// clone.
func reshaped(m tensor.Meta, size []int) ([]graph.Result, error) {
	size, err := tensor.InferSize(size, m.Numel())
	if err != nil {
		return nil, err
	}
	if st, ok := tensor.ReshapeStrides(m, size); ok {
		return []graph.Result{{Meta: tensor.Meta{DType: m.DType, Shape: size, Strides: st, Offset: m.Offset}, Alias: 0}}, nil
	}
	m, err = tensor.New(m.DType, m.Shape...).View(size)
	return graph.New1(m), err
}

type reshapeAttrs struct {
	Shape []int `attr:"shape" doc:"sizes of the result; one may be -1"`
}

// Reshape is Tensor.reshape.
var Reshape = shapeOp[reshapeAttrs](graph.Op{
	Name:     "reshape",
	Doc:      "Gives self another shape: a view where possible, else a row-major copy.",
	Examples: []graph.Example{{In: []tensor.Meta{f32(4, 6)}, Attrs: graph.Attrs{"shape": []int{2, -1}}}, {In: []tensor.Meta{nhwc(2, 3, 4, 5)}, Attrs: graph.Attrs{"shape": []int{2, -1}}}},
}, func(c *graph.Call, _ tensor.Meta) ([]int, error) { return attrs[reshapeAttrs](c).Shape, nil })

// ReshapeAs is Tensor.reshape_as.
var ReshapeAs = shapeOp[none](graph.Op{
	Name:     "reshape_as",
	Doc:      "Gives self the shape of other, as reshape does.",
	Params:   []graph.Param{self, other},
	Examples: []graph.Example{{In: []tensor.Meta{f32(4, 6), f32(2, 12)}}},
}, func(c *graph.Call, _ tensor.Meta) ([]int, error) { return c.Meta(1).Shape, nil })

type flattenAttrs struct {
	StartDim int `attr:"start_dim" default:"0" doc:"first dimension to join"`
	EndDim   int `attr:"end_dim" default:"-1" doc:"last dimension to join"`
}

// Flatten is torch.flatten.
var Flatten = shapeOp[flattenAttrs](graph.Op{
	Name:     "flatten",
	Doc:      "Joins a run of dimensions into one: a view where possible, else a row-major copy.",
	Examples: oneExample(nhwc(2, 3, 4, 5), graph.Attrs{"start_dim": 1}),
}, func(c *graph.Call, m tensor.Meta) ([]int, error) {
	a := attrs[flattenAttrs](c)
	shape, err := m.Flatten(a.StartDim, a.EndDim)
	if err != nil || m.Rank() == 0 {
		return shape, err
	}
	if len(shape) == m.Rank() {
		return nil, nil // one dimension alone: self itself, odd strides and all
	}
	return shape, nil
})

// Ravel is torch.ravel.
var Ravel = shapeOp[none](graph.Op{
	Name:     "ravel",
	Doc:      "Makes self one-dimensional in row-major order: a view where self is contiguous, else a copy.",
	Infer:    inferRavel,
	Examples: oneExample(nhwc(2, 3, 4, 5), nil),
}, nil)

// inferRavel views what contiguous gives: a copy even where strides would do.
func inferRavel(c *graph.Call) ([]graph.Result, error) {
	m := c.Meta(0)
	if !m.IsContiguous() {
		return graph.New1(tensor.New(m.DType, m.Numel())), nil
	}
	return reshaped(m, []int{m.Numel()})
}

type unflattenAttrs struct {
	Dim   int   `attr:"dim" doc:"dimension to cut"`
	Sizes []int `attr:"sizes" doc:"sizes that take its place; one may be -1"`
}

// Unflatten is Tensor.unflatten.
var Unflatten = viewOp[unflattenAttrs](graph.Op{
	Name:     "unflatten",
	Doc:      "Cuts one dimension into several.",
	Examples: oneExample(f32(2, 12), graph.Attrs{"dim": 1, "sizes": []int{3, -1}}),
}, func(c *graph.Call, m tensor.Meta, _ int) (tensor.Meta, error) {
	a := attrs[unflattenAttrs](c)
	dim, err := tensor.WrapDim(a.Dim, m.Rank())
	switch {
	case err != nil:
		return m, err
	case len(a.Sizes) == 0:
		return m, errors.New("unflatten: sizes must be non-empty")
	case m.Rank() == 0:
		return m, errors.New("Dimension specified as 0 but tensor has no dimensions")
	}
	sizes, err := tensor.InferSize(a.Sizes, m.Shape[dim])
	if err != nil {
		return m, fmt.Errorf("unflatten: Provided sizes %s don't multiply up to the size of dim %d (%d) in the input tensor",
			tensor.ListString(a.Sizes), dim, m.Shape[dim])
	}
	return m.View(slices.Concat(m.Shape[:dim], sizes, m.Shape[dim+1:]))
})
