package passes

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
)

// Cost returns the expected time of a node in nanoseconds, by the prices of the device or of one core of the host. It
// is 0 for views and for uploads of constants.
func (p *Plan) Cost(n *graph.Node) float64 {
	if n != nil && len(n.Out) > 0 {
		if known := p.nodeCosts.At(n.Out[0]); known.node == n {
			return known.ns
		}
	}
	return p.estimatedNS(n)
}

// nodeCost is the cost of a node, computed at the end of planning.
type nodeCost struct {
	node *graph.Node // to recognize nodes of a clone of the graph, whose values have the same indices in nodeCosts
	ns   float64
}

// summarize lists the remaining copies and adds up the costs.
func (p *Plan) summarize() {
	p.nodeCosts = graph.NewByValue[nodeCost](p.Graph)
	p.listPackings()
	if !p.profileAdjusted { // the layout pass, which adjusts the profile to the sizes of constants, did not run
		p.profile = layout.ProfileFor(p.profile, p.Graph)
	}
	for _, n := range p.Graph.Nodes {
		interrupt.Check(p.ctx)
		cost := p.estimatedNS(n)
		if len(n.Out) > 0 {
			p.nodeCosts.Set(n.Out[0], nodeCost{n, cost})
		}
		p.CostNS += cost
		if !isInsertedCopy(n) {
			continue
		}
		from, to := n.In[0].Value.Meta, n.Out[0].Meta
		p.Copies = append(p.Copies, Copy{n, report.Copy{Value: n.In[0].Value.Name,
			From: append([]int{}, from.Strides...), To: append([]int{}, to.Strides...), Bytes: to.Bytes(), CostNS: cost,
			Why: n.Why}})
	}
	// The rounding errors of a sum depend on the order of nodes. Rounding to a picosecond removes the difference.
	p.CostNS = math.Round(machine.PSPerNS*p.CostNS) / machine.PSPerNS
}

// isInsertedCopy reports whether n is a copy that a pass inserted. Passes set Why of the nodes that they insert. Views,
// packed constants and uploads are not copies.
func isInsertedCopy(n *graph.Node) bool {
	if n.Why == "" || len(n.In) == 0 || n.In[0].Kind != graph.TensorArg {
		return false
	}
	return !n.IsView() && n.Packing() == nil && !n.UploadsConstant()
}

// estimatedNS returns the estimated cost of a node in nanoseconds, by the prices of the host or device that computes
// the node.
func (p *Plan) estimatedNS(n *graph.Node) float64 {
	isOnHost := n == nil || p.device == nil || !n.Impl.OnDevice() // nodeCostNS of a nil node is 0
	switch {
	case isOnHost:
		return nodeCostNS(n, p.profile)
	case n.UploadsConstant():
		return 0
	default:
		return nodeCostNS(n, p.device.Prices())
	}
}

// nodeCostNS returns the cost of a node by the prices of a profile, in nanoseconds: the cost of its own work, plus the
// cost of reading each operand in its layout. If no implementation is chosen, it is the cost of the first
// implementation.
func nodeCostNS(n *graph.Node, profile *layout.Profile) (ns float64) {
	for _, work := range n.WorkParts() {
		ns += float64(layout.PricePS(profile, work)) / machine.PSPerNS
	}
	return ns
}

// DeviceOf returns the name of the device that runs a node. For a transfer, this is the device that it reads or
// writes. The name is empty for the host.
func (p *Plan) DeviceOf(n *graph.Node) string {
	if p == nil || p.device == nil || n == nil || !n.Impl.OnDevice() {
		return ""
	}
	return p.device.Name()
}

// ConstantBytes returns the total size of the graph's constants. The profile's prices of memory accesses depend on this
// size.
func (p *Plan) ConstantBytes() float64 {
	if p == nil || p.profile == nil {
		return 0
	}
	return p.profile.ConstantBytes()
}
