package rowprog

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
)

// State is what a worker keeps while it runs chunks. The zero value is ready. It is for one goroutine at a time, and
// holds no address when Run has returned.
type State struct {
	// Context, if set, ends [Plan.Run] within a long row: the error is its cause.
	Context context.Context

	loops   loops.State
	base    []unsafe.Pointer // by object: the tile's first element
	ptrs    []unsafe.Pointer
	call    []unsafe.Pointer
	strides []int
	steps   []int
	at      []int
	bases   [][]unsafe.Pointer // base of tiles that sweeps are at at the same time
	tiles   []tile
	pieces  []unsafe.Pointer // what a chunk of [Pieces] has
}

// tile is what goes together: n positions along kept[0], of the cut axis from begin on.
type tile struct {
	unit, n    int
	begin, len int // along the cut axis
}

// Run runs a chunk of a phase. ptrs are the addresses of the first elements of outputs and operands; scratch and worker
// the memory that [Plan.Scratch] and [Plan.Worker] ask for. It trusts addresses.
func (p *Plan) Run(s *State, phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) (err error) {
	switch {
	case phase < 0 || phase >= p.Phases() || chunk < 0 || chunk >= p.Chunks(phase):
		return fmt.Errorf("rowprog: chunk %d of phase %d, which there is not", chunk, phase)
	case len(ptrs) < len(p.given()):
		return fmt.Errorf("rowprog: %d addresses for %d outputs and operands", len(ptrs), len(p.given()))
	case len(scratch) < p.scratch || len(worker) < p.worker:
		return errors.New("rowprog: too little memory")
	}
	defer ends.Catch(&err)
	defer s.release()
	s.loops.Context = s.Context
	if p.fence {
		defer loops.Fence()
	}
	switch {
	case p.group > 0:
		p.pipeline(s, chunk*p.perChunk, min((chunk+1)*p.perChunk, p.units), ptrs, worker)
	case p.all != nil:
		p.overlapped(s, chunk*p.perChunk, min((chunk+1)*p.perChunk, p.units), ptrs, worker)
	case p.cuts == 1:
		for u := chunk * p.perChunk; u < min((chunk+1)*p.perChunk, p.units); u++ {
			t := p.seek(s, u, ptrs, worker)
			p.gather(s, t)
			for k := range p.steps {
				p.sweep(s, t, &p.steps[k])
				p.joinParts(s, t, &p.steps[k])
				p.scanned(s, t, &p.steps[k])
				p.afterwards(s, t, &p.steps[k])
			}
			p.scatter(s, t)
		}
	case phase == 0:
		cut := chunk / p.units
		t := p.seek(s, chunk%p.units, ptrs, worker)
		t.begin = cut * p.cut
		t.len = min(p.cut, p.red[p.cutAxis].n-t.begin)
		for i := range p.metas {
			s.base[i] = unsafe.Add(s.base[i], t.begin*p.red[p.cutAxis].step[i])
		}
		p.gather(s, t)
		p.sweep(s, t, &p.steps[0])
		p.scatter(s, t)
		for k, f := range p.steps[0].folds {
			q := p.partial[k]
			at := q.at + (t.unit*p.cuts+cut)*q.size
			n := t.n * p.objects[f.number].size
			copy(scratch[at:at+n], unsafe.Slice((*byte)(s.base[f.number]), n))
		}
	default:
		p.merge(s, chunk, ptrs, scratch, worker)
	}
	return nil
}

func (s *State) release() {
	s.Context = nil
	clear(s.base)
	for _, b := range s.bases {
		clear(b)
	}
	clear(s.ptrs)
	clear(s.call)
	s.loops.Release()
}

// merge joins the pieces of a tile in order.
func (p *Plan) merge(s *State, unit int, ptrs []unsafe.Pointer, scratch, worker []byte) {
	t := p.seek(s, unit, ptrs, worker)
	for _, mv := range p.moves {
		if !mv.whole && !mv.back {
			p.moveNumbers(s, t, mv)
		}
	}
	for k := range p.steps[0].folds {
		f := &p.steps[0].folds[k]
		q := p.partial[k]
		p.neutral(s, f, f.number, t.n)
		at := unsafe.Pointer(&scratch[q.at+unit*p.cuts*q.size])
		p.run(s, f.join, []unsafe.Pointer{s.base[f.number], s.base[f.number], at}, []int{0, 0, q.size}, t.n, p.cuts)
	}
	p.joinParts(s, t, &p.steps[0])
	p.afterwards(s, t, &p.steps[0])
	for _, mv := range p.moves {
		if !mv.whole && mv.back {
			p.moveNumbers(s, t, mv)
		}
	}
}

// run calls a loop by way of lists that it may change.
func (p *Plan) run(s *State, l *loops.Loop, ptrs []unsafe.Pointer, strides []int, n0, n1 int) {
	s.call = append(s.call[:0], ptrs...)
	l.Run(&s.loops, s.call, strides, n0, n1)
}

// seek finds the addresses of a tile.
func (p *Plan) seek(s *State, unit int, ptrs []unsafe.Pointer, worker []byte) tile {
	first := unit % p.pieces * p.tile
	t := tile{unit: unit, n: min(p.tile, p.kept[0].n-first)}
	s.base = s.base[:0]
	for i := range p.objects {
		o := &p.objects[i]
		if o.ptr < 0 {
			s.base = append(s.base, unsafe.Pointer(&worker[o.at+unit%o.copies*o.apart]))
			continue
		}
		at, k := first*o.kept, unit/p.pieces
		for d := range p.kept[1:] {
			a := &p.kept[1+d]
			at += k % a.n * a.step[i]
			k /= a.n
		}
		q := p.address(ptrs, o.ptr)
		if q != nil {
			q = unsafe.Add(q, at)
		}
		s.base = append(s.base, q)
	}
	return t
}

// length is the number of positions along an axis in a tile.
func (p *Plan) length(t tile, ax int) int {
	switch {
	case ax == kept0:
		return t.n
	case ax >= len(p.red):
		return 1
	case ax == p.cutAxis && t.len > 0:
		return t.len
	}
	return p.red[ax].n
}

// each calls f for the positions of the axes that loops do not run along, with the addresses of objects in s.ptrs.
// f may change them.
func (p *Plan) each(s *State, t tile, slots []int, f func(n0, n1 int)) {
	n0, n1 := p.length(t, p.inner()), p.length(t, p.outer())
	if p.reduced == 0 {
		return
	}
	rest := p.rest()
	s.at = s.at[:0]
	for range p.red {
		s.at = append(s.at, 0)
	}
	for {
		s.ptrs = s.ptrs[:0]
		for _, o := range slots {
			if o < 0 {
				s.ptrs = append(s.ptrs, nil)
				continue
			}
			at := 0
			for d := rest; d < len(p.red); d++ {
				at += s.at[d] * p.objects[o].red[d]
			}
			s.ptrs = append(s.ptrs, unsafe.Add(s.base[o], at))
		}
		f(n0, n1)
		d := rest
		for ; d < len(p.red); d++ {
			if s.at[d]++; s.at[d] < p.length(t, d) {
				break
			}
			s.at[d] = 0
		}
		if d >= len(p.red) {
			return
		}
		ends.Look(s.Context)
	}
}

// strideList sets the steps of objects along an axis.
func (p *Plan) strideList(s *State, slots []int, ax int) {
	s.strides = s.strides[:0]
	for _, o := range slots {
		st := 0
		if o >= 0 {
			st = p.objects[o].along(ax)
		}
		s.strides = append(s.strides, st)
	}
}

// neutral sets the n accumulators, or the Lanes of n, of a fold to what changes nothing.
func (p *Plan) neutral(s *State, f *fold, object, n int) {
	b := unsafe.Slice((*byte)(s.base[object]), n*p.objects[object].kept)
	for len(b) > 0 {
		b = b[copy(b, f.neutral[:]):]
	}
}

// sweep runs the loop of a step over the tile and leaves what it folds in numbers.
func (p *Plan) sweep(s *State, t tile, st *step) {
	if st.loop == nil {
		return
	}
	for k := range st.folds {
		f := &st.folds[k]
		switch {
		case p.columns:
			p.neutral(s, f, f.number, t.n)
		case f.acc >= 0:
			p.neutral(s, f, f.acc, t.n)
		}
	}
	p.strideList(s, st.slots, p.outer())
	if p.columns && len(st.folds) > 0 {
		p.columnFolds(s, t, st)
		return
	}
	p.each(s, t, st.slots, func(n0, n1 int) { st.loop.Run(&s.loops, s.ptrs, s.strides, n0, n1) })
	for k := range st.folds {
		f := &st.folds[k]
		if f.acc >= 0 {
			f.combine(s.base[f.number], s.base[f.acc], t.n)
		}
	}
}

// columnFolds folds columns, level elements of each at a time.
func (p *Plan) columnFolds(s *State, t tile, st *step) {
	added, levels := 0, false
	lift := func() {
		for k := range st.folds {
			f := &st.folds[k]
			if !levels {
				p.neutral(s, f, f.upper, t.n)
			}
			p.run(s, f.join, []unsafe.Pointer{s.base[f.upper], s.base[f.upper], s.base[f.number]}, []int{0, 0, 0}, t.n, 1)
			p.neutral(s, f, f.number, t.n)
		}
		added, levels = 0, true
	}
	p.each(s, t, st.slots, func(n0, n1 int) {
		for n1 > 0 {
			if added == level {
				ends.Look(s.Context)
				lift()
			}
			n := min(n1, level-added)
			p.columnRows(s, st, n0, n)
			added += n
			if n1 -= n; n1 == 0 {
				return // no address may lie behind its memory
			}
			for k := range s.ptrs {
				if s.ptrs[k] != nil {
					s.ptrs[k] = unsafe.Add(s.ptrs[k], n*s.strides[k])
				}
			}
		}
	})
	if !levels {
		return
	}
	lift()
	for k := range st.folds {
		f := &st.folds[k]
		n := t.n * p.objects[f.number].size
		copy(unsafe.Slice((*byte)(s.base[f.number]), n), unsafe.Slice((*byte)(s.base[f.upper]), n))
	}
}

// columnRows runs the loop of columns, and that over several elements as long as there are so many.
func (p *Plan) columnRows(s *State, st *step, n0, n1 int) {
	at := 0
	if st.several != nil {
		if at = n1 - n1%st.elements; at > 0 {
			s.call, s.steps = s.call[:0], s.steps[:0]
			for _, f := range st.from {
				s.call = append(s.call, unsafe.Add(s.ptrs[f.slot], f.element*s.strides[f.slot]))
				s.steps = append(s.steps, st.elements*s.strides[f.slot])
			}
			st.several.Run(&s.loops, s.call, s.steps, n0, at/st.elements)
		}
	}
	if at == n1 {
		return
	}
	s.call = s.call[:0]
	for k, q := range s.ptrs {
		s.call = append(s.call, unsafe.Add(q, at*s.strides[k]))
	}
	st.loop.Run(&s.loops, s.call, s.strides, n0, n1-at)
}

// afterwards computes what there is once a row.
func (p *Plan) afterwards(s *State, t tile, st *step) {
	if st.after == nil {
		return
	}
	s.ptrs, s.strides = s.ptrs[:0], s.strides[:0]
	for _, o := range st.afterSlots {
		s.ptrs, s.strides = append(s.ptrs, s.base[o]), append(s.strides, 0)
	}
	st.after.Run(&s.loops, s.ptrs, s.strides, t.n, 1)
}

// gather copies operands to the worker's memory.
func (p *Plan) gather(s *State, t tile) {
	for _, mv := range p.moves {
		switch {
		case mv.back:
		case mv.whole:
			p.moveAll(s, t, mv)
		default:
			p.moveNumbers(s, t, mv)
		}
	}
}

// scatter copies outputs out of it.
func (p *Plan) scatter(s *State, t tile) {
	for _, mv := range p.moves {
		switch {
		case !mv.back:
		case mv.whole:
			p.moveAll(s, t, mv)
		case p.cuts == 1:
			p.moveNumbers(s, t, mv)
		}
	}
}

func (p *Plan) moveNumbers(s *State, t tile, mv move) {
	far, near := &p.objects[mv.from], &p.objects[mv.to]
	a := strided.Axis{N: t.n, Dst: near.kept, Src: far.kept}
	if mv.back {
		mv.elem.Block(s.base[mv.from], s.base[mv.to], a.Swapped(), strided.Axis{N: 1})
		return
	}
	mv.elem.Block(s.base[mv.to], s.base[mv.from], a, strided.Axis{N: 1})
}

func (p *Plan) moveAll(s *State, t tile, mv move) {
	far, near := &p.objects[mv.from], &p.objects[mv.to]
	inner, outer := p.inner(), p.outer()
	p.each(s, t, []int{mv.from, mv.to}, func(n0, n1 int) {
		a := strided.Axis{N: n0, Dst: near.along(inner), Src: far.along(inner)}
		b := strided.Axis{N: n1, Dst: near.along(outer), Src: far.along(outer)}
		if mv.back {
			mv.elem.Block(s.ptrs[0], s.ptrs[1], a.Swapped(), b.Swapped())
			return
		}
		mv.elem.Block(s.ptrs[1], s.ptrs[0], a, b)
	})
}
