// Package compose helps ops to decompose into nodes of other ops. [graph.Lowerings] explains decompositions.
//
// An op that is nothing but a sequence of ops is defined by [Define]: inference, reference and decomposition are
// derived from the sequence. An op that has its own inference and reference decomposes with a [Builder]. The package
// also has ops that only occur in decompositions: the elements of losses (loss_elements.go), and a cast that keeps
// strides (cast_with_strides.go).
package compose

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// Builder builds the decomposition of a call node by node. After the first error it adds no more nodes;
// [Builder.Result] returns the error.
type Builder struct {
	Call  *graph.Call
	parts *graph.Parts // collects the nodes
	err   error
}

// NewBuilder starts the decomposition of a call.
func NewBuilder(parts *graph.Parts, c *graph.Call) *Builder { return &Builder{Call: c, parts: parts} }

// AddMany adds a node with resultCount results and returns them as operands for other nodes. After an error the
// operands are zero.
func (builder *Builder) AddMany(resultCount int, op *graph.Op, attrs graph.Attrs, in ...graph.Arg) []graph.Arg {
	args := make([]graph.Arg, resultCount)
	if builder.err != nil {
		return args
	}
	out, err := builder.parts.Add(op, attrs, in...)
	if err != nil {
		builder.err = err
		return args
	}
	for i := range args {
		args[i] = graph.ArgOf(out[i])
	}
	return args
}

// Add adds a node with one result.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (builder *Builder) Add(op *graph.Op, attrs graph.Attrs, in ...graph.Arg) graph.Arg {
	return builder.AddMany(1, op, attrs, in...)[0]
}

// Number returns a plain number as an operand.
func Number(x float64) graph.Arg {
	return graph.Arg{Kind: graph.NumberArg, Number: tensor.FloatScalar(x)}
}

// Convert converts x to a dtype. It returns x unchanged if x has this dtype.
func (builder *Builder) Convert(dtype tensor.DType, x graph.Arg) graph.Arg {
	if builder.err != nil || x.Type().DType == dtype {
		return x
	}
	return builder.Add(view.To, graph.Attrs{"dtype": dtype}, x)
}

// BroadcastAlong returns a view of x, which has at most one dimension, that broadcasts to values of the given rank
// along dimension dim. The view has the elements in its first dimension, followed by rank-1-dim dimensions of size 1.
// If x has one element, the view has shape [1], or [] if rank is 0. A 0-dim x becomes a vector, because type promotion
// treats 0-dim operands differently.
func (builder *Builder) BroadcastAlong(x graph.Arg, dim, rank int) graph.Arg {
	if builder.err != nil {
		return x
	}
	meta, shape := x.Meta(), []int{}
	switch {
	case rank > 0 && meta.Numel() == 1:
		shape = []int{1}
	case rank > 0: // -1 stands for the number of elements
		shape = []int{-1}
		for range rank - 1 - dim {
			shape = append(shape, 1)
		}
	}
	if slices.Equal(shape, meta.Shape) || len(shape) == 1 && meta.Rank() == 1 { // x already has this shape
		return x
	}
	return builder.Add(view.Reshape, graph.Attrs{"shape": shape}, x)
}

// Result converts each value to the dtype and the layout of the corresponding result of the call. A Decompose function
// returns the results of Result.
func (builder *Builder) Result(args ...graph.Arg) ([]*graph.Value, error) {
	out := make([]*graph.Value, len(args))
	for i, arg := range args {
		want := builder.Call.Out[i]
		if builder.err == nil && (arg.Meta().DType != want.DType || !arg.Meta().SameLayout(want)) {
			arg = builder.Add(castWithStrides, graph.Attrs{"dtype": want.DType, "strides": want.Strides}, arg)
		}
		out[i] = arg.Value
	}
	return out, builder.err
}
