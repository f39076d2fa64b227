package onnx

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the attention operators of ONNX Runtime: softmax(q @ kᵀ * scale + bias + mask) @ v. The mask adds
// mask_filter_value to scores.

// projectedAttention converts Attention of ONNX Runtime: queries, keys and values are products of the operand and a
// matrix.
func projectedAttention(n *node) []*val {
	x := n.op("matmul", nil, n.operand(0), n.operand(1))
	if b := n.operandOrNil(2); b != nil {
		x = n.op("add", nil, x, b)
	}
	sizes, ok := n.ints("qkv_hidden_sizes")
	if ok && len(sizes) != 3 {
		n.failf("qkv_hidden_sizes has %d numbers, want 3", len(sizes))
	}
	return n.joinedAttention(x, sizes, 3, 4, 5)
}

// quantizedAttention converts QAttention: [projectedAttention] with a product of quantized values.
func quantizedAttention(n *node) []*val {
	x := n.op("matmul_integer", nil, n.operand(0), n.operand(1), n.operandOrNil(6), n.operandOrNil(7))
	x = n.scaledSums(x, n.operand(3), n.operand(4), n.operandOrNil(2))
	return n.joinedAttention(x, nil, 5, 8, -1)
}

// joinedAttention computes attention. Queries, keys and values are concatenated in the last dimension of x, with the
// given sizes or, if sizes is nil, equal sizes. mask, past and bias are indexes of optional operands.
func (n *node) joinedAttention(x *val, sizes []int, mask, past, bias int) []*val {
	if n.rank(x) != 3 {
		n.failf("operand 0 has %d dimensions, want 3", n.rank(n.operand(0)))
	}
	if n.flag("do_rotary", false) {
		n.failf("attribute do_rotary is not supported")
	}
	if n.flag("past_present_share_buffer", false) || n.operandOrNil(6) != nil && bias >= 0 {
		n.failf("past_present_share_buffer and past_sequence_length are not supported")
	}
	a := &attentionNode{node: n, past: sym.Int{}}
	third, end := n.symShape(x)[2].Div(sym.Of(3)), sym.Int{}
	for i, target := range []**val{&a.q, &a.k, &a.v} {
		start := end
		if end = start.Add(third); sizes != nil {
			end = start.Add(sym.Of(sizes[i]))
		}
		attrs := graph.Attrs{"dim": 2, "start": n.sizeAttrOf(start), "end": n.sizeAttrOf(end)}
		*target = a.headsFirst(n.op("slice", attrs, x))
	}
	out := []*val{nil, nil}
	if p := n.operandOrNil(past); p != nil {
		if n.rank(p) != 5 {
			n.failf("operand %d (past) has %d dimensions, want 5", past, n.rank(p))
		}
		part := func(i int) *val { return n.op("select", graph.Attrs{"dim": 0, "index": i}, p) }
		a.append(part(0), part(1))
	}
	if n.isOutputUsed(1) {
		out[1] = n.op("stack", graph.Attrs{"dim": 0}, a.k, a.v)
	}
	out[0], _ = a.result(n.operandOrNil(mask), n.operandOrNil(bias))
	return out
}

// multiHeadAttention converts MultiHeadAttention, whose queries, keys and values are separate operands, or packed in
// one or two operands.
func multiHeadAttention(n *node) []*val {
	if n.operandOrNil(8) != nil || n.operandOrNil(9) != nil {
		n.failf("past_sequence_length (operand 8) and cache_indirection (operand 9) are not supported")
	}
	a := &attentionNode{node: n, past: sym.Int{}}
	a.unpack()
	if pastKey, pastValue := n.operandOrNil(6), n.operandOrNil(7); pastKey != nil || pastValue != nil {
		a.append(n.operand(6), n.operand(7))
	}
	y, scores := a.result(n.operandOrNil(4), n.operandOrNil(5))
	return []*val{y, a.k, a.v, scores}
}

// unpack sets q, k and v from operands 0 to 2, and adds operand 3, the bias.
func (a *attentionNode) unpack() {
	q, k, v := a.operand(0), a.operandOrNil(1), a.operandOrNil(2)
	selected := func(x *val, i int) *val {
		return a.op("transpose", graph.Attrs{"dim0": 1, "dim1": 2},
			a.op("select", graph.Attrs{"dim": 3, "index": i}, x))
	}
	switch {
	case a.rank(q) == 5 && k == nil && v == nil:
		a.q, a.k, a.v = selected(q, 0), selected(q, 1), selected(q, 2)
	case k != nil && v == nil && a.rank(q) == 3 && a.rank(k) == 5:
		a.q, a.k, a.v = a.headsFirst(q), selected(k, 0), selected(k, 1)
	case k != nil && v != nil && a.rank(q) == 3 && a.rank(k) == 4 && a.rank(v) == 4:
		a.q, a.k, a.v = a.headsFirst(q), k, v
	case k != nil && v != nil && a.rank(q) == 3 && a.rank(k) == 3 && a.rank(v) == 3:
		a.q, a.k, a.v = a.headsFirst(q), a.headsFirst(k), a.headsFirst(v)
	default:
		a.failf("the numbers of dimensions of query, key and value are not supported")
	}
	bias := a.operandOrNil(3)
	if bias == nil {
		return
	}
	start := sym.Int{}
	for i, target := range []**val{&a.q, &a.k, &a.v} {
		sizes := a.symShape(*target)
		size := sizes[1].Mul(sizes[3])
		if i > 0 && k != nil && a.rank(k) == 4 {
			break // keys and values of earlier steps already include the bias
		}
		part := a.op("slice", graph.Attrs{"dim": 0, "start": a.sizeAttrOf(start), "end": a.sizeAttrOf(start.Add(size))}, bias)
		*target = a.op("add", nil, *target, a.reshapeFor(part, sizes[1], sym.Of(1), sizes[3]))
		start = start.Add(size)
	}
}

// headsFirst converts [batch, positions, heads*elements] to [batch, heads, positions, elements].
func (a *attentionNode) headsFirst(x *val) *val {
	return a.op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, a.splitHeads(x, a.int("num_heads", 0)))
}

// append inserts earlier keys and values before the keys and values of the node.
func (a *attentionNode) append(keys, values *val) {
	if a.rank(keys) != 4 || a.rank(values) != 4 {
		a.failf("earlier keys and values have %d and %d dimensions, want 4", a.rank(keys), a.rank(values))
	}
	a.past = a.symShape(keys)[2]
	a.k = a.op("cat", graph.Attrs{"dim": 2}, keys, a.k)
	a.v = a.op("cat", graph.Attrs{"dim": 2}, values, a.v)
}

// result returns the result of an attention, and the scores before softmax. mask and bias may be nil.
func (a *attentionNode) result(mask, bias *val) (y, scores *val) {
	scores = a.scores(a.float("scale", 0) != 0)
	if bias != nil {
		scores = a.op("add", nil, scores, bias)
	}
	if mask != nil {
		scores = a.op("add", nil, scores, a.filter(mask))
	}
	queries, keys := a.symShape(a.q)[2], a.symShape(a.k)[2]
	if a.flag("unidirectional", false) && !queries.Same(sym.Of(1)) {
		last := a.op("add", nil, a.op("unsqueeze", graph.Attrs{"dim": 1}, a.indexVector(queries)), a.integer(a.past))
		hidden := a.op("gt", nil, a.indexVector(keys), last)
		scores = a.op("masked_fill", nil, scores, hidden, math.Inf(-1))
	}
	weights := a.op("softmax", graph.Attrs{"dim": -1}, scores)
	return a.joinHeads(a.op("matmul", nil, weights, a.v)), scores
}

// filter returns the numbers that a mask adds to the scores: mask_filter_value where the mask is 0, and 0 elsewhere.
// [attentionNode.outside] defines a mask of one dimension.
func (a *attentionNode) filter(mask *val) *val {
	batch, keys := a.symShape(a.q)[0], a.symShape(a.k)[2]
	sizes := a.symShape(mask)
	var hidden *val
	switch {
	case len(sizes) == 1:
		hidden = a.outside(mask, sizes[0], batch, keys)
	case len(sizes) == 2:
		hidden = a.op("le", nil, a.reshapeFor(mask, sizes[0], sym.Of(1), sym.Of(1), sizes[1]), 0)
	case len(sizes) == 3:
		hidden = a.op("le", nil, a.op("unsqueeze", graph.Attrs{"dim": 1}, mask), 0)
	default:
		a.failf("a mask of shape %s is not supported", tensor.Sizes(sizes))
	}
	return a.op("mul", nil, a.cast(hidden, a.q.dtype()), a.float("mask_filter_value", -10000))
}

// outside reports which keys are outside the range of valid keys of their row of the batch. mask has the end of the
// range for each row. If mask has twice as many numbers, the second half has the start of each range.
func (a *attentionNode) outside(mask *val, length, batch, keys sym.Int) *val {
	if list, known := numbersOf([]sym.Int{length, batch}); known && list[0] != list[1] && list[0] != 2*list[1] {
		a.failf("a mask of %d numbers for a batch of %d is not supported", list[0], list[1])
	}
	part := func(start, end sym.Int) *val {
		x := a.op("slice", graph.Attrs{"dim": 0, "start": a.sizeAttrOf(start), "end": a.sizeAttrOf(end)}, mask)
		return a.reshapeFor(x, batch, sym.Of(1), sym.Of(1), sym.Of(1))
	}
	index := a.indexVector(keys)
	hidden := a.op("ge", nil, index, part(sym.Int{}, batch))
	if length.Same(batch) {
		return hidden
	}
	before := a.op("lt", nil, index, part(length.Sub(batch), length))
	if !length.Same(batch.Mul(sym.Of(2))) {
		before = a.op("logical_and", nil, before, a.op("gt", nil, a.integer(length.Sub(batch)), 0))
	}
	return a.op("logical_or", nil, hidden, before)
}
