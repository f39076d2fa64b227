package ml

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// This file reads the attributes of the operators for tree ensembles into a treeEnsemble (trees.go). A treeRef is the
// index of a branch, or the complement of the index of a leaf. For example, the tree
//
//	node 0: x[3] <= 0.5 ? node 1 : node 2
//	node 1: leaf, weight 1
//	node 2: leaf, weight 7
//
// has nodes_nodeids [0, 1, 2], nodes_modes [BRANCH_LEQ, LEAF, LEAF], nodes_featureids [3, 0, 0], nodes_values [0.5, 0,
// 0], nodes_truenodeids [1, 0, 0] and nodes_falsenodeids [2, 0, 0]. It becomes one branch and two leaves. The reference
// of the root is 0, and the references of its children are ^0 and ^1.

// treeEnsembleRegressor converts TreeEnsembleRegressor. base_values are added to the aggregated weights.
func treeEnsembleRegressor(n *node) []*value {
	aggregate := convert.Choice(n, "aggregate_function", n.Text("aggregate_function", "SUM"), aggregates)
	lists, targets := readNodeLists(n), n.Int("n_targets", 1)
	trees := lists.ensemble()
	lists.addWeights(trees, "target", "target_ids")
	scores := evaluate(n, trees, targets, aggregate)
	if base := floatsOrTensor(n, "base_values"); len(base) > 0 {
		if len(base) != 1 {
			checkLength(n, "base_values", len(base), targets)
		}
		scores = n.Op("add", nil, scores, floatsLike(n, base, scores))
	}
	return single(n.Cast(postTransform(n, scores, n.Text("post_transform", "NONE")), tensor.Float32))
}

// aggregates maps the values of the attribute aggregate_function to the values of tree_ensemble's attribute aggregate.
var aggregates = map[string]string{"SUM": "sum", "AVERAGE": "mean", "MIN": "amin", "MAX": "amax"}

// nodeKey identifies a node of TreeEnsembleClassifier and TreeEnsembleRegressor.
type nodeKey struct{ tree, node int }

func (k nodeKey) String() string { return fmt.Sprintf("node %d of tree %d", k.node, k.tree) }

// nodeLists has the attributes of TreeEnsembleClassifier and TreeEnsembleRegressor, with an element for each node.
type nodeLists struct {
	n        *node
	keys     []nodeKey
	index    map[nodeKey]int // position of each node in the lists
	yes, no  []int           // the identifiers of the children, in the same tree
	features []int           // the columns that are compared
	nanIsYes []bool          // whether NaN continues at the child yes
	values   []float64       // the thresholds with which elements are compared
	modes    []string        // the comparisons, such as "BRANCH_LEQ"
	refs     []treeRef       // the nodes in the treeEnsemble, set by ensemble
}

// readNodeLists reads the attributes that describe nodes.
func readNodeLists(n *node) *nodeLists {
	trees, _ := n.Ints("nodes_treeids")
	count := len(trees)
	lists := &nodeLists{n: n, keys: make([]nodeKey, count), index: make(map[nodeKey]int, count),
		yes: intsOfLength(n, "nodes_truenodeids", count), no: intsOfLength(n, "nodes_falsenodeids", count),
		features: intsOfLength(n, "nodes_featureids", count), values: floatsOrTensor(n, "nodes_values"),
		refs: make([]treeRef, count)}
	lists.modes, _ = n.Strings("nodes_modes")
	checkLength(n, "nodes_values", len(lists.values), count)
	checkLength(n, "nodes_modes", len(lists.modes), count)
	lists.nanIsYes = readNaNIsYes(n, count)
	for i, id := range intsOfLength(n, "nodes_nodeids", count) {
		lists.keys[i] = nodeKey{trees[i], id}
		if _, twice := lists.index[lists.keys[i]]; twice {
			n.Failf("%v is defined twice", lists.keys[i])
		}
		lists.index[lists.keys[i]] = i
	}
	return lists
}

// readNaNIsYes reads the optional attribute nodes_missing_value_tracks_true: whether NaN continues at the child yes.
func readNaNIsYes(n *node, count int) []bool {
	nanIsYes := make([]bool, count)
	if flags, _ := n.Ints("nodes_missing_value_tracks_true"); len(flags) > 0 {
		checkLength(n, "nodes_missing_value_tracks_true", len(flags), count)
		for i, flag := range flags {
			nanIsYes[i] = flag != 0
		}
	}
	return nanIsYes
}

// intsOfLength returns a list attribute that must have `count` elements.
func intsOfLength(n *node, name string, count int) []int {
	list, _ := n.Ints(name)
	checkLength(n, name, len(list), count)
	return list
}

// checkLength fails if an attribute does not have the wanted number of elements.
func checkLength(n *node, name string, length, want int) {
	if length != want {
		n.Failf("attribute %q has %d elements, want %d", name, length, want)
	}
}

// ensemble returns the trees without weights. The root of a tree is the only node that is not a child of another node.
func (l *nodeLists) ensemble() *treeEnsemble {
	trees := &treeEnsemble{}
	l.assignRefs(trees)
	isChild := l.setBranches(trees)
	l.addRoots(trees, isChild)
	keys := map[treeRef]nodeKey{}
	trees.describe = func(current treeRef) string {
		if len(keys) == 0 { // filled at the first error only
			for i, ref := range l.refs {
				keys[ref] = l.keys[i]
			}
		}
		return keys[current].String()
	}
	return trees
}

// assignRefs adds an empty branch or leaf for each node, and sets refs.
func (l *nodeLists) assignRefs(trees *treeEnsemble) {
	for i, mode := range l.modes {
		if mode == "LEAF" {
			l.refs[i] = ^treeRef(len(trees.leaves))
			trees.leaves = append(trees.leaves, nil)
		} else {
			l.refs[i] = treeRef(len(trees.branches))
			trees.branches = append(trees.branches, treeBranch{})
		}
	}
}

// setBranches sets the branches that assignRefs has added. For each node, it reports whether the node is a child.
func (l *nodeLists) setBranches(trees *treeEnsemble) (isChild []bool) {
	isChild = make([]bool, len(l.keys))
	for i, name := range l.modes {
		if name == "LEAF" {
			continue
		}
		mode, ok := treeModes[name]
		if !ok {
			l.n.Failf("%v has the unknown mode %q", l.keys[i], name)
		}
		yes, no := l.childIndex(i, l.yes[i]), l.childIndex(i, l.no[i])
		isChild[yes], isChild[no] = true, true
		trees.branches[l.refs[i]] = treeBranch{feature: l.features[i], mode: mode, value: l.values[i],
			nanIsYes: l.nanIsYes[i], yes: l.refs[yes], no: l.refs[no]}
	}
	return isChild
}

// addRoots adds the root of each tree, which is the only node that is not a child.
func (l *nodeLists) addRoots(trees *treeEnsemble, isChild []bool) {
	rootOf := map[int]int{} // the index of the root by tree
	for i, key := range l.keys {
		if isChild[i] {
			continue
		}
		if firstRoot, twice := rootOf[key.tree]; twice {
			l.n.Failf("%v and %v are both roots", l.keys[firstRoot], key)
		}
		rootOf[key.tree] = i
		trees.roots = append(trees.roots, l.refs[i])
	}
	previousTree := math.MinInt // saves look-ups: nodes of a tree are usually adjacent
	for _, key := range l.keys {
		if key.tree == previousTree {
			continue
		}
		if _, ok := rootOf[key.tree]; !ok {
			l.n.Failf("tree %d has no root: each of its nodes is a child", key.tree)
		}
		previousTree = key.tree
	}
}

// childIndex returns the position in the lists of the child of node i that has the given identifier.
func (l *nodeLists) childIndex(i, id int) int {
	child, ok := l.index[nodeKey{l.keys[i].tree, id}]
	if !ok {
		l.n.Failf("%v has the child %d, which does not exist", l.keys[i], id)
	}
	return child
}

// addWeights adds the weights of the attributes with a prefix, "class" or "target". idName is the attribute that has
// the target of each weight. Weights of branches are ignored. addWeights returns the set of targets that have weights,
// and whether all weights are at least 0.
func (l *nodeLists) addWeights(trees *treeEnsemble, prefix, idName string) (weighted map[int]bool, nonNegative bool) {
	weights := floatsOrTensor(l.n, prefix+"_weights")
	treeIDs := intsOfLength(l.n, prefix+"_treeids", len(weights))
	nodeIDs := intsOfLength(l.n, prefix+"_nodeids", len(weights))
	weighted, nonNegative = map[int]bool{}, true
	for i, target := range intsOfLength(l.n, idName, len(weights)) {
		key := nodeKey{treeIDs[i], nodeIDs[i]}
		node, ok := l.index[key]
		if !ok {
			l.n.Failf("weight %d belongs to %v, which does not exist", i, key)
		}
		weighted[target] = true
		nonNegative = nonNegative && weights[i] >= 0
		if ref := l.refs[node]; ref.isLeaf() {
			trees.leaves[^ref] = append(trees.leaves[^ref], leafWeight{target, weights[i]})
		}
	}
	return weighted, nonNegative
}

// postTransforms has the values of TreeEnsemble's attribute post_transform.
var postTransforms = []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}

// treeEnsemble5 converts TreeEnsemble of operator set 5.
func treeEnsemble5(n *node) []*value {
	aggregate, post := n.Int("aggregate_function", 1), n.Int("post_transform", 0) // default: sum, NONE
	aggregateNames := []string{"mean", "sum", "amin", "amax"}
	if aggregate < 0 || aggregate >= len(aggregateNames) || post < 0 || post >= len(postTransforms) {
		n.Failf("aggregate_function %d or post_transform %d is unknown: want 0 to %d and 0 to %d", aggregate, post,
			len(aggregateNames)-1, len(postTransforms)-1)
	}
	scores := evaluate(n, readBranchLists(n).ensemble(), n.Int("n_targets", 1), aggregateNames[aggregate])
	return single(n.Cast(postTransform(n, scores, postTransforms[post]), n.Operand(0).DType()))
}

// branchLists has the attributes of TreeEnsemble, in which branches and leaves have separate lists.
type branchLists struct {
	n                   *node
	yes, no             []int     // the indices of the children, in the list of branches or of leaves
	yesIsLeaf, noIsLeaf []int     // not 0: the child is a leaf
	modes               []int     // for each branch, the number of a treeMode
	features            []int     // for each branch, as in nodeLists
	values              []float64 // for each branch, as in nodeLists
	nanIsYes            []bool    // for each branch, as in nodeLists
	weights             []float64 // for each leaf
	members             []float64 // members of the branches with branchMember that are not read yet: see cutMembers
}

// readBranchLists reads the attributes of TreeEnsemble. It omits the attributes of targets and roots.
func readBranchLists(n *node) *branchLists {
	lists := &branchLists{n: n}
	lists.features, _ = n.Ints("nodes_featureids")
	count := len(lists.features)
	lists.yes, lists.no = intsOfLength(n, "nodes_truenodeids", count), intsOfLength(n, "nodes_falsenodeids", count)
	lists.yesIsLeaf, lists.noIsLeaf = intsOfLength(n, "nodes_trueleafs", count), intsOfLength(n, "nodes_falseleafs", count)
	lists.nanIsYes = readNaNIsYes(n, count)
	for name, list := range map[string]*[]float64{"nodes_splits": &lists.values, "leaf_weights": &lists.weights,
		"membership_values": &lists.members} {
		if values := n.TensorAttr(name); values != nil {
			*list = floatsOf(n, values)
		}
	}
	if values := n.TensorAttr("nodes_modes"); values != nil && values.DType.IsIntegral(false) {
		lists.modes = convert.IntsOf(values)
	}
	checkLength(n, "nodes_splits", len(lists.values), count)
	checkLength(n, "nodes_modes", len(lists.modes), count)
	return lists
}

// ensemble returns the trees with their weights.
func (l *branchLists) ensemble() *treeEnsemble {
	trees := &treeEnsemble{branches: make([]treeBranch, len(l.features)),
		leaves: make([][]leafWeight, len(l.weights))}
	trees.describe = func(ref treeRef) string {
		if ref.isLeaf() {
			return fmt.Sprintf("leaf %d", ^ref)
		}
		return fmt.Sprintf("node %d", ref)
	}
	for i, target := range intsOfLength(l.n, "leaf_targetids", len(l.weights)) {
		trees.leaves[i] = []leafWeight{{target, l.weights[i]}}
	}
	for i, mode := range l.modes {
		if mode < 0 || mode > int(branchMember) {
			l.n.Failf("node %d has the unknown mode %d", i, mode)
		}
		branch := &trees.branches[i]
		*branch = treeBranch{feature: l.features[i], mode: treeMode(mode), value: l.values[i],
			nanIsYes: l.nanIsYes[i], yes: l.childRef(i, l.yes[i], l.yesIsLeaf[i] != 0),
			no: l.childRef(i, l.no[i], l.noIsLeaf[i] != 0)}
		if branch.mode == branchMember {
			branch.members, l.members = cutMembers(l.members)
		}
	}
	roots, _ := l.n.Ints("tree_roots")
	for _, root := range roots {
		if root < 0 || root >= len(l.features) {
			l.n.Failf("tree_roots has %d, want 0 to %d", root, len(l.features)-1)
		}
		trees.roots = append(trees.roots, treeRef(root))
	}
	return trees
}

// childRef returns a child of branch i. child is the index of the child in the list of branches, or in the list of
// leaves if isLeaf is set.
func (l *branchLists) childRef(i, child int, isLeaf bool) treeRef {
	limit := len(l.features)
	if isLeaf {
		limit = len(l.weights)
	}
	if child < 0 || child >= limit {
		l.n.Failf("node %d has the child %d, want 0 to %d", i, child, limit-1)
	}
	if isLeaf {
		return ^treeRef(child)
	}
	return treeRef(child)
}

// cutMembers splits a list with the members of several branches. A NaN ends the members of each branch. cutMembers
// returns the members of the first branch in ascending order, and the list after the NaN.
func cutMembers(list []float64) (members, remaining []float64) {
	end := slices.IndexFunc(list, math.IsNaN)
	if end < 0 {
		end = len(list)
	}
	members = slices.Clone(list[:end])
	slices.Sort(members)
	return slices.Compact(members), list[min(len(list), end+1):]
}
