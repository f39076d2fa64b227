package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts normalizations and losses. A normalization becomes one op of the catalogue if its parameters have
// the shapes and dtypes that the op accepts. Otherwise the op normalizes without parameters, and separate ops scale and
// shift. For example, LayerNormalization with a scale of one element becomes layer_norm and mul.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols.

// batchNormalization converts BatchNormalization. Without training, outputs 1 and 2 are the unchanged running
// statistics.
func batchNormalization(n *node) []*value {
	x, weight, bias, mean, variance := n.Operand(0), n.Operand(1), n.Operand(2), n.Operand(3), n.Operand(4)
	eps := n.Float("epsilon", 1e-5)
	if n.Rank(x) == 1 { // one channel
		matrix := *n
		matrix.In = append([]*value{n.Op("unsqueeze", graph.Attrs{"dim": 1}, x).WithRank(2)}, n.In[1:]...)
		out := batchNormalization(&matrix)
		out[0] = n.Op("squeeze", graph.Attrs{"dim": 1}, out[0]).WithRank(1)
		return out
	}
	if n.Opset >= 14 && n.Flag("training_mode", false) {
		return batchTraining(n, x, weight, bias, mean, variance, eps)
	}
	if n.Opset < 9 && !n.Flag("spatial", true) {
		// The parameters have a number for each element of a sample, not for each channel.
		return inFloat32(func(*node) []*value {
			normalized := n.Op("mul", nil, n.Op("sub", nil, x, mean), n.Op("rsqrt", nil, n.Op("add", nil, variance, eps)))
			return single(n.Op("add", nil, n.Op("mul", nil, normalized, weight), bias))
		})(n)
	}
	operands := normOperands(n, x, weight, bias, mean, variance)
	normalized := n.IfPositive(n.SymShape(weight)[0], operands, func(n *node, in []*value) []*value {
		return single(n.Op("batch_norm", graph.Attrs{"training": false, "eps": eps}, in[0], in[1], in[2], in[3], in[4]))
	}, firstOperand)
	return []*value{normalized[0], mean, variance}
}

// firstOperand returns the first operand. It is the result of a normalization of no channels: it has no elements.
func firstOperand(_ *node, operands []*value) []*value { return operands[:1] }

// normOperands returns the operands of a normalization op: x and its parameters, in float32 if one of them is not in
// the dtype of a 16-bit x. Such a parameter would lose digits in the dtype of x.
func normOperands(n *node, x *value, params ...*value) []*value {
	dtype := x.DType()
	if dtype.IsReducedFloat() &&
		slices.ContainsFunc(params, func(param *value) bool { return param != nil && param.DType() != x.DType() }) {
		dtype = tensor.Float32
	}
	operands := []*value{x}
	for _, param := range params {
		if param != nil {
			param = n.Cast(param, dtype)
		}
		operands = append(operands, param)
	}
	return operands
}

// convertLike converts a parameter to the operand's dtype.
func convertLike(n *node, param, x *value) *value {
	if param == nil {
		return nil
	}
	return n.Cast(param, x.DType())
}

// batchTraining normalizes by the statistics of the batch, and updates the running statistics.
func batchTraining(n *node, x, weight, bias, mean, variance *value, eps float64) []*value {
	var dims []int // all except the channels
	for i := range n.Rank(x) {
		if i != 1 {
			dims = append(dims, i)
		}
	}
	operands := normOperands(n, x, weight, bias)
	normalized := n.IfPositive(n.SymShape(weight)[0], operands, func(n *node, in []*value) []*value {
		return single(n.Op("batch_norm", graph.Attrs{"training": true, "eps": eps}, in[0], in[1], in[2]))
	}, firstOperand)
	momentum := n.Float("momentum", 0.9)
	return append(normalized, inFloat32(func(*node) (outputs []*value) {
		stats := n.Ops("var_mean", graph.Attrs{"dim": dims, "correction": 0}, x)
		// running = running*momentum + batch*(1-momentum); var_mean returns the variance first.
		for i, running := range []*value{mean, variance} {
			update := n.Op("mul", nil, n.Cast(stats[1-i], running.DType()), 1-momentum)
			outputs = append(outputs, n.Op("add", nil, n.Op("mul", nil, running, momentum), update))
		}
		return outputs
	})(n)...)
}

// instanceNormalization converts InstanceNormalization, and records it for [asGroupNorm].
func instanceNormalization(n *node) []*value {
	x, weight, bias, eps := n.Operand(0), n.Operand(1), n.Operand(2), n.Float("epsilon", 1e-5)
	attrs := graph.Attrs{"eps": eps}
	if mayBeEmpty(n.SymShape(x)...) {
		attrs["accept_empty"] = true
	}
	in := normOperands(n, x, weight, bias)
	y := n.Op("instance_norm", attrs, in[0], in[1], in[2])
	recordGroups(n, x, y, weight, bias, eps)
	return single(y)
}

// layerNormalization converts LayerNormalization. The outputs are the result, the mean, and 1/sqrt(variance + eps);
// the statistics of 16-bit floats are float32. Before operator set 17, the operator is ONNX Runtime's: the scale may
// have another dtype than the operand, and the result has the dtype of the scale.
func layerNormalization(n *node) []*value {
	x, weight, bias := n.Operand(0), n.Operand(1), n.OperandOrNil(2)
	axis := n.Axis(n.Int("axis", -1), n.Rank(x))
	eps := n.Float("epsilon", 1e-5)
	normalized := layerNorm(n, convertWider(n, x, weight), weight, bias, axis, eps)
	normalized = n.Cast(normalized, weight.DType())
	if !n.IsOutputUsed(1) && !n.IsOutputUsed(2) {
		return single(normalized)
	}
	mean, inverseDeviation := layerStatistics(n, x, axis, eps)
	return []*value{normalized, mean, inverseDeviation}
}

// layerStatistics returns the mean and 1/sqrt(variance + eps) over the dimensions from axis on, which keep size 1.
func layerStatistics(n *node, x *value, axis int, eps float64) (mean, inverseDeviation *value) {
	converted := n.Cast(x, atLeastFloat32(x.DType()))
	stats := n.Ops("var_mean", graph.Attrs{"dim": dimsFrom(axis, n.Rank(x)), "correction": 0, "keepdim": true}, converted)
	return stats[1], n.Op("rsqrt", nil, n.Op("add", nil, stats[0], eps))
}

// convertWider returns x in the dtype of other if this dtype has more bytes.
func convertWider(n *node, x, other *value) *value {
	if other.DType().Size() > x.DType().Size() {
		return n.Cast(x, other.DType())
	}
	return x
}

// atLeastFloat32 returns float32 for a 16-bit float, and any other dtype unchanged.
func atLeastFloat32(dtype tensor.DType) tensor.DType {
	if dtype.IsReducedFloat() {
		return tensor.Float32
	}
	return dtype
}

// layerNorm normalizes x over the dimensions from axis on, scales by weight and adds bias. Both may be nil. The op
// layer_norm accepts parameters with the sizes of the normalized dimensions only; others are broadcast by separate ops.
func layerNorm(n *node, x, weight, bias *value, axis int, eps float64) *value {
	attrs := normalizedFrom(n, x, axis, eps)
	if hasSizesFrom(n, weight, x, axis) && hasSizesFrom(n, bias, x, axis) {
		in := normOperands(n, x, weight, bias)
		return n.Op("layer_norm", attrs, in[0], in[1], in[2])
	}
	return inFloat32(func(*node) []*value {
		normalized := n.Op("layer_norm", attrs, x)
		if weight != nil {
			normalized = n.Op("mul", nil, normalized, convertLike(n, weight, x))
		}
		if bias != nil {
			normalized = n.Op("add", nil, normalized, convertLike(n, bias, x))
		}
		return single(normalized)
	})(n)[0]
}

// normalizedFrom returns the attributes of a normalization of x over the dimensions from axis on.
func normalizedFrom(n *node, x *value, axis int, eps float64) graph.Attrs {
	last := n.Op("slice", graph.Attrs{"dim": 0, "start": axis}, n.ShapeVector(x)).WithType(tensor.Int64, 1)
	return graph.Attrs{"normalized_shape": n.IntsAttr(last), "eps": eps}
}

// hasSizesFrom reports whether param is nil or has the sizes of x from axis on.
func hasSizesFrom(n *node, param, x *value, axis int) bool {
	return param == nil || slices.EqualFunc(n.SymShape(param), n.SymShape(x)[axis:],
		func(a, b sym.Int) bool { return a.Same(b) })
}

// dimsFrom returns the dimensions from axis on.
func dimsFrom(axis, rank int) (dims []int) {
	for i := axis; i < rank; i++ {
		dims = append(dims, i)
	}
	return dims
}

// rmsNormalization converts RMSNormalization, and SimplifiedLayerNormalization of ONNX Runtime, whose second output is
// 1/sqrt(mean(x²) + eps). The result has the dtype of the scale.
func rmsNormalization(n *node) []*value {
	x, eps := n.Operand(0), n.Float("epsilon", 1e-5)
	if dtype := n.DTypeAttr("stash_type"); dtype != tensor.Invalid && dtype != tensor.Float32 {
		n.Failf("stash_type %s is not supported: want float32", dtype)
	}
	axis := n.Axis(n.Int("axis", -1), n.Rank(x))
	outputs := single(rmsNorm(n, x, n.Operand(1), axis, eps))
	if n.IsOutputUsed(1) {
		outputs = append(outputs, inverseRMS(n, x, axis, eps))
	}
	return outputs
}

// inverseRMS returns 1/sqrt(mean(x²) + eps) over the dimensions from axis on, which keep size 1.
func inverseRMS(n *node, x *value, axis int, eps float64) *value {
	converted := n.Cast(x, atLeastFloat32(x.DType()))
	attrs := graph.Attrs{"dim": dimsFrom(axis, n.Rank(x)), "keepdim": true}
	meanSquare := n.Op("mean", attrs, n.Op("mul", nil, converted, converted))
	return n.Op("rsqrt", nil, n.Op("add", nil, meanSquare, eps))
}

// rmsNorm divides x by its root mean square over the dimensions from axis on, and scales the result. If the dtypes
// differ, the quotient is rounded to the dtype of x before it is scaled, as in the function body of the standard.
func rmsNorm(n *node, x, scale *value, axis int, eps float64) *value {
	attrs := normalizedFrom(n, x, axis, eps)
	if hasSizesFrom(n, scale, x, axis) && scale.DType() == x.DType() {
		return n.Op("rms_norm", attrs, x, scale)
	}
	scaled := func(*node) []*value {
		return single(n.Op("mul", nil, n.Cast(n.Op("rms_norm", attrs, x), scale.DType()), scale))
	}
	if scale.DType() == x.DType() {
		scaled = inFloat32(scaled)
	}
	return scaled(n)[0]
}

// groupNormalization converts GroupNormalization. Scale and bias have an element for each group before operator set 21,
// and an element for each channel from set 21 on.
func groupNormalization(n *node) []*value {
	x, weight, bias := n.Operand(0), n.Operand(1), n.Operand(2)
	groups := checkedGroups(n, x, n.Int("num_groups", 0))
	if channels := n.SymShape(x)[1]; n.Opset < 21 {
		weight, bias = repeatGroups(n, weight, groups, channels), repeatGroups(n, bias, groups, channels)
	}
	attrs := graph.Attrs{"num_groups": groups, "eps": n.Float("epsilon", 1e-5)}
	in := normOperands(n, x, weight, bias)
	return single(n.Op("group_norm", attrs, in[0], in[1], in[2]))
}

// lrn converts LRN, which divides each element by (bias + alpha/size * s)^beta, where s is the sum of the squares of
// `size` channels: the element's channel, the (size-1)/2 channels before it, and the size/2 channels after it.
func lrn(n *node) []*value {
	x := n.Operand(0)
	size := n.Int("size", 1)
	rank := n.Rank(x)
	if size < 1 || size > 1<<20 || rank < 2 {
		n.Failf("size %d of an operand with %d dimensions is not supported", size, rank)
	}
	before, after := make([]sym.Int, rank), make([]sym.Int, rank)
	before[1], after[1] = sym.Of((size-1)/2), sym.Of(size/2)
	hasNoChannels := mayBeEmpty(n.SymShape(x)[1]) // possibly: then unfold needs a further channel
	if hasNoChannels {
		after[1] = after[1].Add(sym.Of(1))
	}
	// unfold appends a dimension with the `size` neighbours of each channel.
	squares := padded(n, n.Op("mul", nil, x, x), before, after, 0)
	sum := n.Op("sum", graph.Attrs{"dim": []int{rank}},
		n.Op("unfold", graph.Attrs{"dimension": 1, "size": size, "step": 1}, squares).WithRank(rank+1)).WithRank(rank)
	if hasNoChannels {
		sum = n.Op("slice", graph.Attrs{"dim": 1, "start": 0, "end": -1}, sum).WithRank(rank)
	}
	base := n.Op("add", nil, n.Op("mul", nil, sum, n.Float("alpha", 1e-4)/float64(size)), n.Float("bias", 1))
	return single(n.Op("div", nil, x, n.Op("pow", nil, base, n.Float("beta", 0.75))))
}

// meanVarianceNormalization converts MeanVarianceNormalization: (x - mean) / (standard deviation + 1e-9), over all
// dimensions except the channels by default. Before operator set 9, the attributes were across_channels and
// normalize_variance.
func meanVarianceNormalization(n *node) []*value {
	x := n.Operand(0)
	axes, ok := n.Ints("axes")
	if !ok {
		axes = []int{0, 2, 3}
		if n.Opset < 9 && n.Flag("across_channels", false) {
			axes = []int{0, 1, 2, 3}
		}
	}
	axes = n.AxisSet(axes, n.Rank(x))
	centred := n.Op("sub", nil, x, n.Op("mean", graph.Attrs{"dim": axes, "keepdim": true}, x))
	if n.Opset < 9 && !n.Flag("normalize_variance", true) {
		return single(centred)
	}
	deviation := n.Op("sqrt", nil, n.Op("var", graph.Attrs{"dim": axes, "correction": 0, "keepdim": true}, x))
	return single(n.Op("div", nil, centred, n.Op("add", nil, deviation, 1e-9)))
}

// nllLoss converts NegativeLogLikelihoodLoss.
func nllLoss(n *node) []*value {
	return single(nllOf(n, n.Operand(0), n.Operand(1), n.OperandOrNil(2)))
}

// crossEntropyLoss converts SoftmaxCrossEntropyLoss. The second output is the logarithm of the softmax.
func crossEntropyLoss(n *node) []*value {
	logProbabilities := n.Op("log_softmax", graph.Attrs{"dim": 1}, n.Operand(0))
	return []*value{nllOf(n, logProbabilities, n.Operand(1), n.OperandOrNil(2)), logProbabilities}
}

// nllOf returns the negative log-likelihood loss: -x[class] * weight[class], reduced by the attribute reduction. x has
// the log-probabilities, with the classes in dimension 1. target selects the class. weight has a factor for each class,
// and may be nil. The mean is divided by the sum of the weights. Targets equal to ignore_index have weight 0.
func nllOf(n *node, x, target, weight *value) *value {
	target = n.Cast(target, tensor.Int64)
	var isCounted *value // nil if all targets are counted
	if n.HasAttr("ignore_index") {
		isCounted = n.Op("ne", nil, target, n.Int("ignore_index", 0))
		// An ignored target need not be a class: select class 0 in its place.
		target = n.Op("where", nil, isCounted, target, n.Op("zeros_like", nil, target))
	}
	rank := n.Rank(x)
	classIndex := n.Op("unsqueeze", graph.Attrs{"dim": 1}, target).WithRank(rank)
	logProbability := n.Op("gather", graph.Attrs{"dim": 1}, x, classIndex)
	loss := n.Op("neg", nil, n.Op("squeeze", graph.Attrs{"dim": 1}, logProbability).WithRank(rank-1))
	weights := targetWeights(n, x, target, weight, isCounted)
	if weights != nil {
		loss = n.Op("mul", nil, loss, weights)
	}
	switch reduction := n.Text("reduction", "mean"); reduction {
	case "none":
		return loss
	case "sum":
		return n.Op("sum", nil, loss).WithRank(0)
	case "mean":
		if weights == nil {
			return n.Op("mean", nil, loss).WithRank(0)
		}
		return n.Op("div", nil, n.Op("sum", nil, loss), n.Op("sum", nil, weights)).WithRank(0)
	default:
		n.Failf("reduction %q is not supported", reduction)
		return nil
	}
}

// targetWeights returns the weight of each target of [nllOf] in the dtype of x, or nil if all weights are 1.
func targetWeights(n *node, x, target, weight, isCounted *value) *value {
	dtype := x.DType()
	if weight == nil && isCounted == nil {
		return nil
	}
	if weight == nil {
		return n.Cast(isCounted, dtype)
	}
	weights := n.Op("index", nil, n.Cast(weight, dtype), target).WithRank(n.Rank(x) - 1)
	if isCounted == nil {
		return weights
	}
	return n.Op("mul", nil, weights, n.Cast(isCounted, dtype))
}
