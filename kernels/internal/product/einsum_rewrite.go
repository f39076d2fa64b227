package product

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// rewriteEinsum rewrites an equation that multiplies batches of matrices as a matmul of permuted operands. Passes can
// fuse the matmul and choose its layouts. parts collects the new nodes. For example, in "bqhd,bkhd->bqhk" the batch
// labels are b and h, the row label is q, the summed label is d, and the column label is k. The equation becomes
//
//	permute(matmul(permute(x, "bhqd"), permute(y, "bhdk")), "bqhk")
func rewriteEinsum(parts *graph.Parts, call *graph.Call, _ graph.RewriteContext) (rewrite graph.Rewrite, err error) {
	if len(call.In) != 2 || !call.Out[0].DType.IsFloat() || call.Type(0).DType != call.Type(1).DType {
		return rewrite, nil
	}
	equation, err := parseEquation(kit.Attrs[*einsumAttrs](call).Equation, []tensor.Type{call.Type(0), call.Type(1)})
	if err != nil {
		return rewrite, err
	}
	in := slices.Clone(call.In)
	// Passes recognize an attention only if the first operand of its last product is the attention weights.
	if mayBeWeights(in[1]) && !mayBeWeights(in[0]) {
		slices.Reverse(in)
		slices.Reverse(equation.operandLabels)
	}
	labels, ok := equation.classifyLabels(in)
	if !ok {
		return rewrite, nil
	}
	builder := compose.NewBuilder(parts, call)
	a := addPermute(builder, in[0], equation.operandLabels[0], slices.Concat(labels.batch, labels.rows, []int{labels.sum}))
	b := addPermute(builder, in[1], equation.operandLabels[1], slices.Concat(labels.batch, []int{labels.sum, labels.col}))
	// b needs dimensions of size 1 for all labels in rows but the last. Without batch labels, these would be the first
	// dimensions, which matmul adds itself.
	if len(labels.batch) > 0 {
		for range len(labels.rows) - 1 {
			b = builder.Add(view.Unsqueeze, graph.Attrs{"dim": len(labels.batch)}, b)
		}
	}
	result := addPermute(builder, builder.Add(Matmul, nil, a, b), slices.Concat(labels.batch, labels.rows,
		[]int{labels.col}), equation.resultLabels)
	rewrite.Why = "its labels are those of a product of matrices"
	rewrite.Results, err = builder.Result(result)
	return rewrite, err
}

// matrixLabels has the labels (names of dimensions) of an equation that multiplies batches of matrices.
type matrixLabels struct {
	batch []int // labels of both operands and the result, in the order of the result
	rows  []int // labels of the first operand and the result: batch dimensions that the second lacks, then rows
	sum   int   // label of both operands that is summed
	col   int   // label of the second operand and the result
}

// classifyLabels classifies the labels of an equation. It returns false if the equation is not a batch of matrix
// products. A label must not occur twice in an operand. A label that occurs in a single operand must occur in the
// result. Sizes must not broadcast. For "bqhd,bkhd->bqhk", batch is b and h, rows is q, sum is d and col is k.
func (e *equation) classifyLabels(in []graph.Arg) (labels matrixLabels, ok bool) {
	a, b := e.operandLabels[0], e.operandLabels[1]
	var sums, cols []int
	for _, label := range e.labels {
		dimA, dimB := slices.Index(a, label), slices.Index(b, label)
		isInA, isInB, isInResult := dimA >= 0, dimB >= 0, slices.Contains(e.resultLabels, label)
		isRepeated := isInA && slices.Contains(a[dimA+1:], label) || isInB && slices.Contains(b[dimB+1:], label)
		isInBoth := isInA && isInB
		switch {
		case isRepeated:
			return labels, false
		case isInBoth && !in[0].Type().Shape[dimA].Same(in[1].Type().Shape[dimB]): // the sizes may broadcast
			return labels, false
		case isInBoth && !isInResult:
			sums = append(sums, label)
		case isInBoth: // of batch
		case !isInResult: // summed, although only one operand has the label
			return labels, false
		case isInB:
			cols = append(cols, label)
		} // other labels are of rows
	}
	// batch and rows have the order of the result.
	for _, label := range e.resultLabels {
		switch {
		case !slices.Contains(a, label): // of cols
		case slices.Contains(b, label):
			labels.batch = append(labels.batch, label)
		default:
			labels.rows = append(labels.rows, label)
		}
	}
	if len(sums) != 1 || len(cols) != 1 || len(labels.rows) == 0 {
		return labels, false
	}
	labels.sum, labels.col = sums[0], cols[0]
	if a[len(a)-1] == labels.sum && !endsWith(e.resultLabels, slices.Concat(labels.rows, []int{labels.col})) {
		// The rows have the order of the first operand, so that this operand needs no copy. The result is permuted
		// anyway.
		labels.rows = slices.DeleteFunc(slices.Clone(a),
			func(label int) bool { return label == labels.sum || slices.Contains(labels.batch, label) })
	}
	return labels, true
}

// endsWith reports whether labels ends with suffix.
func endsWith(labels, suffix []int) bool {
	return len(labels) >= len(suffix) && slices.Equal(labels[len(labels)-len(suffix):], suffix)
}

// addPermute adds a view that permutes the dimensions of a value from the order of labels to another order.
func addPermute(builder *compose.Builder, value graph.Arg, labels, order []int) graph.Arg {
	if slices.Equal(labels, order) {
		return value
	}
	dims := make([]int, len(order))
	for i, label := range order {
		dims[i] = slices.Index(labels, label)
	}
	return builder.Add(view.Permute, graph.Attrs{"dims": dims}, value)
}
