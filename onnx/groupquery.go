package onnx

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// groupQueryAttention converts GroupQueryAttention: causal attention whose queries share heads of keys and values. New
// keys and values are written to the cache after its valid positions. For each row of the batch, operand 5 is the
// number of valid positions, including the new ones, minus one. The cache is enlarged if operand 6 exceeds its number
// of positions.
func groupQueryAttention(n *node) []*val {
	for i := 9; i < len(n.in); i++ {
		if n.operandOrNil(i) != nil {
			n.failf("operand %d is not supported", i)
		}
	}
	if n.flag("smooth_softmax", false) {
		n.failf("attribute smooth_softmax is not supported")
	}
	a := &attentionNode{node: n}
	a.unpackGroups()
	news := n.symShape(a.q)[2]
	ends := n.op("add", nil, n.reshape(n.cast(n.operand(5), tensor.Int64), -1, 1), 1)
	first := n.op("clamp", graph.Attrs{"min": 0}, n.op("sub", nil, ends, n.integer(news)))
	positions := n.op("add", nil, first, n.indexVector(news))
	if n.flag("do_rotary", false) {
		a.q, a.k = a.rotated(a.q, positions), a.rotated(a.k, positions)
	}
	a.k, a.v = a.written(3, a.k, positions), a.written(4, a.v, positions)
	scores := a.scores(n.float("scale", 0) != 0)
	if c := n.float("softcap", 0); c > 0 {
		scores = n.op("mul", nil, n.op("tanh", nil, n.op("div", nil, scores, c)), c)
	}
	// A query attends to keys up to its own position. Queries in the padding attend to keys up to the last valid key.
	limit := n.op("minimum", nil, n.op("add", nil, positions, 1), ends)
	limit = n.reshapeFor(limit, n.symShape(a.q)[0], sym.Of(1), news, sym.Of(1))
	index := n.indexVector(n.symShape(a.k)[2])
	hidden := n.op("ge", nil, index, limit)
	if window := n.int("local_window_size", -1); window > 0 {
		hidden = n.op("logical_or", nil, hidden, n.op("lt", nil, index, n.op("sub", nil, limit, window)))
	}
	scores = n.op("masked_fill", nil, scores, hidden, math.Inf(-1))
	y := n.op("matmul", nil, n.op("softmax", graph.Attrs{"dim": -1}, scores), a.repeatHeads(a.v))
	return []*val{n.joinHeads(y), a.k, a.v}
}

// unpackGroups sets q, k and v from operands 0 to 2, or from operand 0 alone.
func (a *attentionNode) unpackGroups() {
	heads, shared := a.int("num_heads", 0), a.int("kv_num_heads", 0)
	if heads < 1 || shared < 1 || heads%shared != 0 || a.rank(a.operand(0)) != 3 {
		a.failf("an operand of %d dimensions with %d heads of queries and %d of keys is not supported",
			a.rank(a.operand(0)), heads, shared)
	}
	split := func(x *val, count int) *val {
		return a.op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, a.splitHeads(x, count))
	}
	if a.operandOrNil(1) != nil {
		a.q, a.k, a.v = split(a.operand(0), heads), split(a.operand(1), shared), split(a.operand(2), shared)
		return
	}
	x, start := split(a.operand(0), heads+2*shared), 0
	for i, to := range []**val{&a.q, &a.k, &a.v} {
		end := start + []int{heads, shared, shared}[i]
		*to = a.op("slice", graph.Attrs{"dim": 1, "start": start, "end": end}, x)
		start = end
	}
}

// rotated rotates the heads of x by the angles of positions, [batch, positions], in tables 7 and 8.
func (a *attentionNode) rotated(x, positions *val) *val {
	angles := func(table *val) *val {
		return a.op("unsqueeze", graph.Attrs{"dim": 1}, a.op("embedding", nil, table, positions))
	}
	cos := a.operand(7)
	if a.rank(cos) != 2 {
		a.failf("operand 7 has %d dimensions, want 2", a.rank(cos))
	}
	count := 2 * a.numbers("the number of angles", a.symShape(cos)[1:])[0]
	return a.rotate(x, angles(cos), angles(a.operand(8)), count, a.flag("rotary_interleaved", false))
}

// written writes x, [batch, heads, positions, elements], into the cache of operand i, or into a new cache of zeros.
func (a *attentionNode) written(i int, x, positions *val) *val {
	sizes, total := a.symShape(x), a.integers(a.operand(6))
	if len(total) != 1 {
		a.failf("total_sequence_length (operand 6) must be one number that is known before the graph runs")
	}
	cache := a.operandOrNil(i)
	if cache == nil {
		cache = a.op("slice", graph.Attrs{"dim": 2, "start": 0, "end": 0}, x)
	}
	if a.rank(cache) != 4 {
		a.failf("operand %d has %d dimensions, want 4", i, a.rank(cache))
	}
	past := a.symShape(cache)[2]
	if past.Same(sym.Int{}) && total[0].Same(sizes[2]) {
		return x
	}
	cache = a.padded(cache, make([]sym.Int, 4), []sym.Int{{}, {}, total[0].Max(past).Sub(past), {}}, 0)
	index := a.reshapeFor(positions, sizes[0], sym.Of(1), sizes[2], sym.Of(1))
	index = a.op("expand", graph.Attrs{"size": a.sizeAttr(sizes...)}, index)
	return a.op("scatter", graph.Attrs{"dim": 2}, cache, index, x)
}
