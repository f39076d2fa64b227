package onnx

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

func matMul(n *node) []*val {
	x, y := n.x(0), n.x(1)
	out := n.op("matmul", nil, x, y)
	if out.dynamic() && (n.rank(x) == 1 || n.rank(y) == 1) {
		out.ofRank(max(n.rank(x), n.rank(y)) - 1)
	}
	return one(out)
}

// gemm becomes the op linear if possible, the form of a layer.
func gemm(n *node) []*val {
	a, b := n.x(0), n.x(1)
	alpha, beta := n.float("alpha", 1), n.float("beta", 1)
	c := n.opt(2)
	if n.flag("transA", false) {
		a = n.op("t", nil, a)
	}
	turned := n.flag("transB", false)
	if turned && alpha == 1 && (c == nil || beta == 1 && n.rank(c) == 1 && n.static(c) && !b.dynamic() &&
		c.meta().Shape[0] == n.sizes(b)[0]) && a.dtype().IsFloat() {
		return one(n.op("linear", nil, a, b, c))
	}
	if turned {
		b = n.op("t", nil, b)
	}
	if c == nil {
		y := n.op("matmul", nil, a, b)
		if alpha != 1 {
			y = n.cast(n.op("mul", nil, y, alpha), a.dtype())
		}
		return one(y)
	}
	attrs := graph.Attrs{}
	if alpha != 1 {
		attrs["alpha"] = alpha
	}
	if beta != 1 {
		attrs["beta"] = beta
	}
	return one(n.op("addmm", attrs, c, a, b))
}

// einsum returns integers of the operands' dtype. The op accumulates like PyTorch, which yields int64 for
// other integers in some equations; computed as int64 the lowest bits are the same.
func einsum(n *node) []*val {
	d, list := n.x(0).dtype(), make([]any, len(n.in))
	for i := range n.in {
		x := n.x(i)
		if d.IsIntegral(true) {
			x = n.cast(x, tensor.Int64)
		}
		list[i] = x
	}
	return one(n.cast(n.op("einsum", graph.Attrs{"equation": n.text("equation", "")}, list...), d))
}

func det(n *node) []*val {
	x := n.x(0)
	return one(n.op("linalg_det", nil, x).ofRank(n.rank(x) - 2))
}
