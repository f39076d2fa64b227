package rowprog

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

const (
	// pieceElements are those of a piece, at most, unless the steps of its dimensions leave more: a part of the nearest
	// cache holds them from sweep to sweep.
	pieceElements = 1 << 12
	// leastSideBySide are those of pieces that are columns: of fewer there would be much to put together.
	leastSideBySide = 1 << 8
)

// Pieces is an expression over long rows made ready for fixed layouts, by way of pieces of them, which are rows for all
// sweeps, and whose results are put together afterwards ([expr.Pieces]). It is immutable and safe for concurrent use.
type Pieces struct {
	code  *expr.Pieces
	nouts int
	// each goes over pieces of one size and rest, which may be nil, over what is left behind them; join over what they
	// give. begin tells by output and operand of each where the rest begins, in bytes.
	each, rest, join *Plan
	begin            []int
	first            []int32 // by piece of a row: the place of its first element
	partial          []int   // where in scratch memory is what each fold gives, by row and piece
	scratch          int     // for those
}

// NewPieces plans an expression whose rows are cut, with outputs and operands as [New] has them; nil, without an error,
// where pieces do not tell what it asks for, or where its folds do not wait for one another, so that [New] cuts.
func NewPieces(c *expr.Code, outs, ins []tensor.Meta, mask []bool, way Way) (*Pieces, error) {
	metas := append(slices.Clone(outs), ins...)
	if err := checked(c, len(outs), metas, mask); err != nil {
		return nil, err
	}
	full, err := fullShape(metas, len(mask))
	if err != nil {
		return nil, err
	}
	kept, red := axesOf(full, metas, mask)
	kept, red = joined(kept, len(metas)), joined(red, len(metas))
	if n := elementsOf(red); n == 0 || n > expr.MaxCutPlaces || elementsOf(kept) == 0 {
		return nil, nil
	}
	uniform := make([]bool, len(ins))
	for i := range ins {
		uniform[i] = !slices.ContainsFunc(red, func(a axis) bool { return a.step[len(outs)+i] != 0 })
	}
	for o := range outs {
		if slices.ContainsFunc(red, func(a axis) bool { return a.step[o] != 0 }) {
			return nil, nil
		}
	}
	code, err := c.Pieces(uniform)
	if err != nil || code.Waits == 0 {
		return nil, nil //nolint:nilerr // such an expression has rows as a whole
	}
	p := &Pieces{code: code, nouts: len(outs)}
	return p, p.build(metas, kept, red, way)
}

// build cuts the axes of rows, of which there is the last first, and plans.
func (p *Pieces) build(metas []tensor.Meta, kept, red []axis, way Way) (err error) {
	inner, d := 1, 0
	for d < len(red)-1 && inner*red[d].n <= pieceElements {
		inner *= red[d].n
		d++
	}
	a, outer := red[d], red[d+1:]
	length := min(max(1, pieceElements/inner), a.n)
	if inner >= leastSideBySide && p.nearer(a, red[0]) {
		length = 1
	}
	whole, left := a.n/length, a.n%length
	along := (a.n + length - 1) / length
	pieces := along * elementsOf(outer)
	for k := range pieces {
		p.first = append(p.first, int32((k/along*a.n+k%along*length)*inner))
	}
	rows := elementsOf(kept)
	for _, o := range p.code.Each.Out {
		p.partial = append(p.partial, p.scratch)
		p.scratch += (rows*pieces*o.DType.Size() + tensor.Align - 1) &^ (tensor.Align - 1)
	}
	l := layout{p: p, metas: metas, kept: kept, pieces: pieces}
	piece := func(blocks, n int) (*Plan, error) {
		l.begin()
		for i := len(outer) - 1; i >= 0; i-- {
			l.axis(outer[i].n, outer[i].step, 1, along*elementsOf(outer[:i]), false)
		}
		l.axis(blocks, a.step, length, 1, false)
		l.axis(n, a.step, 1, 0, true)
		for _, b := range slices.Backward(red[:d]) {
			l.axis(b.n, b.step, 1, 0, true)
		}
		return New(p.code.Each, l.outs, l.ins, l.mask, way)
	}
	if p.each, err = piece(whole, length); err != nil {
		return err
	}
	if left > 0 {
		p.begin = l.behind(whole, whole*length, a.step)
		if p.rest, err = piece(1, left); err != nil {
			return err
		}
	}
	p.join, err = l.joining(way)
	return err
}

// nearer reports whether elements lie nearer along axis a than along b.
func (p *Pieces) nearer(a, b axis) bool {
	for i, s := range a.step[p.nouts:] {
		if r := b.step[p.nouts+i]; s != 0 && r != 0 {
			return max(s, -s) < max(r, -r)
		}
	}
	return false
}

// layout makes the metas of plans: of pieces outputs are what folds give, by row and piece in scratch memory, and
// operands those of the whole and the places of pieces.
type layout struct {
	p         *Pieces
	metas     []tensor.Meta
	kept      []axis
	pieces    int
	outs, ins []tensor.Meta
	mask      []bool
}

// begin begins with the kept axes.
func (l *layout) begin() {
	l.outs, l.ins, l.mask = nil, nil, nil
	for _, o := range l.p.code.Each.Out {
		l.outs = append(l.outs, tensor.Meta{DType: o.DType})
	}
	for _, m := range l.metas[l.p.nouts:] {
		l.ins = append(l.ins, tensor.Meta{DType: m.DType})
	}
	l.ins = append(l.ins, tensor.Meta{DType: tensor.Int32})
	for d, a := range slices.Backward(l.kept) {
		l.axis(a.n, a.step, 1, l.pieces*elementsOf(l.kept[:d]), false)
		l.ins[len(l.ins)-1].Strides[len(l.mask)-1] = 0
	}
}

// axis adds one of n positions to all metas: of operands so many steps apart, of partial results so many elements.
func (l *layout) axis(n int, step []int, steps, partial int, reduced bool) {
	l.mask = append(l.mask, reduced)
	for i := range l.outs {
		extend(&l.outs[i], n, partial)
		if reduced {
			l.outs[i].Shape[len(l.mask)-1] = 1
		}
	}
	last := len(l.ins) - 1
	for i := range l.ins[:last] {
		extend(&l.ins[i], n, step[l.p.nouts+i]*steps/l.ins[i].DType.Size())
	}
	extend(&l.ins[last], n, partial)
}

func extend(m *tensor.Meta, n, stride int) {
	m.Shape, m.Strides = append(m.Shape, n), append(m.Strides, stride)
}

// behind tells by output and operand of pieces where what is behind so many pieces, of so many positions along an axis,
// begins.
func (l *layout) behind(pieces, positions int, step []int) (bytes []int) {
	for _, o := range l.outs {
		bytes = append(bytes, pieces*o.DType.Size())
	}
	for _, s := range step[l.p.nouts:] {
		bytes = append(bytes, positions*s)
	}
	return append(bytes, pieces*tensor.Int32.Size())
}

// joining plans what puts pieces together.
func (l *layout) joining(way Way) (*Plan, error) {
	code, nouts := l.p.code, l.p.nouts
	var outs, ins []tensor.Meta
	for _, m := range l.metas[:nouts] {
		outs = append(outs, tensor.Meta{DType: m.DType})
	}
	for _, d := range code.Join.In {
		ins = append(ins, tensor.Meta{DType: d})
	}
	folds := len(code.Each.Out)
	add := func(n, partial int, step func(i int) int) {
		for i := range outs {
			extend(&outs[i], n, step(i)/outs[i].DType.Size())
		}
		for i := range ins {
			if i < folds {
				extend(&ins[i], n, partial)
				continue
			}
			extend(&ins[i], n, step(nouts+code.In[i-folds])/ins[i].DType.Size())
		}
	}
	for d, a := range slices.Backward(l.kept) {
		add(a.n, l.pieces*elementsOf(l.kept[:d]), func(i int) int { return a.step[i] })
	}
	add(l.pieces, 1, func(int) int { return 0 })
	mask := make([]bool, len(l.kept)+1)
	mask[len(l.kept)] = true
	return New(code.Join, outs, ins, mask, way)
}

// stage is what a phase has of the plan of pieces and of that of what is left, or of that which puts them together.
func (p *Pieces) stage(phase int) (first, second *Plan, of int) {
	pieces := p.each.Phases()
	if p.rest != nil {
		pieces = max(pieces, p.rest.Phases())
	}
	if phase >= pieces {
		return p.join, nil, phase - pieces
	}
	return p.each, p.rest, phase
}

// Phases returns the number of phases, as [Plan.Phases] does.
func (p *Pieces) Phases() int {
	n := p.each.Phases()
	if p.rest != nil {
		n = max(n, p.rest.Phases())
	}
	return n + p.join.Phases()
}

// Chunks returns the number of chunks of a phase, as [Plan.Chunks] does.
func (p *Pieces) Chunks(phase int) int {
	first, second, of := p.stage(phase)
	return first.chunksOf(of) + second.chunksOf(of)
}

// chunksOf is Chunks of a plan that may have no such phase, or not be there.
func (p *Plan) chunksOf(phase int) int {
	if p == nil || phase >= p.Phases() {
		return 0
	}
	return p.Chunks(phase)
}

// Scratch and Worker return bytes, as those of [Plan] do.
func (p *Pieces) Scratch() int {
	n := p.scratch + max(p.each.Scratch(), p.join.Scratch())
	if p.rest != nil {
		n += p.rest.Scratch()
	}
	return n
}

// Worker is told with Scratch.
func (p *Pieces) Worker() int {
	n := max(p.each.Worker(), p.join.Worker())
	if p.rest != nil {
		n = max(n, p.rest.Worker())
	}
	return n
}

// PerElement estimates what an element of the whole takes, as [Plan.PerElement] does.
func (p *Pieces) PerElement() (ns float64) {
	if !p.Compiled() {
		return 0
	}
	return p.each.PerElement() + p.join.PerElement()/float64(p.each.reduced)
}

// Compiled reports whether all loops are machine code.
func (p *Pieces) Compiled() bool {
	return p.each.Compiled() && p.join.Compiled() && (p.rest == nil || p.rest.Compiled())
}

// InPlace returns nothing: no output has an element for each of the rows'.
func (p *Pieces) InPlace() [][2]int { return nil }

// Listings tells what was made of all loops.
func (p *Pieces) Listings() (list []expr.Listing) {
	add := func(q *Plan, name string) {
		for _, l := range q.Listings() {
			l.Name = name + ": " + l.Name
			list = append(list, l)
		}
	}
	add(p.each, fmt.Sprintf("pieces of %d elements", p.each.reduced))
	if p.rest != nil {
		add(p.rest, fmt.Sprintf("pieces of the last %d elements", p.rest.reduced))
	}
	add(p.join, "pieces put together")
	return list
}

// Run runs a chunk of a phase, as [Plan.Run] does.
func (p *Pieces) Run(s *State, phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error {
	operands := len(p.code.Each.In) - 1
	switch {
	case phase < 0 || phase >= p.Phases() || chunk < 0 || chunk >= p.Chunks(phase):
		return fmt.Errorf("rowprog: chunk %d of phase %d, which there is not", chunk, phase)
	case len(ptrs) < p.nouts+operands:
		return fmt.Errorf("rowprog: %d addresses for %d outputs and operands", len(ptrs), p.nouts+operands)
	case len(scratch) < p.Scratch():
		return fmt.Errorf("rowprog: %d bytes of scratch memory of %d", len(scratch), p.Scratch())
	}
	defer func() { clear(s.pieces) }()
	q, rest, of := p.stage(phase)
	s.pieces = s.pieces[:0]
	own := scratch[p.scratch:]
	if q == p.join {
		s.pieces = append(s.pieces, ptrs[:p.nouts]...)
		for _, at := range p.partial {
			s.pieces = append(s.pieces, unsafe.Pointer(&scratch[at]))
		}
		for _, i := range p.code.In {
			s.pieces = append(s.pieces, ptrs[p.nouts+i])
		}
		return q.Run(s, of, chunk, s.pieces, own, worker)
	}
	for _, at := range p.partial {
		s.pieces = append(s.pieces, unsafe.Pointer(&scratch[at]))
	}
	s.pieces = append(s.pieces, ptrs[p.nouts:p.nouts+operands]...)
	s.pieces = append(s.pieces, unsafe.Pointer(unsafe.SliceData(p.first)))
	if n := q.chunksOf(of); chunk >= n {
		for i, at := range p.begin {
			s.pieces[i] = unsafe.Add(s.pieces[i], at)
		}
		return rest.Run(s, of, chunk-n, s.pieces, own[q.Scratch():], worker)
	}
	return q.Run(s, of, chunk, s.pieces, own, worker)
}
