package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// shapeOp defines an op that changes the shape of its operand. The result is a view if the strides allow it, else a
// row-major copy. shape returns the new shape, in which one size may be -1. It returns nil if the result is self. If
// op.Infer is set, it replaces this rule, and shape is not called.
func shapeOp(
	attrs *graph.Schema, op graph.Op, shape func(c *graph.Call, self tensor.Type) ([]sym.Int, error),
) *graph.Op {
	if op.Params == nil {
		op.Params = []graph.Param{kit.Self}
	}
	op.Kind = graph.View
	if op.Infer == nil {
		op.Infer = func(c *graph.Call) ([]graph.Result, error) {
			self := c.Type(0)
			newShape, err := shape(c, self)
			if err != nil || newShape == nil {
				return c.AliasResult(self, 0), err
			}
			return reshaped(c, self, newShape)
		}
	}
	op.WritesAnyDenseLayout, op.Reshapes = true, true
	op.Impls = []graph.Impl{copies.Impl(func(c *graph.Call) (*graph.Kernel, error) {
		return copies.RowMajorKernel(kit.OutBuffer(c, 0), kit.InBuffer(c, 0)), nil
	})}
	op.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		inferred, err := op.Infer(c)
		if err != nil {
			return nil, err
		}
		out := tensor.Zeros(in[0].DType, inferred[0].Meta().Shape...)
		i := 0
		kit.EachIndex(in[0].Shape, func(index []int) {
			out.SetFlat(i, in[0].At(index...))
			i++
		})
		return []*tensor.Tensor{out}, nil
	}
	return kit.DefineWith(attrs, op)
}

// reshaped returns the result of at::reshape for an operand and a new shape. The result is a view of self if
// [tensor.Type.Reshaped] finds strides for this view. Otherwise it is a view of a row-major clone of self.
func reshaped(call *graph.Call, self tensor.Type, shape []sym.Int) ([]graph.Result, error) {
	out, ok, err := self.Reshaped(shape)
	if err != nil {
		return nil, err
	}
	if ok {
		return call.AliasResult(out, 0), nil
	}
	out, err = self.RowMajor().View(shape)
	return call.NewResult(out), err
}

type reshapeAttrs struct {
	Shape []sym.Int `attr:"shape" doc:"sizes of the result; one may be -1"`
}

// Reshape is Tensor.reshape.
var Reshape = shapeOp(graph.SchemaOf[*reshapeAttrs](), graph.Op{Semantics: graph.Semantics{
	Name: "reshape",
	Doc:  "Changes the shape of self: a view if possible, else a row-major copy.",
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(4, 6)}, Attrs: graph.Attrs{"shape": []int{2, -1}}},
		{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"shape": []int{2, -1}}}},
}, Facts: graph.Facts{SizesAttr: "shape"}}, func(c *graph.Call, _ tensor.Type) ([]sym.Int, error) {
	return kit.Attrs[*reshapeAttrs](c).Shape, nil
})

// ReshapeAs is Tensor.reshape_as.
var ReshapeAs = shapeOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
	Name:     "reshape_as",
	Doc:      "Reshapes self to the shape of `other`.",
	Params:   []graph.Param{kit.Self, kit.Other},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(4, 6), kit.F32(2, 12)}}},
}}, func(c *graph.Call, _ tensor.Type) ([]sym.Int, error) { return c.Type(1).Shape, nil })

type flattenAttrs struct {
	StartDim int `attr:"start_dim" default:"0" doc:"first dimension to merge"`
	EndDim   int `attr:"end_dim" default:"-1" doc:"last dimension to merge"`
}

// Flatten is torch.flatten.
var Flatten = shapeOp(graph.SchemaOf[*flattenAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "flatten",
	Doc:      "Merges consecutive dimensions into one: a view if possible, else a row-major copy.",
	Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), graph.Attrs{"start_dim": 1}),
}}, func(c *graph.Call, self tensor.Type) ([]sym.Int, error) {
	attrs := kit.Attrs[*flattenAttrs](c)
	shape, err := self.Flatten(attrs.StartDim, attrs.EndDim)
	if err != nil || self.Rank() == 0 {
		return shape, err
	}
	if len(shape) == self.Rank() {
		return nil, nil // start_dim is end_dim: the result is self, with its strides
	}
	return shape, nil
})

// Ravel is torch.ravel.
var Ravel = shapeOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
	Name:     "ravel",
	Doc:      "Makes self one-dimensional in row-major order: a view if self is contiguous, else a copy.",
	Infer:    inferRavel,
	Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), nil),
}}, nil)

// inferRavel infers the result of ravel: a view of self.contiguous(). Therefore a self that is not contiguous is
// copied, even if its strides allow a view.
func inferRavel(c *graph.Call) ([]graph.Result, error) {
	self := c.Type(0)
	if !self.IsContiguous() {
		return c.NewResult(tensor.NewType(self.DType, self.Numel())), nil
	}
	return reshaped(c, self, []sym.Int{self.Numel()})
}

type unflattenAttrs struct {
	Dim   int       `attr:"dim" doc:"dimension to split"`
	Sizes []sym.Int `attr:"sizes" doc:"sizes of the new dimensions; one may be -1"`
}

// Unflatten is Tensor.unflatten.
var Unflatten = viewOp(graph.SchemaOf[*unflattenAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "unflatten",
	Doc:      "Splits one dimension into several.",
	Examples: kit.OneExample(kit.F32(2, 12), graph.Attrs{"dim": 1, "sizes": []int{3, -1}}),
}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	attrs := kit.Attrs[*unflattenAttrs](c)
	dim, err := tensor.WrapDim(attrs.Dim, self.Rank())
	switch {
	case err != nil:
		return self, err
	case len(attrs.Sizes) == 0:
		return self, errors.New("unflatten: sizes must be non-empty")
	case self.Rank() == 0:
		return self, errors.New("Dimension specified as 0 but tensor has no dimensions")
	}
	sizes, err := tensor.InferSize(attrs.Sizes, self.Shape[dim])
	if err != nil {
		return self, fmt.Errorf("unflatten: Provided sizes %s don't multiply up to the size of dim %d (%v) in the "+
			"input tensor",
			tensor.Sizes(attrs.Sizes), dim, self.Shape[dim])
	}
	return self.View(slices.Concat(self.Shape[:dim], sizes, self.Shape[dim+1:]))
})
