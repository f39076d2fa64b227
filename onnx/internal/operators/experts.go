package operators

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts QMoE of ONNX Runtime: a mixture of experts whose weights are quantized by rows or by blocks of
// rows. An expert is two linear layers, fc1 and fc2, with an activation between them. Each token, a row of operand 0,
// goes to the k experts with the greatest scores (operand 1). Its result is the sum of their results, weighted by the
// softmax of these k scores or, with router_weights, by the numbers of these experts. For example, with 8 experts and
// k = 2, scores of which the experts 5 and 1 have the greatest, 3.0 and 1.0, give 0.88 of expert 5 and 0.12 of
// expert 1.
//
// An expert to which no token goes is not computed. The others are computed for all tokens, with weight 0 for those
// that do not go there: a run of one token, as in decoding, does no needless work.

// Operands of QMoE. Weights, scales and biases have a first dimension of experts.
const (
	expertScores        = 1
	expertFC1           = 2  // the weight, its scales and its bias are three operands in a row
	expertFC2           = 5  // likewise
	expertFC3           = 8  // likewise
	expertZeroPoints    = 11 // of fc1, fc2 and fc3
	expertRouterWeights = 14
)

// quantizedExperts converts QMoE: see the top of the file.
func quantizedExperts(n *node) []*value {
	if n.Flag("use_sparse_mixer", false) {
		n.Failf("attribute use_sparse_mixer is not supported")
	}
	if quantType := n.Text("quant_type", "int"); quantType != "int" {
		n.Failf("quant_type %q is not supported", quantType)
	}
	x, scores := n.Operand(0), n.Operand(expertScores)
	if rank := n.Rank(x); rank != 2 && rank != 3 || n.Rank(scores) != 2 {
		n.Failf("operands 0 and 1 have %d and %d dimensions, want 2 or 3 and 2", rank, n.Rank(scores))
	}
	layers := [3]*expertLayer{readExpertLayer(n, expertFC1), readExpertLayer(n, expertFC2), nil}
	if n.HasOperand(expertFC3) {
		layers[2] = readExpertLayer(n, expertFC3)
	}
	sizes := n.SymShape(x)
	tokens := n.ReshapeSym(n.Cast(x, tensor.Float32), n.SymShape(scores)[0], sizes[len(sizes)-1])
	shares := expertShares(n, n.Cast(scores, tensor.Float32)) // [tokens, experts]
	sum := n.Op("zeros_like", nil, tokens)
	for i := range n.KnownNumbers("the number of experts", n.SymShape(layers[0].weight)[:1])[0] {
		share := n.Op("slice", graph.Attrs{"dim": 1, "start": i, "end": i + 1}, shares)
		operands := []*value{sum, tokens, share}
		for _, layer := range layers {
			operands = append(operands, layer.operands(n, i)...)
		}
		add := func(n *node, in []*value) []*value {
			y := expertResult(n, in[1], layers, in[3:])
			return single(n.Op("add", nil, in[0], n.Op("mul", nil, y, in[2])))
		}
		isChosen := n.Op("any", nil, n.Op("ne", nil, share, 0)).WithType(tensor.Bool, 0)
		sum = n.IfTrue(isChosen, operands, add, firstOperand)[0]
	}
	return single(n.Cast(n.ReshapeSym(sum, sizes...), x.DType()))
}

// expertShares returns the weights of the experts for each token, [tokens, experts]: 0 except for the k experts with
// the greatest scores.
func expertShares(n *node, scores *value) *value {
	top := n.Ops("topk", graph.Attrs{"dim": -1, "k": n.Int("k", 1), "largest": true, "sorted": true}, scores)
	shares := n.Op("softmax", graph.Attrs{"dim": -1}, top[0])
	if given := n.OperandOrNil(expertRouterWeights); given != nil {
		shares = n.Op("gather", graph.Attrs{"dim": 1}, n.Cast(given, tensor.Float32), top[1])
		if n.Flag("normalize_routing_weights", false) {
			total := n.Op("sum", graph.Attrs{"dim": []int{-1}, "keepdim": true}, shares)
			shares = n.Op("masked_fill", nil, n.Op("div", nil, shares, total), n.Op("eq", nil, total, 0), 0)
		}
	}
	return n.Op("scatter", graph.Attrs{"dim": 1}, n.Op("zeros_like", nil, scores), top[1], shares)
}

// expertLayer has the operands of a linear layer of all experts. A missing operand is nil.
type expertLayer struct {
	weight    *value // [experts, out, bytes]
	scale     *value // [experts, out, blocks]
	zero      *value // like scale, not packed
	bias      *value // [experts, out]
	bits      int
	blockSize int
}

// readExpertLayer reads the layer whose weight is operand i.
func readExpertLayer(n *node, i int) *expertLayer {
	layer := &expertLayer{weight: n.Operand(i), scale: n.Cast(n.Operand(i+1), tensor.Float32), bias: n.OperandOrNil(i + 2),
		bits: n.Int("expert_weight_bits", 4)}
	if layer.bits != 2 && layer.bits != 4 && layer.bits != 8 {
		n.Failf("elements of %d bits are not supported: want 2, 4 or 8", layer.bits)
	}
	if n.Rank(layer.weight) != 3 || layer.weight.DType() != tensor.Uint8 {
		n.Failf("operand %d is %v of %d dimensions, want uint8 of 3", i, layer.weight.DType(), n.Rank(layer.weight))
	}
	sizes := n.KnownNumbers("the sizes of a weight", n.SymShape(layer.weight))
	experts, out, columns := sizes[0], sizes[1], sizes[2]*8/layer.bits
	layer.blockSize = columns
	if n.Rank(layer.scale) == 3 {
		layer.blockSize = readBlockSize(n, columns, columns)
	}
	blocks := (columns-1)/layer.blockSize + 1
	layer.scale = n.Reshape(layer.scale, experts, out, blocks)
	if layer.bias != nil {
		layer.bias = n.Cast(layer.bias, tensor.Float32)
	}
	if zero := n.OperandOrNil(expertZeroPoints + (i-expertFC1)/3); zero != nil {
		count := blocks
		if n.Rank(zero) == 2 { // the zero points of rows are packed together
			count = out
		}
		layer.zero = n.Reshape(unpackBytes(n, zero, layer.bits, sym.Of(count)), experts, out, blocks)
	}
	return layer
}

// operands returns the weight, scale, zero point and bias of an expert. A missing one is left out. A nil layer
// has no operands.
func (l *expertLayer) operands(n *node, expert int) []*value {
	if l == nil {
		return nil
	}
	var list []*value
	for _, x := range []*value{l.weight, l.scale, l.zero, l.bias} {
		if x != nil {
			list = append(list, n.Op("select", graph.Attrs{"dim": 0, "index": expert}, x))
		}
	}
	return list
}

// apply applies the layer with the operands that [expertLayer.operands] returned. It returns the remaining operands.
func (l *expertLayer) apply(n *node, x *value, operands []*value) (y *value, rest []*value) {
	var zero, bias *value
	weight, scale, rest := operands[0], operands[1], operands[2:]
	if l.zero != nil {
		zero, rest = rest[0], rest[1:]
	}
	if l.bias != nil {
		bias, rest = rest[0], rest[1:]
	}
	attrs := graph.Attrs{"bits": l.bits, "block_size": l.blockSize}
	return n.Op("linear_blocks", attrs, x, weight, scale, zero, bias), rest
}

// expertResult applies fc1, the activation and fc2 to each token. fc3 is a factor of the activation's result or, for
// swiglu, the linear half.
func expertResult(n *node, tokens *value, layers [3]*expertLayer, operands []*value) *value {
	h, operands := layers[0].apply(n, tokens, operands)
	var factor *value
	fc2 := operands
	if layers[2] != nil {
		count := 2 // the operands of fc2
		for _, optional := range []*value{layers[1].zero, layers[1].bias} {
			if optional != nil {
				count++
			}
		}
		factor, _ = layers[2].apply(n, tokens, operands[count:])
	}
	h = expertActivation(n, h, factor)
	y, _ := layers[1].apply(n, h, fc2)
	return y
}

// expertActivation applies the attribute activation_type. The function swiglu is
//
//	gate * sigmoid(alpha*gate) * (linear + beta)
//
// where the attribute swiglu_limit bounds gate from above, and linear on both sides. The attribute swiglu_fusion tells
// where the numbers are: 0: gate is h and linear is factor, 1: they alternate in h, 2: they are the halves of h.
func expertActivation(n *node, h, factor *value) *value {
	name := n.Text("activation_type", "relu")
	if name != "swiglu" {
		switch name {
		case "relu", "silu":
			h = n.Op(name, nil, h)
		case "gelu":
			h = n.Op("gelu", graph.Attrs{"approximate": "tanh"}, h)
		case "identity":
		default:
			n.Failf("activation_type %q is not supported", name)
		}
		if factor != nil {
			h = n.Op("mul", nil, h, factor)
		}
		return h
	}
	gate, linear := h, factor
	switch fusion := n.Int("swiglu_fusion", 0); {
	case fusion == 0 && factor != nil:
	case fusion == 1 && factor == nil:
		width := n.SizeAttr(n.SymShape(h)[1])
		gate = n.Op("slice", graph.Attrs{"dim": 1, "start": 0, "end": width, "step": 2}, h)
		linear = n.Op("slice", graph.Attrs{"dim": 1, "start": 1, "end": width, "step": 2}, h)
	case fusion == 2 && factor == nil:
		halves := n.Ops("chunk", graph.Attrs{"chunks": 2, "dim": 1}, h)
		gate, linear = halves[0], halves[1]
	default:
		n.Failf("swiglu_fusion %d is not supported: want 0 with fc3, or 1 or 2 without", fusion)
	}
	if limit := n.Float("swiglu_limit", math.Inf(1)); !math.IsInf(limit, 1) {
		gate = n.Op("clamp", graph.Attrs{"max": limit}, gate)
		linear = n.Op("clamp", graph.Attrs{"min": -limit, "max": limit}, linear)
	}
	sigmoid := n.Op("sigmoid", nil, n.Op("mul", nil, gate, n.Float("activation_alpha", 1)))
	return n.Op("mul", nil, n.Op("mul", nil, gate, sigmoid), n.Op("add", nil, linear, n.Float("activation_beta", 0)))
}
