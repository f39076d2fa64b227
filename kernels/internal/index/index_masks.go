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

// hasMask reports whether an operand of index is a mask, so that the result's shape depends on data.
func hasMask(c *graph.Call) bool {
	for i := 1; i < len(c.In); i++ {
		if c.Has(i) && c.Type(i).DType == tensor.Bool {
			return true
		}
	}
	return false
}

// maskedOutline returns the outline of the result of a call with masks. The sizes of the broadcast indices are unknown.
// The other sizes are inferred from a call with one true element per mask.
func maskedOutline(call *graph.Call) graph.Outline {
	outline := graph.Outline{DType: call.Type(0).DType}
	parsed, err := newIndexCall(withIndicesForMasks(call, sym.Of(1)))
	if err != nil {
		return outline // the run reports the error
	}
	outline.Sizes = outlineSizes(parsed.shape)
	for i := range parsed.indexShape {
		outline.Sizes[parsed.firstIndexDim+i] = -1
	}
	operandCount := 0
	for i := 1; i < len(call.In); i++ {
		if call.Has(i) {
			operandCount++
		}
	}
	if operandCount == 1 { // otherwise the shape does not determine the number of true elements of each mask
		outline.TypeFor = func(shape []sym.Int) (tensor.Type, error) {
			// The size of the first dimension of the indices is the number of true elements of the mask.
			parsed, err := newIndexCall(withIndicesForMasks(call, shape[parsed.firstIndexDim]))
			if err != nil {
				return tensor.Type{}, err
			}
			return parsed.resultType()
		}
	}
	return outline
}

// withIndicesForMasks returns the call with index operands in place of masks. A mask of two dimensions, for example,
// becomes two operands of n indices each.
func withIndicesForMasks(call *graph.Call, n sym.Int) *graph.Call {
	t := tensor.NewType(tensor.Int64, n)
	index := graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Type: t, Meta: t.AtHints()}}
	args := []graph.Arg{call.In[0]}
	for i := 1; i < len(call.In); i++ {
		if !call.Has(i) || call.Type(i).DType != tensor.Bool {
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
	c, operands, err := replaceMasks(c, in, func(m *tensor.Tensor) (*tensor.Tensor, error) {
		return nonzeroIndices(ctx, m)
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
	operands := in[:1:1]
	add := func(t *tensor.Tensor) {
		a := graph.Arg{}
		if t != nil {
			a = graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: t.Meta}}
		}
		args, operands = append(args, a), append(operands, t)
	}
	for i := 1; i < len(in); i++ {
		if in[i] == nil || in[i].DType != tensor.Bool {
			add(in[i])
			continue
		}
		m := in[i]
		// Operand j of the new call indexes dimension j-1 of self, so the mask covers dimensions from len(operands)-1.
		for d := range m.Rank() {
			if k := len(operands) - 1 + d; k >= in[0].Rank() || in[0].Shape[k] != m.Shape[d] {
				return nil, nil, fmt.Errorf(
					"The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d",
					tensor.ListString(m.Shape), d, tensor.ListString(in[0].Shape), len(operands)-1+d)
			}
		}
		all, err := nonzero(m)
		if err != nil {
			return nil, nil, err
		}
		for d := range m.Rank() {
			v, err := all.Meta.Select(1, d)
			if err != nil {
				return nil, nil, err
			}
			t, err := all.View(v)
			if err != nil {
				return nil, nil, err
			}
			add(t)
		}
	}
	return &graph.Call{In: args, Attrs: call.Attrs}, operands, nil
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
	m := kit.KnownMeta(t)
	call.Out = []tensor.Meta{m}
	return runSerially(ctx, parsed.kernel(call), m, in)
}

// runSerially runs a kernel with one result in the calling goroutine. m is the meta of the result.
func runSerially(ctx context.Context, kernel *graph.Kernel, m tensor.Meta, in []*tensor.Tensor) ([]*tensor.Tensor,
	error) {
	out := tensor.Empty(m)
	mem := kernel.NewMem()
	mem.Context = ctx
	mem.Ptrs = append(mem.Ptrs, out.Pointer())
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

// nonzeroRef returns the indices of the n non-zero elements as a tensor [n, rank]: nonzeroIndices for references.
func nonzeroRef(t *tensor.Tensor) (*tensor.Tensor, error) {
	var positions [][]int
	kit.EachIndex(t.Shape, func(at []int) {
		if t.At(at...).Complex() != 0 {
			positions = append(positions, slices.Clone(at))
		}
	})
	out := tensor.Zeros(tensor.Int64, len(positions), t.Rank())
	for i, at := range positions {
		for d, k := range at {
			out.Set(tensor.IntScalar(int64(k)), i, d)
		}
	}
	return out, nil
}
