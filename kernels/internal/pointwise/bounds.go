package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type hardtanhAttrs struct {
	Min tensor.Scalar `attr:"min_val" default:"-1" doc:"lower bound"`
	Max tensor.Scalar `attr:"max_val" default:"1" doc:"upper bound"`
}

type clampAttrs struct {
	Min tensor.Scalar `attr:"min" default:"none" doc:"lower bound, if it is a plain number"`
	Max tensor.Scalar `attr:"max" default:"none" doc:"upper bound, if it is a plain number"`
}

type clampMinAttrs struct {
	Min tensor.Scalar `attr:"min" default:"none" doc:"lower bound, if it is a plain number"`
}

type clampMaxAttrs struct {
	Max tensor.Scalar `attr:"max" default:"none" doc:"upper bound, if it is a plain number"`
}

// ClampRange returns the range to which a node such as relu or clamp clamps operand 0. The node computes min(max(x,
// lower), upper). A missing bound is infinite. ok is false if the node computes another function or reads its bounds
// from operands.
func ClampRange(node *graph.Node) (lower, upper float64, ok bool) {
	lower, upper = math.Inf(-1), math.Inf(1)
	if node == nil || node.Op == nil {
		return lower, upper, false
	}
	// setBounds sets the results from bounds that are plain numbers, and ok to false if a bound is an operand.
	setBounds := func(bounds clampBounds) {
		if ok = !bounds.lowerIsOperand && !bounds.upperIsOperand; !ok {
			return
		}
		if bounds.lower.IsSet() {
			lower = bounds.lower.Float()
		}
		if bounds.upper.IsSet() {
			upper = bounds.upper.Float()
		}
	}
	call := node.Call()
	switch node.Op.Base() {
	case Relu:
		lower, ok = 0, true
	case Relu6:
		lower, upper, ok = 0, 6, true
	case Hardtanh:
		attrs := kit.Attrs[*hardtanhAttrs](call)
		lower, upper, ok = attrs.Min.Float(), attrs.Max.Float(), true
	case Clamp:
		attrs := kit.Attrs[*clampAttrs](call)
		setBounds(clampBounds{lower: attrs.Min, upper: attrs.Max, lowerIsOperand: call.HasOperand(1),
			upperIsOperand: call.HasOperand(2)})
	case ClampMin:
		setBounds(clampBounds{lower: kit.Attrs[*clampMinAttrs](call).Min, lowerIsOperand: call.HasOperand(1)})
	case ClampMax:
		setBounds(clampBounds{upper: kit.Attrs[*clampMaxAttrs](call).Max, upperIsOperand: call.HasOperand(1)})
	}
	return lower, upper, ok && lower == lower && upper == upper // no range with a NaN
}
