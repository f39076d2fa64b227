package operators

import (
	"github.com/graphrun/graphrun/graph"
)

// This file converts operators of ONNX Runtime that each fuse several operators of the standard.

// biasGelu returns the converter of gelu(operand 0 + operand 1), in which operand 1 is optional. approximate is the
// attribute of the op gelu: none or tanh.
func biasGelu(approximate string) converter {
	return func(n *node) []*value {
		x := n.Operand(0)
		if bias := n.OperandOrNil(1); bias != nil {
			x = n.Op("add", nil, x, bias)
		}
		return single(n.Op("gelu", graph.Attrs{"approximate": approximate}, x))
	}
}

// biasSplitGelu adds a bias, and multiplies the first half of each row by gelu of the second half: a row [a b c d]
// gives [a*gelu(c) b*gelu(d)].
func biasSplitGelu(n *node) []*value {
	x := n.Op("add", nil, n.Operand(0), n.Operand(1))
	last := n.Rank(x) - 1
	if last < 0 {
		n.Failf("operand 0 has no dimensions")
	}
	halves := n.Ops("chunk", graph.Attrs{"chunks": 2, "dim": last}, x)
	size := n.SymShape(x)[last]
	if number, known := size.Known(); len(halves) != 2 || known && number%2 != 0 {
		n.Failf("size %s of the last dimension of operand 0 cannot be halved", size)
	}
	return single(n.Op("mul", nil, halves[0], n.Op("gelu", nil, halves[1])))
}

// fusedMatMul multiplies matrices that may be transposed. The attributes transBatchA and transBatchB move the first
// dimension of an operand behind its other batch dimensions. One-dimensional operands are not transposed.
func fusedMatMul(n *node) []*value {
	a := transposedOperand(n, 0, "transA", "transBatchA")
	b := transposedOperand(n, 1, "transB", "transBatchB")
	y := n.Op("matmul", nil, a, b)
	if alpha := n.Float("alpha", 1); alpha != 1 {
		y = n.Op("mul", nil, y, alpha)
	}
	return single(y)
}

// transposedOperand returns operand i of FusedMatMul. transposeAttr and batchAttr are the names of the attributes that
// transpose the operand.
func transposedOperand(n *node, i int, transposeAttr, batchAttr string) *value {
	x := n.Operand(i)
	rank := n.Rank(x)
	if rank > 2 && n.Flag(batchAttr, false) {
		x = n.Op("movedim", graph.Attrs{"source": []int{0}, "destination": []int{rank - 2}}, x)
	}
	if rank > 1 && n.Flag(transposeAttr, false) {
		x = n.Op("transpose", graph.Attrs{"dim0": rank - 2, "dim1": rank - 1}, x)
	}
	return x
}

// fusedGemm converts FusedGemm: Gemm and an activation, whose parameters are two attributes.
func fusedGemm(n *node) []*value {
	param := func(i int, defaultValue float64) float64 {
		return n.Float([]string{"activation_alpha", "activation_beta"}[i], defaultValue)
	}
	return single(activate(n, gemm(n)[0], param))
}

// fusedConv converts FusedConv: a convolution, the addition of the optional operand 3, and an activation, whose
// parameters are a list.
func fusedConv(n *node) []*value {
	result := conv(n)[0]
	if summand := n.OperandOrNil(3); summand != nil {
		result = n.Op("add", nil, result, summand)
	}
	params, _ := n.Floats("activation_params")
	param := func(i int, defaultValue float64) float64 {
		if i < len(params) {
			return params[i]
		}
		return defaultValue
	}
	return single(activate(n, result, param))
}

// activate applies the function that the attribute activation names. param returns parameter i of the function, or
// defaultValue if the node does not give it.
func activate(n *node, x *value, param func(i int, defaultValue float64) float64) *value {
	switch name := n.Text("activation", ""); name {
	case "":
		return x
	case "Relu":
		return n.Op("relu", nil, x)
	case "Silu":
		return n.Op("silu", nil, x)
	case "Sigmoid":
		return n.Op("sigmoid", nil, x)
	case "Tanh":
		return n.Op("tanh", nil, x)
	case "LeakyRelu":
		return n.Op("leaky_relu", graph.Attrs{"negative_slope": param(0, 0.01)}, x)
	case "Elu":
		return n.Op("elu", graph.Attrs{"alpha": param(0, 1)}, x)
	case "Softplus": // the threshold changes no result: see softplus
		return n.Op("softplus", graph.Attrs{"threshold": 40}, x)
	case "Softsign":
		return softsignOf(n, x)
	case "ThresholdedRelu":
		return n.Op("threshold", graph.Attrs{"threshold": param(0, 1), "value": 0}, x)
	case "HardSigmoid":
		return hardSigmoidOf(n, x, param(0, 0.2), param(1, 0.5))
	case "Clip":
		return n.Op("clamp", graph.Attrs{"min": param(0, 0), "max": param(1, 6)}, x)
	default:
		n.Failf("activation %q is not supported", name)
		return nil
	}
}
