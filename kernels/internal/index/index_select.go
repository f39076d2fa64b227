package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// IndexSelect is torch.index_select.
var IndexSelect = kit.Define[*dimAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "index_select",
		Doc: "Takes slices of self along a dimension, one for each element of a one-dimensional `index`. A negative " +
			"index counts from the end.",
		Params: []graph.Param{kit.Self, indexParam},
		Infer:  inferIndexSelect,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			dim, err := tensor.WrapDim(kit.Attrs[*dimAttrs](c).Dim, in[0].Rank())
			if err != nil {
				return nil, err
			}
			return selectRef(in[0], in[1], dim)
		},
		Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.I64(3)}, Attrs: graph.Attrs{"dim": 1}},
			{In: []tensor.Meta{kit.F32(3, 4), kit.I64(2)}, Attrs: graph.Attrs{"dim": -1}}},
	},
	Facts: graph.Facts{ConstantsByAddress: true, Parallel: indexSelectLoops, WritesAnyDenseLayout: true, SelectsElements: true},
	Lowerings: graph.Lowerings{
		Impls: gatherImpls(bySlice, readsView, func(c *graph.Call) (*graph.Kernel, error) {
			self := c.Meta(0)
			dim, err := tensor.WrapDim(kit.Attrs[*dimAttrs](c).Dim, self.Rank())
			if err != nil {
				return nil, err
			}
			return selectKernel(c, kit.InBuffer(c, 1), lookupAlong(tableMeta(c), c.Meta(1), dim)), nil
		}),
	},
})

// inferIndexSelect is the Infer function of index_select.
func inferIndexSelect(call *graph.Call) ([]graph.Result, error) {
	self, index := call.Type(0), call.Type(1)
	dim, err := tensor.WrapDim(kit.Attrs[*dimAttrs](call).Dim, self.Rank())
	if err != nil {
		return nil, err
	}
	if index.Rank() > 1 {
		return nil, errors.New("index_select(): Index is supposed to be a vector")
	}
	if err := checkIndexDType("index_select", index.DType); err != nil {
		return nil, err
	}
	if self.Rank() == 0 {
		if n := index.Numel(); !kit.SizeIs(n, 1) {
			return nil, fmt.Errorf("index_select(): Index to scalar can have only 1 value, got %v value(s)", n)
		}
		return call.NewResult(tensor.NewType(self.DType)), nil
	}
	out, err := kit.FreshType(self.DType, kit.ReplaceSizes(self.Shape, dim, index.Numel()))
	return call.NewResult(out), err
}

// selectRef is the reference of index_select.
func selectRef(self, index *tensor.Tensor, dim int) ([]*tensor.Tensor, error) {
	shape := slices.Clone(self.Shape)
	if self.Rank() > 0 {
		shape[dim] = index.Numel()
	}
	out := tensor.Zeros(self.DType, shape...)
	flat, firstErr := kit.ReshapeRowMajor(context.Background(), index, index.Numel())
	if firstErr != nil {
		return nil, firstErr
	}
	kit.EachIndex(shape, func(coords []int) {
		sourceCoords, sliceIndex := slices.Clone(coords), 0
		if len(coords) > 0 {
			sliceIndex = coords[dim]
		}
		sourceSlice, err := refIndex(flat, sizeAt(self.Meta, dim), dim, sliceIndex)
		if err != nil {
			firstErr = cmp.Or(firstErr, err)
			return
		}
		if len(coords) > 0 {
			sourceCoords[dim] = sourceSlice
		}
		out.Set(self.At(sourceCoords...), coords...)
	})
	return []*tensor.Tensor{out}, firstErr
}

type embeddingAttrs struct {
	PaddingIdx      int  `attr:"padding_idx" default:"-1" range:"int64" doc:"affects gradients only; ignored"`
	ScaleGradByFreq bool `attr:"scale_grad_by_freq" default:"false" doc:"affects gradients only; ignored"`
	Sparse          bool `attr:"sparse" default:"false" doc:"affects gradients only; ignored"`
}

// Embedding is aten::embedding.
var Embedding = kit.Define[*embeddingAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "embedding",
		Doc: "Takes rows of a matrix: `indices` of shape S and `weight` [n, k] give [S, k]. A negative index is an " +
			"error.",
		Params: []graph.Param{kit.Weight, {Name: "indices", IndexBound: rowIndexBound}},
		Infer:  inferEmbedding,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			const rowDim = 0
			if err := checkNotNegative(in[1], rowDim, in[0].Shape[rowDim]); err != nil {
				return nil, err
			}
			out, err := selectRef(in[0], in[1], rowDim)
			if err != nil {
				return nil, err
			}
			result, err := out[0].View(tensor.New(in[0].DType, append(slices.Clone(in[1].Shape), in[0].Shape[1])...))
			return []*tensor.Tensor{result}, err
		},
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(4, 6), kit.I64(2, 3)}}},
	},
	Facts: graph.Facts{ConstantsByAddress: true, Parallel: embeddingLoops, WritesAnyDenseLayout: true, SelectsElements: true},
	Lowerings: graph.Lowerings{
		Impls: gatherImpls(bySlice, readsView, func(c *graph.Call) (*graph.Kernel, error) {
			const rowDim = 0
			rows := lookupAlong(tableMeta(c), c.Meta(1), rowDim)
			rows.fromStart = true
			return selectKernel(c, kit.InBuffer(c, 1), rows), nil
		}),
	},
})

// checkNotNegative returns an error for a negative index of a dimension.
func checkNotNegative(indices *tensor.Tensor, dim, size int) (err error) {
	kit.EachIndex(indices.Shape, func(coords []int) {
		if i := indices.At(coords...).Int(); i < 0 {
			err = cmp.Or(err, outOfBounds(i, dim, size))
		}
	})
	return err
}

// inferEmbedding is the Infer function of embedding.
func inferEmbedding(call *graph.Call) ([]graph.Result, error) {
	weight, index := call.Type(0), call.Type(1)
	if weight.Rank() != 2 {
		return nil, errors.New("'weight' must be 2-D")
	}
	if index.DType != tensor.Int64 && index.DType != tensor.Int32 {
		return nil, fmt.Errorf("Expected tensor for argument #1 'indices' to have one of the following scalar types: "+
			"Long, Int; but got %s instead (while checking arguments for embedding)", index.DType.TorchName())
	}
	// ReplaceSizes appends the length of a row.
	out, err := kit.FreshType(weight.DType, kit.ReplaceSizes(index.Shape, index.Rank(), weight.Shape[1]))
	return call.NewResult(out), err
}

// Index is aten::index.Tensor.
var Index = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "index",
		Doc: "Takes elements as self[index0, index1, ...] does: operand i+1 holds indices of dimension i, or is null to " +
			"keep the whole dimension.\n" +
			"The indices are broadcast to one shape. This shape replaces the indexed dimensions if they are adjacent; " +
			"otherwise it comes first. A mask with n dimensions stands for n operands, the indices of its true " +
			"elements; the operands after the mask index the dimensions after those n.",
		Params: indexParams(),
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			if hasMask(call) {
				return []graph.Result{outlineWithMasks(call).Result()}, nil
			}
			parsed, err := newIndexCall(call)
			if err != nil {
				return nil, err
			}
			t, err := parsed.resultType()
			return call.NewResult(t), err
		},
		Ref: indexRef,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 4, 2), {}, kit.I64(2, 1), kit.I64(3)}},
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.I64(2), {}, kit.I64(2)}},
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), {}, tensor.New(tensor.Bool, 3, 4)}}},
	},
	Facts: graph.Facts{ConstantsByAddress: true, Parallel: indexLoops, SelectsElements: true},
	Lowerings: graph.Lowerings{
		RunDynamic: indexByMasks,
		Impls: []graph.Impl{{Name: "plain", Doc: "The only implementation.", ReadsView: readsView, Work: indexWork,
			Lower: func(c *graph.Call) (*graph.Kernel, error) {
				parsed, err := newIndexCall(c)
				if err != nil {
					return nil, err
				}
				return parsed.kernel(c), nil
			}}},
	},
})

// indexWork returns the work of a call of index, which reads the indexed part of self.
func indexWork(call *graph.Call, _ graph.Walk) pricing.Work {
	unit, count := bySlice, 0
	for i := 1; i < len(call.In); i++ {
		if call.HasOperand(i) {
			count++
		}
	}
	if count == call.Meta(0).Rank() { // or more, by masks
		unit = byElement
	}
	return gatherWork(call, unit)
}

// indexSelectLoops returns the parallel loops of a call: over the dimensions of self that are not indexed, and over the
// indices. kit.LoopOver takes the index of an operand, its dimension, and the dimension of the result.
func indexSelectLoops(call *graph.Call) []graph.Parallel {
	const self, index = 0, 1
	rank := call.Meta(0).Rank()
	dim := kit.WrappedDim(kit.Attrs[*dimAttrs](call).Dim, rank)
	if dim == nil || rank == 0 {
		return nil
	}
	var loops []graph.Parallel
	for loopDim := range rank {
		if loopDim != dim[0] {
			loops = append(loops, kit.LoopOver(call, self, loopDim, loopDim))
		}
	}
	if call.Meta(index).Rank() == 1 {
		loops = append(loops, kit.LoopOver(call, index, 0, dim[0]))
	}
	return loops
}

// embeddingLoops returns the parallel loops of a call: over the dimensions of the indices.
func embeddingLoops(c *graph.Call) []graph.Parallel {
	const indices = 1
	return kit.LoopsOverDims(c, indices, c.Meta(indices).Rank())
}
