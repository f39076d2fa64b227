package view

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type stackAttrs struct {
	Dim int `attr:"dim" default:"0" doc:"position of the new dimension, from -rank-1 to rank"`
}

// Stack is torch.stack.
var Stack = kit.Define[*stackAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "stack",
		Doc:      "Concatenates tensors of the same shape along a new dimension. Dtypes are promoted.",
		Params:   []graph.Param{kit.Tensors},
		Infer:    inferStack,
		Ref:      refStack,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3), kit.F32(2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
	},
	Facts: graph.Facts{Parallel: stackLoops, FlopsPerElement: copyFlops, WritesAnyDenseLayout: true,
		SelectsElements: true},
	Lowerings: graph.Lowerings{Compile: compileStack},
})

// inlineOperands is the maximum number of operands for which inference allocates no list of types.
const inlineOperands = 4

// inferStack infers the type of the result by the steps of at::stack, because these steps determine the result's memory
// format. If the new dimension precedes dimension d of the operands, the operands are concatenated along d, and the
// concatenation is viewed in the shape of the result. If the new dimension is the last dimension, the operands are
// first viewed with an additional last dimension of size 1, and then concatenated along it.
func inferStack(call *graph.Call) ([]graph.Result, error) {
	var inlineTypes [inlineOperands]tensor.Type // not allocated on the heap
	operands := kit.OperandTypes(inlineTypes[:0], call)
	shape := operands[0].Shape
	dim, err := tensor.WrapDim(kit.Attrs[*stackAttrs](call).Dim, len(shape)+1)
	if err != nil {
		return nil, err
	}
	for i := range operands {
		operand := &operands[i]
		if !tensor.SameSizes(operand.Shape, shape) {
			return nil, fmt.Errorf("stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d",
				tensor.Sizes(shape), tensor.Sizes(operand.Shape), i)
		}
		if dim == len(shape) {
			if operands[i], err = operand.Unsqueeze(dim); err != nil {
				return nil, err
			}
		}
	}
	joined, _, err := concatType(operands, dim)
	if err != nil || dim == len(shape) {
		return call.NewResult(joined), err
	}
	size := append(make([]sym.Int, 0, len(shape)+1), shape[:dim]...)
	stacked, err := joined.View(append(append(size, sym.Of(len(operands))), shape[dim:]...))
	return call.NewResult(stacked), err
}

// compileStack returns a kernel that copies each operand to its slice of the result.
func compileStack(call *graph.Call) (*graph.Kernel, error) {
	out := kit.OutBuffer(call, 0)
	dim, err := tensor.WrapDim(kit.Attrs[*stackAttrs](call).Dim, out.Meta.Rank())
	if err != nil {
		return nil, err
	}
	jobs := make([]copies.Job, len(call.In))
	for i := range call.In {
		target, err := out.Meta.Select(dim, i)
		if err != nil {
			return nil, err
		}
		jobs[i] = copies.Job{Dst: out.View(target), Src: kit.InBuffer(call, i)}
	}
	return copies.Kernel(jobs...), nil
}

// refStack is the reference implementation of stack.
func refStack(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	inferred, err := inferStack(c)
	if err != nil {
		return nil, err
	}
	meta := inferred[0].Meta()
	dim, err := tensor.WrapDim(kit.Attrs[*stackAttrs](c).Dim, meta.Rank())
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(meta.DType, meta.Shape...)
	kit.EachIndex(meta.Shape, func(index []int) {
		sourceIndex := slices.Delete(slices.Clone(index), dim, dim+1)
		out.Set(in[index[dim]].At(sourceIndex...), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// stackLoops returns the loops over all dimensions of the operands.
func stackLoops(call *graph.Call) []graph.Parallel {
	rank := call.Meta(0).Rank()
	newDim := kit.WrappedDim(kit.Attrs[*stackAttrs](call).Dim, rank+1) // a list of one dimension; nil if it is invalid
	if newDim == nil {
		return nil
	}
	loops := make([]graph.Parallel, rank)
	for d := range rank {
		outDim := d
		if d >= newDim[0] {
			outDim++
		}
		const firstOperand = 0
		loops[d] = kit.LoopOver(call, firstOperand, d, outDim)
		for i := range call.In {
			loops[d].OperandDims[i] = d
		}
	}
	return loops
}
