package operators

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the operators Attention, QAttention, MultiHeadAttention and DecoderMaskedMultiHeadAttention of ONNX
// Runtime. Each computes
//
//	scores = q @ kᵀ * scale + bias + maskAddend
//	result = softmax(scores) @ v
//
// The queries q, keys k and values v have the shape [batch, heads, positions, elements]. For example, queries of 2
// sequences of 10 words with 8 heads of 64 elements are [2, 8, 10, 64]. Their scores with the keys of the same words
// are [2, 8, 10, 10].
//
// Each operator has another layout of queries, keys and values in its operands. The converters store them in the fields
// q, k and v of an [attentionNode], and [attentionNode.result] adds the formula to the graph. The embedded node has the
// operands and attributes of the model's node, and its method Op adds an op to the graph. A sym.Int is a size: a
// number, or an expression over symbols.

// projectedAttention converts Attention of ONNX Runtime: queries, keys and values are the columns of a product of the
// operand, [batch, positions, width], and a matrix.
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

// quantizedAttention converts QAttention: [projectedAttention] with a product of quantized values. Operands 3 and 4 are
// the scales of operands 0 and 1, and operands 6 and 7 their zero points. Operand 2 is added to the product.
func quantizedAttention(n *node) []*value {
	x := n.Op("matmul_integer", nil, n.Operand(0), n.Operand(1), n.OperandOrNil(6), n.OperandOrNil(7))
	x = scaledSums(n, x, n.Operand(3), n.Operand(4), n.OperandOrNil(2))
	return joinedAttention(n, x, nil, optionalOperands{mask: 5, past: 8, bias: -1})
}

// optionalOperands has the indices of optional operands.
type optionalOperands struct {
	mask int
	past int // the keys and values of earlier runs, [2, batch, heads, positions, elements]
	bias int // the bias of the scores; -1 if the operator has none
}

// joinedAttention computes attention. Queries, keys and values are concatenated in the last dimension of x, with the
// given sizes or, if sizes is nil, equal sizes. The outputs are the result and, if used, a stack of k and v, which
// start with the past keys and values.
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
	if past := n.OperandOrNil(indices.past); past != nil {
		if n.Rank(past) != 5 {
			n.Failf("operand %d (past) has %d dimensions, want 5", indices.past, n.Rank(past))
		}
		pastKeys := n.Op("select", graph.Attrs{"dim": 0, "index": 0}, past)
		pastValues := n.Op("select", graph.Attrs{"dim": 0, "index": 1}, past)
		a.prependPast(pastKeys, pastValues)
	}
	outputs := []*value{nil, nil}
	if n.IsOutputUsed(1) {
		outputs[1] = n.Op("stack", graph.Attrs{"dim": 0}, a.k, a.v)
	}
	outputs[0], _ = a.result(n.OperandOrNil(indices.mask), n.OperandOrNil(indices.bias))
	return outputs
}

// splitJoined sets q, k and v to slices of the last dimension of x. For the parameters see [joinedAttention].
func (a *attentionNode) splitJoined(x *value, sizes []int) {
	width, end := a.SymShape(x)[2], sym.Of(0)
	equalSize := width.Div(sym.Of(3))
	var parts [3]*value
	for i := range parts {
		start := end
		end = start.Add(equalSize)
		if sizes != nil {
			end = start.Add(sym.Of(sizes[i]))
		}
		attrs := graph.Attrs{"dim": 2, "start": a.SizeAttr(start), "end": a.SizeAttr(end)}
		parts[i] = a.headsFirst(a.Op("slice", attrs, x))
	}
	a.q, a.k, a.v = parts[0], parts[1], parts[2]
	if sizes != nil && end.Ne(width).Holds() {
		a.Failf("the sum of qkv_hidden_sizes is %v, want %v, the last dimension of the product of operands 0 and 1", end,
			width)
	}
}

// multiHeadAttention converts MultiHeadAttention. Operands 0 to 2 have the queries, keys and values. The outputs are the
// result, k, v and the scores.
func multiHeadAttention(n *node) []*value {
	a := &attentionNode{node: n}
	const acceptsJoined = false
	a.unpack(n.OperandOrNil(3), acceptsJoined)
	return a.cachedAttention(cacheOperands{mask: 4, bias: 5, past: 6, length: 8, beams: 9}, n.HasOperand(8))
}

// decoderMaskedAttention converts DecoderMaskedMultiHeadAttention: [multiHeadAttention] of one query for each sequence,
// with the operands in another order. Its operand beam_width is a size of cache_indirection.
func decoderMaskedAttention(n *node) []*value {
	a := &attentionNode{node: n}
	const acceptsJoined = true
	a.unpack(n.OperandOrNil(10), acceptsJoined)
	return a.cachedAttention(cacheOperands{mask: 3, bias: 4, past: 5, length: 7, beams: 9},
		n.Flag("past_present_share_buffer", false) && n.HasOperand(5))
}

// cacheOperands has the indices of optional operands.
type cacheOperands struct {
	mask, bias int
	past       int // past keys, and then past values
	length     int // the number of past positions, if the cache has room for further ones
	beams      int // for each sequence, beam and position: the beam whose keys and values the position has
}

// cachedAttention returns the outputs of operators with a cache. If the cache is shared, new keys and values are written
// to it behind the past ones, otherwise they are appended to it.
func (a *attentionNode) cachedAttention(operands cacheOperands, isShared bool) []*value {
	present := []*value{a.k, a.v}
	switch isBeamed := a.HasOperand(operands.beams); {
	case isShared:
		past := []*value{a.Operand(operands.past), a.Operand(operands.past + 1)}
		present = a.writePast(past, a.Operand(operands.length))
		if isBeamed {
			beams := a.Operand(operands.beams)
			a.writePast([]*value{a.ofBeams(past[0], beams), a.ofBeams(past[1], beams)}, a.Operand(operands.length))
		}
	case isBeamed:
		a.Failf("cache_indirection (operand %d) needs past_sequence_length (operand %d)", operands.beams, operands.length)
	case a.HasOperand(operands.past) || a.HasOperand(operands.past+1):
		a.prependPast(a.Operand(operands.past), a.Operand(operands.past+1))
		present = []*value{a.k, a.v}
	}
	y, scores := a.result(a.OperandOrNil(operands.mask), a.OperandOrNil(operands.bias))
	outputs := []*value{y, present[0], present[1]}
	if a.IsOutputUsed(3) {
		if a.ends != nil {
			scores = a.firstKeys(scores, a.ends)
		}
		outputs = append(outputs, scores)
	}
	return outputs
}

// writePast writes k and v to copies of the past keys and values, [batch, heads, positions, elements], from position
// length on, and sets k and v to the copies. It returns them. The field ends has the number of positions in use.
func (a *attentionNode) writePast(past []*value, length *value) []*value {
	for i, x := range past {
		if a.Rank(x) != 4 {
			a.Failf("earlier keys and values have %d and %d dimensions, want 4", a.Rank(past[0]), a.Rank(past[i]))
		}
	}
	if a.newKeys == nil {
		a.newKeys, a.newValues = a.Round(a.k), a.Round(a.v)
	}
	newCount := a.SymShape(a.newKeys)[2]
	a.starts = a.Reshape(a.Cast(length, tensor.Int64), 1)
	a.ends = a.Op("add", nil, a.starts, a.SizeOperand(newCount))
	positions := a.Op("add", nil, a.starts, a.IndexVector(newCount))
	index := a.ReshapeSym(positions, sym.Of(1), sym.Of(1), newCount, sym.Of(1))
	a.k, a.v = a.writePositions(past[0], a.newKeys, index), a.writePositions(past[1], a.newValues, index)
	return []*value{a.k, a.v}
}

// ofBeams returns past keys or values, each position from the beam that beams, [sequences, width, positions], states.
// x is [sequences*width, heads, positions, elements]: the beams of a sequence follow one another.
func (a *attentionNode) ofBeams(x, beams *value) *value {
	if a.Rank(beams) != 3 {
		a.Failf("cache_indirection has %d dimensions, want 3", a.Rank(beams))
	}
	sizes, width := a.SymShape(x), a.SymShape(beams)[1]
	first := a.Op("mul", nil, a.IndexVector(sizes[0].Div(width)), a.SizeOperand(width))
	rows := a.Op("add", nil, a.Cast(beams, tensor.Int64), a.Reshape(first, -1, 1, 1))
	rows = a.ReshapeSym(rows, sizes[0], sym.Of(1), sizes[2], sym.Of(1))
	return a.Op("gather", graph.Attrs{"dim": 0}, x, a.Op("expand", graph.Attrs{"size": a.SizesAttr(sizes...)}, rows))
}

// unpack sets q, k and v from operands 0 to 2, and adds their bias. The ranks of operands 0 to 2 decide which operands
// have queries, keys or values. If acceptsJoined is true, operand 0 may have all three, one after another.
func (a *attentionNode) unpack(bias *value, acceptsJoined bool) {
	q, k, v := a.Operand(0), a.OperandOrNil(1), a.OperandOrNil(2)
	hasRank := func(x *value, rank int) bool { return x != nil && a.Rank(x) == rank }
	biasedCount := 3 // the bias is added to the first biasedCount of q, k and v
	switch {
	case hasRank(q, 5) && k == nil && v == nil: // q is [batch, positions, heads, 3, elements] and has all three
		a.q, a.k, a.v = a.selected(q, 0), a.selected(q, 1), a.selected(q, 2)
	case acceptsJoined && hasRank(q, 3) && k == nil && v == nil: // q is [batch, positions, 3*heads*elements]
		a.splitJoined(q, nil)
	case v == nil && hasRank(q, 3) && hasRank(k, 5): // k is [batch, positions, heads, 2, elements]: keys and values
		a.q, a.k, a.v = a.headsFirst(q), a.selected(k, 0), a.selected(k, 1)
	case hasRank(q, 3) && hasRank(k, 4) && hasRank(v, 4):
		// k and v are [batch, heads, positions, elements], and already include the bias.
		a.q, a.k, a.v = a.headsFirst(q), k, v
		biasedCount = 1
	case hasRank(q, 3) && hasRank(k, 3) && hasRank(v, 3): // each is [batch, positions, heads*elements]
		a.q, a.k, a.v = a.headsFirst(q), a.headsFirst(k), a.headsFirst(v)
	default:
		a.Failf("the numbers of dimensions of query, key and value are not supported")
	}
	if bias != nil {
		a.addBias(bias, biasedCount)
	}
}

// selected converts x[:, :, :, i, :], which is [batch, positions, heads, elements], to [batch, heads, positions,
// elements].
func (a *attentionNode) selected(x *value, i int) *value {
	return a.Op("transpose", graph.Attrs{"dim0": 1, "dim1": 2},
		a.Op("select", graph.Attrs{"dim": 3, "index": i}, x))
}

// addBias adds a bias to the first `count` of q, k and v. The bias is a vector: heads*elements numbers for the queries,
// then for the keys, then for the values.
func (a *attentionNode) addBias(bias *value, count int) {
	parts, start := []*value{a.q, a.k, a.v}, sym.Of(0)
	for i, x := range parts[:count] {
		sizes := a.SymShape(x)
		end := start.Add(sizes[1].Mul(sizes[3]))
		slice := a.Op("slice", graph.Attrs{"dim": 0, "start": a.SizeAttr(start), "end": a.SizeAttr(end)}, bias)
		parts[i] = a.Op("add", nil, x, a.ReshapeSym(slice, sizes[1], sym.Of(1), sizes[3]))
		start = end
	}
	a.q, a.k, a.v = parts[0], parts[1], parts[2]
}

// headsFirst converts [batch, positions, heads*elements] to [batch, heads, positions, elements].
func (a *attentionNode) headsFirst(x *value) *value {
	return a.Op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, splitHeads(a.node, x, a.Int("num_heads", 0)))
}

// prependPast inserts past keys and values, [batch, heads, positions, elements], before k and v. It sets pastCount, the
// number of past keys. The new keys and values are rounded as the past ones are, so that the result needs no float32
// copy of all.
func (a *attentionNode) prependPast(keys, values *value) {
	if a.Rank(keys) != 4 || a.Rank(values) != 4 {
		a.Failf("earlier keys and values have %d and %d dimensions, want 4", a.Rank(keys), a.Rank(values))
	}
	a.pastCount = a.SymShape(keys)[2]
	a.k = a.Op("cat", graph.Attrs{"dim": 2}, keys, a.Round(a.k))
	a.v = a.Op("cat", graph.Attrs{"dim": 2}, values, a.Round(a.v))
}

// result returns the result and the scores of the formula at the top of this file. mask and bias may be nil.
func (a *attentionNode) result(mask, bias *value) (result, scores *value) {
	hasScale := a.Float("scale", 0) != 0
	scores = a.scores(hasScale)
	queries, keys := a.SymShape(a.q)[2], a.SymShape(a.k)[2]
	if bias != nil {
		scores = a.Op("add", nil, scores, a.toAllKeys(bias, keys))
	}
	if mask != nil {
		scores = a.Op("add", nil, scores, a.toAllKeys(a.maskAddend(mask), keys))
	}
	if a.ends != nil {
		scores = a.Op("masked_fill", nil, scores, a.Op("ge", nil, a.IndexVector(keys), a.ends), math.Inf(-1))
	}
	if a.Flag("unidirectional", false) && !queries.Same(sym.Of(1)) { // a single query attends to all keys
		scores = a.hideLaterKeys(scores, queries, keys)
	}
	weights := a.Op("softmax", graph.Attrs{"dim": -1}, scores)
	return joinHeads(a.node, a.Op("matmul", nil, weights, a.v)), scores
}

// toAllKeys extends numbers for the scores by zeros for the keys of a shared cache that are not in use.
func (a *attentionNode) toAllKeys(addend *value, keys sym.Int) *value {
	rank := a.Rank(addend)
	if a.ends == nil || rank == 0 || a.SymShape(addend)[rank-1].Same(sym.Of(1)) {
		return addend
	}
	before, after := make([]sym.Int, rank), make([]sym.Int, rank)
	after[rank-1] = keys.Sub(a.SymShape(addend)[rank-1])
	return padded(a.node, addend, before, after, 0)
}

// hideLaterKeys sets scores to -Inf: query i attends only to the keys up to i behind the past ones.
func (a *attentionNode) hideLaterKeys(scores *value, queries, keys sym.Int) *value {
	query := a.Op("unsqueeze", graph.Attrs{"dim": 1}, a.IndexVector(queries)) // [queries, 1]
	past := a.SizeOperand(a.pastCount)
	if a.starts != nil {
		past = a.starts
	}
	lastKey := a.Op("add", nil, query, past)
	isHidden := a.Op("gt", nil, a.IndexVector(keys), lastKey) // [queries, keys]
	return a.Op("masked_fill", nil, scores, isHidden, math.Inf(-1))
}

// maskAddend returns the numbers that a mask adds to the scores: the attribute mask_filter_value for hidden keys, and 0
// for other keys. A mask [batch, keys] or [batch, queries, keys] hides the keys whose element is at most 0. A mask of
// one dimension has ranges of keys: see [attentionNode.isOutside].
func (a *attentionNode) maskAddend(mask *value) *value {
	batch, keys := a.SymShape(a.q)[0], a.SymShape(a.k)[2]
	sizes := a.SymShape(mask)
	var isHidden *value
	switch {
	case len(sizes) == 1:
		isHidden = a.isOutside(mask, sizes[0], batch, keys)
	case len(sizes) == 2:
		isHidden = a.Op("le", nil, a.ReshapeSym(mask, sizes[0], sym.Of(1), sym.Of(1), sizes[1]), 0)
	case len(sizes) == 3:
		isHidden = a.Op("le", nil, a.Op("unsqueeze", graph.Attrs{"dim": 1}, mask), 0)
	default:
		a.Failf("a mask of shape %s is not supported", tensor.Sizes(sizes))
	}
	// A product with isHidden would be NaN for an infinite value.
	return a.Cast(a.Op("where", nil, isHidden, a.Float("mask_filter_value", -10000), 0.0), a.q.DType())
}

// isOutside reports, as [batch, 1, 1, keys], which keys a mask of one dimension hides. Each sequence of the batch has a
// range of visible keys. The mask has the ends (exclusive) of the ranges and, if it has 2*batch elements, then their
// starts. For example, with batch 2, the mask [3, 5, 0, 1] has the ranges 0 to 2 and 1 to 4. length is the number of
// elements of the mask.
func (a *attentionNode) isOutside(mask *value, length, batch, keys sym.Int) *value {
	if list, known := symbolic.Known([]sym.Int{length, batch}); known && list[0] != list[1] && list[0] != 2*list[1] {
		a.Failf("a mask of %d numbers for a batch of %d is not supported", list[0], list[1])
	}
	bounds := func(start, end sym.Int) *value { // mask[start:end] as [batch, 1, 1, 1]
		x := a.Op("slice", graph.Attrs{"dim": 0, "start": a.SizeAttr(start), "end": a.SizeAttr(end)}, mask)
		return a.ReshapeSym(x, batch, sym.Of(1), sym.Of(1), sym.Of(1))
	}
	index := a.IndexVector(keys)
	isAfter := a.Op("ge", nil, index, bounds(sym.Of(0), batch))
	if length.Same(batch) {
		return isAfter
	}
	isBefore := a.Op("lt", nil, index, bounds(length.Sub(batch), length))
	if !length.Same(batch.Mul(sym.Of(2))) {
		// The length is symbolic. In a run with length == batch, the mask has no starts.
		hasStarts := a.Op("gt", nil, a.SizeOperand(length.Sub(batch)), 0)
		isBefore = a.Op("logical_and", nil, isBefore, hasStarts)
	}
	return a.Op("logical_or", nil, isAfter, isBefore)
}
