package operators

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts matrix products and recurrent networks. a @ b is a matrix product.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. WithRank records the rank of a result whose
// shape depends on data.

// matMul converts MatMul.
func matMul(n *node) []*value {
	x, y := n.Operand(0), n.Operand(1)
	dtype := x.DType()
	if dtype.Valid() && y.DType().Valid() && (dtype == tensor.Bool || y.DType() != dtype) {
		n.Failf("operands of %v and %v cannot be multiplied", dtype, y.DType())
	}
	out := n.Op("matmul", nil, productOperand(n, x), productOperand(n, y))
	// A product with a vector has one dimension less. The rank of other products is inferred.
	if out.IsDynamic() && (n.Rank(x) == 1 || n.Rank(y) == 1) {
		out.WithRank(max(n.Rank(x), n.Rank(y)) - 1)
	}
	return single(n.Cast(out, dtype))
}

// productOperand converts uint16, uint32 and uint64, which products of matrices do not support, to int64. The lowest
// bits of the product are the same.
func productOperand(n *node, x *value) *value {
	if x != nil && x.DType().IsBareUnsigned() {
		return n.Cast(x, tensor.Int64)
	}
	return x
}

// gemm converts Gemm: alpha * a @ b + beta * c. It uses the op linear for float operands if b is transposed, alpha is
// 1, and c can be a bias: c is absent, or beta is 1 and c has one element per column. Otherwise it uses addmm, or
// matmul if c is absent.
func gemm(n *node) []*value {
	dtype := n.Operand(0).DType()
	a, b, c := productOperand(n, n.Operand(0)), productOperand(n, n.Operand(1)), productOperand(n, n.OperandOrNil(2))
	alpha, beta := n.Float("alpha", 1), n.Float("beta", 1)
	if n.Flag("transA", false) {
		a = n.Op("t", nil, a)
	}
	transposeB := n.Flag("transB", false)
	if transposeB && alpha == 1 && (c == nil || beta == 1 && isBias(n, c, b)) && a.DType().IsFloat() {
		return single(n.Op("linear", nil, a, b, c)) // a @ bᵀ + c
	}
	if transposeB {
		b = n.Op("t", nil, b)
	}
	if c == nil {
		product := func(*node) []*value {
			y := n.Op("matmul", nil, a, b)
			if alpha != 1 {
				y = n.Op("mul", nil, y, numberLike(a, alpha))
			}
			return single(n.Cast(y, dtype))
		}
		if alpha != 1 { // a single op needs no float32 copies of 16-bit weights
			product = inFloat32(product)
		}
		return product(n)
	}
	attrs := graph.Attrs{}
	if alpha != 1 {
		attrs["alpha"] = numberLike(a, alpha)
	}
	if beta != 1 {
		attrs["beta"] = numberLike(a, beta)
	}
	return single(n.Cast(n.Op("addmm", attrs, c, a, b), dtype))
}

// numberLike returns a number as an int if x has integers and the number is one, so that it does not promote x.
func numberLike(x *value, number float64) any {
	if !x.DType().IsFloat() && math.Trunc(number) == number && math.Abs(number) < 1<<53 {
		return int64(number)
	}
	return number
}

// isBias reports whether c is a vector with one element for each row of b, that is, for each column of a @ bᵀ.
func isBias(n *node, c, b *value) bool {
	return n.Rank(c) == 1 && n.IsStatic(c) && !b.IsDynamic() && c.Meta().Shape[0] == n.Sizes(b)[0]
}

// einsum converts Einsum. It computes integers in int64 and converts the result to the operands' dtype, because the op,
// as in PyTorch, returns int64 for small integers in some equations. The lowest bits are the same in both dtypes.
func einsum(n *node) []*value {
	dtype, operands := n.Operand(0).DType(), make([]any, len(n.In))
	for i := range n.In {
		x := n.Operand(i)
		if dtype.IsIntegral(true) {
			x = n.Cast(x, tensor.Int64)
		}
		operands[i] = x
	}
	return single(n.Cast(n.Op("einsum", graph.Attrs{"equation": n.Text("equation", "")}, operands...), dtype))
}

// det converts Det, the determinants of matrices in the last two dimensions.
func det(n *node) []*value {
	x := n.Operand(0)
	return single(n.Op("linalg_det", nil, x).WithRank(n.Rank(x) - 2))
}

// recurrent returns the converter of RNN, GRU or LSTM to an op with the same attributes and operands. Operands from the
// fourth on are optional.
func recurrent(op string, operandCount int) converter {
	return func(n *node) []*value {
		operands := []any{n.Operand(0), n.Operand(1), n.Operand(2)}
		for i := 3; i < operandCount; i++ {
			operands = append(operands, n.OperandOrNil(i))
		}
		return addRecurrentOp(n, op, operands)
	}
}

// addRecurrentOp adds a recurrent op with the attributes of the node.
func addRecurrentOp(n *node, op string, operands []any) []*value {
	attrs := graph.Attrs{"direction": n.Text("direction", "forward"), "clip": n.Float("clip", 0),
		"layout": n.Int("layout", 0)}
	if n.HasAttr("hidden_size") {
		attrs["hidden_size"] = n.Int("hidden_size", 0)
	}
	if attr := n.Attr("activations", pb.AttributeStrings); attr != nil {
		names := make([]string, len(attr.Strings))
		for i, name := range attr.Strings {
			names[i] = string(name)
		}
		attrs["activations"] = names
	}
	for _, name := range []string{"activation_alpha", "activation_beta"} {
		if list, ok := n.Floats(name); ok {
			attrs[name] = list
		}
	}
	for _, name := range []string{"linear_before_reset", "input_forget"} {
		if n.HasAttr(name) {
			attrs[name] = n.Int(name, 0)
		}
	}
	out := n.Ops(op, attrs, operands...)
	// Output 0 has the hidden states of all positions. The other outputs are the last states, which have no dimension of
	// positions.
	for i, result := range out {
		rank := 3
		if i == 0 {
			rank = 4
		}
		result.WithRank(rank)
	}
	return out
}
