package onnx

import (
	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

func matMul(n *node) []*val {
	x, y := n.operand(0), n.operand(1)
	out := n.op("matmul", nil, x, y)
	if out.isDynamic() && (n.rank(x) == 1 || n.rank(y) == 1) {
		out.withRank(max(n.rank(x), n.rank(y)) - 1)
	}
	return one(out)
}

// gemm converts Gemm to the op linear if possible, and otherwise to a matrix product and separate ops.
func gemm(n *node) []*val {
	a, b := n.operand(0), n.operand(1)
	alpha, beta := n.float("alpha", 1), n.float("beta", 1)
	c := n.operandOrNil(2)
	if n.flag("transA", false) {
		a = n.op("t", nil, a)
	}
	transposeB := n.flag("transB", false)
	if transposeB && alpha == 1 && (c == nil || beta == 1 && n.rank(c) == 1 && n.isStatic(c) && !b.isDynamic() &&
		c.meta().Shape[0] == n.sizes(b)[0]) && a.dtype().IsFloat() {
		return one(n.op("linear", nil, a, b, c))
	}
	if transposeB {
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

// einsum converts Einsum. It computes integers in int64 and converts the result to the operands' dtype, because the op,
// as in PyTorch, returns int64 for small integers in some equations. The lowest bits are the same in both dtypes.
func einsum(n *node) []*val {
	dtype, list := n.operand(0).dtype(), make([]any, len(n.in))
	for i := range n.in {
		x := n.operand(i)
		if dtype.IsIntegral(true) {
			x = n.cast(x, tensor.Int64)
		}
		list[i] = x
	}
	return one(n.cast(n.op("einsum", graph.Attrs{"equation": n.text("equation", "")}, list...), dtype))
}

func det(n *node) []*val {
	x := n.operand(0)
	return one(n.op("linalg_det", nil, x).withRank(n.rank(x) - 2))
}

// recurrent returns the converter of RNN, GRU or LSTM to an op with the same attributes and number of operands.
func recurrent(op string, operands int) converter {
	return func(n *node) []*val {
		in := []any{n.operand(0), n.operand(1), n.operand(2)}
		for i := 3; i < operands; i++ {
			in = append(in, n.operandOrNil(i))
		}
		return n.recurrence(op, in)
	}
}

// recurrence adds a recurrent op with the attributes of the node.
func (n *node) recurrence(op string, operands []any) []*val {
	attrs := graph.Attrs{"direction": n.text("direction", "forward"), "clip": n.float("clip", 0),
		"layout": n.int("layout", 0)}
	if n.attrs["hidden_size"] != nil {
		attrs["hidden_size"] = n.int("hidden_size", 0)
	}
	if a := n.attr("activations", pb.AttributeStrings); a != nil {
		names := make([]string, len(a.Strings))
		for i, s := range a.Strings {
			names[i] = string(s)
		}
		attrs["activations"] = names
	}
	for _, name := range []string{"activation_alpha", "activation_beta"} {
		if list, ok := n.floats(name); ok {
			attrs[name] = list
		}
	}
	for _, name := range []string{"linear_before_reset", "input_forget"} {
		if n.attrs[name] != nil {
			attrs[name] = n.int(name, 0)
		}
	}
	out := n.ops(op, attrs, operands...)
	for i, o := range out {
		o.withRank(3)
		if i == 0 {
			o.withRank(4)
		}
	}
	return out
}
