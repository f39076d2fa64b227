package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// fillOp defines an op that fills new memory with a number. resultType returns the type of the result, and value
// returns the number.
func fillOp(attrs *graph.Schema, op graph.Op, resultType func(c *graph.Call) (tensor.Type, error),
	value func(c *graph.Call) graph.NumberOrSize) *graph.Op {
	op.WritesAnyDenseLayout, op.Fills = true, true
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		result, err := resultType(c)
		if err == nil {
			err = kit.NumberOrSizeFits(value(c), result.DType)
		}
		return c.NewResult(result), err
	}
	op.Compile = func(c *graph.Call) (*graph.Kernel, error) {
		meta, number := c.Out[0], kit.NumberForHints(value(c)) // the size in this plan, if the value is a size
		if extent := meta.Extent() - meta.Offset; meta.Numel() > extent {
			meta = tensor.New(meta.DType, extent) // elements overlap: fill their memory as one vector
		}
		return copies.Kernel(copies.Job{Dst: kit.PtrBuffer(0, meta), Fill: number.Tensor(meta.DType)}), nil
	}
	op.Ref = func(c *graph.Call, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
		result, err := resultType(c)
		if err != nil {
			return nil, err
		}
		out := tensor.Zeros(result.DType, kit.KnownSizes(result.Shape)...)
		kit.EachIndex(out.Shape, func(index []int) { out.Set(kit.NumberForHints(value(c)), index...) })
		return []*tensor.Tensor{out}, nil
	}
	return kit.DefineWith(attrs, op)
}

// sizeAndDTypeAttrs are the attributes of new_zeros, new_ones and new_empty.
type sizeAndDTypeAttrs struct {
	Size  []sym.Int    `attr:"size" doc:"sizes of the result"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype of the result; default: self's"`
}

// resultTypeWithSize returns the type of the result of an op such as new_zeros: row-major with the given sizes. If
// dtype is omitted (Invalid), the result has the dtype of self.
func resultTypeWithSize(c *graph.Call, size []sym.Int, dtype tensor.DType) (tensor.Type, error) {
	if dtype == tensor.Invalid {
		dtype = c.Type(0).DType
	}
	return kit.FreshType(dtype, size)
}

type likeAttrs struct {
	DType        tensor.DType        `attr:"dtype" default:"none" doc:"dtype of the result; default: self's"`
	MemoryFormat tensor.MemoryFormat `attr:"memory_format" default:"preserve" doc:"layout of the result"`
}

// constantLike defines an op that creates a tensor with the shape of self and fills it with a value.
func constantLike(name, doc string, value int64) *graph.Op {
	return fillOp(graph.SchemaOf[*likeAttrs](), graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc, Params: []graph.Param{kit.Self},
		Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), nil),
	}, Facts: graph.Facts{Parallel: kit.LoopsExceptDims()}}, // all dimensions are parallel loops
		func(c *graph.Call) (tensor.Type, error) {
			attrs := kit.Attrs[*likeAttrs](c)
			return emptyLikeType(c.Type(0), attrs.DType, attrs.MemoryFormat)
		}, func(*graph.Call) graph.NumberOrSize { return graph.NumberOrSize{Number: tensor.IntScalar(value)} })
}

// emptyLikeType returns the type of empty_like(self). The attribute dtype may be omitted.
func emptyLikeType(self tensor.Type, dtype tensor.DType, format tensor.MemoryFormat) (tensor.Type, error) {
	if dtype != tensor.Invalid {
		self = self.WithDType(dtype)
	}
	return kit.LikeType(self, format)
}
