package operators

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the attention operators of ONNX Runtime: softmax(q @ kᵀ * scale + bias + mask) @ v. Scores are the
// operand of softmax. The mask adds mask_filter_value to the scores of keys that it hides. The operators differ in how
// they give queries, keys and values. Each converter sets the fields q, k and v of an [attentionNode] to
// [batch, heads, positions, elements], and [attentionNode.result] adds the attention. For example, with 8 heads,
// headsFirst converts queries [2, 10, 512] to [2, 8, 10, 64].

// projectedAttention converts Attention of ONNX Runtime: queries, keys and values are products of the operand and a
// matrix.
func projectedAttention(n *node) []*value {
	x := n.Op("matmul", nil, n.Operand(0), n.Operand(1))
	if bias := n.OperandOrNil(2); bias != nil {
		x = n.Op("add", nil, x, bias)
	}
	sizes, ok := n.Ints("qkv_hidden_sizes")
	if ok && len(sizes) != 3 {
		n.Failf("qkv_hidden_sizes has %d numbers, want 3", len(sizes))
	}
	return joinedAttention(n, x, sizes, optionalOperands{mask: 3, past: 4, bias: 5})
}

// quantizedAttention converts QAttention: [projectedAttention] with a product of quantized values.
func quantizedAttention(n *node) []*value {
	x := n.Op("matmul_integer", nil, n.Operand(0), n.Operand(1), n.OperandOrNil(6), n.OperandOrNil(7))
	x = scaledSums(n, x, n.Operand(3), n.Operand(4), n.OperandOrNil(2))
	return joinedAttention(n, x, nil, optionalOperands{mask: 5, past: 8, bias: -1})
}

// optionalOperands has the indices of optional operands. bias is -1 if the operator has no bias.
type optionalOperands struct{ mask, past, bias int }

// joinedAttention computes attention. Queries, keys and values are concatenated in the last dimension of x, with the
// given sizes or, if sizes is nil, equal sizes. The outputs are the result and, if used, the keys and values with the
// past ones.
func joinedAttention(n *node, x *value, sizes []int, indices optionalOperands) []*value {
	if n.Rank(x) != 3 {
		n.Failf("the product of operands 0 and 1 has %d dimensions, want 3", n.Rank(x))
	}
	if n.Flag("do_rotary", false) {
		n.Failf("attribute do_rotary is not supported")
	}
	// Operand 6 is past_sequence_length of Attention; in QAttention, which has no bias, it is a zero point.
	if n.Flag("past_present_share_buffer", false) || n.OperandOrNil(6) != nil && indices.bias >= 0 {
		n.Failf("past_present_share_buffer and past_sequence_length are not supported")
	}
	a := &attentionNode{node: n}
	a.splitJoined(x, sizes)
	if past := n.OperandOrNil(indices.past); past != nil { // [2, batch, heads, positions, elements]: keys and values
		if n.Rank(past) != 5 {
			n.Failf("operand %d (past) has %d dimensions, want 5", indices.past, n.Rank(past))
		}
		half := func(i int) *value { return n.Op("select", graph.Attrs{"dim": 0, "index": i}, past) }
		a.prependPast(half(0), half(1))
	}
	outputs := []*value{nil, nil}
	if n.IsOutputUsed(1) {
		outputs[1] = n.Op("stack", graph.Attrs{"dim": 0}, a.k, a.v)
	}
	outputs[0], _ = a.result(n.OperandOrNil(indices.mask), n.OperandOrNil(indices.bias))
	return outputs
}

// splitJoined sets q, k and v to slices of the last dimension of x: see [joinedAttention].
func (a *attentionNode) splitJoined(x *value, sizes []int) {
	width, end := a.SymShape(x)[2], sym.Int{}
	equalSize := width.Div(sym.Of(3))
	for i, target := range []**value{&a.q, &a.k, &a.v} {
		start := end
		end = start.Add(equalSize)
		if sizes != nil {
			end = start.Add(sym.Of(sizes[i]))
		}
		attrs := graph.Attrs{"dim": 2, "start": a.SizeAttr(start), "end": a.SizeAttr(end)}
		*target = a.headsFirst(a.Op("slice", attrs, x))
	}
	if sizes != nil && end.Ne(width).Holds() {
		a.Failf("the sum of qkv_hidden_sizes is %v, want %v, the last dimension of the product of operands 0 and 1", end,
			width)
	}
}

// multiHeadAttention converts MultiHeadAttention, whose queries, keys and values are separate operands, or packed in
// one or two operands. The outputs are the result, the keys and values with the past ones, and the scores.
func multiHeadAttention(n *node) []*value {
	if n.OperandOrNil(8) != nil || n.OperandOrNil(9) != nil {
		n.Failf("past_sequence_length (operand 8) and cache_indirection (operand 9) are not supported")
	}
	a := &attentionNode{node: n}
	a.unpack()
	if n.OperandOrNil(6) != nil || n.OperandOrNil(7) != nil {
		a.prependPast(n.Operand(6), n.Operand(7))
	}
	y, scores := a.result(n.OperandOrNil(4), n.OperandOrNil(5))
	return []*value{y, a.k, a.v, scores}
}

// unpack sets q, k and v from operands 0 to 2, and adds operand 3, the bias.
func (a *attentionNode) unpack() {
	q, k, v := a.Operand(0), a.OperandOrNil(1), a.OperandOrNil(2)
	biased := []**value{&a.q, &a.k, &a.v}
	// selected returns tensor i of several that are packed in dimension 3, with the heads first.
	selected := func(x *value, i int) *value {
		return a.Op("transpose", graph.Attrs{"dim0": 1, "dim1": 2},
			a.Op("select", graph.Attrs{"dim": 3, "index": i}, x))
	}
	switch {
	case a.Rank(q) == 5 && k == nil && v == nil: // all packed in q, [batch, positions, heads, 3, elements]
		a.q, a.k, a.v = selected(q, 0), selected(q, 1), selected(q, 2)
	case k != nil && v == nil && a.Rank(q) == 3 && a.Rank(k) == 5:
		// keys and values packed in k, [batch, positions, heads, 2, elements]
		a.q, a.k, a.v = a.headsFirst(q), selected(k, 0), selected(k, 1)
	case k != nil && v != nil && a.Rank(q) == 3 && a.Rank(k) == 4 && a.Rank(v) == 4:
		// keys and values of an earlier step, [batch, heads, positions, elements], which already include the bias
		a.q, a.k, a.v = a.headsFirst(q), k, v
		biased = biased[:1]
	case k != nil && v != nil && a.Rank(q) == 3 && a.Rank(k) == 3 && a.Rank(v) == 3: // [batch, positions, heads*elements]
		a.q, a.k, a.v = a.headsFirst(q), a.headsFirst(k), a.headsFirst(v)
	default:
		a.Failf("the numbers of dimensions of query, key and value are not supported")
	}
	if bias := a.OperandOrNil(3); bias != nil {
		a.addBias(bias, biased)
	}
}

// addBias adds slices of a bias to q, k and v, or to q only. The bias is a vector: heads*elements numbers for the
// queries, then for the keys, then for the values.
func (a *attentionNode) addBias(bias *value, targets []**value) {
	start := sym.Int{}
	for _, target := range targets {
		sizes := a.SymShape(*target)
		end := start.Add(sizes[1].Mul(sizes[3]))
		slice := a.Op("slice", graph.Attrs{"dim": 0, "start": a.SizeAttr(start), "end": a.SizeAttr(end)}, bias)
		*target = a.Op("add", nil, *target, a.ReshapeSym(slice, sizes[1], sym.Of(1), sizes[3]))
		start = end
	}
}

// headsFirst converts [batch, positions, heads*elements] to [batch, heads, positions, elements].
func (a *attentionNode) headsFirst(x *value) *value {
	return a.Op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, splitHeads(a.node, x, a.Int("num_heads", 0)))
}

// prependPast inserts the past keys and values before the keys and values of the node, and sets pastCount.
func (a *attentionNode) prependPast(keys, values *value) {
	if a.Rank(keys) != 4 || a.Rank(values) != 4 {
		a.Failf("earlier keys and values have %d and %d dimensions, want 4", a.Rank(keys), a.Rank(values))
	}
	a.pastCount = a.SymShape(keys)[2]
	a.k = a.Op("cat", graph.Attrs{"dim": 2}, keys, a.k)
	a.v = a.Op("cat", graph.Attrs{"dim": 2}, values, a.v)
}

// result returns the result of an attention, and the scores before softmax. mask and bias may be nil. With the
// attribute unidirectional, query i attends to keys 0 to pastCount+i; a single query attends to all keys.
func (a *attentionNode) result(mask, bias *value) (y, scores *value) {
	scores = a.scores(a.Float("scale", 0) != 0)
	if bias != nil {
		scores = a.Op("add", nil, scores, bias)
	}
	if mask != nil {
		scores = a.Op("add", nil, scores, a.maskAddend(mask))
	}
	queries, keys := a.SymShape(a.q)[2], a.SymShape(a.k)[2]
	if a.Flag("unidirectional", false) && !queries.Same(sym.Of(1)) {
		// last[i] is the last key to which query i attends.
		query := a.Op("unsqueeze", graph.Attrs{"dim": 1}, a.IndexVector(queries))
		last := a.Op("add", nil, query, a.SizeOperand(a.pastCount))
		hidden := a.Op("gt", nil, a.IndexVector(keys), last)
		scores = a.Op("masked_fill", nil, scores, hidden, math.Inf(-1))
	}
	weights := a.Op("softmax", graph.Attrs{"dim": -1}, scores)
	return joinHeads(a.node, a.Op("matmul", nil, weights, a.v)), scores
}

// maskAddend returns the numbers that a mask adds to the scores: mask_filter_value where a mask of 2 or 3 dimensions,
// [batch, keys] or [batch, queries, keys], is at most 0, and 0 elsewhere. [attentionNode.isOutside] defines a mask of
// one dimension.
func (a *attentionNode) maskAddend(mask *value) *value {
	batch, keys := a.SymShape(a.q)[0], a.SymShape(a.k)[2]
	sizes := a.SymShape(mask)
	var hidden *value
	switch {
	case len(sizes) == 1:
		hidden = a.isOutside(mask, sizes[0], batch, keys)
	case len(sizes) == 2:
		hidden = a.Op("le", nil, a.ReshapeSym(mask, sizes[0], sym.Of(1), sym.Of(1), sizes[1]), 0)
	case len(sizes) == 3:
		hidden = a.Op("le", nil, a.Op("unsqueeze", graph.Attrs{"dim": 1}, mask), 0)
	default:
		a.Failf("a mask of shape %s is not supported", tensor.Sizes(sizes))
	}
	return a.Op("mul", nil, a.Cast(hidden, a.q.DType()), a.Float("mask_filter_value", -10000))
}

// isOutside reports which keys are outside the range of valid keys of their row of the batch. mask has the (exclusive)
// end of the range for each row. If mask has twice as many numbers, the second half has the start of each range. length
// is the number of elements of mask.
func (a *attentionNode) isOutside(mask *value, length, batch, keys sym.Int) *value {
	if list, known := symbolic.Known([]sym.Int{length, batch}); known && list[0] != list[1] && list[0] != 2*list[1] {
		a.Failf("a mask of %d numbers for a batch of %d is not supported", list[0], list[1])
	}
	bounds := func(start, end sym.Int) *value { // elements of mask, as [batch, 1, 1, 1]
		x := a.Op("slice", graph.Attrs{"dim": 0, "start": a.SizeAttr(start), "end": a.SizeAttr(end)}, mask)
		return a.ReshapeSym(x, batch, sym.Of(1), sym.Of(1), sym.Of(1))
	}
	index := a.IndexVector(keys)
	hidden := a.Op("ge", nil, index, bounds(sym.Int{}, batch))
	if length.Same(batch) {
		return hidden
	}
	before := a.Op("lt", nil, index, bounds(length.Sub(batch), length))
	// The second half of the mask has the starts. If the length is symbolic, they exist only if it exceeds batch.
	if !length.Same(batch.Mul(sym.Of(2))) {
		before = a.Op("logical_and", nil, before, a.Op("gt", nil, a.SizeOperand(length.Sub(batch)), 0))
	}
	return a.Op("logical_or", nil, hidden, before)
}
