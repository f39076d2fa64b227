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
// least), most). A missing bound is infinite. ok is false if the node computes another function or reads its bounds
// from operands.
func ClampRange(n *graph.Node) (least, most float64, ok bool) {
	least, most = math.Inf(-1), math.Inf(1)
	if n == nil || n.Op == nil {
		return least, most, false
	}
	bound := func(k clampBounds) {
		if ok = !k.hasLower && !k.hasUpper; !ok {
			return
		}
		if k.min.IsSet() {
			least = k.min.Float()
		}
		if k.max.IsSet() {
			most = k.max.Float()
		}
	}
	c := n.Call()
	switch n.Op {
	case Relu:
		least, ok = 0, true
	case Relu6:
		least, most, ok = 0, 6, true
	case Hardtanh:
		a := kit.Attrs[hardtanhAttrs](c)
		least, most, ok = a.Min.Float(), a.Max.Float(), true
	case Clamp:
		a := kit.Attrs[clampAttrs](c)
		bound(clampBounds{min: a.Min, max: a.Max, hasLower: c.Has(1), hasUpper: c.Has(2)})
	case ClampMin:
		bound(clampBounds{min: kit.Attrs[clampMinAttrs](c).Min, hasLower: c.Has(1)})
	case ClampMax:
		bound(clampBounds{max: kit.Attrs[clampMaxAttrs](c).Max, hasUpper: c.Has(1)})
	}
	return least, most, ok && least == least && most == most
}
