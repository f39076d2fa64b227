package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// parallel is the type of [graph.Facts].Parallel, which lists the loops of a call that workers can divide.
type parallel = func(c *graph.Call) []graph.Parallel

// LoopsExcept lists a loop over each dimension of the result that is not combined. A dimension is combined if an
// element of the result depends on several elements of an operand along it. For example, a sort of [n, c, h] along the
// last dimension has loops over n and c. combined returns the combined dimensions of a call in a new list; negative
// dimensions count from the end. The loops divide operands that have the rank of the result. Other operands are read
// whole.
func LoopsExcept(combined func(c *graph.Call) []int) parallel {
	return func(c *graph.Call) []graph.Parallel {
		dims, rank := combined(c), c.Out[0].Rank()
		for i, dim := range dims {
			if dim < 0 {
				dims[i] = dim + rank
			}
		}
		return graph.DimsExcept(c, dims...)
	}
}

// LoopsExceptDims is [LoopsExcept] for dimensions that are the same in every call.
func LoopsExceptDims(dims ...int) parallel {
	return LoopsExcept(func(*graph.Call) []int { return append([]int(nil), dims...) })
}

// LoopsExceptLast is [LoopsExcept] for the last n dimensions, which windows or interpolation combine. n is capped at 3,
// because windows have at most three dimensions.
func LoopsExceptLast(n int) parallel { return LoopsExceptDims([]int{-1, -2, -3}[:min(n, 3)]...) }

// BatchLoopForRank lists one loop over the batch, which is dimension 0 of the results and of the given operands. It
// lists no loop if operand 0 does not have the given rank.
func BatchLoopForRank(rank int, operands ...int) parallel {
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

// LoopOverResults returns a loop over dimension 0 of the results that reads every operand whole. Callers then set the
// dimensions of the operands that their loop divides.
func LoopOverResults(c *graph.Call) graph.Parallel {
	loop := graph.Parallel{OperandDims: make([]int, len(c.In)), ResultDims: make([]int, len(c.Out))}
	for i := range loop.OperandDims {
		loop.OperandDims[i] = graph.Whole
	}
	return loop
}

// LoopOver returns a loop that divides dimension inDim of one operand and dimension outDim of all results.
func LoopOver(c *graph.Call, operand, inDim, outDim int) graph.Parallel {
	loop := LoopOverResults(c)
	loop.OperandDims[operand] = inDim
	for k := range loop.ResultDims {
		loop.ResultDims[k] = outDim
	}
	return loop
}

// WrappedDim returns a list of one dimension, or nil if a value of the given rank has no such dimension. A negative
// dimension counts from the end.
func WrappedDim(dim, rank int) []int {
	wrapped, err := tensor.WrapDim(dim, rank)
	if err != nil {
		return nil
	}
	return []int{wrapped}
}
