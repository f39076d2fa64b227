package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// nodeKey identifies a node of TreeEnsembleClassifier and TreeEnsembleRegressor.
type nodeKey struct{ tree, node int }

func (k nodeKey) String() string { return fmt.Sprintf("node %d of tree %d", k.node, k.tree) }

// nodeLists has the attributes of TreeEnsembleClassifier and TreeEnsembleRegressor, with an element for each node.
type nodeLists struct {
	n        *node
	keys     []nodeKey
	index    map[nodeKey]int // position of each node in the lists
	yes, no  []int           // the identifiers of children
	features []int
	nanIsYes []int
	values   []float64
	modes    []string
	refs     []treeRef // the nodes in the treeEnsemble
}

// listOf returns a list attribute that must have `count` elements.
func (n *node) listOf(name string, count int) []int {
	list, _ := n.ints(name)
	n.checkLength(name, len(list), count)
	return list
}

func (n *node) checkLength(name string, length, want int) {
	if length != want {
		n.failf("attribute %q has %d elements, want %d", name, length, want)
	}
}

// nodeLists reads the attributes that describe nodes.
func (n *node) nodeLists() *nodeLists {
	trees, _ := n.ints("nodes_treeids")
	count := len(trees)
	lists := &nodeLists{n: n, keys: make([]nodeKey, count), index: make(map[nodeKey]int, count),
		yes: n.listOf("nodes_truenodeids", count), no: n.listOf("nodes_falsenodeids", count),
		features: n.listOf("nodes_featureids", count), values: n.floatsOrTensor("nodes_values"), refs: make([]treeRef, count)}
	lists.modes, _ = n.strings("nodes_modes")
	n.checkLength("nodes_values", len(lists.values), count)
	n.checkLength("nodes_modes", len(lists.modes), count)
	if lists.nanIsYes, _ = n.ints("nodes_missing_value_tracks_true"); len(lists.nanIsYes) > 0 {
		n.checkLength("nodes_missing_value_tracks_true", len(lists.nanIsYes), count)
	}
	for i, id := range n.listOf("nodes_nodeids", count) {
		lists.keys[i] = nodeKey{trees[i], id}
		if _, twice := lists.index[lists.keys[i]]; twice {
			n.failf("%v is defined twice", lists.keys[i])
		}
		lists.index[lists.keys[i]] = i
	}
	return lists
}

// ensemble returns the trees, without weights.
func (l *nodeLists) ensemble() *treeEnsemble {
	trees, keys := &treeEnsemble{}, map[treeRef]nodeKey{}
	for i, mode := range l.modes {
		if mode == "LEAF" {
			l.refs[i] = ^treeRef(len(trees.leaves))
			trees.leaves = append(trees.leaves, nil)
		} else {
			l.refs[i] = treeRef(len(trees.branches))
			trees.branches = append(trees.branches, treeBranch{})
		}
	}
	isChild := make([]bool, len(l.keys))
	for i, name := range l.modes {
		if name == "LEAF" {
			continue
		}
		mode, ok := treeModes[name]
		if !ok {
			l.n.failf("%v has the unknown mode %q", l.keys[i], name)
		}
		trees.branches[l.refs[i]] = treeBranch{feature: l.features[i], mode: mode, value: l.values[i],
			nanIsYes: len(l.nanIsYes) > 0 && l.nanIsYes[i] != 0, yes: l.child(i, l.yes[i], isChild),
			no: l.child(i, l.no[i], isChild)}
	}
	rootOf, previous := map[int]int{}, math.MinInt
	for i, k := range l.keys {
		if isChild[i] {
			continue
		}
		if first, twice := rootOf[k.tree]; twice {
			l.n.failf("%v and %v are both roots", l.keys[first], k)
		}
		rootOf[k.tree] = i
		trees.roots = append(trees.roots, l.refs[i])
	}
	for _, k := range l.keys {
		if _, ok := rootOf[k.tree]; !ok && k.tree != previous {
			l.n.failf("tree %d has no root: each of its nodes is a child", k.tree)
		}
		previous = k.tree
	}
	trees.describe = func(current treeRef) string {
		if len(keys) == 0 {
			for i, ref := range l.refs {
				keys[ref] = l.keys[i]
			}
		}
		return keys[current].String()
	}
	return trees
}

// child returns a child of node i, and marks it in isChild.
func (l *nodeLists) child(i, id int, isChild []bool) treeRef {
	key := nodeKey{l.keys[i].tree, id}
	k, ok := l.index[key]
	if !ok {
		l.n.failf("%v has the child %d, which does not exist", l.keys[i], id)
	}
	isChild[k] = true
	return l.refs[k]
}

// addWeights adds the weights of the attributes with a prefix, "class" or "target". It returns the set of targets that
// have weights, and whether no weight is negative.
func (l *nodeLists) addWeights(e *treeEnsemble, prefix, idName string) (weighted map[int]bool, nonNegative bool) {
	weights := l.n.floatsOrTensor(prefix + "_weights")
	trees, nodes := l.n.listOf(prefix+"_treeids", len(weights)), l.n.listOf(prefix+"_nodeids", len(weights))
	weighted, nonNegative = map[int]bool{}, true
	for k, id := range l.n.listOf(idName, len(weights)) {
		key := nodeKey{trees[k], nodes[k]}
		i, ok := l.index[key]
		if !ok {
			l.n.failf("weight %d belongs to %v, which does not exist", k, key)
		}
		weighted[id], nonNegative = true, nonNegative && weights[k] >= 0
		if r := l.refs[i]; r < 0 {
			e.leaves[^r] = append(e.leaves[^r], leafWeight{id, weights[k]})
		}
	}
	return weighted, nonNegative
}

// aggregates maps the values of the attribute aggregate_function to the values of tree_ensemble's attribute aggregate.
var aggregates = map[string]string{"SUM": "sum", "AVERAGE": "mean", "MIN": "amin", "MAX": "amax"}

func treeEnsembleRegressor(n *node) []*val {
	aggregate, ok := aggregates[n.text("aggregate_function", "SUM")]
	if !ok {
		n.failf("aggregate_function %q is not supported", n.text("aggregate_function", ""))
	}
	l, targets := n.nodeLists(), n.int("n_targets", 1)
	e := l.ensemble()
	l.addWeights(e, "target", "target_ids")
	scores := n.evaluate(e, targets, aggregate)
	if base := n.floatsOrTensor("base_values"); len(base) > 0 {
		if len(base) != 1 {
			n.checkLength("base_values", len(base), targets)
		}
		scores = n.op("add", nil, scores, n.floatsLike(base, scores))
	}
	return one(n.cast(n.postTransform(scores, n.text("post_transform", "NONE")), tensor.Float32))
}

// postTransforms has the values of TreeEnsemble's attribute post_transform.
var postTransforms = []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}

// treeEnsemble5 converts TreeEnsemble of operator set 5.
func treeEnsemble5(n *node) []*val {
	aggregate, post := n.int("aggregate_function", 1), n.int("post_transform", 0)
	names := []string{"mean", "sum", "amin", "amax"}
	if aggregate < 0 || aggregate >= len(names) || post < 0 || post >= len(postTransforms) {
		n.failf("aggregate_function %d or post_transform %d is unknown", aggregate, post)
	}
	y := n.evaluate(n.splitLists().ensemble(), n.int("n_targets", 1), names[aggregate])
	return one(n.cast(n.postTransform(y, postTransforms[post]), n.operand(0).dtype()))
}

// splitLists has the attributes of TreeEnsemble, which has separate lists for branches and leaves.
type splitLists struct {
	n                         *node
	yes, no                   []int
	yesIsLeaf, noIsLeaf       []int
	nanIsYes, modes, features []int
	values, weights, members  []float64
}

func (n *node) splitLists() *splitLists {
	lists := &splitLists{n: n}
	lists.features, _ = n.ints("nodes_featureids")
	count := len(lists.features)
	lists.yes, lists.no = n.listOf("nodes_truenodeids", count), n.listOf("nodes_falsenodeids", count)
	lists.yesIsLeaf, lists.noIsLeaf = n.listOf("nodes_trueleafs", count), n.listOf("nodes_falseleafs", count)
	if lists.nanIsYes, _ = n.ints("nodes_missing_value_tracks_true"); len(lists.nanIsYes) > 0 {
		n.checkLength("nodes_missing_value_tracks_true", len(lists.nanIsYes), count)
	}
	for name, list := range map[string]*[]float64{"nodes_splits": &lists.values, "leaf_weights": &lists.weights,
		"membership_values": &lists.members} {
		if values := n.tensorAttr(name); values != nil {
			*list = n.floatsOf(values)
		}
	}
	if values := n.tensorAttr("nodes_modes"); values != nil && values.DType.IsIntegral(false) {
		lists.modes = ints(values)
	}
	n.checkLength("nodes_splits", len(lists.values), count)
	n.checkLength("nodes_modes", len(lists.modes), count)
	return lists
}

// child returns a child of node i.
func (l *splitLists) child(i, child, isLeaf int) treeRef {
	limit := len(l.features)
	if isLeaf != 0 {
		limit = len(l.weights)
	}
	if child < 0 || child >= limit {
		l.n.failf("node %d has the child %d, want 0 to %d", i, child, limit-1)
	}
	if isLeaf != 0 {
		return ^treeRef(child)
	}
	return treeRef(child)
}

func (l *splitLists) ensemble() *treeEnsemble {
	trees := &treeEnsemble{branches: make([]treeBranch, len(l.features)),
		leaves: make([][]leafWeight, len(l.weights))}
	trees.describe = func(ref treeRef) string {
		if ref < 0 {
			return fmt.Sprintf("leaf %d", ^ref)
		}
		return fmt.Sprintf("node %d", ref)
	}
	for i, target := range l.n.listOf("leaf_targetids", len(l.weights)) {
		trees.leaves[i] = []leafWeight{{target, l.weights[i]}}
	}
	for i, mode := range l.modes {
		if mode < 0 || mode > int(branchMember) {
			l.n.failf("node %d has the unknown mode %d", i, mode)
		}
		branch := &trees.branches[i]
		*branch = treeBranch{feature: l.features[i], mode: treeMode(mode), value: l.values[i],
			nanIsYes: len(l.nanIsYes) > 0 && l.nanIsYes[i] != 0, yes: l.child(i, l.yes[i], l.yesIsLeaf[i]),
			no: l.child(i, l.no[i], l.noIsLeaf[i])}
		if branch.mode == branchMember {
			branch.members, l.members = cutMembers(l.members)
		}
	}
	roots, _ := l.n.ints("tree_roots")
	for _, ref := range roots {
		if ref < 0 || ref >= len(l.features) {
			l.n.failf("tree_roots has %d, want 0 to %d", ref, len(l.features)-1)
		}
		trees.roots = append(trees.roots, treeRef(ref))
	}
	return trees
}

// cutMembers splits a list in which a NaN ends the members of each branch. It returns the members of the first branch
// in ascending order, and the rest of the list after the NaN.
func cutMembers(list []float64) (members, rest []float64) {
	end := slices.IndexFunc(list, math.IsNaN)
	if end < 0 {
		end = len(list)
	}
	members = slices.Clone(list[:end])
	slices.Sort(members)
	return slices.Compact(members), list[min(len(list), end+1):]
}
