package onnx

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// attentionNode has the operands of an Attention node during its conversion.
type attentionNode struct {
	*node
	q, k, v *val    // [batch, heads, positions, elements]; k and v start with the past keys and values
	past    sym.Int // number of past keys
	flat    bool    // whether the node's operands and result are [batch, positions, heads*elements]
}

// attention converts Attention: softmax(softcap(q @ kᵀ * scale) + mask) @ v. The attribute qk_matmul_output_mode
// selects an intermediate result as the last output: 0 is the products, 1 the scores after softcap, 2 the scores after
// the mask, 3 the weights. In the first version of the standard, softcap followed the mask; the meanings of modes 1 and
// 2 were then exchanged.
func attention(n *node) []*val {
	a := n.attentionOperands()
	scores := a.scores(n.attrs["scale"] != nil)
	intermediate, mode := []*val{scores, nil, nil, nil}, n.int("qk_matmul_output_mode", 0)
	if c := n.float("softcap", 0); c > 0 {
		scores = n.op("mul", nil, n.op("tanh", nil, n.op("div", nil, scores, c)), c)
	}
	intermediate[1] = scores
	scores = a.masked(scores)
	intermediate[2] = scores
	precision := n.dtypeAttr("softmax_precision")
	if precision == tensor.Invalid {
		precision = scores.dtype()
	}
	if !precision.IsFloat() || mode < 0 || mode >= len(intermediate) {
		n.failf("softmax_precision %s and qk_matmul_output_mode %d are not supported", precision, mode)
	}
	weights := n.op("softmax", graph.Attrs{"dim": -1}, n.cast(scores, precision))
	weights = n.cast(weights, a.q.dtype())
	intermediate[3] = weights
	y := n.op("matmul", nil, weights, a.repeatHeads(a.v))
	if a.flat {
		y = n.joinHeads(y)
	}
	return []*val{y, a.k, a.v, intermediate[mode]}
}

// joinHeads converts [batch, heads, positions, elements] to [batch, positions, heads*elements].
func (n *node) joinHeads(x *val) *val {
	x = n.op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, x)
	sizes := n.symShape(x)
	return n.reshapeFor(x, sizes[0], sizes[1], sizes[2].Mul(sizes[3]))
}

// attentionOperands converts the operands of an Attention node to the form of [attentionNode].
func (n *node) attentionOperands() *attentionNode {
	a := &attentionNode{node: n, flat: n.rank(n.operand(0)) == 3}
	heads := []int{n.int("q_num_heads", 0), n.int("kv_num_heads", 0), n.int("kv_num_heads", 0)}
	for i, dst := range []**val{&a.q, &a.k, &a.v} {
		x := n.operand(i)
		if rank := n.rank(x); rank != 4 && rank != 3 || (rank == 3) != a.flat {
			n.failf("operand %d has %d dimensions", i, rank)
		}
		if a.flat {
			x = n.splitHeads(x, heads[i])
			x = n.op("transpose", graph.Attrs{"dim0": 1, "dim1": 2}, x)
		}
		*dst = x
	}
	if n.operandOrNil(4) == nil && n.operandOrNil(5) == nil {
		return a
	}
	a.past = n.symShape(n.operand(4))[2]
	a.k = n.op("cat", graph.Attrs{"dim": 2}, n.operand(4), a.k)
	a.v = n.op("cat", graph.Attrs{"dim": 2}, n.operand(5), a.v)
	return a
}

// splitHeads reshapes [batch, positions, heads*elements] to [batch, positions, heads, elements].
func (n *node) splitHeads(x *val, heads int) *val {
	sizes := n.symShape(x)
	if size, known := sizes[2].Known(); heads < 1 || known && size%heads != 0 {
		n.failf("%s elements cannot form %d heads", sizes[2], heads)
	}
	return n.reshapeFor(x, sizes[0], sizes[1], sym.Of(heads), sizes[2].Div(sym.Of(heads)))
}

// repeatHeads repeats each head of keys or values for all query heads that share it.
func (a *attentionNode) repeatHeads(x *val) *val {
	sizes, q := a.symShape(x), a.symShape(a.q)
	if sizes[1].Same(q[1]) {
		return x
	}
	heads, known := numbersOf([]sym.Int{q[1], sizes[1]})
	if known && (heads[1] < 1 || heads[0]%heads[1] != 0) {
		a.failf("%d heads of queries cannot share %d heads of keys and values", heads[0], heads[1])
	}
	times := q[1].Div(sizes[1])
	repeated := a.op("unsqueeze", graph.Attrs{"dim": 2}, x)
	repeated = a.op("expand", graph.Attrs{"size": a.sizeAttr(sizes[0], sizes[1], times, sizes[2], sizes[3])}, repeated)
	return a.reshapeFor(repeated, sizes[0], sizes[1].Mul(times), sizes[2], sizes[3])
}

// scores returns the products of queries and keys, scaled by the attribute scale if scaled is true, and otherwise by
// the root of the number of elements.
func (a *attentionNode) scores(scaled bool) *val {
	products := a.op("matmul", nil, a.q, a.op("transpose", graph.Attrs{"dim0": 2, "dim1": 3}, a.repeatHeads(a.k)))
	if scaled {
		return a.op("mul", nil, products, a.float("scale", 1))
	}
	for _, x := range []*val{a.q, a.k} {
		if e, known := a.symShape(x)[3].Known(); known {
			return a.op("mul", nil, products, 1/math.Sqrt(float64(e)))
		}
	}
	return a.op("div", nil, products, a.op("sqrt", nil, a.op("to", graph.Attrs{"dtype": products.dtype()},
		a.integer(a.symShape(a.q)[3]))))
}

// masked applies the mask, the number of valid keys and causality to the scores. A score that is masked becomes -Inf.
func (a *attentionNode) masked(scores *val) *val {
	keys, negInf := a.symShape(a.k)[2], math.Inf(-1)
	keepWhere := func(keep *val) { scores = a.op("masked_fill", nil, scores, a.op("logical_not", nil, keep), negInf) }
	if mask := a.operandOrNil(3); mask != nil {
		rank, isBool := a.rank(mask), mask.dtype() == tensor.Bool
		if rank < 1 {
			a.failf("the mask has no dimensions")
		}
		after := make([]sym.Int, rank)
		if size := a.symShape(mask)[rank-1]; !size.Same(keys) {
			after[rank-1] = keys.Sub(size)
		}
		if before := make([]sym.Int, rank); isBool {
			keepWhere(a.padded(mask, before, after, false))
		} else {
			scores = a.op("add", nil, scores, a.padded(mask, before, after, negInf))
		}
	}
	count := a.operandOrNil(6)
	if count != nil {
		count = a.reshape(a.cast(count, tensor.Int64), -1, 1, 1, 1)
		keepWhere(a.op("lt", nil, a.indexVector(keys), count))
	}
	if a.flag("is_causal", false) {
		queries := a.symShape(a.q)[2]
		last := a.op("unsqueeze", graph.Attrs{"dim": 1}, a.indexVector(queries))
		if count != nil && a.operandOrNil(4) == nil {
			last = a.op("sub", nil, a.op("add", nil, last, count), a.integer(queries))
		} else {
			last = a.op("add", nil, last, a.integer(a.past))
		}
		keepWhere(a.op("le", nil, a.indexVector(keys), last))
	}
	return scores
}

// indexVector returns the vector 0, 1 ... size-1.
func (n *node) indexVector(size sym.Int) *val {
	return n.op("arange", graph.Attrs{"end": n.sizeAttrOf(size), "dtype": tensor.Int64})
}

// rotaryEmbedding converts RotaryEmbedding.
func rotaryEmbedding(n *node) []*val {
	x, headsDim := n.rotaryOperand(n.int("num_heads", 0), nil)
	angles := func(i int) *val {
		t := n.operand(i)
		if ids := n.operandOrNil(3); ids != nil {
			t = n.op("index", nil, t, n.cast(ids, tensor.Int64))
		}
		return n.op("unsqueeze", graph.Attrs{"dim": headsDim}, t)
	}
	return one(n.rotatedOperand(x, angles(1), angles(2)))
}

// rotaryOperand returns operand 0 with four dimensions, and the dimension of heads. An operand of three dimensions is
// split into `count` heads. If count is 0, the size of a head is twice the number of angles in a row of table cos.
func (n *node) rotaryOperand(count int, cos *val) (x *val, headsDim int) {
	x = n.operand(0)
	switch sizes := n.symShape(x); {
	case len(sizes) == 3 && count == 0 && cos != nil && n.rank(cos) == 2:
		size := n.symShape(cos)[1].Mul(sym.Of(2))
		return n.reshapeFor(x, sizes[0], sizes[1], sizes[2].Div(size), size), 2
	case len(sizes) == 3:
		return n.splitHeads(x, count), 2
	case len(sizes) == 4:
		return x, 1
	}
	n.failf("operand 0 has %d dimensions", n.rank(x))
	return nil, 0
}

// rotatedOperand rotates x, which is operand 0 with four dimensions, according to the attributes rotary_embedding_dim
// and interleaved. The result has the shape of operand 0.
func (n *node) rotatedOperand(x, cos, sin *val) *val {
	rotated := n.int("rotary_embedding_dim", 0)
	if rotated == 0 {
		last := []sym.Int{n.symShape(x)[3]}
		if pairs := n.symShape(cos); !n.isStatic(x) {
			last[0] = pairs[len(pairs)-1].Mul(sym.Of(2))
		}
		rotated = n.numbers("the elements of a head", last)[0]
	}
	y := n.rotate(x, cos, sin, rotated, n.flag("interleaved", false))
	return n.reshapeFor(y, n.symShape(n.operand(0))...)
}

// rotate rotates pairs of elements in the last dimension of x by angles. The first `rotated` elements form pairs:
// adjacent elements if interleaved is true, otherwise elements of the two halves.
func (n *node) rotate(x, cos, sin *val, rotated int, interleaved bool) *val {
	if rotated < 0 || rotated%2 != 0 {
		n.failf("%d elements are not pairs", rotated)
	}
	part := func(start int, end any, step int) *val {
		return n.op("slice", graph.Attrs{"dim": 3, "start": start, "end": end, "step": step}, x)
	}
	a, b := part(0, rotated/2, 1), part(rotated/2, rotated, 1)
	if interleaved {
		a, b = part(0, rotated, 2), part(1, rotated, 2)
	}
	mul := func(a, b *val) *val { return n.op("mul", nil, a, b) }
	a, b = n.op("sub", nil, mul(cos, a), mul(sin, b)), n.op("add", nil, mul(sin, a), mul(cos, b))
	sizes, list := n.symShape(x), []any{a, b}
	if interleaved {
		list = []any{n.reshapeFor(n.op("stack", graph.Attrs{"dim": 4}, a, b), sizes[0], sizes[1], sizes[2], sym.Of(rotated))}
	}
	if !sizes[3].Same(sym.Of(rotated)) {
		list = append(list, part(rotated, n.sizeAttrOf(sizes[3]), 1))
	}
	return n.op("cat", graph.Attrs{"dim": 3}, list...)
}
