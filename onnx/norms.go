package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

func batchNormalization(n *node) []*val {
	x, weight, bias, mean, variance := n.operand(0), n.operand(1), n.operand(2), n.operand(3), n.operand(4)
	eps := n.float("epsilon", 1e-5)
	if n.opset >= 14 && n.flag("training_mode", false) {
		return n.batchTraining(x, weight, bias, mean, variance, eps)
	}
	if n.opset < 9 && !n.flag("spatial", true) {
		// The parameters have a number for each element of a sample, not for each channel.
		normalized := n.op("mul", nil, n.op("sub", nil, x, mean), n.op("rsqrt", nil, n.op("add", nil, variance, eps)))
		return one(n.op("add", nil, n.op("mul", nil, normalized, weight), bias))
	}
	normalized := n.op("batch_norm", graph.Attrs{"training": false, "eps": eps}, x,
		n.convertLike(weight, x), n.convertLike(bias, x),
		n.convertLike(mean, x), n.convertLike(variance, x))
	return []*val{normalized, mean, variance}
}

// convertLike converts a parameter to the operand's dtype.
func (n *node) convertLike(p, x *val) *val {
	if p == nil {
		return nil
	}
	return n.cast(p, x.dtype())
}

// batchTraining normalizes by the statistics of the batch, and updates the running statistics.
func (n *node) batchTraining(x, weight, bias, mean, variance *val, eps float64) []*val {
	var dims []int
	for i := range n.rank(x) {
		if i != 1 {
			dims = append(dims, i)
		}
	}
	y := n.op("batch_norm", graph.Attrs{"training": true, "eps": eps}, x, n.convertLike(weight, x),
		n.convertLike(bias, x))
	out := []*val{y}
	keep := n.float("momentum", 0.9)
	stats := n.ops("var_mean", graph.Attrs{"dim": dims, "correction": 0}, x)
	for i, old := range []*val{mean, variance} {
		dtype := old.dtype()
		update := n.op("mul", nil, n.cast(stats[1-i], dtype), 1-keep)
		out = append(out, n.op("add", nil, n.op("mul", nil, old, keep), update))
	}
	return out
}

func instanceNormalization(n *node) []*val {
	x, w, b, eps := n.operand(0), n.operand(1), n.operand(2), n.float("epsilon", 1e-5)
	y := n.op("instance_norm", graph.Attrs{"eps": eps}, x, w, b)
	n.recordGroups(x, y, w, b, eps)
	return one(y)
}

func layerNormalization(n *node) []*val {
	x := n.operand(0)
	axis := n.axis(n.int("axis", -1), n.rank(x))
	eps := n.float("epsilon", 1e-5)
	normalized := n.layerNorm(x, n.operand(1), n.operandOrNil(2), axis, eps)
	if !n.isOutputUsed(1) && !n.isOutputUsed(2) {
		return one(normalized)
	}
	converted := x
	if x.dtype().IsReducedFloat() {
		converted = n.cast(x, tensor.Float32)
	}
	stats := n.ops("var_mean", graph.Attrs{"dim": dimsFrom(axis, n.rank(x)), "correction": 0, "keepdim": true}, converted)
	return []*val{normalized, stats[1], n.op("rsqrt", nil, n.op("add", nil, stats[0], eps))}
}

// layerNorm normalizes x over the dimensions from axis on, scales by weight and adds bias.
// Both may be nil.
func (n *node) layerNorm(x, weight, bias *val, axis int, eps float64) *val {
	attrs := n.normalizedFrom(x, axis, eps)
	if n.hasSizesFrom(weight, x, axis) && n.hasSizesFrom(bias, x, axis) {
		return n.op("layer_norm", attrs, x, n.convertLike(weight, x), n.convertLike(bias, x))
	}
	normalized := n.op("layer_norm", attrs, x)
	if weight != nil {
		normalized = n.op("mul", nil, normalized, n.convertLike(weight, x))
	}
	if bias != nil {
		normalized = n.op("add", nil, normalized, n.convertLike(bias, x))
	}
	return normalized
}

// normalizedFrom returns the attributes of a normalization of x over the dimensions from axis on.
func (n *node) normalizedFrom(x *val, axis int, eps float64) graph.Attrs {
	last := n.op("slice", graph.Attrs{"dim": 0, "start": axis}, n.shapeVector(x)).withType(tensor.Int64, 1)
	return graph.Attrs{"normalized_shape": n.vectorAttr(last), "eps": eps}
}

// hasSizesFrom reports whether parameter p is nil or has the sizes of x from axis on.
func (n *node) hasSizesFrom(p, x *val, axis int) bool {
	return p == nil || slices.EqualFunc(n.symShape(p), n.symShape(x)[axis:],
		func(a, b sym.Int) bool { return a.Same(b) })
}

// dimsFrom returns the dimensions from axis on.
func dimsFrom(axis, rank int) (dims []int) {
	for i := axis; i < rank; i++ {
		dims = append(dims, i)
	}
	return dims
}

// rmsNormalization converts RMSNormalization, and SimplifiedLayerNormalization of ONNX Runtime, which also returns the
// reciprocal of the root mean square. The result has the dtype of the scale.
func rmsNormalization(n *node) []*val {
	x, eps := n.operand(0), n.float("epsilon", 1e-5)
	if d := n.dtypeAttr("stash_type"); d != tensor.Invalid && d != tensor.Float32 {
		n.failf("stash_type %s is not supported", d)
	}
	axis := n.axis(n.int("axis", -1), n.rank(x))
	out := one(n.rmsNorm(x, n.operand(1), axis, eps))
	if n.isOutputUsed(1) {
		converted := x
		if x.dtype().IsReducedFloat() {
			converted = n.cast(x, tensor.Float32)
		}
		attrs := graph.Attrs{"dim": dimsFrom(axis, n.rank(x)), "keepdim": true}
		square := n.op("mean", attrs, n.op("mul", nil, converted, converted))
		out = append(out, n.op("rsqrt", nil, n.op("add", nil, square, eps)))
	}
	return out
}

// rmsNorm divides x by its root mean square over the dimensions from axis on, and scales the result.
func (n *node) rmsNorm(x, scale *val, axis int, eps float64) *val {
	attrs := n.normalizedFrom(x, axis, eps)
	if n.hasSizesFrom(scale, x, axis) && scale.dtype() == x.dtype() {
		return n.op("rms_norm", attrs, x, scale)
	}
	return n.op("mul", nil, n.cast(n.op("rms_norm", attrs, x), scale.dtype()), scale)
}

// groupNormalization converts GroupNormalization. Scale and bias have an element for each group before operator set 21,
// and an element for each channel from set 21 on.
func groupNormalization(n *node) []*val {
	x, weight, bias := n.operand(0), n.operand(1), n.operand(2)
	groups := n.checkedGroups(x, n.int("num_groups", 0))
	if channels := n.symShape(x)[1]; n.opset < 21 {
		weight, bias = n.repeatGroups(weight, groups, channels), n.repeatGroups(bias, groups, channels)
	}
	attrs := graph.Attrs{"num_groups": groups, "eps": n.float("epsilon", 1e-5)}
	return one(n.op("group_norm", attrs, x, n.convertLike(weight, x), n.convertLike(bias, x)))
}

// lrn converts LRN, which divides each element by a power of the mean square over neighbouring channels.
func lrn(n *node) []*val {
	x := n.operand(0)
	size := n.int("size", 1)
	rank := n.rank(x)
	if size < 1 || size > 1<<20 || rank < 2 {
		n.failf("size %d of an operand with %d dimensions is not supported", size, rank)
	}
	before, after := make([]sym.Int, rank), make([]sym.Int, rank)
	before[1], after[1] = sym.Of((size-1)/2), sym.Of(size/2)
	squares := n.padded(n.op("mul", nil, x, x), before, after, 0)
	sum := n.op("sum", graph.Attrs{"dim": []int{rank}},
		n.op("unfold", graph.Attrs{"dimension": 1, "size": size, "step": 1}, squares).withRank(rank+1)).withRank(rank)
	base := n.op("add", nil, n.op("mul", nil, sum, n.float("alpha", 1e-4)/float64(size)), n.float("bias", 1))
	return one(n.op("div", nil, x, n.op("pow", nil, base, n.float("beta", 0.75))))
}

func meanVarianceNormalization(n *node) []*val {
	x := n.operand(0)
	axes, ok := n.ints("axes")
	if !ok {
		axes = []int{0, 2, 3}
		if n.opset < 9 && n.flag("across_channels", false) {
			axes = []int{0, 1, 2, 3}
		}
	}
	centred := n.op("sub", nil, x, n.op("mean", graph.Attrs{"dim": axes, "keepdim": true}, x))
	if n.opset < 9 && !n.flag("normalize_variance", true) {
		return one(centred)
	}
	spread := n.op("sqrt", nil, n.op("var", graph.Attrs{"dim": axes, "correction": 0, "keepdim": true}, x))
	return one(n.op("div", nil, centred, n.op("add", nil, spread, 1e-9)))
}

func nllLoss(n *node) []*val {
	return one(n.nllOf(n.operand(0), n.operand(1), n.operandOrNil(2)))
}

func crossEntropyLoss(n *node) []*val {
	logs := n.op("log_softmax", graph.Attrs{"dim": 1}, n.operand(0))
	return []*val{n.nllOf(logs, n.operand(1), n.operandOrNil(2)), logs}
}

// nllOf returns the negative log-likelihood loss. x has the log-probabilities, with the classes in dimension 1; target
// selects the class, and weight has a factor for each class.
func (n *node) nllOf(x, target, weight *val) *val {
	ignored := n.attrs["ignore_index"] != nil
	target = n.cast(target, tensor.Int64)
	var keep *val
	dtype := x.dtype()
	if ignored {
		keep = n.op("ne", nil, target, n.int("ignore_index", 0))
		target = n.op("where", nil, keep, target, n.op("zeros_like", nil, target))
	}
	rank := n.rank(x)
	picked := n.op("gather", graph.Attrs{"dim": 1}, x, n.op("unsqueeze", graph.Attrs{"dim": 1}, target).withRank(rank))
	loss := n.op("neg", nil, n.op("squeeze", graph.Attrs{"dim": 1}, picked).withRank(rank-1))
	var classWeight *val
	if weight != nil {
		classWeight = n.op("index", nil, n.cast(weight, dtype), target).withRank(rank - 1)
		if ignored {
			classWeight = n.op("mul", nil, classWeight, n.cast(keep, dtype))
		}
	} else if ignored {
		classWeight = n.cast(keep, dtype)
	}
	if classWeight != nil {
		loss = n.op("mul", nil, loss, classWeight)
	}
	switch reduction := n.text("reduction", "mean"); reduction {
	case "none":
		return loss
	case "sum":
		return n.op("sum", nil, loss).withRank(0)
	case "mean":
		if classWeight == nil {
			return n.op("mean", nil, loss).withRank(0)
		}
		return n.op("div", nil, n.op("sum", nil, loss), n.op("sum", nil, classWeight)).withRank(0)
	default:
		n.failf("reduction %q is not supported", reduction)
		return nil
	}
}
