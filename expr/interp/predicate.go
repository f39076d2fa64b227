package interp

import (
	"bytes"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// A predicated range has the instructions whose values only one side of a selection needs. These instructions run
// directly before the selection. They are skipped in a block of elements whose mask never selects that side. preparer
// (prepare.go) makes the steps of a loop from instructions, and a step for each mask test. For example, the steps of
// where(x > 0, log(x), sin(x) * 2) are:
//
//	m = x > 0
//	if no element of m is true, skip 1 step       range of 1 instruction, maskBit true
//	    a = log(x)
//	if no element of m is false, skip 2 steps     range of 2 instructions, maskBit false
//	    b = sin(x)
//	    c = b * 2
//	y = select(m, a, c)

// predicatedRange is a range of instructions, first to end-1, that are needed only for elements whose mask equals
// maskBit.
type predicatedRange struct {
	first, end expr.Value
	mask       expr.Value
	maskBit    bool
}

// minRangeWork is the minimum work of a predicated range, in additions. It corresponds to the cost of the range: an
// additional loop for the mask, and a test.
const minRangeWork = 6

// orderByPredicate reorders the code so that the instructions of each predicated range are adjacent, and removes dead
// instructions. It returns the new code, the new value of each old value, and the ranges. An outer range precedes its
// inner ranges.
func orderByPredicate(code *expr.Code, folds []expr.Fold) (ordered *expr.Code, newValue []expr.Value,
	ranges []predicatedRange) {
	finder := branchFinder{code: code, branches: make([]branch, 1), branchOf: make([]int, len(code.Insts)),
		sides: make([][2]int, len(code.Insts))}
	for v := range finder.branchOf {
		finder.branchOf[v] = -1
	}
	const unconditional = 0 // the branch of values that are needed for all elements
	for _, output := range code.Out {
		finder.markNeeded(output.Re, unconditional)
		finder.markNeeded(output.Im, unconditional)
	}
	for _, fold := range folds {
		finder.markNeeded(fold.Value, unconditional)
	}
	for v := len(code.Insts) - 1; v >= 0; v-- { // readers before their operands, and v+1 before v (sharesBranches)
		finder.markOperands(expr.Value(v))
	}
	return finder.buildOrdered()
}

// branchFinder finds the branch in which each value is needed. Branch 0 is unconditional. In the example, the selection
// y has the sides [1, 2]: branch 1 (maskBit true) has the value a, branch 2 (maskBit false) has b and c, and branch 0
// has all other values.
type branchFinder struct {
	code     *expr.Code
	branches []branch
	branchOf []int    // indexed by value: its branch, or -1 if the value is not needed
	sides    [][2]int // indexed by value: the branches of the two sides of a selection; 0 for other instructions
}

// branch is a candidate for a predicated range: one side of a selection.
type branch struct {
	parent  int          // the branch that contains the selection
	depth   int          // number of enclosing branches
	maskBit bool         // the mask bit of the elements that take this side
	work    int          // time per element in additions, inner branches included
	values  []expr.Value // the values that only this branch, or an inner branch without a range of its own, needs
}

// markNeeded records that a value is needed in a branch, and moves the value to the innermost common parent of all its
// branches.
func (finder *branchFinder) markNeeded(v expr.Value, neededIn int) {
	if v == expr.None {
		return
	}
	// The deeper of both branches is replaced by its parent until both are the same.
	for earlier := finder.branchOf[v]; earlier >= 0 && earlier != neededIn; {
		if finder.branches[earlier].depth >= finder.branches[neededIn].depth {
			earlier = finder.branches[earlier].parent
		} else {
			neededIn = finder.branches[neededIn].parent
		}
	}
	finder.branchOf[v] = neededIn
}

// markOperands records where the operands of a value are needed. Constants and loads belong to branch 0.
func (finder *branchFinder) markOperands(v expr.Value) {
	inst := finder.code.Insts[v]
	switch {
	case finder.branchOf[v] < 0: // not needed
		return
	case inst.Op == expr.Const || inst.Op == expr.Load: // no operands, but counted below, with work 0
		finder.branchOf[v] = 0
	}
	parent := finder.branchOf[v]
	finder.branches[parent].work += workOfOp(inst.Op)
	hasSides := inst.Op == expr.Select && inst.A != inst.B && inst.A != inst.C && inst.B != inst.C
	if !hasSides {
		for _, operand := range inst.Operands() {
			finder.markNeeded(operand, parent)
		}
		return
	}
	finder.markNeeded(inst.A, parent)
	isShared := finder.sharesBranches(v)
	for side, operand := range []expr.Value{inst.B, inst.C} {
		if isShared {
			finder.sides[v][side] = finder.sides[v+1][side]
		} else {
			finder.sides[v][side] = len(finder.branches)
			finder.branches = append(finder.branches, branch{parent: parent, depth: finder.branches[parent].depth + 1,
				maskBit: side == 0})
		}
		finder.markNeeded(operand, finder.sides[v][side])
	}
}

// sharesBranches reports whether the next instruction is a selection that has the mask of selection v and does not read
// v. Such pairs select the two parts of a complex number. They share values that are needed only on one side of the
// mask.
func (finder *branchFinder) sharesBranches(v expr.Value) bool {
	isLast := int(v)+1 == len(finder.code.Insts)
	if isLast || finder.branchOf[v] != finder.branchOf[v+1] || finder.sides[v+1] == [2]int{} { // v+1 has no sides
		return false
	}
	inst := finder.code.Insts[v+1]
	return inst.A == finder.code.Insts[v].A && inst.B != v && inst.C != v
}

// workOfOp returns the cost of an operation in additions.
func workOfOp(op expr.Op) int {
	switch {
	case op == expr.Const || op == expr.Load:
		return 0
	case op == expr.Div || op == expr.Sqrt:
		return 2
	case op.Primitive():
		return 1
	}
	return 10 // an elementary function
}

// buildOrdered builds the new code, in which branches with enough work are predicated ranges. The two selections of a
// pair ([branchFinder.sharesBranches]) have the same branches. Their ranges are emitted before the first selection of
// the pair.
func (finder *branchFinder) buildOrdered() (ordered *expr.Code, newValue []expr.Value, ranges []predicatedRange) {
	rangeBranch := finder.rangeBranches()
	// Constants and loads come first, because other instructions may be moved to the front.
	for _, listsLeaves := range []bool{true, false} { // whether this pass lists constants and loads
		for v, branchIndex := range finder.branchOf {
			isLeaf, isNeeded := finder.code.Insts[v].Op.ArgCount() == 0, branchIndex >= 0
			if isNeeded && isLeaf == listsLeaves {
				target := &finder.branches[rangeBranch[branchIndex]]
				target.values = append(target.values, expr.Value(v))
			}
		}
	}
	builder := orderedBuilder{branchFinder: finder, rangeBranch: rangeBranch,
		ordered:  &expr.Code{In: finder.code.In, Funcs: finder.code.Funcs},
		newValue: make([]expr.Value, len(finder.code.Insts))}
	for v := range builder.newValue {
		builder.newValue[v] = expr.None
	}
	builder.emitBranch(0)
	for _, output := range finder.code.Out {
		if output.Re = builder.newValue[output.Re]; output.Im != expr.None {
			output.Im = builder.newValue[output.Im]
		}
		builder.ordered.Out = append(builder.ordered.Out, output)
	}
	return builder.ordered, builder.newValue, builder.ranges
}

// rangeBranches returns, for each branch, the branch whose predicated range has its instructions. This is the branch
// itself if it has enough work, otherwise the innermost enclosing branch with enough work. rangeBranches adds the work
// of inner branches to their parents.
func (finder *branchFinder) rangeBranches() []int {
	rangeBranch := make([]int, len(finder.branches))
	for branchIndex := len(finder.branches) - 1; branchIndex > 0; branchIndex-- {
		finder.branches[finder.branches[branchIndex].parent].work += finder.branches[branchIndex].work
	}
	for branchIndex := 1; branchIndex < len(finder.branches); branchIndex++ { // a parent precedes its inner branches
		if rangeBranch[branchIndex] = branchIndex; finder.branches[branchIndex].work < minRangeWork {
			rangeBranch[branchIndex] = rangeBranch[finder.branches[branchIndex].parent]
		}
	}
	return rangeBranch
}

// orderedBuilder builds the new code from the branches that a branchFinder found.
type orderedBuilder struct {
	*branchFinder
	rangeBranch []int             // the result of rangeBranches
	ordered     *expr.Code        // the new code
	newValue    []expr.Value      // indexed by value of the old code: its value in the new code
	ranges      []predicatedRange // the predicated ranges of the new code
}

// emitBranch appends the instructions of a branch to the new code. The predicated ranges of a selection precede it.
func (builder *orderedBuilder) emitBranch(branchIndex int) {
	for _, v := range builder.branches[branchIndex].values {
		inst := builder.code.Insts[v]
		for _, side := range builder.sides[v] {
			isRange := side > 0 && builder.rangeBranch[side] == side
			isSecondOfPair := v > 0 && builder.sides[v-1] == builder.sides[v] // the ranges precede the first
			if isRange && !isSecondOfPair {
				builder.emitRange(side, builder.newValue[inst.A])
			}
		}
		if inst.Op != expr.Load {
			for _, operand := range []*expr.Value{&inst.A, &inst.B, &inst.C} {
				if *operand != expr.None {
					*operand = builder.newValue[*operand]
				}
			}
		}
		builder.newValue[v] = expr.Value(len(builder.ordered.Insts))
		builder.ordered.Insts = append(builder.ordered.Insts, inst)
	}
}

// emitRange appends the instructions of a branch to the new code as a predicated range. mask is a value of the new
// code.
func (builder *orderedBuilder) emitRange(branchIndex int, mask expr.Value) {
	rangeIndex := len(builder.ranges) // inner ranges follow
	builder.ranges = append(builder.ranges, predicatedRange{first: expr.Value(len(builder.ordered.Insts)), mask: mask,
		maskBit: builder.branches[branchIndex].maskBit})
	builder.emitBranch(branchIndex)
	builder.ranges[rangeIndex].end = expr.Value(len(builder.ordered.Insts))
}

// openPredicates adds the mask tests of the predicated ranges that begin with instruction v.
func (prep *preparer) openPredicates(v expr.Value) {
	for len(prep.predicated) > 0 && prep.predicated[0].first == v {
		next, test := prep.predicated[0], len(prep.blockSteps) // test: index of the step of the mask test
		prep.predicated, prep.openRanges = prep.predicated[1:], append(prep.openRanges, openRange{next, test})
		prep.blockSteps = append(prep.blockSteps, step{a: prep.values[next.mask].place, maskBit: next.maskBit})
	}
}

// closePredicates closes the predicated ranges that end with instruction v.
func (prep *preparer) closePredicates(v expr.Value) {
	for i := len(prep.openRanges) - 1; i >= 0 && prep.openRanges[i].instructions.end == v+1; i-- {
		test := prep.openRanges[i].step
		prep.blockSteps[test].skipCount = len(prep.blockSteps) - test - 1
		prep.openRanges = prep.openRanges[:i]
	}
}

// noElementEquals reports whether no element of a mask equals bit.
func noElementEquals(mask operand, count int, bit bool) bool {
	if mask.stride == 0 { // one element for the whole block
		count = 1
	}
	elements := unsafe.Slice((*uint8)(unsafe.Add(mask.ptr, mask.offset)), count)
	if bit {
		return bytes.Equal(elements, falseMask[:count])
	}
	return bytes.IndexByte(elements, 0) < 0
}

// falseMask is a mask that is false everywhere. It has the length of a block of bytes, the longest block.
var falseMask [blockBytes]uint8
