package onnx

import (
	"github.com/graphrun/graphrun/graph"
)

// This file converts operators of ONNX Runtime that each fuse several operators of the standard.

// biasGelu returns the converter of gelu of the sum of an operand and an optional bias.
func biasGelu(approximate string) converter {
	return func(n *node) []*val {
		x := n.operand(0)
		if b := n.operandOrNil(1); b != nil {
			x = n.op("add", nil, x, b)
		}
		return one(n.op("gelu", graph.Attrs{"approximate": approximate}, x))
	}
}

// biasSplitGelu adds a bias, and multiplies the first half of each row by gelu of the second half.
func biasSplitGelu(n *node) []*val {
	x := n.op("add", nil, n.operand(0), n.operand(1))
	last := n.rank(x) - 1
	if last < 0 {
		n.failf("operand 0 has no dimensions")
	}
	halves := n.ops("chunk", graph.Attrs{"chunks": 2, "dim": last}, x)
	if len(halves) != 2 {
		n.failf("the last dimension of operand 0 has no two halves")
	}
	return one(n.op("mul", nil, halves[0], n.op("gelu", nil, halves[1])))
}

// fusedMatMul multiplies matrices that may be transposed. The attributes transBatchA and transBatchB move the first
// dimension of an operand behind its other batch dimensions. One-dimensional operands are not transposed.
func fusedMatMul(n *node) []*val {
	operand := func(i int, transpose, batch string) *val {
		x := n.operand(i)
		rank := n.rank(x)
		if rank > 2 && n.flag(batch, false) {
			x = n.op("movedim", graph.Attrs{"source": []int{0}, "destination": []int{rank - 2}}, x)
		}
		if rank > 1 && n.flag(transpose, false) {
			x = n.op("transpose", graph.Attrs{"dim0": rank - 2, "dim1": rank - 1}, x)
		}
		return x
	}
	y := n.op("matmul", nil, operand(0, "transA", "transBatchA"), operand(1, "transB", "transBatchB"))
	if alpha := n.float("alpha", 1); alpha != 1 {
		y = n.op("mul", nil, y, alpha)
	}
	return one(y)
}

// fusedGemm converts FusedGemm: Gemm and an activation.
func fusedGemm(n *node) []*val {
	param := func(i int, def float64) float64 {
		return n.float([]string{"activation_alpha", "activation_beta"}[i], def)
	}
	return one(n.activate(gemm(n)[0], param))
}

// fusedConv converts FusedConv: a convolution, the addition of operand 3, and an activation.
func fusedConv(n *node) []*val {
	result := conv(n)[0]
	if z := n.operandOrNil(3); z != nil {
		result = n.op("add", nil, result, z)
	}
	list, _ := n.floats("activation_params")
	param := func(i int, def float64) float64 {
		if i < len(list) {
			return list[i]
		}
		return def
	}
	return one(n.activate(result, param))
}

// activate applies the function that the attribute activation names. param returns a parameter of the function, or a
// default.
func (n *node) activate(x *val, param func(i int, def float64) float64) *val {
	switch name := n.text("activation", ""); name {
	case "":
		return x
	case "Relu":
		return n.op("relu", nil, x)
	case "Silu":
		return n.op("silu", nil, x)
	case "Sigmoid":
		return n.op("sigmoid", nil, x)
	case "Tanh":
		return n.op("tanh", nil, x)
	case "LeakyRelu":
		return n.op("leaky_relu", graph.Attrs{"negative_slope": param(0, 0.01)}, x)
	case "Elu":
		return n.op("elu", graph.Attrs{"alpha": param(0, 1)}, x)
	case "Softplus":
		return n.op("softplus", graph.Attrs{"threshold": 40}, x)
	case "Softsign":
		return n.softsign(x)
	case "ThresholdedRelu":
		return n.op("threshold", graph.Attrs{"threshold": param(0, 1), "value": 0}, x)
	case "HardSigmoid":
		return n.hardSigmoid(x, param(0, 0.2), param(1, 0.5))
	case "Clip":
		return n.op("clamp", graph.Attrs{"min": param(0, 0), "max": param(1, 6)}, x)
	default:
		n.failf("activation %q is not supported", name)
		return nil
	}
}
