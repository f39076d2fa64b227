package operators

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts Attention of the standard, and RotaryEmbedding of the standard and of ONNX Runtime. In Attention,
// four things hide keys from a query: the mask, causality, windows of keys, and the number of valid keys. Each is a
// condition. attentionNode.restrict combines the conditions in the field visible. For example, with 3 queries and 3
// keys, the condition of causality is [[1, 0, 0], [1, 1, 0], [1, 1, 1]].
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols.

// attentionNode has the operands of an Attention node during its conversion.
type attentionNode struct {
	*node
	q, k, v   *value  // [batch, heads, positions, elements]; k and v start with the past keys and values
	pastCount sym.Int // number of past keys, which earlier runs have computed
	isFlat    bool    // whether the operands and the result of [attention] are [batch, positions, heads*elements]
	visible   *value  // whether a query may attend to a key, set by restrict; nil: always

	// The remaining fields are set by writePast, if the cache has room for further positions.
	newKeys, newValues *value // the keys and values of this run
	starts, ends       *value // vectors of one element: the positions in use before this run, and after it
}

// Operands of an Attention node after the queries, keys and values.
const (
	attentionMask        = 3
	attentionPastKeys    = 4
	attentionPastValues  = 5
	attentionValidCounts = 6 // number of valid keys, by batch
)

// attention converts Attention: softmax(softcap(q @ kᵀ * scale) + mask) @ v. For example, with 8 heads of 64 elements,
// q is [batch, 8, queries, 64], k and v are [batch, 8, keys, 64], the scores q @ kᵀ are [batch, 8, queries, keys], and
// the result is [batch, 8, queries, 64].
//
// The attribute qk_matmul_output_mode selects an intermediate result as the last output. Mode 0 is the products, 1 is
// the scores after softcap, 2 is the scores after the mask, and 3 is the weights. The first version of the standard
// applied softcap after the mask, and exchanged modes 1 and 2. Models of this version are converted in the same way.
//
// The weights and the result of a query without a key are 0. Such queries are found from the masks, not from the
// scores. Then only the softmax reads the scores, so the products can be fused.
func attention(n *node) []*value {
	operands := attentionOperands(n)
	scores := operands.scores(n.HasAttr("scale"))
	var byMode [4]*value // by qk_matmul_output_mode
	byMode[0] = scores
	if softcap := n.Float("softcap", 0); softcap > 0 { // softcap(x) = c * tanh(x/c)
		scores = n.Op("mul", nil, n.Op("tanh", nil, n.Op("div", nil, scores, softcap)), softcap)
	}
	byMode[1] = scores
	scores, hasKey := operands.maskScores(scores)
	byMode[2] = scores
	zeroWithoutKey := func(x *value) *value {
		if hasKey == nil {
			return x
		}
		return n.Op("masked_fill", nil, x, n.Op("logical_not", nil, hasKey), 0)
	}
	precision := n.DTypeAttr("softmax_precision")
	if precision == tensor.Invalid {
		precision = scores.DType()
	}
	mode := n.Int("qk_matmul_output_mode", 0)
	if !precision.IsFloat() || mode < 0 || mode >= len(byMode) {
		n.Failf("softmax_precision %s and qk_matmul_output_mode %d are not supported", precision, mode)
	}
	weights := n.Op("softmax", graph.Attrs{"dim": -1}, n.Cast(scores, precision))
	weights = n.Cast(weights, operands.q.DType())
	y := zeroWithoutKey(n.Op("matmul", nil, weights, operands.repeatHeads(operands.v)))
	if mode == 3 {
		byMode[3] = zeroWithoutKey(weights)
	}
	if operands.isFlat {
		y = joinHeads(n, y)
	}
	outputs := []*value{y, operands.k, operands.v}
	if n.IsOutputUsed(3) {
		outputs = append(outputs, n.Cast(byMode[mode], operands.q.DType()))
	}
	return outputs
}

// attentionOperands sets the fields of an [attentionNode]. Operands 0 to 2 are queries, keys and values.
func attentionOperands(n *node) *attentionNode {
	operands := &attentionNode{node: n, isFlat: n.Rank(n.Operand(0)) == 3}
	heads := []int{n.Int("q_num_heads", 0), n.Int("kv_num_heads", 0), n.Int("kv_num_heads", 0)}
	for i, target := range []**value{&operands.q, &operands.k, &operands.v} {
		x := n.Operand(i)
		rank := n.Rank(x)
		isRankOfFirst := rank == 3 && operands.isFlat || rank == 4 && !operands.isFlat
		if !isRankOfFirst {
			n.Failf("operand %d has %d dimensions: want 3 or 4 dimensions in each of operands 0 to 2", i, rank)
		}
		if operands.isFlat {
			x = splitHeads(n, x, heads[i])
			x = n.Op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, x)
		}
		*target = x
	}
	if n.OperandOrNil(attentionPastKeys) == nil && n.OperandOrNil(attentionPastValues) == nil {
		return operands
	}
	operands.pastCount = n.SymShape(n.Operand(attentionPastKeys))[2]
	operands.k = n.Op("cat", graph.Attrs{"dim": 2}, n.Operand(attentionPastKeys), operands.k)
	operands.v = n.Op("cat", graph.Attrs{"dim": 2}, n.Operand(attentionPastValues), operands.v)
	return operands
}

// splitHeads reshapes [batch, positions, heads*elements] to [batch, positions, heads, elements].
func splitHeads(n *node, x *value, heads int) *value {
	sizes := n.SymShape(x)
	if len(sizes) != 3 {
		n.Failf("a value with %d dimensions cannot be split into heads, want 3", len(sizes))
	}
	if size, known := sizes[2].Known(); heads < 1 || known && size%heads != 0 {
		n.Failf("%s elements cannot form %d heads", sizes[2], heads)
	}
	return n.ReshapeSym(x, sizes[0], sizes[1], sym.Of(heads), sizes[2].Div(sym.Of(heads)))
}

// repeatHeads repeats each head of keys or values for all query heads that share it.
func (a *attentionNode) repeatHeads(x *value) *value {
	sizes, querySizes := a.SymShape(x), a.SymShape(a.q)
	if sizes[1].Same(querySizes[1]) {
		return x
	}
	heads, known := symbolic.Known([]sym.Int{querySizes[1], sizes[1]})
	if known && (heads[1] < 1 || heads[0]%heads[1] != 0) {
		a.Failf("%d heads of queries cannot share %d heads of keys and values", heads[0], heads[1])
	}
	times := querySizes[1].Div(sizes[1])
	repeated := a.Op("unsqueeze", graph.Attrs{"dim": 2}, x)
	repeated = a.Op("expand", graph.Attrs{"size": a.SizesAttr(sizes[0], sizes[1], times, sizes[2], sizes[3])}, repeated)
	return a.ReshapeSym(repeated, sizes[0], sizes[1].Mul(times), sizes[2], sizes[3])
}

// scores returns the scaled products of queries and keys. The factor is the attribute scale if hasScale is true,
// otherwise 1/sqrt(number of elements).
func (a *attentionNode) scores(hasScale bool) *value {
	products := a.Op("matmul", nil, a.q, a.Op("transpose", graph.Attrs{"dim0": 2, "dim1": 3}, a.repeatHeads(a.k)))
	if hasScale {
		return a.Op("mul", nil, products, a.Float("scale", 1))
	}
	for _, x := range []*value{a.q, a.k} { // the number of elements is the same, but may be known for only one of them
		if elements, known := a.SymShape(x)[3].Known(); known {
			return a.Op("mul", nil, products, 1/math.Sqrt(float64(elements)))
		}
	}
	return a.Op("div", nil, products, a.Op("sqrt", nil, a.Op("to", graph.Attrs{"dtype": tensor.Float64},
		a.SizeOperand(a.SymShape(a.q)[3]))))
}

// maskScores applies the mask and the restrictions of restrictPositions to the scores. A mask of bools selects the keys
// of a query. A mask of numbers is added. The scores of hidden keys become -Inf. hasKey reports for each query whether
// it has a key. It is nil if each query has a key.
func (a *attentionNode) maskScores(scores *value) (masked, hasKey *value) {
	keys, negInf := a.SymShape(a.k)[2], math.Inf(-1)
	allHaveKeys := a.restrictPositions(keys)
	mask := a.OperandOrNil(attentionMask)
	var addend *value // a mask of numbers, extended by -Inf for missing keys
	switch {
	case mask == nil: // hides no keys
	case mask.DType() == tensor.Bool:
		const hidden = false
		a.restrict(a.extendMask(mask, keys, hidden))
	default:
		addend = a.extendMask(mask, keys, negInf)
	}
	if a.visible != nil {
		scores = a.Op("masked_fill", nil, scores, a.Op("logical_not", nil, a.visible), negInf)
	}
	if addend != nil {
		scores = a.Op("add", nil, scores, addend)
		// Only hasKey needs this restriction, because the addend -Inf hides a key anyway.
		a.restrict(a.Op("ne", nil, addend, negInf))
	}
	if mask == nil && allHaveKeys {
		return scores, nil
	}
	return scores, a.Op("any", graph.Attrs{"dim": -1, "keepdim": true}, a.visible)
}

// extendMask appends hidden keys to a mask that has fewer keys. hidden is the element of the mask for such a key.
func (a *attentionNode) extendMask(mask *value, keys sym.Int, hidden any) *value {
	rank := a.Rank(mask)
	if rank < 1 {
		a.Failf("the mask has no dimensions")
	}
	before, after := make([]sym.Int, rank), make([]sym.Int, rank)
	if size := a.SymShape(mask)[rank-1]; !size.Same(keys) {
		after[rank-1] = keys.Sub(size)
	}
	return padded(a.node, mask, before, after, hidden)
}

// restrict hides the keys for which a condition is false.
func (a *attentionNode) restrict(condition *value) {
	if a.visible != nil {
		condition = a.Op("logical_and", nil, a.visible, condition)
	}
	a.visible = condition
}

// restrictPositions hides keys by the number of valid keys, by causality, and by windows of keys around the position of
// a query. It reports whether every query certainly keeps a key.
func (a *attentionNode) restrictPositions(keys sym.Int) (allHaveKeys bool) {
	validCounts, allHaveKeys := a.OperandOrNil(attentionValidCounts), true
	if validCounts != nil {
		validCounts = a.Reshape(a.Cast(validCounts, tensor.Int64), -1, 1, 1, 1)
		a.restrict(a.Op("lt", nil, a.IndexVector(keys), validCounts))
		allHaveKeys = false
	}
	isCausal := a.Flag("is_causal", false)
	leftWindow, rightWindow := a.Int("left_window_size", -1), a.Int("right_window_size", -1) // -1: no limit
	if leftWindow < -1 || rightWindow < -1 {
		a.Failf("left_window_size %d and right_window_size %d: want at least -1", leftWindow, rightWindow)
	}
	if !isCausal && leftWindow < 0 && rightWindow < 0 {
		return allHaveKeys
	}
	position := a.queryPositions(validCounts)
	if isCausal { // without validCounts, key 0 remains visible
		a.restrict(a.Op("le", nil, a.IndexVector(keys), position))
	}
	if rightWindow >= 0 && !isCausal { // causality hides at least as many keys
		a.restrict(a.Op("le", nil, a.IndexVector(keys), a.Op("add", nil, position, rightWindow)))
	}
	if leftWindow >= 0 {
		a.restrict(a.Op("ge", nil, a.IndexVector(keys), a.Op("sub", nil, position, leftWindow)))
		allHaveKeys = false
	}
	return allHaveKeys
}

// queryPositions returns the positions of the queries among the keys. The position of query i is i + pastCount. If the
// keys include unused positions (validCounts without past keys), the last query has the position of the last valid key.
// The position of query i is then i + validCounts - queries.
func (a *attentionNode) queryPositions(validCounts *value) *value {
	queries := a.SymShape(a.q)[2]
	position := a.Op("unsqueeze", graph.Attrs{"dim": 1}, a.IndexVector(queries))
	if validCounts != nil && a.OperandOrNil(attentionPastKeys) == nil {
		return a.Op("sub", nil, a.Op("add", nil, position, validCounts), a.SizeOperand(queries))
	}
	return a.Op("add", nil, position, a.SizeOperand(a.pastCount))
}

// joinHeads converts [batch, heads, positions, elements] to [batch, positions, heads*elements].
func joinHeads(n *node, x *value) *value {
	x = n.Op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, x)
	sizes := n.SymShape(x)
	return n.ReshapeSym(x, sizes[0], sizes[1], sizes[2].Mul(sizes[3]))
}

// rotaryEmbedding converts RotaryEmbedding. The operands are x, cos, sin and optional positions, which are indices of
// rows of the tables cos and sin. Without positions, cos and sin have a row for each position of x.
func rotaryEmbedding(n *node) []*value {
	x, headsDim := rotaryOperand(n, n.Int("num_heads", 0), nil)
	angles := func(i int) *value {
		table := n.Operand(i)
		if positions := n.OperandOrNil(3); positions != nil {
			table = n.Op("index", nil, table, n.Cast(positions, tensor.Int64))
		}
		return n.Op("unsqueeze", graph.Attrs{"dim": headsDim}, table)
	}
	return single(rotatedOperand(n, x, angles(1), angles(2)))
}

// microsoftRotaryEmbedding converts RotaryEmbedding of ONNX Runtime. Operands 2 and 3 are tables with the cosines and
// sines of the angles, with a row for each position. Operand 1 has all positions, or only the first position.
func microsoftRotaryEmbedding(n *node) []*value {
	if n.Flag("is_packed_batching", false) {
		n.Failf("attribute is_packed_batching is not supported")
	}
	if scale := n.Float("scale", 1); scale != 1 {
		n.Failf("scale %v is not supported", scale)
	}
	cos := n.Operand(2)
	x, headsDim := rotaryOperand(n, n.Int("num_heads", 0), cos)
	ids := n.Cast(n.Operand(1), tensor.Int64)
	if n.Rank(ids) == 1 || n.Rank(ids) == 0 { // ids is the first position; Reshape rejects a longer vector
		ids = n.Op("add", nil, n.IndexVector(n.SymShape(x)[3-headsDim]), n.Reshape(ids, 1))
		ids = n.Op("unsqueeze", graph.Attrs{"dim": 0}, ids)
	}
	angles := func(table *value) *value {
		return n.Op("unsqueeze", graph.Attrs{"dim": headsDim}, n.Op("embedding", nil, table, ids))
	}
	return single(rotatedOperand(n, x, angles(cos), angles(n.Operand(3))))
}

// rotaryOperand returns operand 0 with four dimensions, and the dimension of heads. An operand of three dimensions is
// split into `count` heads. If count is 0 and cos is a table of two dimensions, the size of a head is twice the number
// of angles in a row of cos.
func rotaryOperand(n *node, count int, cos *value) (x *value, headsDim int) {
	x = n.Operand(0)
	switch sizes := n.SymShape(x); {
	case len(sizes) == 3 && count == 0 && cos != nil && n.Rank(cos) == 2:
		size := n.SymShape(cos)[1].Mul(sym.Of(2))
		if count, isKnown := size.Known(); isKnown && count == 0 {
			n.Failf("the table of cosines has no angles, so the size of a head is unknown")
		}
		return n.ReshapeSym(x, sizes[0], sizes[1], sizes[2].Div(size), size), 2
	case len(sizes) == 3:
		return splitHeads(n, x, count), 2
	case len(sizes) == 4:
		return x, 1
	}
	n.Failf("operand 0 has %d dimensions, want 3 or 4", n.Rank(x))
	return nil, 0
}

// rotatedOperand rotates x, which is operand 0 with four dimensions. The attribute rotary_embedding_dim is the number
// of rotated elements of a head. 0 means all elements. The attribute interleaved selects the pairs: see [rotate]. The
// result has the shape of operand 0.
func rotatedOperand(n *node, x, cos, sin *value) *value {
	rotatedCount := n.Int("rotary_embedding_dim", 0)
	if rotatedCount == 0 {
		headSize := []sym.Int{n.SymShape(x)[3]}
		if pairs := n.SymShape(cos); !n.IsStatic(x) { // cos has one angle for each pair of elements
			headSize[0] = pairs[len(pairs)-1].Mul(sym.Of(2))
		}
		rotatedCount = n.KnownNumbers("the elements of a head", headSize)[0]
	}
	for _, table := range []*value{cos, sin} { // a table of one angle would be broadcast
		sizes := n.Sizes(table)
		if angles := sizes[len(sizes)-1]; angles >= 0 && 2*angles != rotatedCount {
			n.Failf("a table has %d angles for %d elements, want one for each pair", angles, rotatedCount)
		}
	}
	y := rotate(n, x, cos, sin, rotatedCount, n.Flag("interleaved", false))
	return n.ReshapeSym(y, n.SymShape(n.Operand(0))...)
}

// rotate rotates pairs of elements in the last dimension of x by angles: (a, b) becomes (a*cos - b*sin, a*sin + b*cos).
// The first rotatedCount elements form pairs. If interleaved is true, a pair has adjacent elements. Otherwise it has
// one element of each half. All other elements do not change.
func rotate(n *node, x, cos, sin *value, rotatedCount int, interleaved bool) *value {
	if rotatedCount < 0 || rotatedCount%2 != 0 {
		n.Failf("%d elements are not pairs", rotatedCount)
	}
	sliceOf := func(start int, end any, step int) *value {
		return n.Op("slice", graph.Attrs{"dim": 3, "start": start, "end": end, "step": step}, x)
	}
	a, b := sliceOf(0, rotatedCount/2, 1), sliceOf(rotatedCount/2, rotatedCount, 1)
	if interleaved {
		a, b = sliceOf(0, rotatedCount, 2), sliceOf(1, rotatedCount, 2)
	}
	mul := func(a, b *value) *value { return n.Op("mul", nil, a, b) }
	pairs := inFloat32(func(*node) []*value {
		return []*value{n.Op("sub", nil, mul(cos, a), mul(sin, b)), n.Op("add", nil, mul(sin, a), mul(cos, b))}
	})(n)
	a, b = pairs[0], pairs[1]
	sizes, parts := n.SymShape(x), []any{a, b}
	if interleaved {
		stacked := n.Op("stack", graph.Attrs{"dim": 4}, a, b)
		parts = []any{n.ReshapeSym(stacked, sizes[0], sizes[1], sizes[2], sym.Of(rotatedCount))}
	}
	if !sizes[3].Same(sym.Of(rotatedCount)) {
		parts = append(parts, sliceOf(rotatedCount, n.SizeAttr(sizes[3]), 1))
	}
	return n.Op("cat", graph.Attrs{"dim": 3}, parts...)
}
