package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// The functions of this file are for [graph.Facts].Parallel, a function that returns loops over a call. Workers run the
// iterations of a loop in parallel. A loop ([graph.Parallel]) divides every result along one dimension (ResultDims). It
// divides an operand along one dimension, or reads the operand whole (OperandDims, [graph.Whole]). For example, a sort
// of an operand [n, c, h] along h, with the results values and indices, has two loops:
//
//	over n: OperandDims [0], ResultDims [0 0]
//	over c: OperandDims [1], ResultDims [1 1]

// LoopsExcept returns a function that returns a loop over each dimension of the result, except combined dimensions. A
// dimension is combined if an element of the result depends on several elements of an operand along it, as h in the
// sort above. combinedDims returns the combined dimensions of a call, in a list that the caller may modify. Negative
// dimensions count from the end. A loop over a dimension divides operands of the result's rank along the same
// dimension, and reads other operands whole.
func LoopsExcept(combinedDims func(c *graph.Call) []int) func(c *graph.Call) []graph.Parallel {
	return func(c *graph.Call) []graph.Parallel {
		dims, rank := combinedDims(c), c.Out[0].Rank()
		for i, dim := range dims {
			if dim < 0 {
				dims[i] = dim + rank
			}
		}
		return graph.DimsExcept(c, dims...)
	}
}

// LoopsExceptDims is [LoopsExcept] for combined dimensions that are the same in every call.
func LoopsExceptDims(combined ...int) func(c *graph.Call) []graph.Parallel {
	return LoopsExcept(func(*graph.Call) []int { return append([]int(nil), combined...) })
}

// LoopsExceptLast is [LoopsExcept] for ops that combine the last n dimensions, such as pooling. If n is greater than 3,
// it is replaced by 3, the maximum number of dimensions of a window.
func LoopsExceptLast(n int) func(c *graph.Call) []graph.Parallel {
	return LoopsExceptDims([]int{-1, -2, -3}[:min(n, 3)]...)
}

// BatchLoopForRank returns a function that returns one loop over the batch: dimension 0 of the results and of the
// listed operands. Other operands are read whole. If operand 0 does not have the given rank, there is no loop.
func BatchLoopForRank(rank int, operands ...int) func(c *graph.Call) []graph.Parallel {
	return func(c *graph.Call) []graph.Parallel {
		if c.Meta(0).Rank() != rank {
			return nil
		}
		loop := LoopOverResults(c)
		for _, i := range operands {
			if c.HasOperand(i) {
				loop.OperandDims[i] = 0
			}
		}
		return []graph.Parallel{loop}
	}
}

// LoopOverResults returns a loop over dimension 0 of the results. It reads every operand whole, but callers may change
// the returned lists.
func LoopOverResults(c *graph.Call) graph.Parallel {
	loop := graph.Parallel{OperandDims: make([]int, len(c.In)), ResultDims: make([]int, len(c.Out))}
	for i := range loop.OperandDims {
		loop.OperandDims[i] = graph.Whole
	}
	return loop
}

// LoopOver returns a loop over dimension inDim of the operand with the given index, and dimension outDim of all
// results. It reads other operands whole.
func LoopOver(c *graph.Call, operand, inDim, outDim int) graph.Parallel {
	loop := LoopOverResults(c)
	loop.OperandDims[operand] = inDim
	for i := range loop.ResultDims {
		loop.ResultDims[i] = outDim
	}
	return loop
}

// LoopsOverDims returns a loop over each of the first n dimensions of an operand, which are also the first dimensions
// of the results. The loops read other operands whole.
func LoopsOverDims(c *graph.Call, operand, n int) []graph.Parallel {
	loops := make([]graph.Parallel, n)
	for dim := range loops {
		loops[dim] = LoopOver(c, operand, dim, dim)
	}
	return loops
}

// LoopsOverLeadingDims returns a loop over each dimension that operand 0 and the results share. It is for ops whose
// operand 0 and results have the same first dimensions, and one of them may have further dimensions: view_as_real, for
// example.
func LoopsOverLeadingDims(c *graph.Call) []graph.Parallel {
	return LoopsOverDims(c, 0, min(c.Meta(0).Rank(), c.Out[0].Rank()))
}

// WrappedDim returns a list with the dimension dim, counted from the front. A negative dim counts from the end. If a
// value of the given rank has no such dimension, the list is nil.
func WrappedDim(dim, rank int) []int {
	wrapped, err := tensor.WrapDim(dim, rank)
	if err != nil {
		return nil
	}
	return []int{wrapped}
}
