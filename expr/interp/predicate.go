package interp

import (
	"bytes"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// A predicated range has the instructions whose values only one side of a selection needs. These instructions run
// directly before the selection. They are skipped in a block of elements whose mask never selects that side.

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

// branch is a candidate for a predicated range: one side of a selection.
type branch struct {
	parent  int          // the branch that contains the selection
	depth   int          // number of enclosing branches
	maskBit bool         // the mask bit of the elements that take this side
	work    int          // time per element in additions, inner branches included
	values  []expr.Value // the values that only this branch needs
}

// branchFinder finds the branch in which each value is needed. Branch 0 is unconditional.
type branchFinder struct {
	code     *expr.Code
	branches []branch
	branchOf []int    // indexed by value: its branch, or -1 if the value is not needed
	sides    [][2]int // indexed by value: the branches of the two sides of a selection; 0 for other instructions
}

// predicate reorders the code so that the instructions of each predicated range are adjacent, and removes dead
// instructions. It returns the new code, the new value of each old value, and the ranges. An outer range precedes its
// inner ranges.
func predicate(code *expr.Code, folds []expr.Fold) (*expr.Code, []expr.Value, []predicatedRange) {
	finder := branchFinder{code: code, branches: make([]branch, 1), branchOf: make([]int, len(code.Insts)),
		sides: make([][2]int, len(code.Insts))}
	for v := range finder.branchOf {
		finder.branchOf[v] = -1
	}
	for _, o := range code.Out {
		finder.markNeeded(o.Re, 0)
		finder.markNeeded(o.Im, 0)
	}
	for _, f := range folds {
		finder.markNeeded(f.Value, 0)
	}
	for v := len(code.Insts) - 1; v >= 0; v-- {
		finder.markOperands(expr.Value(v))
	}
	return finder.order()
}

// markNeeded records that a value is needed in branch b, and moves the value to the innermost common parent of all its
// branches.
func (finder *branchFinder) markNeeded(v expr.Value, b int) {
	if v == expr.None {
		return
	}
	for a := finder.branchOf[v]; a >= 0 && a != b; {
		if finder.branches[a].depth >= finder.branches[b].depth {
			a = finder.branches[a].parent
		} else {
			b = finder.branches[b].parent
		}
	}
	finder.branchOf[v] = b
}

// markOperands records where the operands of a value are needed. Constants and loads belong to branch 0.
func (finder *branchFinder) markOperands(v expr.Value) {
	inst := finder.code.Insts[v]
	switch {
	case finder.branchOf[v] < 0:
		return
	case inst.Op == expr.Const || inst.Op == expr.Load:
		finder.branchOf[v] = 0
	}
	b := finder.branchOf[v]
	finder.branches[b].work += workOfOp(inst.Op)
	if inst.Op != expr.Select || inst.A == inst.B || inst.A == inst.C || inst.B == inst.C {
		for _, u := range inst.Operands() {
			finder.markNeeded(u, b)
		}
		return
	}
	// A selection with three different operands: each side is a branch.
	finder.markNeeded(inst.A, b)
	shared := finder.sharesBranches(v)
	for k, u := range []expr.Value{inst.B, inst.C} {
		if shared {
			finder.sides[v][k] = finder.sides[v+1][k]
		} else {
			finder.sides[v][k] = len(finder.branches)
			finder.branches = append(finder.branches, branch{parent: b, depth: finder.branches[b].depth + 1, maskBit: k == 0})
		}
		finder.markNeeded(u, finder.sides[v][k])
	}
}

// sharesBranches reports whether selection v has the mask of the next instruction, a selection that does not read v.
// The parts of a complex number are selected by such pairs: they share values that are needed only for the same mask.
func (finder *branchFinder) sharesBranches(v expr.Value) bool {
	if int(v)+1 == len(finder.code.Insts) || finder.branchOf[v] != finder.branchOf[v+1] || finder.sides[v+1] == [2]int{} {
		return false
	}
	inst := finder.code.Insts[v+1]
	return inst.A == finder.code.Insts[v].A && inst.B != v && inst.C != v
}

// workOfOp returns the cost of an operation in additions.
func workOfOp(o expr.Op) int {
	switch {
	case o == expr.Const || o == expr.Load:
		return 0
	case o == expr.Div || o == expr.Sqrt:
		return 2
	case o.Primitive():
		return 1
	}
	return 10
}

// order builds the new code, in which branches with enough work are predicated ranges. The two selections of a pair
// ([branchFinder.sharesBranches]) have the same branches. Their ranges are emitted before the first selection of the
// pair.
func (finder *branchFinder) order() (*expr.Code, []expr.Value, []predicatedRange) {
	// rangeBranch[b] is the branch b if it has enough work, otherwise the innermost enclosing branch that has.
	rangeBranch := make([]int, len(finder.branches))
	for k := len(finder.branches) - 1; k > 0; k-- {
		finder.branches[finder.branches[k].parent].work += finder.branches[k].work
	}
	for k := 1; k < len(finder.branches); k++ {
		if rangeBranch[k] = k; finder.branches[k].work < minRangeWork {
			rangeBranch[k] = rangeBranch[finder.branches[k].parent]
		}
	}
	// Constants and loads come first, because other instructions may be moved to the front.
	for _, listsLeaves := range []bool{true, false} { // whether this pass lists constants and loads
		for v, b := range finder.branchOf {
			if b >= 0 && (finder.code.Insts[v].Op.ArgCount() == 0) == listsLeaves {
				b = rangeBranch[b]
				finder.branches[b].values = append(finder.branches[b].values, expr.Value(v))
			}
		}
	}
	code := &expr.Code{In: finder.code.In, Funcs: finder.code.Funcs}
	newValue := make([]expr.Value, len(finder.code.Insts))
	for v := range newValue {
		newValue[v] = expr.None
	}
	var ranges []predicatedRange
	var emit func(b int) // appends the instructions of branch b to code
	emit = func(b int) {
		for _, v := range finder.branches[b].values {
			inst := finder.code.Insts[v]
			for _, k := range finder.sides[v] {
				if k > 0 && rangeBranch[k] == k && (v == 0 || finder.sides[v-1] != finder.sides[v]) {
					n := len(ranges)
					ranges = append(ranges, predicatedRange{first: expr.Value(len(code.Insts)), mask: newValue[inst.A],
						maskBit: finder.branches[k].maskBit})
					emit(k)
					ranges[n].end = expr.Value(len(code.Insts))
				}
			}
			if inst.Op != expr.Load {
				for _, u := range []*expr.Value{&inst.A, &inst.B, &inst.C} {
					if *u != expr.None {
						*u = newValue[*u]
					}
				}
			}
			newValue[v] = expr.Value(len(code.Insts))
			code.Insts = append(code.Insts, inst)
		}
	}
	emit(0)
	for _, o := range finder.code.Out {
		if o.Re = newValue[o.Re]; o.Im != expr.None {
			o.Im = newValue[o.Im]
		}
		code.Out = append(code.Out, o)
	}
	return code, newValue, ranges
}

// openPredicates adds the mask tests of the predicated ranges that begin with instruction v.
func (prep *preparer) openPredicates(v expr.Value) {
	for len(prep.predicated) > 0 && prep.predicated[0].first == v {
		next := prep.predicated[0]
		prep.predicated, prep.openRanges = prep.predicated[1:], append(prep.openRanges, openRange{next, len(prep.body)})
		prep.body = append(prep.body, step{a: prep.places[next.mask], maskBit: next.maskBit})
	}
}

// closePredicates closes the predicated ranges that end with instruction v.
func (prep *preparer) closePredicates(v expr.Value) {
	for n := len(prep.openRanges) - 1; n >= 0 && prep.openRanges[n].instructions.end == v+1; n-- {
		test := prep.openRanges[n].step
		prep.body[test].skipCount = len(prep.body) - test - 1
		prep.openRanges = prep.openRanges[:n]
	}
}

// noElementEquals reports whether no element of a mask equals bit.
func noElementEquals(mask operand, n int, bit bool) bool {
	if mask.stride == 0 {
		n = 1
	}
	elements := unsafe.Slice((*uint8)(unsafe.Add(mask.ptr, mask.offset)), n)
	if bit {
		return bytes.Equal(elements, falseMask[:n])
	}
	return bytes.IndexByte(elements, 0) < 0
}

// falseMask is the mask false of a block of bytes, which is the longest block.
var falseMask [blockBytes]uint8
