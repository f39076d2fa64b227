package operators

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts normalizations of ONNX Runtime that include additions or lookups.

// skipEpsilon is the default epsilon of operators that normalize a sum.
const skipEpsilon = 1e-12

// skipNorm returns the converter of SkipLayerNormalization or SkipSimplifiedLayerNormalization: it normalizes the sum
// of operand 0, operand 1 (the skip connection), and an optional bias, the operand with index biasOperand. Outputs 1 and
// 2 are the statistics of the sum: the mean, and 1/sqrt(variance + epsilon) or its counterpart without the mean. Output
// 3 is the sum.
func skipNorm(biasOperand int, normalize func(n *node, sum *value, eps float64) *value,
	statistics func(n *node, sum *value, axis int, eps float64) (mean, inverseDeviation *value)) converter {
	return func(n *node) []*value {
		sum, eps := n.Op("add", nil, n.Operand(0), n.Operand(1)), n.Float("epsilon", skipEpsilon)
		if bias := n.OperandOrNil(biasOperand); bias != nil {
			sum = n.Op("add", nil, sum, bias)
		}
		out := []*value{normalize(n, sum, eps), nil, nil, sum}
		if n.IsOutputUsed(1) || n.IsOutputUsed(2) {
			out[1], out[2] = statistics(n, sum, n.Rank(sum)-1, eps)
		}
		return out
	}
}

// rmsStatistics has no mean: the operator does not compute one.
func rmsStatistics(n *node, sum *value, axis int, eps float64) (mean, inverseDeviation *value) {
	return nil, inverseRMS(n, sum, axis, eps)
}

// layerNormOfSum applies a layer normalization over the last dimension, with operands 2 and 3 as weight and bias.
func layerNormOfSum(n *node, sum *value, eps float64) *value {
	return layerNorm(n, sum, n.Operand(2), n.OperandOrNil(3), n.Axis(-1, n.Rank(sum)), eps)
}

// rmsNormOfSum divides the sum by its root mean square over the last dimension, and multiplies by operand 2.
func rmsNormOfSum(n *node, sum *value, eps float64) *value {
	return rmsNorm(n, sum, n.Operand(2), n.Axis(-1, n.Rank(sum)), eps)
}

// embedLayerNormalization converts EmbedLayerNormalization: it adds embeddings of words, positions and (optionally)
// segments, and normalizes the sum. Operands 0, 8 and 1 are the indices of words, positions and segments; operands 2, 3
// and 4 are the tables of their embeddings. Operands 5 and 6 are the weight and the bias of the normalization. Output 1
// is the number of words in each row for which the mask (operand 7) is 1, or 0 without a mask. Output 2 is the sum.
func embedLayerNormalization(n *node) []*value {
	embed := func(table int, ids *value) *value { return n.Op("embedding", nil, n.Operand(table), ids) }
	return embeddedNorm(n, n.OperandOrNil(8), embed, n.Operand)
}

// quantizedEmbedLayerNormalization converts QEmbedLayerNormalization: EmbedLayerNormalization whose operands 2 to 6 are
// quantized. Operands 8 to 12 are their scales, and operands 13 to 17 their zero points.
func quantizedEmbedLayerNormalization(n *node) []*value {
	dequantized := func(i int, quantized *value) *value {
		return dequantizeBy(n, quantized, n.Operand(i+6), n.Operand(i+11))
	}
	embed := func(table int, ids *value) *value {
		return dequantized(table, n.Op("embedding", nil, n.Operand(table), ids))
	}
	return embeddedNorm(n, nil, embed, func(i int) *value { return dequantized(i, n.Operand(i)) })
}

// embeddedNorm converts operators with the same operands 0 to 7 as EmbedLayerNormalization. positions is the operand
// position_ids, or nil if it is absent. In EmbedLayerNormalization it is operand 8. The quantized operator has no
// position_ids. embed looks up rows of the operand with the given index, and parameter returns the weight or bias.
func embeddedNorm(n *node, positions *value, embed func(table int, ids *value) *value,
	parameter func(i int) *value) []*value {
	ids := n.Operand(0)
	if n.Rank(ids) != 2 {
		n.Failf("operand 0 has %d dimensions, want 2", n.Rank(ids))
	}
	segments := n.OperandOrNil(1)
	if (segments == nil) != (n.OperandOrNil(4) == nil) {
		n.Failf("segment_ids (operand 1) and segment_embedding (operand 4) must be used together")
	}
	sizes := n.SymShape(ids)
	sum := embed(2, ids)
	if positions == nil {
		positions = n.Op("unsqueeze", graph.Attrs{"dim": 0}, n.IndexVector(sizes[1]))
	}
	sum = n.Op("add", nil, sum, embed(3, positions))
	if segments != nil {
		sum = n.Op("add", nil, sum, embed(4, segments))
	}
	const lastAxis = 2 // of the sum, [batch, positions, elements]
	normalized := layerNorm(n, sum, parameter(5), parameter(6), lastAxis, n.Float("epsilon", skipEpsilon))
	out := []*value{normalized, nil, sum}
	switch mask := n.OperandOrNil(7); {
	case !n.IsOutputUsed(1): // out[1] stays nil
	case mask != nil:
		isUnmasked := n.Cast(n.Op("eq", nil, mask, 1), tensor.Int32)
		out[1] = n.Op("sum", graph.Attrs{"dim": []int{1}, "dtype": tensor.Int32}, isUnmasked)
	default:
		out[1] = n.Op("zeros", graph.Attrs{"size": n.SizesAttr(sizes[0]), "dtype": tensor.Int32})
	}
	return out
}

// groupNorm converts GroupNorm, whose operand and result have the channels in the last dimension, or in dimension 1 if
// the attribute channels_last is 0. The attribute activation is 0 or 1; 1 applies x*sigmoid(x) to the result.
func groupNorm(n *node) []*value {
	x := n.Operand(0)
	if n.Rank(x) != 4 {
		n.Failf("operand 0 has %d dimensions, want 4", n.Rank(x))
	}
	isChannelsLast := n.Flag("channels_last", true)
	if isChannelsLast {
		x = n.Op("permute", graph.Attrs{"dims": []int{0, 3, 1, 2}}, x)
	}
	groups := checkedGroups(n, x, n.Int("groups", 0))
	activation := n.Int("activation", 0)
	if activation != 0 && activation != 1 {
		n.Failf("activation %d is not supported", activation)
	}
	normalize := func(*node) []*value {
		in := normOperands(n, x, n.Operand(1), n.Operand(2))
		y := n.Op("group_norm", graph.Attrs{"num_groups": groups, "eps": n.Float("epsilon", 1e-5)}, in[0], in[1], in[2])
		if activation == 1 {
			y = n.Op("silu", nil, y)
		}
		return single(n.Cast(y, x.DType()))
	}
	if activation == 1 {
		normalize = inFloat32(normalize)
	}
	normalized := normalize(n)[0]
	if isChannelsLast {
		normalized = n.Op("permute", graph.Attrs{"dims": []int{0, 2, 3, 1}}, normalized)
	}
	return single(normalized)
}

// checkedGroups returns the number of groups of channels of x. It fails if the channels cannot form the groups.
func checkedGroups(n *node, x *value, groups int) int {
	if n.Rank(x) < 2 || groups < 1 {
		n.Failf("%d dimensions cannot form %d groups of channels", n.Rank(x), groups)
	}
	if c, known := n.SymShape(x)[1].Known(); known && c%groups != 0 {
		n.Failf("%d channels cannot form %d groups", c, groups)
	}
	return groups
}
