package product

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// einsumMatrices classifies the labels (names of dimensions) of an equation that multiplies batches of matrices.
type einsumMatrices struct {
	batch []int // labels of both operands and the result, in the order of the result
	rows  []int // labels of the first operand and the result; the last label is the rows of a matrix
	sum   int   // label of both operands that is summed
	col   int   // label of the second operand and the result
}

// rewriteEinsum rewrites an equation that multiplies batches of matrices as a matmul of permuted operands. Passes can
// fuse the matmul and choose its layouts.
func rewriteEinsum(parts *graph.Parts, call *graph.Call, _ graph.RewriteContext) (rewrite graph.Rewrite, err error) {
	if len(call.In) != 2 || !call.Out[0].DType.IsFloat() || call.Type(0).DType != call.Type(1).DType {
		return rewrite, nil
	}
	equation, err := parseEquation(kit.Attrs[einsumAttrs](call).Equation, []tensor.Type{call.Type(0), call.Type(1)})
	if err != nil {
		return rewrite, err
	}
	in := slices.Clone(call.In)
	if mayBeWeights(in[1]) && !mayBeWeights(in[0]) { // attention is recognized only if the weights are the first operand
		slices.Reverse(in)
		slices.Reverse(equation.operandLabels)
	}
	labels, ok := equation.matrices(in)
	if !ok {
		return rewrite, nil
	}
	builder := compose.NewBuilder(parts, call)
	last := len(labels.rows) - 1
	a := addPermute(builder, in[0], equation.operandLabels[0], slices.Concat(labels.batch, labels.rows, []int{labels.sum}))
	b := addPermute(builder, in[1], equation.operandLabels[1], slices.Concat(labels.batch, []int{labels.sum, labels.col}))
	// b broadcasts over all labels in rows except the last. If there are no batch labels, matmul adds these dimensions.
	addedDims := last
	if len(labels.batch) == 0 {
		addedDims = 0
	}
	for range addedDims {
		b = builder.Add(view.Unsqueeze, graph.Attrs{"dim": len(labels.batch)}, b)
	}
	result := addPermute(builder, builder.Add(Matmul, nil, a, b), slices.Concat(labels.batch, labels.rows,
		[]int{labels.col}), equation.out)
	rewrite.Why = "its labels are those of a product of matrices"
	rewrite.Results, err = builder.Result(result)
	return rewrite, err
}

// addPermute adds a view that permutes the dimensions of a value from the order of labels to another order.
func addPermute(builder *compose.Builder, x graph.Arg, labels, order []int) graph.Arg {
	if slices.Equal(labels, order) {
		return x
	}
	dims := make([]int, len(order))
	for i, l := range order {
		dims[i] = slices.Index(labels, l)
	}
	return builder.Add(view.Permute, graph.Attrs{"dims": dims}, x)
}

// matrices classifies the labels of an equation. It returns false if the equation is not a batch of matrix products. A
// label must not occur twice in an operand. A label that occurs in a single operand must occur in the result. Sizes
// must not broadcast.
func (e *equation) matrices(in []graph.Arg) (m einsumMatrices, ok bool) {
	a, b := e.operandLabels[0], e.operandLabels[1]
	var sums, cols []int
	for _, l := range e.labels {
		i, j := slices.Index(a, l), slices.Index(b, l)
		switch inResult := slices.Contains(e.out, l); {
		case i >= 0 && slices.Contains(a[i+1:], l), j >= 0 && slices.Contains(b[j+1:], l):
			return m, false
		case i >= 0 && j >= 0 && !in[0].Type().Shape[i].Same(in[1].Type().Shape[j]):
			return m, false
		case i >= 0 && j >= 0 && !inResult:
			sums = append(sums, l)
		case i >= 0 && j >= 0: // a batch label
		case !inResult:
			return m, false
		case j >= 0:
			cols = append(cols, l)
		}
	}
	for _, l := range e.out {
		switch {
		case !slices.Contains(a, l): // in cols
		case slices.Contains(b, l):
			m.batch = append(m.batch, l)
		default:
			m.rows = append(m.rows, l)
		}
	}
	if len(sums) != 1 || len(cols) != 1 || len(m.rows) == 0 {
		return m, false
	}
	m.sum, m.col = sums[0], cols[0]
	if a[len(a)-1] == m.sum && !endsWith(e.out, slices.Concat(m.rows, []int{m.col})) {
		// The rows have the order of the first operand, so that it needs no copy. The result is permuted anyway.
		m.rows = slices.DeleteFunc(slices.Clone(a), func(l int) bool { return l == m.sum || slices.Contains(m.batch, l) })
	}
	return m, true
}

// endsWith reports whether labels ends with the list last.
func endsWith(labels, last []int) bool {
	return len(labels) >= len(last) && slices.Equal(labels[len(labels)-len(last):], last)
}
