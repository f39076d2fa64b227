package rowprog

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
)

// overlap is the loop that runs all sweeps at once, each over a tile of its own: the first over a tile, the next
// over the one before that, and so on. So memory is read and written all the time, not only while one of the sweeps
// runs: softmax of 4096x4096 takes 3.6 ms instead of 6 (Zen 5), and rows of 33 elements in the cache 2/3 of what
// they took, since what there is to do for each row is done for all sweeps together.
type overlap struct {
	loop  *loops.Loop
	slots []stage
}

// stage is an object as a sweep has it, for one of the rows that it goes over together.
type stage struct{ object, sweep, row int }

// minTiles is how many tiles of a chunk there are for each sweep, at least, where sweeps run at once: the first and
// the last tiles go through them one after the other.
const minTiles = 4

// pipelinedRow is how many elements rows have, at least, that one loop goes over without a stop.
const pipelinedRow = 512

// overlappable reports whether sweeps can run at once: what lies between them is folds of single rows, and all of
// it in memory of which each tile can have its own.
func (p *Plan) overlappable() bool {
	if !p.single || p.stages() || p.s.Scans() || p.cuts > 1 || len(p.s.Passes) < 2 ||
		min(p.perChunk, p.units) < minTiles*len(p.s.Passes) {
		return false
	}
	for k := range p.s.Passes {
		if p.s.Passes[k].Code == nil {
			return false
		}
	}
	return true
}

// crowded reports whether sweeps that compute little and write past the caches would together push out of the
// nearest one what rows share: layer_norm of 4096x4096 takes 4.4 ms with its sweeps at once and 3.4 with one after
// the other, while rows of 2048 take 2.6 and 3.5, and without weight and bias rows of 8192 2.9 and 3.2 (Zen 5). Two
// rows at a time read what is shared once: 4.6 ms with sweeps at once so, 5 a row at a time, and 6 with one sweep
// after the other (Emerald Rapids).
func (p *Plan) crowded() bool {
	if p.weight > 1 {
		return false
	}
	far, shared := false, false
	for o := range p.nouts {
		far = far || p.far(o)
	}
	bytes := 0
	for k := range p.s.Passes {
		for _, q := range p.s.Passes[k].In {
			switch {
			case q.Kind == expr.AtOperand && p.differs(p.nouts+q.N):
				bytes += p.metas[p.nouts+q.N].DType.Size() * p.reduced
				shared = shared || p.kept[0].step[p.nouts+q.N] == 0
			case q.Kind == expr.AtRow:
				bytes += p.s.Rows[q.N].DType.Size() * p.reduced
			}
		}
	}
	return far && shared && bytes > machine.L1Bytes*3/2
}

// overlap makes the loop, where it can be machine code.
func (b *builder) overlap() error {
	if len(b.moves) > 0 {
		return nil
	}
	together := b.s.Overlap
	if b.group > 0 {
		together = func() (*expr.Code, []expr.Fold, []expr.Place, []expr.Place, error) {
			return b.s.Pipeline(b.group, func(i int) bool { return b.kept[0].step[b.nouts+i] == 0 })
		}
	}
	group := max(1, b.group)
	code, folds, in, out, err := together()
	if err != nil || code == nil || len(code.In)+len(code.Out) > expr.MaxOperands {
		return err
	}
	l := b.scalars(code, in)
	l.Folds, l.Totals = folds, len(folds) > 0
	kept := uint32(0)
	for n, q := range out {
		if q.Kind != expr.AtOutput || !b.far(q.N) {
			kept |= 1 << n
		}
	}
	all := &overlap{}
	var ahead loops.Ahead
	if b.group == 0 || b.weight > 1 { // else the processor looks ahead far enough
		ahead = b.aheadOf(in, func(q expr.Place) bool { return q.Element < group }, group, group*aheadAll)
	}
	opts := b.options(kept != 1<<len(out)-1, ahead)
	opts.Kept = kept
	all.loop, err = loops.New(l, opts)
	if err != nil || !all.loop.Compiled() || b.span(0) > all.loop.Most() {
		return err
	}
	for _, list := range [][]expr.Place{out, in} {
		for _, q := range list {
			all.slots = append(all.slots, stage{b.place(q, false, true), q.Element / group, q.Element % group})
		}
	}
	for e := range group * len(b.steps) {
		for _, f := range b.steps[e/group].folds {
			if f.acc >= 0 {
				return nil // by lanes in memory, of which the loops at once know nothing
			}
			all.slots = append(all.slots, stage{f.number, e / group, e % group})
		}
	}
	b.all = all
	return nil
}

// rowCopies is how many tiles of a row that is put aside there are at a time: one that is read by the next sweep is
// written again element by element, as soon as it has been read.
func (p *Plan) rowCopies(row int) int {
	if p.depth == 1 {
		return 1
	}
	made, last := 0, 0
	for k := range p.s.Passes {
		for _, q := range p.s.Passes[k].Out {
			if q.Kind == expr.AtRow && q.N == row {
				made = k
			}
		}
		for _, q := range p.s.Passes[k].In {
			if q.Kind == expr.AtRow && q.N == row {
				last = k
			}
		}
	}
	return max(1, last-made)
}

// pipelineable reports whether one loop can go over all rows of a chunk: rows are long, so that what is computed once a
// row may be computed for each by itself. Nothing is left to do between rows then, and one sweep is a row behind the
// other rather than a tile. On an Emerald Rapids softmax of 4096x4096 takes 4.2 ms instead of 5 so, layer_norm of
// 8192x2048 3.8 instead of 4.9, and nothing that was measured, down to 512 elements, more.
func (p *Plan) pipelineable(group int) bool {
	for k := range p.s.Rows {
		if r := p.s.Rows[k]; (r.Out < 0 || p.far(r.Out)) && (p.rowCopies(k) > 1 || group > 1) {
			return false
		}
	}
	return p.overlappable() && p.reduced >= pipelinedRow
}

// pipeline runs all sweeps over the tiles from begin on, row by row.
func (p *Plan) pipeline(s *State, begin, end int, ptrs []unsafe.Pointer, worker []byte) {
	for u := begin; u < end; {
		line := u / p.pieces
		last := min(end, (line+1)*p.pieces) - 1
		t := p.seek(s, last, ptrs, worker)
		rows := (last-u)*p.tile + t.n
		p.seek(s, u, ptrs, worker)
		if len(s.bases) == 0 {
			s.bases = append(s.bases, nil)
		}
		s.bases[0] = append(s.bases[0][:0], s.base...)
		p.line(s, rows)
		u = last + 1
	}
}

// line runs all sweeps over rows that follow one another: sweep k is k groups of rows behind the first. What is left of
// a group goes by itself.
func (p *Plan) line(s *State, rows int) {
	behind, groups := p.depth-1, rows/p.group
	for i := 0; i < groups+behind; i++ {
		if i == behind && groups > behind {
			p.allRows(s, groups-behind)
			for g := groups - behind; g < groups; g++ {
				for k := range groups - g {
					for r := g * p.group; r < (g+1)*p.group; r++ {
						p.atRow(s, r)
						p.afterwards(s, tile{n: 1}, &p.steps[k])
					}
				}
			}
			i = groups
		}
		// The last sweep comes first: it reads what the one before it writes again.
		for k := min(behind, i); k >= max(0, i-groups+1); k-- {
			for r := (i - k) * p.group; r < (i-k+1)*p.group; r++ {
				p.oneRow(s, r, k)
			}
		}
	}
	for r := groups * p.group; r < rows; r++ {
		for k := range p.steps {
			p.oneRow(s, r, k)
		}
	}
}

// atRow sets the addresses of a row of a line.
func (p *Plan) atRow(s *State, row int) {
	for k, b := range s.bases[0] {
		s.base[k] = b
		if b != nil {
			s.base[k] = unsafe.Add(b, row*p.objects[k].kept)
		}
	}
}

// oneRow runs a sweep over a row of a line.
func (p *Plan) oneRow(s *State, row, sweep int) {
	p.atRow(s, row)
	p.sweep(s, tile{n: 1}, &p.steps[sweep])
	p.afterwards(s, tile{n: 1}, &p.steps[sweep])
}

// allRows runs the loop of all sweeps over so many groups, the first of them from that on which the last has before it.
func (p *Plan) allRows(s *State, groups int) {
	s.ptrs, s.strides = s.ptrs[:0], s.strides[:0]
	for _, g := range p.all.slots {
		if g.object < 0 {
			s.ptrs, s.strides = append(s.ptrs, nil), append(s.strides, 0)
			continue
		}
		kept := p.objects[g.object].kept
		at := (p.depth-1-g.sweep)*p.group + g.row
		s.ptrs = append(s.ptrs, unsafe.Add(s.bases[0][g.object], at*kept))
		s.strides = append(s.strides, p.group*kept)
	}
	p.all.loop.Run(&s.loops, s.ptrs, s.strides, p.red[0].n, groups)
}

// overlapped runs all sweeps over the tiles from begin on.
func (p *Plan) overlapped(s *State, begin, end int, ptrs []unsafe.Pointer, worker []byte) {
	for len(s.bases) < p.depth {
		s.bases = append(s.bases, nil)
		s.tiles = append(s.tiles, tile{})
	}
	for u := begin; u < end+p.depth-1; u++ {
		if u < end {
			s.base = s.bases[u%p.depth]
			s.tiles[u%p.depth] = p.seek(s, u, ptrs, worker)
			s.bases[u%p.depth] = s.base
		}
		together := u < end && u-begin >= p.depth-1
		for k := range p.depth {
			together = together && s.tiles[k].n == s.tiles[0].n
		}
		if together {
			p.atOnce(s, u)
		}
		// The last sweep comes first: it reads what the one before it writes again.
		for k := min(p.depth-1, u-begin); k >= max(0, u-end+1); k-- {
			s.base = s.bases[(u-k)%p.depth]
			t := s.tiles[(u-k)%p.depth]
			if !together {
				p.sweep(s, t, &p.steps[k])
			}
			p.afterwards(s, t, &p.steps[k])
		}
	}
}

// atOnce runs the loop of all sweeps: the first goes over tile u.
func (p *Plan) atOnce(s *State, u int) {
	s.ptrs, s.strides = s.ptrs[:0], s.strides[:0]
	for _, g := range p.all.slots {
		if g.object < 0 {
			s.ptrs, s.strides = append(s.ptrs, nil), append(s.strides, 0)
			continue
		}
		s.ptrs = append(s.ptrs, s.bases[(u-g.sweep)%p.depth][g.object])
		s.strides = append(s.strides, p.objects[g.object].kept)
	}
	p.all.loop.Run(&s.loops, s.ptrs, s.strides, p.red[0].n, s.tiles[0].n)
}
