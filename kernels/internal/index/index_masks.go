package index

import (
	"context"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs calls of index with masks, which are operands of bools. A mask of rank r selects elements along r
// dimensions of self, and is replaced by r operands of indices. For example, self[mask] with
//
//	mask = [[true, false],   becomes self[rows, columns] with rows = [0, 1, 1]
//	        [true, true]]                                 and columns = [0, 0, 1]

// hasMask reports whether an operand of index is a mask, so that the result's shape depends on data.
func hasMask(c *graph.Call) bool {
	for i := 1; i < len(c.In); i++ {
		if c.HasOperand(i) && c.Type(i).DType == tensor.Bool {
			return true
		}
	}
	return false
}

// outlineWithMasks returns the outline of the result of a call with masks. The sizes of the broadcast indices are
// unknown. The other sizes are inferred from a call in which each mask has one true element.
func outlineWithMasks(call *graph.Call) graph.PartialType {
	outline := graph.PartialType{DType: call.Type(0).DType}
	parsed, err := newIndexCall(withIndicesForMasks(call, sym.Of(1)))
	if err != nil {
		return outline // the run reports the error
	}
	outline.Sizes = outlineSizes(parsed.shape)
	for i := range parsed.indexShape {
		outline.Sizes[parsed.firstIndexDim+i] = unknownSize
	}
	indexOperands := 0
	for i := 1; i < len(call.In); i++ {
		if call.HasOperand(i) {
			indexOperands++
		}
	}
	// With one index operand, the mask, the shape of the result determines the number of the mask's true elements.
	if indexOperands == 1 {
		outline.TypeFor = func(shape []sym.Int) (tensor.Type, error) {
			// The first dimension that comes from the indices has as many elements as the mask has true elements.
			parsedForShape, err := newIndexCall(withIndicesForMasks(call, shape[parsed.firstIndexDim]))
			if err != nil {
				return tensor.Type{}, err
			}
			return parsedForShape.resultType()
		}
	}
	return outline
}

// withIndicesForMasks returns the call with index operands in place of masks, for masks with trueCount true elements. A
// mask of two dimensions, for example, becomes two operands of trueCount indices each. Their metas have the example
// value of trueCount (its hint, see [tensor.Type.AtHints]).
func withIndicesForMasks(call *graph.Call, trueCount sym.Int) *graph.Call {
	indexType := tensor.NewType(tensor.Int64, trueCount)
	index := graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Type: indexType, Meta: indexType.AtHints()}}
	args := []graph.Arg{call.In[0]}
	for i := 1; i < len(call.In); i++ {
		if !call.HasOperand(i) || call.Type(i).DType != tensor.Bool {
			args = append(args, call.In[i])
			continue
		}
		args = append(args, slices.Repeat([]graph.Arg{index}, call.Type(i).Rank())...)
	}
	return &graph.Call{In: args, Attrs: call.Attrs}
}

// indexByMasks replaces each mask by the indices of its true elements and runs the resulting call.
func indexByMasks(rt graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	ctx := contextOf(rt)
	c, operands, err := replaceMasks(c, in, func(mask *tensor.Tensor) (*tensor.Tensor, error) {
		return nonzeroIndices(ctx, mask)
	})
	if err != nil {
		return nil, err
	}
	return runIndex(ctx, c, operands)
}

// replaceMasks returns the call and its operands with index operands in place of masks. Each dimension of a mask
// becomes one operand, which has the indices of the mask's true elements in this dimension. nonzero returns the indices
// of a mask as a tensor [n, rank].
func replaceMasks(call *graph.Call, in []*tensor.Tensor, nonzero func(*tensor.Tensor) (*tensor.Tensor, error)) (
	*graph.Call, []*tensor.Tensor, error) {
	args := []graph.Arg{{Kind: graph.TensorArg, Value: &graph.Value{Meta: in[0].Meta}}}
	operands := in[:1:1]                   // self; the capacity makes append copy the slice
	addOperand := func(t *tensor.Tensor) { // nil for an omitted operand
		arg := graph.Arg{}
		if t != nil {
			arg = graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: t.Meta}}
		}
		args, operands = append(args, arg), append(operands, t)
	}
	for i := 1; i < len(in); i++ {
		mask := in[i]
		if mask == nil || mask.DType != tensor.Bool {
			addOperand(in[i])
			continue
		}
		// Operand j of the new call indexes dimension j-1 of self.
		if err := checkMaskShape(mask, in[0], len(operands)-1); err != nil {
			return nil, nil, err
		}
		indices, err := nonzero(mask) // [n, rank]
		if err != nil {
			return nil, nil, err
		}
		for dim := range mask.Rank() {
			const columnDim = 1
			column, err := indices.Meta.Select(columnDim, dim)
			if err != nil {
				return nil, nil, err
			}
			operand, err := indices.View(column)
			if err != nil {
				return nil, nil, err
			}
			addOperand(operand)
		}
	}
	return &graph.Call{In: args, Attrs: call.Attrs}, operands, nil
}

// checkMaskShape returns an error unless a mask has the sizes of the dimensions of self from firstDim on.
func checkMaskShape(mask, self *tensor.Tensor, firstDim int) error {
	for dim := range mask.Rank() {
		if selfDim := firstDim + dim; selfDim >= self.Rank() || self.Shape[selfDim] != mask.Shape[dim] {
			return fmt.Errorf(
				"The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d",
				tensor.ListString(mask.Shape), dim, tensor.ListString(self.Shape), selfDim)
		}
	}
	return nil
}

// runIndex compiles a call of index without masks and runs it in the calling goroutine.
func runIndex(ctx context.Context, call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	parsed, err := newIndexCall(call)
	if err != nil {
		return nil, err
	}
	t, err := parsed.resultType()
	if err != nil {
		return nil, err
	}
	resultMeta := kit.KnownMeta(t)
	call.Out = []tensor.Meta{resultMeta}
	return runSerially(ctx, parsed.kernel(call), resultMeta, in)
}

// runSerially runs a kernel with one result in the calling goroutine.
func runSerially(ctx context.Context, kernel *graph.Kernel, resultMeta tensor.Meta,
	in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := tensor.Empty(resultMeta)
	mem := kernel.NewMem()
	mem.Context = ctx
	mem.Ptrs = append(mem.Ptrs, out.Pointer()) // the result, then the operands
	for _, t := range in {
		if t == nil {
			mem.Ptrs = append(mem.Ptrs, nil)
			continue
		}
		mem.Ptrs = append(mem.Ptrs, t.Pointer())
	}
	for _, phase := range kernel.Phases {
		for i := range phase.Chunks {
			interrupt.Check(ctx)
			if err := phase.Run(mem, i); err != nil {
				return nil, err
			}
		}
	}
	return []*tensor.Tensor{out}, nil
}

// nonzeroRef returns the indices of the nonzero elements of t as a row-major tensor [n, rank]. The reference
// implementations of ops use it; kernels use nonzeroIndices.
func nonzeroRef(t *tensor.Tensor) (*tensor.Tensor, error) {
	var positions [][]int
	kit.EachIndex(t.Shape, func(coords []int) {
		if t.At(coords...).Complex() != 0 {
			positions = append(positions, slices.Clone(coords))
		}
	})
	out := tensor.Zeros(tensor.Int64, len(positions), t.Rank())
	for i, coords := range positions {
		for dim, k := range coords {
			out.Set(tensor.IntScalar(int64(k)), i, dim)
		}
	}
	return out, nil
}
