package convert

import (
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes composite operators on 16-bit floats. The kernels of PyTorch and ONNX Runtime compute such an
// operator in float32 and round its outputs. A converter that adds several ops would round after each of them, and an
// intermediate result might overflow. For example, the squares in ReduceL2 exceed float16 from 256 on.
//
// Under [InFloat32], ops convert 16-bit operands to float32. Ops that only move elements do not. A float32 result has
// the field rounded, the dtype of the result without InFloat32, which [Value.DType] returns: converters need not know
// where they run. [Node.Cast] to a 16-bit dtype only sets this field. The outputs are rounded at the end.

// InFloat32 returns a converter that calls c, computes 16-bit floats in float32, and rounds each output once. As a part
// of another such converter, it rounds nothing.
func InFloat32(c Converter) Converter {
	return func(n *Node) []*Value {
		if n.widened != nil {
			return c(n)
		}
		n.widened = map[*Value]*Value{}
		out := c(n)
		n.widened = nil
		for i, x := range out {
			switch {
			case x == nil:
			case x.rounded != tensor.Invalid:
				out[i] = n.Cast(x.unrounded(), x.rounded)
			case n.lostDType(i, x):
				out[i] = n.Cast(x, n.Operand(0).DType())
			}
		}
		return out
	}
}

// lostDType reports whether output i has the 16-bit dtype of operand 0, but values on its way had a dtype that is unknown
// before a run. Later outputs of normalizations are statistics in float32.
func (n *Node) lostDType(i int, x *Value) bool {
	if !n.HasOperand(0) || !n.Operand(0).DType().IsReducedFloat() {
		return false
	}
	return i == 0 && x.DType() == tensor.Float32 ||
		x.DType() == tensor.Invalid && (i == 0 || !strings.Contains(n.proto.OpType, "Norm"))
}

// Round rounds x now, not at the end of [InFloat32]: for a value that the operator stores and reads again.
func (n *Node) Round(x *Value) *Value {
	if x.rounded == tensor.Invalid {
		return x
	}
	return n.Op(castOp, graph.Attrs{"dtype": x.rounded}, x)
}

// unrounded returns x with the dtype that it has in the graph.
func (x *Value) unrounded() *Value { return x.standingFor(tensor.Invalid) }

// standingFor returns x with another field rounded.
func (x *Value) standingFor(rounded tensor.DType) *Value {
	if x.rounded == rounded {
		return x
	}
	copied := *x
	copied.rounded = rounded
	return &copied
}

// inFloat32 applies an op by the function apply, which gets the operands with the dtypes that they have in the graph.
// Under [InFloat32], 16-bit operands are converted, unless an attribute sets the dtype of the result.
func (n *Node) inFloat32(op *graph.Op, attrs graph.Attrs, operands []any,
	apply func(operands []any) []*Value) []*Value {
	if n.widened == nil || op == nil {
		return apply(operands)
	}
	var promotion tensor.Promotion // of the floats
	in, hasFloat32 := make([]any, len(operands)), false
	for i, operand := range operands {
		in[i] = operand
		if x, ok := operand.(*Value); ok && x != nil {
			in[i] = x.unrounded()
			if x.DType().IsFloat() {
				promotion.Add(x.DType(), len(x.Meta().Shape))
				hasFloat32 = hasFloat32 || !in[i].(*Value).DType().IsReducedFloat()
			}
		}
	}
	if _, setsDType := attrs["dtype"]; setsDType {
		return apply(in)
	}
	movesElements := op.Kind == graph.View || op.SelectsElements || op.Fills
	if hasFloat32 || !movesElements {
		for i := range in {
			if x, ok := in[i].(*Value); ok && x != nil && x.DType().IsReducedFloat() {
				in[i] = n.widen(x)
			}
		}
	}
	rounded, err := promotion.Result()
	out := apply(in)
	for _, x := range out {
		if err != nil || !rounded.IsReducedFloat() {
			continue
		}
		switch x.DType() {
		case tensor.Float32:
			x.rounded = rounded
		case tensor.Invalid: // [Value.WithType] records it, unless it is that of the operand
			if x.isWidened = hasFloat32 || !movesElements; hasFloat32 && movesElements {
				x.setDType(rounded)
			}
		}
	}
	return out
}

// widen converts x to float32, once for all ops of the node that read it.
func (n *Node) widen(x *Value) *Value {
	if n.widened[x] == nil {
		n.widened[x] = n.Op(castOp, graph.Attrs{"dtype": tensor.Float32}, x)
	}
	return n.widened[x]
}

// inFloat32Now returns a 16-bit value as a float32 value that stands for no other dtype. It returns values of other
// dtypes unchanged.
func (n *Node) inFloat32Now(x *Value) *Value {
	if x.rounded == tensor.Invalid && x.DType().IsReducedFloat() {
		x = n.widen(x)
	}
	return x.unrounded()
}
