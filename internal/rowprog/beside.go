package rowprog

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
)

// Elements of a row may lie side by side, and rows next to one another: the channels of groups in an image with
// channels last. Columns then are all of these, each with a part of its row, and what parts fold is put together
// for each row, so that nothing is brought together and back (group_norm of [1,64,64,64] in 32 groups takes 0.25 of
// the time).

const (
	// mostBeside is how many parts a row has, at most: two groups of 64 channels take 0.31 ms so and 0.25 by rows.
	mostBeside = 32
	// leastPart is how many elements parts have, at least: of fewer there would be as much to put together.
	leastPart = 8
)

// parted reports whether rows next to one another have their elements side by side in all operands and results.
func (p *Plan) parted() bool {
	k, a := p.kept[0], p.red[0]
	if p.reduced == 0 || p.s.Scans() || k.n == 1 || len(p.red) < 2 || a.n > mostBeside || p.reduced < leastPart*a.n ||
		a.step[p.lead()] != p.metas[p.lead()].DType.Size() {
		return false
	}
	for i := range p.metas {
		if k.step[i] != a.n*a.step[i] {
			return false
		}
	}
	return true
}

// partRows makes columns of the parts of such rows.
func (p *Plan) partRows() {
	p.beside = 1
	if !p.columns || !p.parted() {
		return
	}
	k, a := &p.kept[0], p.red[0]
	p.beside = a.n
	k.n, k.step = k.n*a.n, a.step
	p.red, p.reduced = p.red[1:], p.reduced/a.n
}

// joinParts puts what the parts of rows have folded together, and leaves it with each of them.
func (p *Plan) joinParts(s *State, t tile, st *step) {
	if p.beside == 1 {
		return
	}
	for k := range st.folds {
		f := &st.folds[k]
		size, rows := p.objects[f.number].size, t.n/p.beside
		elem, parts, turned := strided.Move(size), s.base[f.number], s.base[f.upper]
		elem.Block(turned, parts, strided.Axis{N: rows, Dst: size, Src: p.beside * size},
			strided.Axis{N: p.beside, Dst: rows * size, Src: size})
		p.run(s, f.join, []unsafe.Pointer{turned, turned, unsafe.Add(turned, rows*size)}, []int{0, 0, rows * size}, rows,
			p.beside-1)
		elem.Block(parts, turned, strided.Axis{N: p.beside, Dst: size},
			strided.Axis{N: rows, Dst: p.beside * size, Src: size})
	}
}
