package interp

import (
	"bytes"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// A predicated block has the instructions whose values only one side of a selection needs. These instructions run
// directly before the selection. They are skipped in a block of elements whose mask never selects that side.

// predicatedBlock is a range of instructions, first to end-1, that are needed only for elements whose mask equals want.
type predicatedBlock struct {
	first, end expr.Value
	mask       expr.Value
	want       bool
}

// minBlockWork is the minimum work, in additions, of a predicated block. The mask needs an additional loop and a test.
const minBlockWork = 6

// branch is a candidate for a predicated block: one side of a selection.
type branch struct {
	parent int          // the branch that contains the selection
	depth  int          // number of enclosing branches
	want   bool         // the mask bit of the elements that take this side
	work   int          // in additions, inner branches included
	values []expr.Value // the values that only this branch needs
}

// blockFinder finds the branch in which each value is needed. Branch 0 is unconditional.
type blockFinder struct {
	code     *expr.Code
	branches []branch
	branchOf []int    // by value: its branch, or -1 if the value is not needed
	sides    [][2]int // by value: the branches of the two sides of a selection; 0 for other instructions
}

// predicateBlocks reorders the code so that the instructions of each predicated block are adjacent, and removes dead
// instructions. It returns the new code, the new value of each old value, and the blocks. An outer block precedes its
// inner blocks.
func predicateBlocks(c *expr.Code, folds []expr.Fold) (*expr.Code, []expr.Value, []predicatedBlock) {
	f := blockFinder{code: c, branches: make([]branch, 1), branchOf: make([]int, len(c.Insts)),
		sides: make([][2]int, len(c.Insts))}
	for v := range f.branchOf {
		f.branchOf[v] = -1
	}
	for _, o := range c.Out {
		f.markNeeded(o.Re, 0)
		f.markNeeded(o.Im, 0)
	}
	for _, x := range folds {
		f.markNeeded(x.V, 0)
	}
	for v := len(c.Insts) - 1; v >= 0; v-- {
		f.markOperands(expr.Value(v))
	}
	return f.order()
}

// markNeeded records that a value is needed in branch b, and moves the value to the innermost common parent of all its
// branches.
func (f *blockFinder) markNeeded(v expr.Value, b int) {
	if v == expr.None {
		return
	}
	for a := f.branchOf[v]; a >= 0 && a != b; {
		if f.branches[a].depth >= f.branches[b].depth {
			a = f.branches[a].parent
		} else {
			b = f.branches[b].parent
		}
	}
	f.branchOf[v] = b
}

// markOperands records where the operands of a value are needed. Constants and loads belong to branch 0.
func (f *blockFinder) markOperands(v expr.Value) {
	i := f.code.Insts[v]
	switch {
	case f.branchOf[v] < 0:
		return
	case i.Op == expr.Const || i.Op == expr.Load:
		f.branchOf[v] = 0
	}
	b := f.branchOf[v]
	f.branches[b].work += workOfOp(i.Op)
	if i.Op != expr.Select || i.A == i.B || i.A == i.C || i.B == i.C {
		for _, u := range i.Uses() {
			f.markNeeded(u, b)
		}
		return
	}
	f.markNeeded(i.A, b)
	shared := f.sharesBranches(v)
	for k, u := range []expr.Value{i.B, i.C} {
		if shared {
			f.sides[v][k] = f.sides[v+1][k]
		} else {
			f.sides[v][k] = len(f.branches)
			f.branches = append(f.branches, branch{parent: b, depth: f.branches[b].depth + 1, want: k == 0})
		}
		f.markNeeded(u, f.sides[v][k])
	}
}

// sharesBranches reports whether selection v has the mask of the next instruction, a selection that does not read v.
// The parts of a complex number are selected by such pairs: they share values that are needed only for the same mask.
func (f *blockFinder) sharesBranches(v expr.Value) bool {
	if int(v)+1 == len(f.code.Insts) || f.branchOf[v] != f.branchOf[v+1] || f.sides[v+1] == [2]int{} {
		return false
	}
	i := f.code.Insts[v+1]
	return i.A == f.code.Insts[v].A && i.B != v && i.C != v
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

// order builds the new code, in which branches with enough work are predicated blocks.
func (f *blockFinder) order() (*expr.Code, []expr.Value, []predicatedBlock) {
	blockOf := make([]int, len(f.branches)) // by branch: itself, or the innermost enclosing branch with enough work
	for k := len(f.branches) - 1; k > 0; k-- {
		f.branches[f.branches[k].parent].work += f.branches[k].work
	}
	for k := 1; k < len(f.branches); k++ {
		if blockOf[k] = k; f.branches[k].work < minBlockWork {
			blockOf[k] = blockOf[f.branches[k].parent]
		}
	}
	// Constants and loads come first, because other instructions may be moved to the front.
	for _, first := range []bool{true, false} {
		for v, b := range f.branchOf {
			if b >= 0 && (f.code.Insts[v].Op.Args() == 0) == first {
				b = blockOf[b]
				f.branches[b].values = append(f.branches[b].values, expr.Value(v))
			}
		}
	}
	c := &expr.Code{In: f.code.In, Funcs: f.code.Funcs}
	newValue := make([]expr.Value, len(f.code.Insts))
	for v := range newValue {
		newValue[v] = expr.None
	}
	var blocks []predicatedBlock
	var emit func(b int)
	emit = func(b int) {
		for _, v := range f.branches[b].values {
			i := f.code.Insts[v]
			for _, k := range f.sides[v] {
				if k > 0 && blockOf[k] == k && (v == 0 || f.sides[v-1] != f.sides[v]) {
					n := len(blocks)
					blocks = append(blocks, predicatedBlock{first: expr.Value(len(c.Insts)), mask: newValue[i.A],
						want: f.branches[k].want})
					emit(k)
					blocks[n].end = expr.Value(len(c.Insts))
				}
			}
			if i.Op != expr.Load {
				for _, u := range []*expr.Value{&i.A, &i.B, &i.C} {
					if *u != expr.None {
						*u = newValue[*u]
					}
				}
			}
			newValue[v] = expr.Value(len(c.Insts))
			c.Insts = append(c.Insts, i)
		}
	}
	emit(0)
	for _, o := range f.code.Out {
		if o.Re = newValue[o.Re]; o.Im != expr.None {
			o.Im = newValue[o.Im]
		}
		c.Out = append(c.Out, o)
	}
	return c, newValue, blocks
}

// openPredicates adds the mask tests of the predicated blocks that begin with instruction v.
func (m *preparer) openPredicates(v expr.Value) {
	for len(m.predicated) > 0 && m.predicated[0].first == v {
		a := m.predicated[0]
		m.predicated, m.openBlocks = m.predicated[1:], append(m.openBlocks, openBlock{a, len(m.body)})
		m.body = append(m.body, step{a: m.places[a.mask], want: a.want})
	}
}

// closePredicates closes the predicated blocks that end with instruction v.
func (m *preparer) closePredicates(v expr.Value) {
	for n := len(m.openBlocks) - 1; n >= 0 && m.openBlocks[n].block.end == v+1; n-- {
		test := m.openBlocks[n].step
		m.body[test].skip = len(m.body) - test - 1
		m.openBlocks = m.openBlocks[:n]
	}
}

// noElementWanted reports whether no element of a mask equals want.
func noElementWanted(mask operand, n int, want bool) bool {
	if mask.by == 0 {
		n = 1
	}
	elements := unsafe.Slice((*uint8)(unsafe.Add(mask.p, mask.at)), n)
	if want {
		return bytes.Equal(elements, falseMask[:n])
	}
	return bytes.IndexByte(elements, 0) < 0
}

// falseMask is a mask of a block, of the narrowest elements.
var falseMask [blockBytes]uint8
