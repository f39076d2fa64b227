package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type gatherAttrs struct {
	Dim        int  `attr:"dim" doc:"dimension to index"`
	SparseGrad bool `attr:"sparse_grad" default:"false" doc:"affects gradients only; ignored"`
}

// indexedDim implements the interface [oneDimAttrs].
func (a *gatherAttrs) indexedDim() (int, bool) { return a.Dim, true }

// The ops of this file take single elements of self. For matrices and dim 0:
//
//	gather:          result[i, j] = self[index[i, j], j]
//	take_along_dim:  the same, after self and index are broadcast to each other in the other dimensions
//	take:            result[i, j] = element index[i, j] of self in row-major order
//
// Their kernels are indexed walks (walk.go), loops over the elements of the result. The table of such a walk is self.
// Its lookup reads an index and returns the offset of the element in the table. For the cost, gatherImpls(byElement)
// declares that each index selects a single element, not a slice.

// Gather is torch.gather.
var Gather = kit.Define[*gatherAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "gather",
		Doc: "Takes elements of self at the indices `index` along `dim`. For matrices and dim 0, result[i][j] is " +
			"self[index[i][j]][j]. A negative index counts from the end.",
		Params: []graph.Param{kit.Self, indexParam},
		Infer:  inferGather,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			dim, err := tensor.WrapDim(kit.Attrs[*gatherAttrs](c).Dim, in[0].Rank())
			if err != nil {
				return nil, err
			}
			return gatherRef(in[0], in[1], dim)
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{kit.F32(3, 4).WithStrides([]int{1, 3}), kit.I64(2, 4)}, Attrs: graph.Attrs{"dim": 0}},
			{In: []tensor.Meta{kit.F32(3, 4), kit.I64(3, 2)}, Attrs: graph.Attrs{"dim": 1}}},
	},
	Facts: graph.Facts{ConstantsByAddress: true, WritesAnyDenseLayout: true, SelectsElements: true,
		Parallel: kit.LoopsExcept(func(c *graph.Call) []int { return []int{kit.Attrs[*gatherAttrs](c).Dim} })},
	Lowerings: graph.Lowerings{
		Impls: gatherImpls(byElement, readsView, func(c *graph.Call) (*graph.Kernel, error) {
			dim, err := tensor.WrapDim(kit.Attrs[*gatherAttrs](c).Dim, c.Meta(0).Rank())
			if err != nil {
				return nil, err
			}
			return gatherKernel(c, tableMeta(c), c.Meta(1), dim), nil
		}),
	},
})

// inferGather infers the result of gather.
func inferGather(c *graph.Call) ([]graph.Result, error) {
	self, index := c.Type(0), c.Type(1)
	dim, err := tensor.WrapDim(kit.Attrs[*gatherAttrs](c).Dim, self.Rank())
	if err == nil && !kit.IsEmpty(index) { // PyTorch does not check empty indices
		if err = checkGatherShapes(self, index, dim); err == nil {
			err = checkIndexDType("gather", index.DType)
		}
	}
	return c.NewResult(index.RowMajor().WithDType(self.DType)), err
}

// checkGatherShapes returns the error of aten's gather_shape_check if the shapes of self and index do not match.
func checkGatherShapes(self, index tensor.Type, dim int) error {
	if max(1, self.Rank()) != max(1, index.Rank()) {
		return errors.New("Index tensor must have the same number of dimensions as input tensor")
	}
	for otherDim, size := range index.Shape {
		if otherDim != dim && size.Gt(kit.SizeAtDim(self, otherDim)).Holds() {
			return fmt.Errorf("Size does not match at dimension %d expected index %s to be smaller than self %s apart from "+
				"dimension %d", otherDim, tensor.Sizes(index.Shape), tensor.Sizes(self.Shape), dim)
		}
	}
	return nil
}

// gatherKernel returns a kernel that gathers along dim. self and index are the metas of operand 0 and of the index
// operand, broadcast to each other in all dimensions except dim.
func gatherKernel(c *graph.Call, self, index tensor.Meta, dim int) *graph.Kernel {
	out := c.Out[0]
	if out.Numel() == 0 {
		return &graph.Kernel{}
	}
	// The table has a stride for each dimension of the result. In dim it is 0: the lookup gives the position there.
	tableStrides := withoutStride(kit.ByteStrides(self), dim)
	switch { // one of self and out may be 0-dim while the other is a vector of one element; the strides are for out
	case out.Rank() == 0:
		tableStrides = nil
	case self.Rank() == 0:
		tableStrides = []int{0} // out is a vector
	}
	result, indexOperand := operandAt(0, out), operandAt(2, index) // Mem.Ptrs has the result, self and the index
	table := walkOperand{kit.PtrBuffer(1, self), tableStrides}
	walk := &indexedWalk{shape: out.Shape, operands: []walkOperand{result, table, indexOperand},
		lookups: []lookup{lookupAlong(self, index, dim)}}
	walk.readView(c, func(dim int) int { return dim })
	return walk.kernel(kit.GatherRowLoops(out.DType))
}

// gatherRef is the reference of gather. A 0-dim value counts as a vector of one element.
func gatherRef(self, index *tensor.Tensor, dim int) ([]*tensor.Tensor, error) {
	out := tensor.Zeros(self.DType, index.Shape...)
	var firstErr error
	kit.EachIndex(index.Shape, func(coords []int) {
		position, err := refIndex(index, sizeAt(self.Meta, dim), dim, coords...)
		if err != nil {
			firstErr = cmp.Or(firstErr, err)
			return
		}
		sourceIndex := slices.Clone(coords)
		switch {
		case self.Rank() == 0:
			sourceIndex = nil
		case len(sourceIndex) == 0:
			sourceIndex = []int{position}
		default:
			sourceIndex[dim] = position
		}
		out.Set(self.At(sourceIndex...), coords...)
	})
	return []*tensor.Tensor{out}, firstErr
}

type takeAlongAttrs struct {
	Dim *int `attr:"dim" default:"none" doc:"dimension to index; none: self and indices are flattened"`
}

func (a *takeAlongAttrs) indexedDim() (int, bool) {
	if a.Dim == nil {
		return 0, false
	}
	return *a.Dim, true
}

// TakeAlongDim is torch.take_along_dim.
var TakeAlongDim = kit.Define[*takeAlongAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "take_along_dim",
		Doc: "Takes elements of self along a dimension, as gather does, after self and `indices` are broadcast in the " +
			"other dimensions. If `dim` is not given, self and `indices` are flattened.",
		Params: []graph.Param{kit.Self, {Name: "indices", IndexBound: selfIndexBound}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			self, index, _, err := takeAlongTypes(c)
			if err != nil {
				return nil, err
			}
			return c.NewResult(index.RowMajor().WithDType(self.DType)), nil
		},
		Ref: takeAlongRef,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 1, 4), kit.I64(1, 2, 2)}, Attrs: graph.Attrs{"dim": -1}},
			{In: []tensor.Meta{kit.F32(3, 4).WithStrides([]int{1, 3}), kit.I64(5)}}},
	},
	Facts: graph.Facts{ConstantsByAddress: true, Parallel: takeAlongLoops, WritesAnyDenseLayout: true, SelectsElements: true},
	Lowerings: graph.Lowerings{
		Compile: func(call *graph.Call) (*graph.Kernel, error) {
			self, index, dim, err := takeAlongTypes(call)
			if err != nil {
				return nil, err
			}
			selfMeta, indexMeta := kit.KnownMeta(self), kit.KnownMeta(index)
			if kit.Attrs[*takeAlongAttrs](call).Dim == nil {
				return takeKernel(call, indexMeta), nil
			}
			return gatherKernel(call, selfMeta, indexMeta, dim), nil
		},
	},
})

// takeAlongTypes returns the types of self and indices, broadcast to each other in all dimensions except the indexed
// one, and the indexed dimension. If the attribute dim is not given, indices are flattened, self is unchanged, and dim
// is 0.
func takeAlongTypes(c *graph.Call) (self, index tensor.Type, dim int, err error) {
	self, index = c.Type(0), c.Type(1)
	if index.DType != tensor.Int64 && index.DType != tensor.Int32 {
		return self, index, 0, errors.New("torch.take_along_dim(): dtype of indices should be Long but got " +
			index.DType.TorchName())
	}
	attr := kit.Attrs[*takeAlongAttrs](c).Dim
	if attr == nil {
		flat := tensor.NewType(index.DType, index.Numel())
		if view, err := index.View(flat.Shape); err == nil {
			flat = view
		} // else flat is row-major, unlike indices: takeKernel treats this case
		return self, flat, 0, nil
	}
	if self.Rank() != index.Rank() {
		return self, index, 0, fmt.Errorf("torch.take_along_dim(): input and indices should have the same number of "+
			"dimensions, but got %d dimensions for input, and %d dimensions for indices", self.Rank(), index.Rank())
	}
	if dim, err = tensor.WrapDim(*attr, self.Rank()); err != nil || self.Rank() == 0 {
		return self, index, dim, err
	}
	shape, err := tensor.BroadcastSizes(kit.ReplaceSizes(self.Shape, dim, sym.Of(1)), kit.ReplaceSizes(index.Shape, dim,
		sym.Of(1)))
	if err != nil {
		return self, index, dim, err
	}
	if self, err = self.Expand(kit.ReplaceSizes(shape, dim, self.Shape[dim])); err != nil {
		return self, index, dim, err
	}
	index, err = index.Expand(kit.ReplaceSizes(shape, dim, index.Shape[dim]))
	return self, index, dim, err
}

// takeAlongRef is the reference of take_along_dim.
func takeAlongRef(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	self, index, dim, err := takeAlongTypes(call)
	if err != nil {
		return nil, err
	}
	if kit.Attrs[*takeAlongAttrs](call).Dim == nil {
		return flatGatherRef(in[0], in[1])
	}
	source, err := in[0].View(kit.KnownMeta(self))
	if err != nil {
		return nil, err
	}
	indices, err := in[1].Contiguous().Expanded(kit.KnownMeta(index).Shape)
	if err != nil {
		return nil, err
	}
	return gatherRef(source, indices, dim)
}

// flatGatherRef is gatherRef for self and index flattened to vectors.
func flatGatherRef(self, index *tensor.Tensor) ([]*tensor.Tensor, error) {
	source, err := kit.ReshapeRowMajor(context.Background(), self, self.Numel())
	if err != nil {
		return nil, err
	}
	indices, err := kit.ReshapeRowMajor(context.Background(), index, index.Numel())
	if err != nil {
		return nil, err
	}
	const dim = 0
	return gatherRef(source, indices, dim)
}

// takeAlongLoops returns the parallel loops over the dimensions that are not indexed.
func takeAlongLoops(c *graph.Call) []graph.Parallel {
	dim := kit.Attrs[*takeAlongAttrs](c).Dim
	if dim == nil {
		return nil
	}
	return kit.LoopsExceptDims(*dim)(c)
}

// Take is torch.take.
var Take = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "take",
		Doc: "Takes elements of self by their flat row-major index. The result has the shape of `index`. A negative index " +
			"counts from the end.",
		Params: []graph.Param{kit.Self, indexParam},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			self, index := c.Type(0), c.Type(1)
			if kit.IsEmpty(self) && !kit.IsEmpty(index) {
				return nil, errors.New("take(): tried to take from an empty tensor")
			}
			return c.NewResult(index.RowMajor().WithDType(self.DType)), checkIndexDType("take", index.DType)
		},
		Ref:      takeRef,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 4).WithStrides([]int{1, 3}), kit.I64(2, 2)}}},
	},
	Facts: graph.Facts{Parallel: takeLoops, WritesAnyDenseLayout: true, SelectsElements: true},
	Lowerings: graph.Lowerings{
		Impls: gatherImpls(byElement, nil,
			func(c *graph.Call) (*graph.Kernel, error) { return takeKernel(c, c.Meta(1)), nil }),
	},
})

// takeLoops returns the parallel loops of a call: over the dimensions of the indices.
func takeLoops(c *graph.Call) []graph.Parallel {
	const indices = 1
	return kit.LoopsOverDims(c, indices, c.Meta(indices).Rank())
}

// takeRef is the reference of take.
func takeRef(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := tensor.Zeros(in[0].DType, in[1].Shape...)
	flat, err := kit.ReshapeRowMajor(context.Background(), in[0], in[0].Numel())
	if err != nil {
		return nil, err
	}
	const flatDim = 0 // for errors
	kit.EachIndex(out.Shape, func(coords []int) {
		position, indexErr := refIndex(in[1], flat.Shape[0], flatDim, coords...)
		if indexErr != nil {
			err = cmp.Or(err, indexErr)
			return
		}
		out.Set(flat.At(position), coords...)
	})
	return []*tensor.Tensor{out}, err
}

// takeKernel returns a kernel that gathers elements of operand 0 by the flat indices in operand 1. index is the meta of
// the indices in the shape of the result. It differs from the meta of operand 1 if takeAlongTypes flattened them.
func takeKernel(c *graph.Call, index tensor.Meta) *graph.Kernel {
	selfMeta, out := c.Meta(0), c.Out[0]
	// Flattened indices may have no view in the memory of operand 1. The walk therefore has the shape of operand 1, and
	// writes a view of the result.
	if operand := c.Meta(1); index.Numel() == operand.Numel() && !index.SameLayout(operand) {
		if view, err := out.View(operand.Shape); err == nil {
			index, out = operand, view
		}
	}
	// The table has stride 0 in all dimensions of the result: only the lookup gives the position.
	table := walkOperand{kit.PtrBuffer(1, selfMeta), make([]int, out.Rank())}
	const indexOperand = 2 // its index in operands
	walk := &indexedWalk{shape: out.Shape, operands: []walkOperand{operandAt(0, out), table, operandAt(2, index)},
		lookups: []lookup{{operand: indexOperand, isInt64: index.DType == tensor.Int64, size: selfMeta.Numel(),
			// With flatLayout, the lookup converts a flat index to coordinates, and the coordinates to an offset by the
			// strides of self. byteStride is then the size of an element.
			flatLayout: &selfMeta, byteStride: selfMeta.DType.Size()}}}
	return walk.kernel(kit.GatherRowLoops(out.DType))
}
