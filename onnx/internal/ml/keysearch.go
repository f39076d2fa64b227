package ml

import (
	"maps"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// This file finds the positions of elements in a list of keys, for the encoders. A string is represented by an int64
// code.

// maxSpread limits the size of lookup tables. The range of n keys is at most maxSpread*(n+64). The term 64 allows a
// table of about 1000 entries even for few keys.
const maxSpread = 16

// positionOf returns the position of each element of x in a list of keys. For an element that is not a key, the result
// is the number of keys. If keys are equal, the result is the position of the last of these keys. NaN equals NaN.
// Integer keys in a small range have a lookup table. Other keys have a decision tree on float64.
func positionOf(n *node, x, keys *value) *value {
	checkSameKind(n, x, keys)
	if keys.DType().IsIntegral(false) { // false: bool does not count as an integer
		if !x.DType().IsIntegral(false) {
			n.Failf("the operand is %v, but the keys are integers", x.DType())
		}
		if position := positionInTable(n, n.Cast(x, tensor.Int64), convert.IntsOf(keys.Data())); position != nil {
			return position
		}
	}
	tree := &treeEnsemble{roots: []treeRef{0}, describe: func(treeRef) string { return "the list of keys" }}
	positions, nanPosition := keyPositions(n, keys)
	tree.branches, tree.leaves = searchTree(positions, keys.Data().Numel(), nanPosition)
	column := n.Op("reshape", graph.Attrs{"shape": []int{-1, 1}}, n.Cast(x, tensor.Float64))
	const columns, targets = 1, 1
	operands := append([]any{column}, tree.operands(n, tensor.Float64, columns, targets)...)
	position := n.Op("tree_ensemble", graph.Attrs{"outputs": 1}, operands...)
	return n.Cast(n.ReshapeLike(position, x), tensor.Int64)
}

// checkSameKind fails if x has strings and keys has numbers, or the reverse.
func checkSameKind(n *node, x, keys *value) {
	if x.HasStrings() != keys.HasStrings() {
		kinds := map[bool]string{true: "strings", false: "numbers"}
		n.Failf("the operand has %s, but the keys are %s", kinds[x.HasStrings()], kinds[keys.HasStrings()])
	}
}

// keyPositions returns the position of each key in a list, and the position of NaN. If NaN is not a key, nanPosition is
// the number of keys.
func keyPositions(n *node, keys *value) (positions map[float64]int, nanPosition int) {
	numbers := floatsOf(n, keys.Data())
	positions, nanPosition = map[float64]int{}, len(numbers)
	for i, key := range numbers {
		switch {
		case key != key: // NaN
			nanPosition = i
		case keys.DType().IsIntegral(false) && math.Abs(key) >= 1<<53: // float64 does not represent all integers
			n.Failf("key %d is not supported: want less than 2^53 in absolute value", int64(key))
		default:
			positions[key] = i
		}
	}
	return positions, nanPosition
}

// positionInTable is [positionOf] for int64 elements and keys in a small range. It returns nil for other keys. The
// table has an entry for each integer from least-1 to most+1. The first and the last entry belong to no key. Smaller
// and greater integers are clamped to these two entries.
func positionInTable(n *node, x *value, keys []int) *value {
	least, most := slices.Min(keys), slices.Max(keys)
	if least == math.MinInt || most == math.MaxInt || uint(most-least) > uint(maxSpread*(len(keys)+64)) {
		return nil
	}
	table := slices.Repeat([]int{len(keys)}, most-least+3)
	for i, key := range keys {
		table[key-least+1] = i
	}
	x = n.Op("clamp", graph.Attrs{"min": least - 1, "max": most + 1}, x)
	return n.Op("take", nil, convert.IntVector(table...), n.Op("sub", nil, x, least-1))
}

// searchTree returns a decision tree that searches for an element among keys. positions maps each key to its position.
// The weight of a leaf is the position of the element. This is missingPosition if the element is not a key, and
// nanPosition if it is NaN.
func searchTree(positions map[float64]int, missingPosition, nanPosition int) (branches []treeBranch,
	leaves [][]leafWeight) {
	// addLeaf adds a leaf and returns a reference to it. The reference is the complement of the leaf's index, which
	// differs from all references to branches.
	addLeaf := func(position int) treeRef {
		leaves = append(leaves, []leafWeight{{target: 0, weight: float64(position)}})
		return ^treeRef(len(leaves) - 1)
	}
	// addSearch adds the search among sorted keys, and returns a reference to the first branch or leaf of the search.
	var addSearch func(keys []float64) treeRef
	addSearch = func(keys []float64) treeRef {
		if len(keys) == 0 {
			return addLeaf(missingPosition)
		}
		index := treeRef(len(branches))
		branches = append(branches, treeBranch{}) // set below, because this branch refers to later branches
		half := (len(keys) + 1) / 2
		added := treeBranch{mode: branchLEQ, value: keys[half-1]}
		if len(keys) == 1 {
			added.mode = branchEQ
			added.yes, added.no = addLeaf(positions[keys[0]]), addLeaf(missingPosition)
		} else {
			added.yes, added.no = addSearch(keys[:half]), addSearch(keys[half:])
		}
		branches[index] = added
		return index
	}
	branches = append(branches, treeBranch{}) // the root, which is set below
	// The root separates NaN, because x <= infinity is false only for NaN.
	root := treeBranch{mode: branchLEQ, value: math.Inf(1), no: addLeaf(nanPosition)}
	root.yes = addSearch(slices.Sorted(maps.Keys(positions)))
	branches[0] = root
	return branches, leaves
}
