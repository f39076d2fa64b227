package passes

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
)

// Cost returns the expected time of a node in nanoseconds, by the prices of the device or of one core of the host. It
// is 0 for views and for uploads of constants.
func (p *Plan) Cost(n *graph.Node) float64 {
	if n != nil && len(n.Out) > 0 {
		if c := p.costs.At(n.Out[0]); c.node == n {
			return c.ns
		}
	}
	return p.estimatedNS(n)
}

// DeviceOf returns the name of the device that runs a node. For a transfer, this is the device that it reads or
// writes. The name is empty for the host.
func (p *Plan) DeviceOf(n *graph.Node) string {
	if p == nil || p.device == nil || n == nil || !n.Impl.OnDevice() {
		return ""
	}
	return p.device.Name()
}

// estimatedNS returns the estimated cost of a node in nanoseconds, by the prices of the host or device that computes
// the node.
func (p *Plan) estimatedNS(n *graph.Node) float64 {
	switch {
	case n == nil || p.device == nil || !n.Impl.OnDevice():
		return nodeCostNS(n, p.profile)
	case n.UploadsConstant():
		return 0
	}
	return nodeCostNS(n, p.device.Prices())
}

// ConstantBytes returns the total size of the graph's constants. The profile's prices of memory accesses depend on this
// size.
func (p *Plan) ConstantBytes() float64 {
	if p == nil || p.profile == nil {
		return 0
	}
	return p.profile.ConstantBytes()
}

// nodeCost is the cost of a node, computed at the end of planning.
type nodeCost struct {
	node *graph.Node
	ns   float64
}

// nodeCostNS returns the cost of a node by the prices of p, in nanoseconds: the cost of its own work, plus the cost of
// reading each operand in its layout. If no implementation is chosen, it is the cost of the first implementation.
func nodeCostNS(n *graph.Node, p *layout.Profile) (ns float64) {
	for _, work := range n.WorkParts() {
		ns += float64(layout.PricePS(p, work)) / machine.PSPerNS
	}
	return ns
}
