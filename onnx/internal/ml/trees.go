package ml

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the trees of TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor to the operands of the
// op tree_ensemble. All comparisons become x <= threshold. NaN stands for a missing element. The next node for NaN can
// differ from the next nodes for numbers. For example, the branch x < 2 with leaves of weights 1 (yes) and 7 (no)
// becomes three nodes:
//
//	node  threshold  children (no, yes)  weights
//	0     below(2)   2, 1                none
//	1     NaN        1, 1                1
//	2     NaN        2, 2                7
//
// where below(2) is the greatest number less than 2.

// treeMode is the comparison of a node. Its values are the values of the attribute nodes_modes of TreeEnsemble.
type treeMode uint8

const (
	branchLEQ treeMode = iota
	branchLT
	branchGTE
	branchGT
	branchEQ
	branchNEQ
	branchMember
)

// treeModes has the comparisons by their names in TreeEnsembleClassifier and TreeEnsembleRegressor.
var treeModes = map[string]treeMode{"BRANCH_LEQ": branchLEQ, "BRANCH_LT": branchLT, "BRANCH_GTE": branchGTE,
	"BRANCH_GT": branchGT, "BRANCH_EQ": branchEQ, "BRANCH_NEQ": branchNEQ}

// treeRef identifies a node of a tree: i for branches[i], and ^i for leaves[i].
type treeRef int

func (r treeRef) isLeaf() bool { return r < 0 }

// treeBranch is a node with two children.
type treeBranch struct {
	feature  int       // the column of the operand that is compared
	mode     treeMode  // the comparison of the element with value
	value    float64   // not used by branchMember
	members  []float64 // the values of branchMember, distinct and in ascending order
	yes, no  treeRef   // the next node if the comparison is true, and if it is false
	nanIsYes bool      // whether NaN continues at yes
}

// leafWeight is a weight of a leaf.
type leafWeight struct {
	target int
	weight float64
}

// treeEnsemble holds the trees as the ONNX model describes them.
type treeEnsemble struct {
	branches []treeBranch
	leaves   [][]leafWeight // the weights of each leaf
	roots    []treeRef
	describe func(treeRef) string // returns the name of a node in errors
}

// evaluate adds the op tree_ensemble on operand 0, which must be a matrix. Elements other than float64 are converted to
// float32. The result is [rows, targetCount].
func evaluate(n *node, ensemble *treeEnsemble, targetCount int, aggregate string) *value {
	x := n.Operand(0)
	if n.Rank(x) != 2 {
		n.Failf("operand 0 has %d dimensions, want 2", n.Rank(x))
	}
	if x.DType() != tensor.Float64 {
		x = n.Cast(x, tensor.Float32)
	}
	if targetCount < 1 || targetCount > math.MaxInt32 {
		n.Failf("%d targets are not supported", targetCount)
	}
	operands := append([]any{x}, ensemble.operands(n, x.DType(), n.Sizes(x)[1], targetCount)...)
	return n.Op("tree_ensemble", graph.Attrs{"outputs": targetCount, "aggregate": aggregate}, operands...)
}

// operands returns the operands of tree_ensemble after self, the matrix of elements. They are roots, features,
// thresholds, children, offsets of the nodes' weights, targets and weights. If NaN does not continue like a false
// comparison at some node, a last operand has the next nodes for NaN. dtype is the dtype of self. columns is the number
// of columns of self, or -1 if it is unknown.
func (ensemble *treeEnsemble) operands(n *node, dtype tensor.DType, columns, targetCount int) []any {
	flat := flatTrees{n: n, ensemble: ensemble, isFloat32: dtype == tensor.Float32,
		positions: make([]int32, len(ensemble.branches)), leafPositions: make([]int32, len(ensemble.leaves))}
	flat.addNodes(columns, targetCount)
	nanDiffers := false // whether NaN ever continues at another node than a false comparison
	for i, next := range flat.nextForNaN {
		nanDiffers = nanDiffers || next != flat.children[2*i]
	}
	roots := make([]int32, len(ensemble.roots))
	for i, ref := range ensemble.roots {
		roots[i] = flat.position(ref)
	}
	vector := func(list []int32, shape ...int) *value {
		return convert.Constant(tensor.Must(tensor.FromSlice(list, shape...)))
	}
	floats := func(list []float64) *value {
		return n.Cast(convert.Constant(tensor.Must(tensor.FromSlice(list, len(list)))), dtype)
	}
	operands := []any{vector(roots, len(roots)), vector(flat.features, flat.count), floats(flat.thresholds),
		vector(flat.children, flat.count, 2), vector(flat.offsets, flat.count+1),
		vector(flat.targets, len(flat.targets)), floats(flat.weights)}
	if nanDiffers {
		operands = append(operands, vector(flat.nextForNaN, flat.count))
	}
	return operands
}

// flatTrees builds the operands of tree_ensemble. A branch becomes one or more nodes, each with a comparison
// x <= threshold.
type flatTrees struct {
	n         *node
	ensemble  *treeEnsemble
	isFloat32 bool // whether elements are float32, not float64
	count     int  // number of nodes
	// positions and leafPositions have 1 + the index of the first node of each branch and leaf, or 0 if there is none
	// yet.
	positions, leafPositions []int32

	// Node i compares column features[i] with thresholds[i]. It continues at children[2*i] if the comparison is false,
	// children[2*i+1] if it is true, and nextForNaN[i] for NaN. It has the weights from offsets[i] to offsets[i+1].
	features, children, nextForNaN, offsets []int32
	thresholds                              []float64
	targets                                 []int32 // for each weight
	weights                                 []float64
}

// addNodes adds the nodes of all branches and leaves.
func (f *flatTrees) addNodes(columns, targetCount int) {
	order := f.assignPositions()
	f.features, f.thresholds = make([]int32, f.count), make([]float64, f.count)
	f.children, f.nextForNaN, f.offsets = make([]int32, 2*f.count), make([]int32, f.count), make([]int32, f.count+1)
	for _, ref := range order {
		if ref.isLeaf() {
			f.addLeaf(ref, targetCount)
			continue
		}
		feature := f.ensemble.branches[ref].feature
		if feature < 0 || feature > math.MaxInt32 || columns >= 0 && feature >= columns {
			f.n.Failf("%s compares feature %d, but operand 0 has %d columns", f.ensemble.describe(ref), feature, columns)
		}
		f.addBranch(ref)
	}
	// addLeaf has set the ends of the leaves' weights. Branches have no weights, so their ends equal their starts.
	for i := range f.count {
		f.offsets[i+1] = max(f.offsets[i+1], f.offsets[i])
	}
}

// position returns the index of the first node of a branch or leaf, or -1 if there is no such node yet.
func (f *flatTrees) position(ref treeRef) int32 {
	if ref.isLeaf() {
		return f.leafPositions[^ref] - 1
	}
	return f.positions[ref] - 1
}

// assignPositions sets the positions of all branches and leaves that are reachable from the roots. It returns the
// branches and leaves in the order of their positions. A node precedes its children.
func (f *flatTrees) assignPositions() (order []treeRef) {
	stack := slices.Clone(f.ensemble.roots)
	slices.Reverse(stack)
	for len(stack) > 0 {
		ref := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if f.position(ref) >= 0 {
			f.n.Failf("%s is reached twice: the nodes do not form trees", f.ensemble.describe(ref))
		}
		if f.count > math.MaxInt32/4 {
			f.n.Failf("the trees have too many nodes")
		}
		order = append(order, ref)
		if ref.isLeaf() {
			f.leafPositions[^ref] = int32(f.count) + 1
			f.count++
			continue
		}
		f.positions[ref] = int32(f.count) + 1
		branch := &f.ensemble.branches[ref]
		f.count += branch.nodeCount()
		stack = append(stack, branch.no)
		if branch.yes != branch.no { // both may be the same child
			stack = append(stack, branch.yes)
		}
	}
	f.checkReached()
	return order
}

// checkReached fails if a branch or leaf has no position.
func (f *flatTrees) checkReached() {
	unreached := make([]treeRef, 0, 2)
	if i := slices.Index(f.positions, 0); i >= 0 {
		unreached = append(unreached, treeRef(i))
	}
	if i := slices.Index(f.leafPositions, 0); i >= 0 {
		unreached = append(unreached, ^treeRef(i))
	}
	if len(unreached) > 0 {
		f.n.Failf("%s cannot be reached from a root", f.ensemble.describe(unreached[0]))
	}
}

// nodeCount returns the number of comparisons x <= threshold that a branch needs. A search among m members has m-1
// comparisons that halve the members, and 2 comparisons per member for equality. The total is 3m-1.
func (b *treeBranch) nodeCount() int {
	switch {
	case b.isNaN():
		return 1
	case b.mode == branchEQ || b.mode == branchNEQ:
		return 2
	case b.mode == branchMember:
		return max(1, 3*len(b.members)-1)
	}
	return 1
}

// isNaN reports whether the element is compared with NaN.
func (b *treeBranch) isNaN() bool { return b.mode != branchMember && b.value != b.value }

// addLeaf adds a leaf as a node whose children are the node itself, so that further steps stay there.
func (f *flatTrees) addLeaf(ref treeRef, targetCount int) {
	node := f.position(ref)
	const unusedFeature = 0
	f.setNode(node, unusedFeature, math.NaN(), node, node, node)
	for _, leaf := range f.ensemble.leaves[^ref] {
		if leaf.target < 0 || leaf.target >= targetCount {
			f.n.Failf("%s has a weight for target %d, want 0 to %d", f.ensemble.describe(ref), leaf.target, targetCount-1)
		}
		f.targets, f.weights = append(f.targets, int32(leaf.target)), append(f.weights, leaf.weight)
	}
	f.offsets[node+1] = int32(len(f.weights))
}

// setNode sets one node of the flat trees. no, yes and nan are the next nodes if the comparison is false, if it is
// true, and for NaN.
func (f *flatTrees) setNode(node int32, feature int, threshold float64, no, yes, nan int32) {
	f.features[node], f.thresholds[node], f.nextForNaN[node] = int32(feature), threshold, nan
	f.children[2*node], f.children[2*node+1] = no, yes
}

// addBranch adds the comparisons of a branch.
func (f *flatTrees) addBranch(ref treeRef) {
	branch, node := &f.ensemble.branches[ref], f.position(ref)
	yes, no := f.position(branch.yes), f.position(branch.no)
	nan := no
	if branch.nanIsYes {
		nan = yes
	}
	if branch.isNaN() { // x != NaN is true for each x, even NaN; other comparisons with NaN are false
		if branch.mode == branchNEQ {
			no, nan = yes, yes
		}
		f.setNode(node, branch.feature, branch.value, no, no, nan)
		return
	}
	// x < value is x <= below(value). x > value is the opposite of x <= value, and x >= value is the opposite of x <
	// value. NaN differs from each value, so for branchNEQ it continues at yes.
	switch branch.mode {
	case branchLEQ:
		f.setNode(node, branch.feature, f.atMost(branch.value), no, yes, nan)
	case branchLT:
		f.setNode(node, branch.feature, f.below(branch.value), no, yes, nan)
	case branchGT:
		f.setNode(node, branch.feature, f.atMost(branch.value), yes, no, nan)
	case branchGTE:
		f.setNode(node, branch.feature, f.below(branch.value), yes, no, nan)
	case branchEQ:
		f.addEqual(node, branch, branch.value, no, yes, nan)
	case branchNEQ:
		f.addEqual(node, branch, branch.value, yes, no, yes)
	case branchMember:
		f.addMember(node, branch, no, yes, nan)
	}
}

// addEqual adds two nodes, node and node+1, that test whether an element x equals a value. Together they test x <=
// value and not x < value.
func (f *flatTrees) addEqual(node int32, branch *treeBranch, value float64, no, yes, nan int32) {
	f.setNode(node, branch.feature, f.atMost(value), no, node+1, nan)
	f.setNode(node+1, branch.feature, f.below(value), yes, no, no)
}

// addMember adds a binary search for an element among the members. NaN leaves the search at the first node, so the next
// nodes for NaN of later nodes are never used.
func (f *flatTrees) addMember(node int32, branch *treeBranch, no, yes, nan int32) {
	if len(branch.members) == 0 {
		f.setNode(node, branch.feature, math.NaN(), no, no, nan)
		return
	}
	first, free := node, node+1 // free is the next unused node
	type search struct {
		node      int32 // the node of the search's first comparison
		low, high int   // only members[low] to members[high] can equal the element
	}
	for stack := []search{{node: node, high: len(branch.members) - 1}}; len(stack) > 0; {
		interval := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		toNaN := no
		if interval.node == first {
			toNaN = nan
		}
		if interval.low == interval.high { // equality, as in addEqual
			f.setNode(interval.node, branch.feature, f.atMost(branch.members[interval.low]), no, free, toNaN)
			f.setNode(free, branch.feature, f.below(branch.members[interval.low]), yes, no, no)
			free++
			continue
		}
		// Members up to middle are searched from node free, greater members from node free+1.
		middle := (interval.low + interval.high) / 2
		f.setNode(interval.node, branch.feature, f.atMost(branch.members[middle]), free+1, free, toNaN)
		stack = append(stack, search{node: free + 1, low: middle + 1, high: interval.high},
			search{node: free, low: interval.low, high: middle})
		free += 2
	}
}

// atMost returns the greatest number of the elements' dtype that is at most the limit.
func (f *flatTrees) atMost(limit float64) float64 {
	if !f.isFloat32 {
		return limit
	}
	rounded := float32(limit)
	if float64(rounded) > limit {
		rounded = math.Nextafter32(rounded, float32(math.Inf(-1)))
	}
	return float64(rounded)
}

// below returns the greatest number of the elements' dtype that is less than the limit. If there is none, it
// returns NaN, for which each comparison is false.
func (f *flatTrees) below(limit float64) float64 {
	rounded := f.atMost(limit)
	switch {
	case rounded < limit:
		return rounded
	case math.IsInf(limit, -1):
		return math.NaN()
	case f.isFloat32:
		return float64(math.Nextafter32(float32(limit), float32(math.Inf(-1))))
	}
	return math.Nextafter(limit, math.Inf(-1))
}

// floatsOrTensor returns a list of floats. The list is the attribute with the given name, or the tensor attribute with
// the suffix _as_tensor.
func floatsOrTensor(n *node, name string) []float64 {
	if data := n.TensorAttr(name + "_as_tensor"); data != nil {
		return floatsOf(n, data)
	}
	attr := n.Attr(name, pb.AttributeFloats)
	if attr == nil {
		return nil
	}
	list := make([]float64, len(attr.Floats))
	for i, element := range attr.Floats {
		list[i] = float64(element)
	}
	return list
}

// floatsOf returns the elements of a tensor of numbers.
func floatsOf(n *node, t *tensor.Tensor) []float64 {
	if t.DType.IsComplex() {
		n.Failf("a tensor of %v is not supported", t.DType)
	}
	list, _ := tensor.ToSlice[float64](t.CopyTo(tensor.New(tensor.Float64, t.Shape...))) // the dtype matches
	return list
}
