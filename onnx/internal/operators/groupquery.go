package operators

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Operands of GroupQueryAttention after the queries, keys and values.
const (
	groupCachedKeys   = 3
	groupCachedValues = 4
	groupLastValid    = 5 // for each row of the batch: the index of the last valid position, new positions included
	groupMinPositions = 6 // the cache is enlarged to this number of positions
	groupCos          = 7 // tables of a rotary embedding
	groupSin          = 8
	groupPositions    = 9  // the positions of the new keys and queries for the rotary embedding, [batch, positions]
	groupBias         = 10 // it is added to the scores, [batch or 1, heads or 1, positions, keys]
	groupSinks        = 11 // for each head: a score without a value, whose weight is lost
	groupCacheScale   = 12 // the scales of a quantized cache are not supported
	groupQueryNorm    = 14 // weights of an RMS normalization of each head, [elements]
	groupKeyNorm      = 15
)

// groupQueryAttention converts GroupQueryAttention: causal attention in which several query heads share one head of
// keys and values. New keys and values are written to the cache after its valid positions. For example, a cache of 10
// positions with 4 valid ones gets 2 new keys: groupLastValid is 5, and the new keys are written to positions 4 and 5.
// The query at position 4 attends to the keys 0 to 4, and the query at position 5 to the keys 0 to 5.
//
// An [attentionNode] has the queries q, keys k and values v, [batch, heads, positions, elements]. A Go value of type
// value is a tensor of the model, and Op adds an op to the graph. A sym.Int is a size: a number, or an expression over
// symbols.
func groupQueryAttention(n *node) []*value {
	if n.HasOperand(groupCacheScale) || n.HasOperand(groupCacheScale+1) {
		n.Failf("a quantized cache (operands 12 and 13) is not supported")
	}
	if n.Flag("sliding_window_cache", false) {
		n.Failf("attribute sliding_window_cache is not supported")
	}
	a := &attentionNode{node: n}
	a.unpackGroups()
	a.q, a.k = a.normalizedHeads(a.q, groupQueryNorm), a.normalizedHeads(a.k, groupKeyNorm)
	// In each row of the batch, the first `ends` positions are valid, and the last newCount of these are new:
	// first = max(ends - newCount, 0). ends and first are [batch, 1], positions is [batch, newCount].
	newCount := n.SymShape(a.q)[2]
	ends := n.Op("add", nil, n.Reshape(n.Cast(n.Operand(groupLastValid), tensor.Int64), -1, 1), 1)
	first := n.Op("clamp", graph.Attrs{"min": 0}, n.Op("sub", nil, ends, n.SizeOperand(newCount)))
	positions := n.Op("add", nil, first, n.IndexVector(newCount))
	if n.Flag("do_rotary", false) {
		angles := positions
		if given := n.OperandOrNil(groupPositions); given != nil {
			angles = a.givenPositions(n.Cast(given, tensor.Int64), newCount)
		}
		a.q, a.k = a.rotated(a.q, angles), a.rotated(a.k, angles)
	}
	a.k, a.v = a.writeCache(groupCachedKeys, a.k, positions), a.writeCache(groupCachedValues, a.v, positions)
	results := inFloat32(func(*node) []*value {
		hasScale := n.Float("scale", 0) != 0 // 0 means the default
		scores := a.scores(hasScale)
		if softcap := n.Float("softcap", 0); softcap > 0 { // softcap * tanh(scores/softcap)
			scores = n.Op("mul", nil, n.Op("tanh", nil, n.Op("div", nil, scores, softcap)), softcap)
		}
		if bias := n.OperandOrNil(groupBias); bias != nil {
			scores = n.Op("add", nil, scores, a.paddedBias(bias))
		}
		scores = n.Op("masked_fill", nil, scores, a.hiddenKeys(positions, ends, newCount), math.Inf(-1))
		weights := n.Op("softmax", graph.Attrs{"dim": -1}, scores)
		y := n.Op("matmul", nil, weights, a.repeatHeads(a.v))
		if share := a.shareOfKeys(scores); share != nil {
			y, weights = n.Op("mul", nil, y, share), n.Op("mul", nil, weights, share)
		}
		return []*value{y, scores, weights}
	})(n)
	out := []*value{joinHeads(n, results[0]), a.k, a.v}
	if n.IsOutputUsed(3) {
		mode := n.Int("qk_output", 0)
		if mode != 1 && mode != 2 {
			n.Failf("qk_output %d is not supported for output 3: want 1 (scores) or 2 (weights)", mode)
		}
		out = append(out, a.firstKeys(results[mode], n.Operand(groupMinPositions)))
	}
	return out
}

// givenPositions returns operand groupPositions or, in a run that fills an empty cache, the positions from its first
// element on: ONNX Runtime ignores its other elements there.
func (a *attentionNode) givenPositions(given *value, newCount sym.Int) *value {
	if a.Rank(given) != 2 {
		a.Failf("operand %d has %d dimensions, want 2", groupPositions, a.Rank(given))
	}
	first := a.Op("select", graph.Attrs{"dim": 0, "index": 0}, a.Reshape(given, -1))
	counted := a.Op("add", nil, a.IndexVector(newCount), first)
	total := a.Reshape(a.Cast(a.Operand(groupMinPositions), tensor.Int64), 1)
	return a.Op("where", nil, a.Op("eq", nil, total, a.SizeOperand(newCount)), counted, given)
}

// normalizedHeads applies an RMS normalization to each head of x, with the weight in operand i, if there is one.
func (a *attentionNode) normalizedHeads(x *value, i int) *value {
	weight := a.OperandOrNil(i)
	if weight == nil {
		return x
	}
	const lastAxis = 3
	return rmsNorm(a.node, x, weight, lastAxis, a.Float("qk_norm_epsilon", 1e-6))
}

// paddedBias extends a bias of the scores by zeros for the keys of the cache that it does not have: these are hidden.
func (a *attentionNode) paddedBias(bias *value) *value {
	if a.Rank(bias) != 4 {
		a.Failf("operand %d has %d dimensions, want 4", groupBias, a.Rank(bias))
	}
	before, after := make([]sym.Int, 4), make([]sym.Int, 4)
	after[3] = a.SymShape(a.k)[2].Sub(a.SymShape(bias)[3])
	return padded(a.node, bias, before, after, 0)
}

// shareOfKeys returns the part of the weights that the keys of a query get, [batch, heads, queries, 1], or nil if it is
// all of them. Each head of groupSinks has a score, 0 with the attribute smooth_softmax, that takes part in the softmax
// and has no value: with the scores s and the sink t, the part is sum(exp(s)) / (sum(exp(s)) + exp(t)).
func (a *attentionNode) shareOfKeys(scores *value) *value {
	sinks := a.OperandOrNil(groupSinks)
	if sinks == nil && !a.Flag("smooth_softmax", false) {
		return nil
	}
	total := a.Op("logsumexp", graph.Attrs{"dim": []int{-1}, "keepdim": true}, scores)
	if sinks != nil {
		total = a.Op("sub", nil, total, a.Reshape(sinks, a.Int("num_heads", 0), 1, 1))
	}
	return a.Op("sigmoid", nil, total)
}

// firstKeys returns the first columns of x, [..., keys]. count has their number, one element.
func (a *attentionNode) firstKeys(x, count *value) *value {
	end := a.Reshape(a.Cast(count, tensor.Int64), 1)
	return a.ONNXOp("Slice", nil, x, convert.IntVector(0), end, convert.IntVector(3))
}

// unpackGroups sets q, k and v from operands 0 to 2. If operands 1 and 2 are absent, operand 0 has the heads of
// queries, keys and values one after another.
func (a *attentionNode) unpackGroups() {
	heads, kvHeads := a.Int("num_heads", 0), a.Int("kv_num_heads", 0)
	if heads < 1 || kvHeads < 1 || heads%kvHeads != 0 || a.Rank(a.Operand(0)) != 3 {
		a.Failf("an operand of %d dimensions with %d heads of queries and %d of keys is not supported",
			a.Rank(a.Operand(0)), heads, kvHeads)
	}
	// split returns [batch, count, positions, elements].
	split := func(x *value, count int) *value {
		return a.Op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, splitHeads(a.node, x, count))
	}
	if a.OperandOrNil(1) != nil {
		a.q, a.k, a.v = split(a.Operand(0), heads), split(a.Operand(1), kvHeads), split(a.Operand(2), kvHeads)
		return
	}
	x, start := split(a.Operand(0), heads+2*kvHeads), 0
	for i, target := range []**value{&a.q, &a.k, &a.v} {
		end := start + []int{heads, kvHeads, kvHeads}[i]
		*target = a.Op("slice", graph.Attrs{"dim": 1, "start": start, "end": end}, x)
		start = end
	}
}

// rotated rotates the heads of x by the angles of the given positions, [batch, positions]. groupCos and groupSin have
// the cosines and sines of the angles of each position.
func (a *attentionNode) rotated(x, positions *value) *value {
	angles := func(table *value) *value {
		return a.Op("unsqueeze", graph.Attrs{"dim": 1}, a.Op("embedding", nil, table, positions))
	}
	cos := a.Operand(groupCos)
	if a.Rank(cos) != 2 {
		a.Failf("operand 7 has %d dimensions, want 2", a.Rank(cos))
	}
	// The number of rotated elements of a head: each angle rotates two elements.
	rotatedCount := 2 * a.KnownNumbers("the number of angles", a.SymShape(cos)[1:])[0]
	return rotate(a.node, x, angles(cos), angles(a.Operand(groupSin)), rotatedCount,
		a.Flag("rotary_interleaved", false))
}

// writeCache copies the cache in operand i, or an empty cache if the operand is absent, and writes x to the given
// positions of the copy. x is [batch, heads, positions, elements], and positions is [batch, positions]. The result has
// at least as many positions as operand groupMinPositions states.
func (a *attentionNode) writeCache(i int, x, positions *value) *value {
	sizes, minPositions := a.SymShape(x), a.Operand(groupMinPositions)
	if count := a.LengthOf(minPositions); count >= 0 && count != 1 {
		a.Failf("total_sequence_length (operand 6) has %d elements, want one", count)
	}
	total := a.Integers(minPositions)
	cache := a.OperandOrNil(i)
	if cache == nil {
		cache = a.Op("slice", graph.Attrs{"dim": 2, "start": 0, "end": 0}, x)
	}
	if a.Rank(cache) != 4 {
		a.Failf("operand %d has %d dimensions, want 4", i, a.Rank(cache))
	}
	for _, dim := range []int{0, 1, 3} {
		if differs, isKnown := a.SymShape(cache)[dim].Ne(sizes[dim]).Known(); isKnown && differs {
			a.Failf("dimension %d of operand %d has size %v, want %v", dim, i, a.SymShape(cache)[dim], sizes[dim])
		}
	}
	pastCount := a.SymShape(cache)[2]
	if pastCount.Same(sym.Int{}) && len(total) == 1 && total[0].Same(sizes[2]) && !a.isBeyond(sizes[2]) {
		return x // the new positions fill an empty cache
	}
	// The cache grows by max(total - pastCount, 0) positions of zeros at the end of dimension 2.
	if len(total) == 1 {
		before, after := make([]sym.Int, 4), make([]sym.Int, 4) // a sym.Int is 0 by default
		after[2] = total[0].Max(pastCount).Sub(pastCount)
		cache = padded(a.node, cache, before, after, 0)
	} else {
		growth := a.Op("sub", nil, a.Reshape(a.Cast(minPositions, tensor.Int64), 1), a.SizeOperand(pastCount))
		growth = a.Op("clamp", graph.Attrs{"min": 0}, growth)
		cache = padConstantBy(a.node, cache, a.Op("cat", nil, repeatedInt(0, 6), growth, repeatedInt(0, 1)), 0)
	}
	return a.writePositions(cache, x, a.ReshapeSym(positions, sizes[0], sym.Of(1), sizes[2], sym.Of(1)))
}

// writePositions writes x, [batch, heads, positions, elements], to the given positions of a copy of the cache. index
// has the positions, [batch or 1, 1, positions, 1].
func (a *attentionNode) writePositions(cache, x, index *value) *value {
	index = a.Op("expand", graph.Attrs{"size": a.SizesAttr(a.SymShape(x)...)}, index)
	return a.Op("scatter", graph.Attrs{"dim": 2}, cache, index, x)
}

// isBeyond reports whether the last valid positions are known, and one of them is not below count.
func (a *attentionNode) isBeyond(count sym.Int) bool {
	number, isKnown := count.Known()
	last := a.Operand(groupLastValid).Data()
	return isKnown && last != nil && slices.ContainsFunc(convert.IntsOf(last), func(i int) bool { return i >= number })
}

// hiddenKeys reports which keys are hidden from each query, [batch, 1, queries, keys]. A query attends to the keys
// below limit: up to its own position or, if the query is padding, up to the last valid key. A local window also hides
// the keys below limit - window.
func (a *attentionNode) hiddenKeys(positions, ends *value, queries sym.Int) *value {
	limit := a.Op("minimum", nil, a.Op("add", nil, positions, 1), ends)
	limit = a.ReshapeSym(limit, a.SymShape(a.q)[0], sym.Of(1), queries, sym.Of(1))
	index := countTo(a.node, a.Element(a.ShapeVector(a.k), 2))
	hidden := a.Op("ge", nil, index, limit)
	if window := a.Int("local_window_size", -1); window > 0 {
		hidden = a.Op("logical_or", nil, hidden, a.Op("lt", nil, index, a.Op("sub", nil, limit, window)))
	}
	return hidden
}
