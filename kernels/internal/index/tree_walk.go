package index

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file has the kernel of tree_ensemble. Each row of self descends every tree, and the weights of the leaves are
// combined. The rows are divided into blocks, which are chunks of the kernel, and a block into groups of treeGroupRows
// rows:
//
//	for each block, for each tree, for each group of the block:
//		find the leaves of the rows of the group (leavesOf)
//		add the weights of the leaves to the sums of the rows (addWeights)

type treeEnsembleAttrs struct {
	Outputs   int    `attr:"outputs" doc:"number of columns of the result"`
	Aggregate string `attr:"aggregate" default:"sum" oneof:"sum|mean|amin|amax" doc:"combination of the weights of all trees; mean: their sum, divided by the number of trees"`
}

// The operands of tree_ensemble.
const (
	treeSelf = iota
	treeRoots
	treeFeatures
	treeThresholds
	treeChildren
	treeOffsets
	treeTargets
	treeWeights
	treeMissing
	treeOperands // number of operands
)

// treeOperandNames has the names of the operands.
var treeOperandNames = [treeOperands]string{"self", "roots", "features", "thresholds", "children", "offsets", "targets",
	"weights", "missing"}

// The numbers of elements per node in the operands children and missing.
const treeChildrenPerNode, treeMissingPerNode = 2, 1

// treeElement is an element type of tree_ensemble.
type treeElement interface{ float32 | float64 }

// trees has all operands of a call of tree_ensemble except self. A leaf is a node that is its own next node. For
// example, let a tree have the node 0, which compares column 3 of self with 0.5, and the leaves 1 and 2. A row with an
// element above 0.5 goes to leaf 1, which adds 10 to column 0 of the result. Other rows go to leaf 2, which adds 20:
//
//	roots [0]   features [3 0 0]   thresholds [0.5 0 0]   children [1 2, 1 1, 2 2]
//	offsets [0 0 1 2]   targets [0 0]   weights [10 20]
type trees[T treeElement] struct {
	roots      []int32 // first node of each tree
	features   []int32 // for each node, the column of self to compare
	thresholds []T     // for each node, the number to compare with
	children   []int32 // for each node, the next nodes if element <= threshold is false, and if it is true
	offsets    []int32 // node i has the weights from offsets[i] to offsets[i+1]-1
	targets    []int32 // for each weight, its column of the result
	weights    []T
	missing    []int32 // for each node, the next node if the element is NaN; nil if omitted
}

// setOperand sets operand i, which has count elements from the given address on. The elements are int32, or T for
// thresholds and weights.
func (t *trees[T]) setOperand(i int, address unsafe.Pointer, count int) {
	switch ints := unsafe.Slice((*int32)(address), count); i {
	case treeRoots:
		t.roots = ints
	case treeFeatures:
		t.features = ints
	case treeThresholds:
		t.thresholds = unsafe.Slice((*T)(address), count)
	case treeChildren:
		t.children = ints
	case treeOffsets:
		t.offsets = ints
	case treeTargets:
		t.targets = ints
	case treeWeights:
		t.weights = unsafe.Slice((*T)(address), count)
	case treeMissing:
		t.missing = ints
	}
}

// check checks the indices in the operands. Invalid indices in children and missing are not errors: see makeForward.
func (t *trees[T]) check(columns, outputs int) error {
	nodes := len(t.features)
	for _, list := range []struct {
		operand int
		values  []int32
		limit   int // every value is below it
	}{{treeRoots, t.roots, nodes}, {treeFeatures, t.features, columns},
		{treeOffsets, t.offsets, len(t.weights) + 1}, {treeTargets, t.targets, outputs}} {
		for i, index := range list.values {
			if index < 0 || int(index) >= list.limit {
				return fmt.Errorf("tree_ensemble: %s[%d] is %d, want 0 to %d", treeOperandNames[list.operand], i, index,
					list.limit-1)
			}
		}
	}
	return nil
}

// treeGroupRows is the number of rows of a group, which descend a tree together. Their steps do not depend on each
// other, so the processor overlaps them.
const treeGroupRows = 8

// stepsPerLeafTest is the number of steps between two tests whether all rows have reached their leaves.
const stepsPerLeafTest = 4

// maxTreeBlockRows is the maximum number of rows of a block. For each block, every tree is read from memory once.
// Reading a tree of 500 nodes (10 KiB) takes as long as the descent of 100 rows.
const maxTreeBlockRows = 1024

// maxTreeSums is the maximum number of sums (rows times outputs) of a block. Only a block of a single group of rows may
// exceed it. The sums take 512 KiB.
const maxTreeSums = 1 << 16

// The rows are divided into treeChunks blocks, but a block has at least minTreeGroups groups and at most
// maxTreeBlockRows rows.
const treeChunks, minTreeGroups = 16, 8

// treeAggregate is the operation that combines the weights of all trees.
type treeAggregate uint8

const (
	treeSum treeAggregate = iota
	treeMean
	treeMin
	treeMax
)

// treeAggregates maps the values of the attribute aggregate to operations.
var treeAggregates = map[string]treeAggregate{"sum": treeSum, "mean": treeMean, "amin": treeMin, "amax": treeMax}

// clear sets sums to their initial values. NaN stands for a column without weights.
func (a treeAggregate) clear(sums []float64) {
	first := 0.0
	if a == treeMin || a == treeMax {
		first = math.NaN()
	}
	for i := range sums {
		sums[i] = first
	}
}

// finish converts a sum over all trees to an element of the result.
func (a treeAggregate) finish(sum float64, treeCount int) float64 {
	switch {
	case a == treeMean:
		return sum / float64(max(1, treeCount))
	case a != treeSum && sum != sum: // a column without weights
		return 0
	}
	return sum
}

// treeWalk is a call of tree_ensemble with self of element type T.
type treeWalk[T treeElement] struct {
	rows, columns, outputs, treeCount int
	aggregate                         treeAggregate
	blockRows                         int               // the number of rows of a block
	counts                            [treeOperands]int // the number of elements of each operand
	// isForward is set if all operands are constant, and children and missing list only later nodes or the node itself
	// (see isForwardList). Otherwise the kernel makes such lists in scratch memory first (makeForward).
	isForward bool
}

// newTreeWalk returns the walk of a call and chooses the number of rows of a block.
func newTreeWalk[T treeElement](c *graph.Call) *treeWalk[T] {
	attrs := kit.Attrs[*treeEnsembleAttrs](c)
	walk := &treeWalk[T]{rows: c.Out[0].Shape[0], columns: c.Meta(treeSelf).Shape[1], outputs: attrs.Outputs,
		treeCount: c.Meta(treeRoots).Numel(), aggregate: treeAggregates[attrs.Aggregate]}
	groups := kit.DivUp(walk.rows, treeGroupRows)
	groupsPerBlock := max(minTreeGroups, kit.DivUp(groups, treeChunks))
	maxGroupsBySums := max(1, maxTreeSums/treeGroupRows/walk.outputs)
	walk.blockRows = treeGroupRows * min(groupsPerBlock, maxTreeBlockRows/treeGroupRows, maxGroupsBySums, groups)
	return walk
}

// checkConstants checks constant operands, and sets w.isForward. in[i] is operand i.
func (w *treeWalk[T]) checkConstants(in []kit.Buffer) error {
	var constants trees[T]
	for i := treeRoots; i < treeOperands; i++ {
		if in[i].Data != nil {
			constants.setOperand(i, in[i].Data.Pointer(), w.counts[i])
		}
	}
	if err := constants.check(w.columns, w.outputs); err != nil {
		return err
	}
	w.isForward = isForwardList(constants.children, treeChildrenPerNode) &&
		isForwardList(constants.missing, treeMissingPerNode)
	return nil
}

// operands returns the operands of a run. m.Ptrs has the addresses of the result and of the operands.
func (w *treeWalk[T]) operands(m *graph.Mem) (t trees[T]) {
	for i := treeRoots; i < treeOperands; i++ {
		if address := m.Ptrs[i+1]; address != nil {
			t.setOperand(i, address, w.counts[i])
		}
	}
	return t
}

// forwardLists returns the scratch memory into which makeForward writes children and missing.
func (w *treeWalk[T]) forwardLists(m *graph.Mem, t *trees[T]) (children, missing []int32) {
	childCount := len(t.children)
	return kit.SliceOf[int32](m.Scratch, 0, childCount), kit.SliceOf[int32](m.Scratch, 4*childCount, len(t.missing))
}

// prepare checks the operands, and calls makeForward for children and missing.
func (w *treeWalk[T]) prepare(m *graph.Mem, _ int) error {
	t := w.operands(m)
	if err := t.check(w.columns, w.outputs); err != nil {
		return err
	}
	children, missing := w.forwardLists(m, &t)
	makeForward(m, children, t.children, treeChildrenPerNode)
	makeForward(m, missing, t.missing, treeMissingPerNode)
	return nil
}

// buffers returns the buffers of the result and of all operands, in row-major order, and whether all operands except
// self are constant. It sets w.counts.
func (w *treeWalk[T]) buffers(c *graph.Call, builder *copies.KernelBuilder) (list []kit.Buffer, areConstant bool) {
	dtype := c.Meta(treeSelf).DType
	list = []kit.Buffer{builder.Result(0, dtype), builder.ToRowMajor(builder.Operand(treeSelf), dtype)}
	areConstant = true
	for i := treeRoots; i < treeOperands; i++ {
		operand := kit.Buffer{} // for an omitted operand
		if c.HasOperand(i) {
			operand, w.counts[i] = builder.ToRowMajor(builder.Operand(i), c.Meta(i).DType), c.Meta(i).Numel()
			areConstant = areConstant && operand.Data != nil
		}
		list = append(list, operand)
	}
	return list, areConstant
}

// treeKernel returns the kernel for self of element type T. A chunk is a block of rows.
func treeKernel[T treeElement](c *graph.Call) (*graph.Kernel, error) {
	walk, builder := newTreeWalk[T](c), copies.NewKernelBuilder(c)
	buffers, areConstant := walk.buffers(c, builder)
	if areConstant {
		if err := walk.checkConstants(buffers[1:]); err != nil {
			return nil, err
		}
	}
	var phases []graph.Phase
	scratch := 0
	if !walk.isForward {
		scratch = 4 * (walk.counts[treeChildren] + walk.counts[treeMissing]) // two lists of int32: see forwardLists
		phases = append(phases, graph.Phase{Chunks: 1, Run: walk.prepare})
	}
	chunks := kit.DivUp(walk.rows, walk.blockRows)
	phases = append(phases, graph.Phase{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
		current := walk.operands(m)
		if !walk.isForward { // use the lists that prepare made
			current.children, current.missing = walk.forwardLists(m, &current)
		}
		walk.computeBlock(m, &current, chunk*walk.blockRows, min(walk.rows, (chunk+1)*walk.blockRows))
		return nil
	}})
	sumBytes := walk.blockRows * walk.outputs * 8 // of float64 sums
	builder.AddPhases(scratch, sumBytes, buffers, phases...)
	return builder.Kernel()
}

// computeBlock computes rows [begin, end) of the result. The children and missing of t list only later nodes or the
// node itself. m.Ptrs has the addresses of the result and of self first.
func (w *treeWalk[T]) computeBlock(m *graph.Mem, t *trees[T], begin, end int) {
	sums := kit.SliceOf[float64](m.WorkerScratch, 0, (end-begin)*w.outputs)
	w.aggregate.clear(sums)
	hasNaN := w.groupsWithNaN(m, t, begin, end)
	nodes := newTreeNodes(t)
	for _, root := range t.roots {
		for group := range kit.DivUp(end-begin, treeGroupRows) {
			var rows [treeGroupRows]unsafe.Pointer
			firstRow := begin + group*treeGroupRows
			for lane := range rows { // a lane is a row of the group
				// The last group may have fewer rows: it then has the last row several times.
				rows[lane] = kit.AddressOf[T](m.Ptrs[1], min(firstRow+lane, end-1)*w.columns)
			}
			var leaves [treeGroupRows]int
			if hasNaN[group] {
				for lane, row := range rows {
					leaves[lane] = t.leafOf(m, row, int(root))
				}
			} else {
				nodes.leavesOf(m, &rows, int(root), &leaves)
			}
			for lane := range min(treeGroupRows, end-firstRow) {
				t.addWeights(sums[(firstRow-begin+lane)*w.outputs:][:w.outputs], leaves[lane], w.aggregate)
			}
		}
	}
	out := kit.PlaneOf[T](kit.AddressOf[T](m.Ptrs[0], begin*w.outputs), 0, len(sums))
	for i, sum := range sums {
		out[i] = T(w.aggregate.finish(sum, w.treeCount))
	}
}

// groupsWithNaN reports for each group of rows [begin, end) whether a row has a NaN. It reports false if missing is
// omitted.
func (w *treeWalk[T]) groupsWithNaN(m *graph.Mem, t *trees[T], begin, end int) (
	hasNaN [maxTreeBlockRows / treeGroupRows]bool) {
	for group := range kit.DivUp(end-begin, treeGroupRows) {
		if t.missing != nil {
			firstRow := begin + group*treeGroupRows
			hasNaN[group] = containsNaN(kit.PlaneOf[T](kit.AddressOf[T](m.Ptrs[1], firstRow*w.columns), 0,
				(min(firstRow+treeGroupRows, end)-firstRow)*w.columns))
		}
	}
	return hasNaN
}

// containsNaN reports whether an element is NaN.
func containsNaN[T treeElement](list []T) bool {
	hasNaN := false
	for _, x := range list {
		hasNaN = hasNaN || x != x
	}
	return hasNaN
}

// isForwardList reports whether each child is the node itself or a later node of the list. A descent then ends after a
// bounded number of steps, at a node that is its own child. children lists the children of node 0, then the children of
// node 1, and so on.
func isForwardList(children []int32, childrenPerNode int) bool {
	nodes := len(children) / childrenPerNode
	for i, next := range children {
		if node := i / childrenPerNode; int(next) < node || int(next) >= nodes {
			return false
		}
	}
	return true
}

// makeForward writes children to dst. A child that is not a later node ends the descent: it is replaced by the node
// itself.
func makeForward(m *graph.Mem, dst, children []int32, childrenPerNode int) {
	nodes := len(children) / childrenPerNode
	for i, next := range children {
		if node := i / childrenPerNode; int(next) < node || int(next) >= nodes {
			next = int32(node)
		}
		dst[i] = next
		m.CheckContextAfter(1)
	}
}

// addWeights combines the weights of a node with the sums of a row.
func (t *trees[T]) addWeights(sums []float64, node int, a treeAggregate) {
	for weightIndex := int(t.offsets[node]); weightIndex < int(t.offsets[node+1]); weightIndex++ {
		weight, sum := float64(t.weights[weightIndex]), &sums[t.targets[weightIndex]]
		switch {
		case a == treeSum || a == treeMean:
			*sum += weight
		// The comparisons are negated so that they hold for the first weight, when *sum is NaN.
		case a == treeMin && !(*sum <= weight), a == treeMax && !(*sum >= weight):
			*sum = weight
		}
	}
}

// leafOf returns the node at which a row leaves a tree: the node whose next node is the node itself. The row may have
// elements that are NaN; t.missing is not nil.
func (t *trees[T]) leafOf(m *graph.Mem, row unsafe.Pointer, root int) int {
	node := root
	for {
		x := *(*T)(kit.AddressOf[T](row, int(t.features[node])))
		next := 0
		switch {
		case x != x:
			next = int(t.missing[node])
		case x <= t.thresholds[node]:
			next = int(t.children[2*node+1])
		default:
			next = int(t.children[2*node])
		}
		m.CheckContextAfter(1)
		if next == node {
			return node
		}
		node = next
	}
}

// treeNodes has the addresses of the nodes of all trees. The indices in the nodes have been checked, so that the inner
// loop needs no bounds checks.
type treeNodes[T treeElement] struct {
	features, thresholds, children unsafe.Pointer
}

func newTreeNodes[T treeElement](t *trees[T]) treeNodes[T] {
	return treeNodes[T]{unsafe.Pointer(unsafe.SliceData(t.features)), unsafe.Pointer(unsafe.SliceData(t.thresholds)),
		unsafe.Pointer(unsafe.SliceData(t.children))}
}

// next returns the node after the given node. The if compiles to a flag that is added to the address, not to a branch,
// which the processor would mispredict in about half of the steps.
func (n *treeNodes[T]) next(row unsafe.Pointer, node int) int {
	feature := *(*int32)(unsafe.Add(n.features, node*4))
	child := 0
	if *(*T)(kit.AddressOf[T](row, int(feature))) <= *(*T)(kit.AddressOf[T](n.thresholds, node)) {
		child = 1
	}
	return int(*(*int32)(unsafe.Add(n.children, node*8+child*4)))
}

// isLeaf reports whether a row leaves the tree at the given node. The answer depends on the row: a node may be its own
// true child but not also its own false child, or the reverse.
func (n *treeNodes[T]) isLeaf(row unsafe.Pointer, node int) bool { return n.next(row, node) == node }

// leavesOf finds the nodes at which rows leave a tree. The comparison of NaN is false, as for an element above the
// threshold. A row that has reached its leaf stays there until all rows have reached their leaves.
func (n *treeNodes[T]) leavesOf(m *graph.Mem, rows *[treeGroupRows]unsafe.Pointer, root int,
	leaves *[treeGroupRows]int) {
	// The current nodes of the rows are separate variables, so that they stay in registers.
	a, b, c, d, e, f, g, h := root, root, root, root, root, root, root, root
	for {
		for range stepsPerLeafTest {
			a, b, c, d = n.next(rows[0], a), n.next(rows[1], b), n.next(rows[2], c), n.next(rows[3], d)
			e, f, g, h = n.next(rows[4], e), n.next(rows[5], f), n.next(rows[6], g), n.next(rows[7], h)
		}
		if n.isLeaf(rows[0], a) && n.isLeaf(rows[1], b) && n.isLeaf(rows[2], c) && n.isLeaf(rows[3], d) &&
			n.isLeaf(rows[4], e) && n.isLeaf(rows[5], f) && n.isLeaf(rows[6], g) && n.isLeaf(rows[7], h) {
			*leaves = [treeGroupRows]int{a, b, c, d, e, f, g, h}
			return
		}
		m.CheckContextAfter(stepsPerLeafTest * treeGroupRows)
	}
}
