package onnx

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts normalizations of ONNX Runtime that include additions or lookups.

// skipEpsilon is the default epsilon of operators that normalize a sum.
const skipEpsilon = 1e-12

// skipNorm returns the converter of SkipLayerNormalization or SkipSimplifiedLayerNormalization: it normalizes the sum
// of the operand, a skip and a bias. Operand `bias` is the bias. The last output is the sum.
func skipNorm(bias int, normalize func(n *node, sum *val, eps float64) *val) converter {
	return func(n *node) []*val {
		sum := n.op("add", nil, n.operand(0), n.operand(1))
		if b := n.operandOrNil(bias); b != nil {
			sum = n.op("add", nil, sum, b)
		}
		return []*val{normalize(n, sum, n.float("epsilon", skipEpsilon)), nil, nil, sum}
	}
}

func normalizedSkip(n *node, sum *val, eps float64) *val {
	return n.layerNorm(sum, n.operand(2), n.operandOrNil(3), n.rank(sum)-1, eps)
}

func simplifiedSkip(n *node, sum *val, eps float64) *val {
	return n.rmsNorm(sum, n.operand(2), n.rank(sum)-1, eps)
}

// embedLayerNormalization converts EmbedLayerNormalization: it adds embeddings of words, positions and segments, and
// normalizes the sum. The second output is the number of words that the mask keeps in each row, or 0 without a mask.
func embedLayerNormalization(n *node) []*val {
	ids := n.operand(0)
	if n.rank(ids) != 2 {
		n.failf("operand 0 has %d dimensions, want 2", n.rank(ids))
	}
	segments, table := n.operandOrNil(1), n.operandOrNil(4)
	if (segments == nil) != (table == nil) {
		n.failf("segment_ids (operand 1) and segment_embedding (operand 4) must be used together")
	}
	sizes := n.symShape(ids)
	embed := func(table, ids *val) *val { return n.op("embedding", nil, table, ids) }
	sum := embed(n.operand(2), ids)
	positions := n.operandOrNil(8)
	if positions == nil {
		positions = n.op("unsqueeze", graph.Attrs{"dim": 0}, n.indexVector(sizes[1]))
	}
	sum = n.op("add", nil, sum, embed(n.operand(3), positions))
	if segments != nil {
		sum = n.op("add", nil, sum, embed(table, segments))
	}
	out := []*val{n.layerNorm(sum, n.operand(5), n.operand(6), 2, n.float("epsilon", skipEpsilon)), nil, sum}
	switch mask := n.operandOrNil(7); {
	case !n.isOutputUsed(1):
	case mask != nil:
		kept := n.cast(n.op("eq", nil, mask, 1), tensor.Int32)
		out[1] = n.op("sum", graph.Attrs{"dim": []int{1}, "dtype": tensor.Int32}, kept)
	default:
		out[1] = n.op("zeros", graph.Attrs{"size": n.sizeAttr(sizes[0]), "dtype": tensor.Int32})
	}
	return out
}

// groupNorm converts GroupNorm, whose operand has the channels last unless the attribute channels_last is 0.
func groupNorm(n *node) []*val {
	x := n.operand(0)
	if n.rank(x) != 4 {
		n.failf("operand 0 has %d dimensions, want 4", n.rank(x))
	}
	last := n.flag("channels_last", true)
	if last {
		x = n.op("permute", graph.Attrs{"dims": []int{0, 3, 1, 2}}, x)
	}
	groups := n.checkedGroups(x, n.int("groups", 0))
	normalized := n.op("group_norm", graph.Attrs{"num_groups": groups, "eps": n.float("epsilon", 1e-5)}, x,
		n.convertLike(n.operand(1), x), n.convertLike(n.operand(2), x))
	switch activation := n.int("activation", 0); activation {
	case 0:
	case 1:
		normalized = n.op("silu", nil, normalized)
	default:
		n.failf("activation %d is not supported", activation)
	}
	if last {
		normalized = n.op("permute", graph.Attrs{"dims": []int{0, 2, 3, 1}}, normalized)
	}
	return one(normalized)
}

// checkedGroups returns the number of groups of channels of x. It fails if the channels cannot form the groups.
func (n *node) checkedGroups(x *val, groups int) int {
	if n.rank(x) < 2 || groups < 1 {
		n.failf("%d dimensions cannot form %d groups of channels", n.rank(x), groups)
	}
	if c, known := n.symShape(x)[1].Known(); known && c%groups != 0 {
		n.failf("%d channels cannot form %d groups", c, groups)
	}
	return groups
}

// microsoftRotaryEmbedding converts RotaryEmbedding of ONNX Runtime. Its angles are rows of tables, selected by
// positions. Operand 1 has all positions, or only the first.
func microsoftRotaryEmbedding(n *node) []*val {
	if n.flag("is_packed_batching", false) {
		n.failf("attribute is_packed_batching is not supported")
	}
	if scale := n.float("scale", 1); scale != 1 {
		n.failf("scale %v is not supported", scale)
	}
	cos := n.operand(2)
	x, headsDim := n.rotaryOperand(n.int("num_heads", 0), cos)
	ids := n.cast(n.operand(1), tensor.Int64)
	if n.rank(ids) == 1 || n.rank(ids) == 0 {
		ids = n.op("add", nil, n.indexVector(n.symShape(x)[3-headsDim]), n.reshape(ids, 1))
		ids = n.op("unsqueeze", graph.Attrs{"dim": 0}, ids)
	}
	angles := func(table *val) *val {
		return n.op("unsqueeze", graph.Attrs{"dim": headsDim}, n.op("embedding", nil, table, ids))
	}
	return one(n.rotatedOperand(x, angles(cos), angles(n.operand(3))))
}
