package rowprog

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// object is memory that loops of a tile read or write: outputs, operands, and what lies in the worker's memory: copies
// of those, rows, numbers, accumulators.
type object struct {
	ptr  int // among outputs and operands, or -1
	at   int // in the worker's memory
	size int // of an element
	kept int // bytes from a position along kept[0] to the next
	red  []int
	// Of what lies in the worker's memory there are so many copies, so many bytes apart: one for each tile that sweeps are
	// at at a time.
	copies, apart int
}

func (o *object) along(ax int) int {
	switch {
	case ax == kept0:
		return o.kept
	case ax < 0 || ax >= len(o.red):
		return 0
	}
	return o.red[ax]
}

// move copies an operand to the worker's memory before the sweeps, or an output out of it afterwards.
type move struct {
	whole    bool // of all of the tile's elements, else of one a row
	back     bool
	from, to int // objects
	elem     strided.Elem
}

// step is a sweep made ready.
type step struct {
	loop  *loops.Loop
	slots []int // objects of the loop's outputs, operands and accumulators; -1 for none
	folds []fold
	// several is the loop for so many elements of each column, whose pointers are found by those of the other.
	several  *loops.Loop
	elements int
	from     []part

	scans []scan

	after      *loops.Loop
	afterSlots []int
}

// part is a slot of a step, and so many of its rows further on.
type part struct{ slot, element int }

// fold is a fold of a sweep.
type fold struct {
	number, acc, upper int // objects; no acc where loops leave totals
	neutral            [expr.Lanes * 8]byte
	combine            func(dst, acc unsafe.Pointer, n int)
	join               *loops.Loop // of accumulators by columns, and of pieces
}

// partial is where the pieces of a fold wait in scratch memory: for each tile one behind the other.
type partial struct{ at, size int }

// builder makes the objects and loops of a plan.
type builder struct {
	*Plan
	outs, ins     []int // objects that loops use
	numberIns     map[int]int
	numberOuts    map[int]int
	rows, numbers []int
}

// build makes everything for sweeps that run at once, by rows or else by tiles, if that is possible, else for one after
// the other. Of crowded ones two rows go together, which read what they share once.
func (p *Plan) build() error {
	ways := []int{1, 0}
	if p.crowded() {
		ways = []int{2}
	}
	for _, p.group = range ways {
		if !p.overlappable() || p.group > 0 && !p.pipelineable(p.group) {
			continue
		}
		p.depth = len(p.s.Passes)
		if err := p.make(); err != nil || p.all != nil {
			return err
		}
		p.objects, p.moves, p.steps, p.worker, p.fence = nil, nil, nil, 0, false
	}
	p.depth, p.group = 1, 0
	return p.make()
}

func (p *Plan) make() error {
	b := &builder{Plan: p, numberIns: map[int]int{}, numberOuts: map[int]int{}}
	b.streams()
	for k, r := range p.s.Rows {
		if r.Out >= 0 && (!p.far(r.Out) || r.Scan != expr.Invalid) {
			b.rows = append(b.rows, b.outs[r.Out])
			continue
		}
		b.rows = append(b.rows, b.room(r.DType.Size(), p.rowCopies(k)))
	}
	for _, d := range p.s.Numbers {
		b.numbers = append(b.numbers, b.number(d.Size()))
	}
	for k := range p.s.Passes {
		if err := b.step(k); err != nil {
			return err
		}
	}
	if p.depth > 1 {
		return b.overlap()
	}
	return nil
}

// memory gives a new object room in the worker's memory.
func (b *builder) memory(bytes int, o object) int {
	o.ptr, o.at = -1, b.worker
	o.copies, o.apart = max(1, o.copies), (bytes+tensor.Align-1)&^(tensor.Align-1)
	b.worker += o.copies * o.apart
	b.objects = append(b.objects, o)
	return len(b.objects) - 1
}

// room is memory for all elements of so many tiles.
func (b *builder) room(size, copies int) int {
	o := object{size: size, copies: copies, red: make([]int, len(b.red))}
	n := size
	if b.columns {
		o.kept = n
		n *= b.span(kept0)
	}
	for d := range b.red {
		o.red[d] = n
		n *= b.span(d)
	}
	if !b.columns {
		n = (n + 63) &^ 63
		if b.group == 0 { // else there is one row
			o.kept = n
			n *= b.span(kept0)
		}
	}
	return b.memory(n, o)
}

// number is memory for one element a row: of a tile, or of a chunk where sweeps are at its rows.
func (b *builder) number(size int) int {
	if b.group > 0 {
		return b.memory(size*b.tile*b.perChunk, object{size: size, kept: size, red: make([]int, len(b.red))})
	}
	return b.memory(size*b.tile, object{size: size, kept: size, copies: b.depth, red: make([]int, len(b.red))})
}

// streams makes the objects of outputs and operands, and copies of those that loops cannot take as they lie.
func (b *builder) streams() {
	n := len(b.metas)
	for i, m := range b.metas {
		o := object{ptr: i, size: m.DType.Size(), kept: b.kept[0].step[i]}
		for _, a := range b.red {
			o.red = append(o.red, a.step[i])
		}
		b.objects = append(b.objects, o)
	}
	used := make([]int, n)
	for i := range b.metas {
		used[i] = i
		switch {
		case b.suits(i):
		case b.differs(i):
			used[i] = b.room(b.objects[i].size, 1)
			b.moves = append(b.moves, move{whole: true, back: i < b.nouts, from: i, to: used[i],
				elem: strided.Move(b.objects[i].size)})
		case b.columns && i >= b.nouts:
			used[i] = b.numberIn(i)
		}
	}
	b.outs, b.ins = used[:b.nouts], used[b.nouts:]
}

// numberIn returns the object of an operand with one element a row as a run over the tile.
func (b *builder) numberIn(i int) int {
	o := &b.objects[i]
	if o.kept == o.size || o.kept == 0 || b.tile == 1 {
		return i
	}
	if have, ok := b.numberIns[i]; ok {
		return have
	}
	to := b.number(o.size)
	b.moves = append(b.moves, move{from: i, to: to, elem: strided.Move(b.objects[i].size)})
	b.numberIns[i] = to
	return to
}

// numberOut is numberIn for an output.
func (b *builder) numberOut(i int) int {
	o := &b.objects[i]
	if o.kept == o.size || b.tile == 1 {
		return i
	}
	if have, ok := b.numberOuts[i]; ok {
		return have
	}
	to := b.number(o.size)
	b.moves = append(b.moves, move{back: true, from: i, to: to, elem: strided.Move(b.objects[i].size)})
	b.numberOuts[i] = to
	return to
}

// place returns the object at a place of a sweep, or of what comes after it.
func (b *builder) place(q expr.Place, after, output bool) int {
	switch q.Kind {
	case expr.AtOperand:
		if after {
			return b.numberIn(b.nouts + q.N)
		}
		return b.ins[q.N]
	case expr.AtOutput:
		if after && output {
			return b.numberOut(q.N)
		}
		return b.outs[q.N]
	case expr.AtRow:
		return b.rows[q.N]
	case expr.AtNumber:
		return b.numbers[q.N]
	}
	return -1
}

func (b *builder) step(k int) error {
	w := &b.s.Passes[k]
	var st step
	if w.Code != nil {
		if err := b.loop(k, &st); err != nil {
			return err
		}
	}
	b.scans(w, &st)
	if w.After != nil {
		l := &expr.Loop{Code: w.After, Scalar: make([]bool, len(w.After.In))}
		for _, q := range w.AfterOut {
			st.afterSlots = append(st.afterSlots, b.place(q, true, true))
		}
		for k, q := range w.AfterIn {
			o := b.place(q, true, false)
			l.Scalar[k] = b.objects[o].kept == 0 && b.tile > 1
			st.afterSlots = append(st.afterSlots, o)
		}
		var err error
		if st.after, err = loops.New(l, loops.Options{}); err != nil {
			return err
		}
	}
	b.steps = append(b.steps, st)
	return nil
}

// loop makes the loop of a sweep, for rows or columns. By rows it leaves the total of each where a row is one run that
// one call can take, else lanes in memory, which are combined afterwards.
func (b *builder) loop(k int, st *step) (err error) {
	w := &b.s.Passes[k]
	code, in, out := w.Code, w.In, w.Out
	if b.columns {
		if code, in, out, err = b.s.Columns(k, 1); err != nil {
			return err
		}
	}
	l := b.scalars(code, in)
	if st.slots = b.places(out, in); !b.columns {
		l.Folds = w.Folds
	}
	if st.loop, err = b.compile(l, b.options(b.past(out), b.ahead(k, in))); err != nil {
		return err
	}
	for n, f := range w.Folds {
		d := w.Code.Insts[f.V].DType
		fo := fold{number: b.numbers[w.Into[n]], acc: -1, upper: -1, combine: interp.Combine(f.Op, d)}
		fillBits(fo.neutral[:], expr.Neutral(f.Op, d), d.Size())
		join, err := expr.Joining(f.Op, d)
		if err != nil {
			return err
		}
		if fo.join, err = loops.New(&expr.Loop{Code: join, Scalar: make([]bool, 2)}, loops.Options{}); err != nil {
			return err
		}
		switch {
		case b.columns:
			fo.upper = b.number(d.Size())
		case l.Totals:
			st.slots = append(st.slots, fo.number)
		default:
			fo.acc = b.memory(b.tile*expr.Lanes*d.Size(), object{size: d.Size(), kept: expr.Lanes * d.Size(),
				red: make([]int, len(b.red))})
			st.slots = append(st.slots, fo.acc)
		}
		if b.cuts > 1 {
			size := (b.tile*d.Size() + 63) &^ 63
			b.partial = append(b.partial, partial{b.scratch, size})
			b.scratch += size * b.cuts * b.units
		}
		st.folds = append(st.folds, fo)
	}
	if step := b.red[0].step[b.lead()]; b.columns && len(w.Folds) > 0 && max(step, -step) >= farBytes {
		return b.several(k, st)
	}
	return nil
}

// places returns the objects of outputs and operands.
func (b *builder) places(out, in []expr.Place) (slots []int) {
	for _, q := range out {
		slots = append(slots, b.place(q, false, true))
	}
	for _, q := range in {
		slots = append(slots, b.place(q, false, false))
	}
	return slots
}

// scalars returns the loop of a code, whose operands stand for a whole run where they do not move along it.
func (b *builder) scalars(c *expr.Code, in []expr.Place) *expr.Loop {
	l := &expr.Loop{Code: c, Scalar: make([]bool, len(in))}
	for k, q := range in {
		o := b.place(q, false, false)
		l.Scalar[k] = b.objects[o].along(b.inner()) == 0 && b.span(b.inner()) > 1
	}
	return l
}

// several makes the loop that takes several elements of each column together, so that accumulators are read and written
// once for them, where its pointers fit registers.
func (b *builder) several(k int, st *step) error {
	for n := 4; n > 1; n /= 2 {
		code, in, out, err := b.s.Columns(k, n)
		if err != nil {
			return err
		}
		if len(in)+len(out) > maxPointers {
			continue
		}
		l, err := loops.New(b.scalars(code, in), b.options(b.past(out), b.aheadOf(in, every, n, aheadOne)))
		if err != nil || !l.Compiled() {
			return err
		}
		st.several, st.elements = l, n
		for i, o := range b.places(out, in) {
			st.from = append(st.from, part{slices.Index(st.slots, o), append(slices.Clone(out), in...)[i].Element})
		}
		return nil
	}
	return nil
}

func (b *builder) compile(l *expr.Loop, opts loops.Options) (*loops.Loop, error) {
	if b.single && len(l.Folds) > 0 {
		l.Totals = true
		if r, err := loops.New(l, opts); err != nil || b.span(0) <= r.Most() {
			return r, err
		}
		l.Totals = false
	}
	return loops.New(l, opts)
}

// options are those of a loop that writes past the caches or not. A call may be over a single row: it would wait for
// the memory if it were fenced (softmax of 4096x4096 takes 3.4 ms then, else 3.0), so that is done once a chunk.
func (b *builder) options(past bool, ahead loops.Ahead) loops.Options {
	b.fence = b.fence || past
	return loops.Options{NonTemporal: past, Unfenced: past, Ahead: ahead}
}

// fillBits writes an element all over memory.
func fillBits(to []byte, bits uint64, size int) {
	for k := range to {
		to[k] = byte(bits >> (8 * (k % size)))
	}
}

// past reports whether a sweep writes nothing but outputs that go past the caches.
func (b *builder) past(out []expr.Place) bool {
	whole := 0
	for _, q := range out {
		switch {
		case q.Kind == expr.Nowhere || q.Kind == expr.AtNumber:
		case q.Kind != expr.AtOutput || !b.far(q.N):
			return false
		default:
			whole++
		}
	}
	return whole > 0
}
