package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Inductor takes one decision for the whole graph, like the compiler of PyTorch 2: Ansel et al., "PyTorch 2: Faster
// Machine Learning Through Dynamic Python Bytecode Transformation and Graph Compilation", ASPLOS 2024. The rule is
// decide_layout_opt of torch/_inductor/graph.py, for inference. Either every 2-D convolution reads and writes
// channels-last, and other nodes follow their operands, or all layouts are as in eager PyTorch. Convolutions become
// channels-last if both conditions hold:
//
//   - There is a convolution, and there are fewer than 300 nodes for each convolution. Inputs and constants count as
//     nodes.
//   - The weighted sum of the operations of all convolutions is at most the sum without weights. The weight of a
//     convolution is the time with channels-last images divided by the time with row-major images, as measured for its
//     class: see [convClass].
//
// Deviations:
//
//   - Inductor also prefers channels-last for all ancestors and descendants of convolutions. Here such nodes follow
//     their operands, and only the operand of the first convolution is converted.
//   - Nodes are counted after fusion, so there are fewer.
//   - A convolution counts only if it has implementations for both layouts. Inductor also counts convolutions of one
//     and three dimensions and transposed ones.
//   - For symbolic sizes, Inductor keeps eager layouts, while this strategy chooses layouts for numeric sizes.
//   - On CPUs with oneDNN, Inductor always takes channels-last. This strategy applies the general rule.
var Inductor Strategy = inductor{}

// inductor is the type of [Inductor].
type inductor struct{}

// Name implements [Strategy].
func (inductor) Name() string { return "inductor" }

// Doc describes the strategy in one sentence.
func (inductor) Doc() string {
	return "makes all convolutions channels-last, or keeps the layouts of eager PyTorch, by a rule on the convolutions " +
		"of the graph, as TorchInductor, ASPLOS 2024"
}

// Choose implements [Strategy].
func (inductor) Choose(p *Problem) (*Assignment, error) {
	wishes := channelsLastConvolutions(p)
	return Solve(p, func(v *graph.Value) (tensor.Order, string) {
		return wishes[v], "strategy inductor makes all convolutions channels-last"
	})
}

// channelsLastConvolutions returns channels-last for the images that convolutions read and write, or nil if the rule
// keeps the layouts of eager PyTorch.
func channelsLastConvolutions(p *Problem) map[*graph.Value]tensor.Order {
	var convs []*graph.Node
	for _, n := range p.Graph.Nodes {
		if isConvolution(n) {
			convs = append(convs, n)
		}
	}
	const outputNodes = 1 // Inductor counts all outputs together as one node
	g := p.Graph
	if !channelsLastIsFaster(convs, len(g.Nodes)+len(g.Inputs)+len(g.Constants)+outputNodes) {
		return nil
	}
	wishes := map[*graph.Value]tensor.Order{}
	for _, n := range convs {
		wishes[n.In[0].Value] = channelsLastOrder(4)
		for _, v := range n.Out {
			wishes[v] = channelsLastOrder(4)
		}
	}
	return wishes
}

// isConvolution reports whether a node is a 2-D convolution of images, possibly fused with pointwise nodes.
func isConvolution(n *graph.Node) bool {
	if n.Op.ImageRole != graph.ImageOp || n.Op.Flops == nil || len(n.In) < 2 || len(n.Out) == 0 {
		return false
	}
	hasRank4 := func(a graph.Arg) bool { return a.Kind == graph.TensorArg && a.Meta().Rank() == 4 }
	return hasRank4(n.In[0]) && hasRank4(n.In[1]) // image and weight
}

// Limits of decide_layout_opt.
const (
	nodesPerConv  = 300 // convolutions are rare if there are at least this many nodes for each
	smallChannels = 64  // maximum number of channels of a small convolution
)

// channelsLastIsFaster applies the rule of [Inductor] to the convolutions of a graph with the given number of nodes.
func channelsLastIsFaster(convs []*graph.Node, nodes int) bool {
	if len(convs) == 0 || nodes >= nodesPerConv*len(convs) {
		return false
	}
	var flops, weightedFlops float64
	for _, n := range convs {
		operations := n.Op.Flops(n.Call())
		flops, weightedFlops = flops+operations, weightedFlops+float64(operations*classOf(n).ratio)
	}
	return weightedFlops <= flops
}

// classOf returns the class of a convolution.
func classOf(n *graph.Node) *convClass {
	weight := n.In[1].Meta().Shape
	groups := n.In[0].Meta().Shape[1] / max(weight[1], 1)
	i := slices.IndexFunc(convClasses, func(c convClass) bool {
		return c.contains(groups, weight[0], weight[1], weight[2])
	})
	return &convClasses[i]
}

// convClass is a class of convolutions by their weights [out, in/groups, height, width].
type convClass struct {
	name     string
	contains func(groups, out, in, height int) bool
	// ratio is the time with channels-last images divided by the time with row-major images. The authors of
	// decide_layout_opt measured the ratios on a GPU.
	ratio float64
}

// convClasses lists the classes. A convolution belongs to the first class that contains it.
var convClasses = []convClass{
	{"grouped", func(groups, _, in, _ int) bool { return groups > 1 && in > 1 }, 1.358},
	{"small", func(_, out, in, _ int) bool { return out <= smallChannels && in <= smallChannels }, 0.783},
	{"fewer results", func(_, out, in, height int) bool { return out*2 <= in && height > 1 }, 0.725},
	{"default", func(_, _, _, _ int) bool { return true }, 0.823},
}
