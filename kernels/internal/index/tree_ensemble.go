package index

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// TreeEnsemble evaluates decision trees. The ONNX operators TreeEnsemble, TreeEnsembleClassifier and
// TreeEnsembleRegressor are imported as this op and other ops. For example, a tree with the root 0 and the leaves 1 and
// 2 adds 20 to column 0 of the result if x[3] <= 1.5, else 10:
//
//	features [3 0 0], thresholds [1.5 0 0]             node 0 asks whether x[3] <= 1.5
//	children [[1 2] [1 1] [2 2]]                       no: node 1; yes: node 2; both leaves continue at themselves
//	offsets [0 0 1 2], targets [0 0], weights [10 20]  node 0 has no weight, node 1 weights[0:1], node 2 weights[1:2]
var TreeEnsemble = kit.Define[*treeEnsembleAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "tree_ensemble",
		Doc: "Evaluates decision trees on each row of self [rows, columns], and combines the weights of the nodes at which " +
			"the row leaves the trees; the result is [rows, outputs].\nThe nodes of all trees are in one list. `roots` " +
			"[trees] has the first node of each tree; every row visits all trees. At node i it continues at children[i, 1] " +
			"if its element in column features[i] is at most thresholds[i], and at children[i, 0] otherwise. If the element " +
			"is NaN, the row continues at missing[i], or at children[i, 0] if `missing` is not given. If the next node is " +
			"not later in the list than node i (for example, i itself), the row leaves the tree at node i. For each k from " +
			"offsets[i] to offsets[i+1]-1, node i has the weight weights[k] for column targets[k]. A column of the result " +
			"without weights is 0. Sums are computed in float64.",
		Params: []graph.Param{kit.Self,
			{Name: "roots", IndexBound: func(c *graph.Call) int { return kit.SizeOrMissing(c.Meta(treeFeatures), 0) }},
			{Name: "features", IndexBound: func(c *graph.Call) int { return kit.SizeOrMissing(c.Meta(treeSelf), 1) }},
			{Name: "thresholds"}, {Name: "children"},
			{Name: "offsets", IndexBound: func(c *graph.Call) int { return kit.SizeOrMissing(c.Meta(treeWeights), 0) + 1 }},
			{Name: "targets", IndexBound: func(c *graph.Call) int { return kit.Attrs[*treeEnsembleAttrs](c).Outputs }},
			{Name: "weights"}, {Name: "missing", Optional: true}},
		Infer: inferTreeEnsemble,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			if c.Meta(treeSelf).DType == tensor.Float64 {
				return treeReference[float64](c, in)
			}
			return treeReference[float32](c, in)
		},
		Examples: []graph.Example{
			{In: treeExample(tensor.Float32), Attrs: graph.Attrs{"outputs": 2}},
			{In: treeMissingExample(tensor.Float64), Attrs: graph.Attrs{"outputs": 2, "aggregate": "amin"}}},
	},
	Facts: graph.Facts{
		WritesAnyDenseLayout: true,
		Parallel:             kit.BatchLoopForRank(2, treeSelf),
		Flops: func(c *graph.Call) float64 {
			nodes, trees := c.Meta(treeFeatures).Numel(), max(1, c.Meta(treeRoots).Numel())
			depth := math.Log2(float64(max(2, nodes/trees))) // of a balanced tree
			return float64(kit.SizeOrMissing(c.Meta(treeSelf), 0)) * float64(trees) * depth
		},
		FlopKernel: graph.GoSimple,
	},
	Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
		if c.Out[0].Numel() == 0 {
			return &graph.Kernel{}, nil
		}
		if c.Meta(treeSelf).DType == tensor.Float64 {
			return treeKernel[float64](c)
		}
		return treeKernel[float32](c)
	}},
})

// treeExample returns operands of an example: two trees of three nodes, with four weights. self is [20, 3].
func treeExample(dtype tensor.DType) []tensor.Meta {
	ints := func(shape ...int) tensor.Meta { return tensor.New(tensor.Int32, shape...) }
	return []tensor.Meta{treeSelf: tensor.New(dtype, 20, 3), treeRoots: ints(2), treeFeatures: ints(6),
		treeThresholds: tensor.New(dtype, 6), treeChildren: ints(6, 2), treeOffsets: ints(7), treeTargets: ints(4),
		treeWeights: tensor.New(dtype, 4)}
}

// treeMissingExample returns the operands of treeExample, with a transposed self, and operand `missing`.
func treeMissingExample(dtype tensor.DType) []tensor.Meta {
	in := append(treeExample(dtype), tensor.New(tensor.Int32, 6))
	in[treeSelf] = in[treeSelf].WithStrides([]int{1, 20})
	return in
}

// inferTreeEnsemble checks the dtypes and shapes of the operands. Contents of operands are checked by [trees.check].
func inferTreeEnsemble(c *graph.Call) ([]graph.Result, error) {
	self, outputs := c.Type(treeSelf), kit.Attrs[*treeEnsembleAttrs](c).Outputs
	switch {
	case self.DType != tensor.Float32 && self.DType != tensor.Float64:
		return nil, kit.NotImplemented("tree_ensemble", self.DType)
	case self.Rank() != 2:
		return nil, fmt.Errorf("tree_ensemble: self must have 2 dimensions, got %s", tensor.Sizes(self.Shape))
	case outputs < 1:
		return nil, fmt.Errorf("tree_ensemble: outputs must be positive, got %d", outputs)
	}
	nodes, weights := c.Type(treeFeatures).Numel(), c.Type(treeWeights).Numel()
	shapes := [treeOperands][]sym.Int{treeRoots: {c.Type(treeRoots).Numel()}, treeFeatures: {nodes},
		treeThresholds: {nodes}, treeChildren: {nodes, sym.Of(2)}, treeOffsets: {nodes.Add(sym.Of(1))},
		treeTargets: {weights}, treeWeights: {weights}, treeMissing: {nodes}}
	for i := treeRoots; i < treeOperands; i++ {
		if !c.HasOperand(i) && i == treeMissing {
			continue
		}
		if err := checkTreeOperand(c, i, shapes[i]); err != nil {
			return nil, err
		}
	}
	out, err := kit.FreshType(self.DType, []sym.Int{self.Shape[0], sym.Of(outputs)})
	return c.NewResult(out), err
}

// checkTreeOperand returns an error if operand i has the wrong dtype, or a shape that differs from the given shape.
func checkTreeOperand(c *graph.Call, i int, shape []sym.Int) error {
	operandType, wantDType := c.Type(i), tensor.Int32
	if i == treeThresholds || i == treeWeights {
		wantDType = c.Type(treeSelf).DType
	}
	if operandType.DType != wantDType {
		return fmt.Errorf("tree_ensemble: %s must be %v, got %v", treeOperandNames[i], wantDType, operandType.DType)
	}
	fits := operandType.Rank() == len(shape)
	for dim := 0; fits && dim < operandType.Rank(); dim++ {
		fits = operandType.Shape[dim].Eq(shape[dim]).Holds()
	}
	if !fits {
		return fmt.Errorf("tree_ensemble: %s must have shape %s, got %s", treeOperandNames[i], tensor.Sizes(shape),
			tensor.Sizes(operandType.Shape))
	}
	return nil
}

// treeReference is the reference for self of element type T.
func treeReference[T treeElement](c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*treeEnsembleAttrs](c)
	aggregate := treeAggregates[attrs.Aggregate]
	var operands trees[T]
	for i := treeRoots; i < len(in); i++ {
		if in[i] != nil {
			operands.setOperand(i, in[i].Contiguous().Pointer(), in[i].Numel())
		}
	}
	if err := operands.check(in[treeSelf].Shape[1], attrs.Outputs); err != nil {
		return nil, err
	}
	out := tensor.Zeros(in[0].DType, in[0].Shape[0], attrs.Outputs)
	sums := make([]float64, attrs.Outputs)
	for row := range in[0].Shape[0] {
		aggregate.clear(sums)
		for _, root := range operands.roots {
			leaf := operands.refLeaf(int(root), func(column int) float64 { return in[0].At(row, column).Float() })
			operands.addWeights(sums, leaf, aggregate)
		}
		for column, sum := range sums {
			out.Set(tensor.FloatScalar(aggregate.finish(sum, len(operands.roots))), row, column)
		}
	}
	return []*tensor.Tensor{out}, nil
}

// refLeaf returns the node at which a row leaves the tree with the given root. element returns an element of the row.
func (t *trees[T]) refLeaf(root int, element func(column int) float64) int {
	node := root
	for {
		x, next := element(int(t.features[node])), 0
		switch {
		case x != x && t.missing != nil:
			next = int(t.missing[node])
		case x <= float64(t.thresholds[node]):
			next = int(t.children[2*node+1])
		default:
			next = int(t.children[2*node])
		}
		if next <= node || next >= len(t.features) {
			return node
		}
		node = next
	}
}
