package product

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// causalIndices adds the computation of two values that a causal attention compares: a column with the indices 0, 1,
// ... of the queries, and a row with the indices of the keys. Both broadcast to the shape of the scores.
func causalIndices(builder *copies.KernelBuilder, queries, keys int) (indexViews [2]kit.Buffer) {
	count, dtype := max(queries, keys), tensor.Int32
	if count > math.MaxInt32 {
		dtype = tensor.Int64
	}
	allIndices := builder.NewScratch(dtype, count)
	builder.AddCall(view.Arange, graph.Attrs{"end": count, "dtype": dtype}, []kit.Buffer{allIndices})
	return [2]kit.Buffer{allIndices.View(tensor.New(dtype, queries, 1)), allIndices.View(tensor.New(dtype, 1, keys))}
}

// setRowProgram sets the row program, an expression over rows, that computes weights from scores. It also expands
// spec.Others, the operands besides query, key and value, to the shape of the scores. spec.Others is empty, a mask, or
// the result of [causalIndices]. With causalIndices, query i sees the keys 0 to i only.
func setRowProgram(spec *graph.Attention, scale float64) (err error) {
	queries, keys, _, _ := spec.Sizes()
	dtype := spec.Out.DType
	types := []tensor.DType{dtype}
	for i, m := range spec.Others {
		types = append(types, m.DType)
		if spec.Others[i], err = m.Expand(append(slices.Clone(spec.Batch), queries, keys)); err != nil {
			return err
		}
	}
	builder := expr.NewBuilder(types...) // operand 0 is the scores, and operand 1+i is spec.Others[i]
	minusInfinity := builder.Const(dtype, math.Inf(-1))
	scores := builder.Emit(expr.Mul, builder.Load(0), builder.Const(dtype, scale))
	switch {
	case len(types) == 3: // the index of the query, and the index of the key
		scores = builder.Emit(expr.Select, builder.Emit(expr.Le, builder.Load(2), builder.Load(1)), scores, minusInfinity)
	case len(types) == 2 && types[1] == tensor.Bool: // a mask
		scores = builder.Emit(expr.Select, builder.Load(1), scores, minusInfinity)
	case len(types) == 2:
		scores = builder.Emit(expr.Add, scores, builder.Load(1))
	}
	weights, maxScore := folds.Softmax(builder, scores, keys)
	if len(types) > 1 { // a query that sees no key has weights of 0
		weights = builder.Emit(expr.Select, builder.Emit(expr.Eq, maxScore, minusInfinity), builder.Const(dtype, 0), weights)
	}
	spec.Code, err = builder.Build(folds.Result(builder, folds.Real(weights), dtype))
	return err
}

// headGroups splits the heads of operands. batchRank is the number of batch dimensions of a call. groupSize is the
// number of adjacent query heads that share a head of keys and values. If it is greater than 1, the last batch
// dimension, the heads, becomes [key heads, query heads per key head]: 8 query heads with 2 key heads become [2, 4].
type headGroups struct{ batchRank, groupSize int }

// withSplitHeads returns an operand, [..., rows, columns], with all batch dimensions and split heads. Missing batch
// dimensions get size 1 and stride 0. inner is the size of the second dimension of split heads. It is groupSize for
// queries. It is 1 for keys and values, whose heads become [heads, 1].
func (g headGroups) withSplitHeads(operand tensor.Meta, inner int) tensor.Meta {
	missingDims := g.batchRank + 2 - operand.Rank()
	operand.Shape = append(slices.Repeat([]int{1}, missingDims), operand.Shape...)
	operand.Strides = append(make([]int, missingDims), operand.Strides...)
	if g.groupSize == 1 {
		return operand
	}
	headDim := g.batchRank - 1
	heads, stride := operand.Shape[headDim], operand.Strides[headDim]
	if heads == 1 {
		inner = 1
	}
	operand.Shape = slices.Insert(operand.Shape, headDim+1, inner)
	operand.Strides = slices.Insert(operand.Strides, headDim+1, stride)
	operand.Shape[headDim], operand.Strides[headDim] = heads/inner, stride*inner
	return operand
}

// withRows returns a view of the first rows of matrices.
func withRows(matrices tensor.Meta, rows int) tensor.Meta {
	matrices.Shape = slices.Clone(matrices.Shape)
	matrices.Shape[matrices.Rank()-2] = rows
	return matrices
}

// swapLastDims returns a view of a value with the last two dimensions exchanged.
func swapLastDims(matrices tensor.Meta) tensor.Meta {
	matrices.Shape, matrices.Strides = slices.Clone(matrices.Shape), slices.Clone(matrices.Strides)
	rows, columns := matrices.Rank()-2, matrices.Rank()-1
	matrices.Shape[rows], matrices.Shape[columns] = matrices.Shape[columns], matrices.Shape[rows]
	matrices.Strides[rows], matrices.Strides[columns] = matrices.Strides[columns], matrices.Strides[rows]
	return matrices
}
