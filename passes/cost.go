package passes

import "github.com/graphrun/graphrun/graph"

// The machine of the cost model: bytes and operations a nanosecond of one core. They set
// the scale only; layout decisions compare like with like.
const (
	bytesPerNS = 16
	flopsPerNS = 50
	// stridedPenalty is how much dearer a byte is where operands disagree about the
	// fastest dimension.
	stridedPenalty = 2.5
	nodeNS         = 200
)

// NodeCost returns what a node costs in nanoseconds on one core, by a model of a machine:
// the bytes of its operands and outputs at a bandwidth, its operations at a rate,
// whichever takes longer. A view costs nothing, nor does what is no node of a graph.
func NodeCost(n *graph.Node) float64 {
	if n == nil || n.Op == nil || len(n.Out) == 0 {
		return 0
	}
	if n.Out[0].Alias != nil {
		return 0
	}
	bytes, penalty := 0, 1.0
	out := n.Out[0].Meta
	for _, v := range n.Out {
		bytes += v.Meta.Bytes()
	}
	for _, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		m := a.Meta()
		bytes += min(m.Bytes(), m.Extent()*m.DType.Size())
		if m.Rank() == out.Rank() && fastest(m.Shape, m.Strides) != fastest(out.Shape, out.Strides) {
			penalty = stridedPenalty
		}
	}
	flops := float64(out.Numel())
	if n.Op.Flops != nil {
		flops = n.Op.Flops(n.Call())
	}
	return nodeNS + max(float64(bytes)*penalty/bytesPerNS, flops/flopsPerNS)
}

// fastest returns the dimension over 1 with the least stride other than 0; -1 if none.
func fastest(shape, strides []int) int {
	best := -1
	for d, s := range shape {
		if s > 1 && strides[d] > 0 && (best < 0 || strides[d] < strides[best]) {
			best = d
		}
	}
	return best
}
