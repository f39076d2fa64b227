package rowprog

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
)

// A row may consist of short runs of adjacent elements, and the runs of different rows may be adjacent too, as for the
// channel groups of a channels-last image. Each position in a run is then a column, which is a part of the row. Loops
// run along columns, and the folds of a row's parts are combined. Nothing is staged: group_norm of [1,64,64,64] in 32
// groups takes a quarter of the time.

const (
	// maxParts is the maximum number of parts of a row. Two groups of 64 channels take 0.31 ms with parts and 0.25 ms
	// by rows.
	maxParts = 32
	// minPartElements is the minimum number of elements of a part. Combining shorter parts would cost as much as
	// folding.
	minPartElements = 8
)

// hasParts reports whether rows consist of adjacent runs of adjacent elements in all operands and outputs.
func (p *Plan) hasParts() bool {
	k, a := p.kept[0], p.reduced[0]
	if p.rowLen == 0 || p.program.Scans() || k.n == 1 || len(p.reduced) < 2 || a.n > maxParts ||
		p.rowLen < minPartElements*a.n || a.step[p.leadOperand()] != p.metas[p.leadOperand()].DType.Size() {
		return false
	}
	for i := range p.metas {
		if k.step[i] != a.n*a.step[i] {
			return false
		}
	}
	return true
}

// splitRows replaces rows by their parts if loops run along columns and rows have parts.
func (p *Plan) splitRows() {
	p.rowParts = 1
	if !p.columns || !p.hasParts() {
		return
	}
	k, a := &p.kept[0], p.reduced[0]
	p.rowParts = a.n
	k.n, k.step = k.n*a.n, a.step
	p.reduced, p.rowLen = p.reduced[1:], p.rowLen/a.n
}

// joinParts combines the folds of the parts of each row, and stores the combined result for each part.
func (p *Plan) joinParts(s *State, t tile, st *compiledPass) {
	if p.rowParts == 1 {
		return
	}
	for k := range st.folds {
		f := &st.folds[k]
		size, rows := p.objects[f.result].size, t.n/p.rowParts
		elem, parts, transposed := strided.Move(size), s.base[f.result], s.base[f.upperAccs]
		elem.Block(transposed, parts, strided.Axis{N: rows, Dst: size, Src: p.rowParts * size},
			strided.Axis{N: p.rowParts, Dst: rows * size, Src: size})
		p.runLoop(s, f.join, []unsafe.Pointer{transposed, transposed, unsafe.Add(transposed, rows*size)},
			[]int{0, 0, rows * size}, rows, p.rowParts-1)
		elem.Block(parts, transposed, strided.Axis{N: p.rowParts, Dst: size},
			strided.Axis{N: rows, Dst: p.rowParts * size, Src: size})
	}
}
