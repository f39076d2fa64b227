package kernels

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// reducePlan is a reduction prepared for fixed layouts.
//
// The kept positions are cut into units: runs along the fastest kept axis. A unit is
// reduced by rows (each result folds a run of the operand) where the reduced axis is the
// fast one, else by columns (a block of results takes one element each at a time). Where
// there are few units the reduced range is cut too; the partial results stand in scratch
// and a second phase merges them in order. All cuts depend on shapes only.
type reducePlan struct {
	f         *fold
	kept, red []reduceAxis
	rows      bool
	unit      int // results in a unit, at most
	pieces    int // units along the fastest kept axis
	units     int
	perChunk  int // units in a chunk
	reduced   int // elements behind one result
	cut, cuts int // length and number of the cuts of the reduced range
	results   int
	ld        loader
	store     [2]tensor.ConvertFunc
	outs      []tensor.DType
}

// reduceGrain is the number of cheap elements worth a chunk; minChunks is the number of
// chunks below which the reduced range is cut, up to maxCuts.
const (
	reduceGrain = 1 << 16
	minChunks   = 16
	maxCuts     = 64
	rowUnit     = 64
	// columnLevel is the number of elements that a column adds up before the sum goes to the
	// next level, to bound the rounding error.
	columnLevel = 256
)

func newReducePlan(m tensor.Meta, mask []bool, outs []tensor.Meta, cast tensor.DType, f *fold) *reducePlan {
	p := &reducePlan{f: f, ld: newLoader(m.DType, cast, f.in), cuts: 1}
	p.kept, p.red = splitAxes(m, mask, outs, f.inOrder)
	for i, o := range outs {
		p.store[i] = tensor.Converter(o.DType, f.out[i])
		p.outs = append(p.outs, o.DType)
	}
	p.reduced, p.results = axesNumel(p.red), axesNumel(p.kept)
	k, r := p.kept[0], p.red[0]
	if r.in <= k.in || k.n == 1 {
		p.rows = r.n >= 16 || k.n < r.n
	} else {
		p.rows = k.n < 8 && k.n <= r.n
	}
	grain := max(reduceGrain/f.weight, 1024)
	p.unit = min(max(k.n, 1), blockLen)
	if p.rows {
		p.unit = min(p.unit, rowUnit, max(1, grain/max(p.reduced, 1)))
	}
	p.pieces = (k.n + p.unit - 1) / p.unit
	p.units = p.pieces * axesNumel(p.kept[1:])
	work := p.unit * max(p.reduced, 1)
	p.perChunk = max(1, grain/work)
	p.cut = p.reduced
	if chunks := (p.units + p.perChunk - 1) / p.perChunk; p.units > 0 && chunks < minChunks && work >= 2*grain {
		p.cuts = min((work+grain-1)/grain, (maxCuts+p.units-1)/p.units)
		p.cut = (p.reduced + p.cuts - 1) / p.cuts
		if p.rows && p.cut > blockLen {
			p.cut = (p.cut + blockLen - 1) / blockLen * blockLen
		}
		p.cuts = (p.reduced + p.cut - 1) / p.cut
	}
	return p
}

func (p *reducePlan) scratch() int {
	if p.cuts == 1 {
		return 0
	}
	return alignUp(p.cuts * p.results * p.f.size)
}

func (p *reducePlan) worker() int {
	return 2*alignUp(p.unit*p.f.size) + 2*blockLen*16 + alignUp(8*len(p.kept)) + alignUp(8*len(p.red))
}

// reduceRoom is a worker's memory while it runs a chunk.
type reduceRoom struct {
	acc, upper, buf, tmp unsafe.Pointer
	kept, red            walker
}

func (p *reducePlan) room(worker []byte) reduceRoom {
	r := region{worker}
	var m reduceRoom
	m.acc, m.upper = r.take(p.unit*p.f.size), r.take(p.unit*p.f.size)
	m.buf, m.tmp = r.take(blockLen*16), r.take(blockLen*16)
	m.kept = walker{axes: p.kept[1:], at: r.ints(len(p.kept) - 1)}
	m.red = walker{axes: p.red[1:], at: r.ints(len(p.red) - 1)}
	return m
}

// reduceWhere holds the addresses of outputs and operand, and the scratch memory, of a
// run.
type reduceWhere struct {
	outs    [2]unsafe.Pointer
	in      unsafe.Pointer
	scratch []byte
}

// phases makes the phases; where tells where a run has its data.
func (p *reducePlan) phases(where func(m *graph.Mem) reduceWhere) []graph.Phase {
	chunks := (p.units + p.perChunk - 1) / p.perChunk
	if p.cuts == 1 {
		return []graph.Phase{{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
			w := where(m)
			room := p.room(m.Worker)
			for u := chunk * p.perChunk; u < min((chunk+1)*p.perChunk, p.units); u++ {
				n := p.seek(&room, u)
				acc := p.reduce(&room, w.in, u, n, 0, p.reduced)
				p.finish(&room, &w, acc, u, n)
			}
			return nil
		}}}
	}
	return []graph.Phase{
		{Chunks: p.units * p.cuts, Run: func(m *graph.Mem, chunk int) error {
			w := where(m)
			room := p.room(m.Worker)
			u, c := chunk%p.units, chunk/p.units
			n := p.seek(&room, u)
			acc := p.reduce(&room, w.in, u, n, c*p.cut, min((c+1)*p.cut, p.reduced))
			copy(p.partial(w.scratch, c, u, n), unsafe.Slice((*byte)(acc), n*p.f.size))
			return nil
		}},
		{Chunks: p.units, Run: func(m *graph.Mem, u int) error {
			w := where(m)
			room := p.room(m.Worker)
			n := p.seek(&room, u)
			p.f.init(room.acc, n)
			for c := range p.cuts {
				p.f.merge(room.acc, unsafe.Pointer(unsafe.SliceData(p.partial(w.scratch, c, u, n))), n)
			}
			p.finish(&room, &w, room.acc, u, n)
			return nil
		}},
	}
}

// partial is the place of cut c of unit u in scratch.
func (p *reducePlan) partial(scratch []byte, c, u, n int) []byte {
	at := c*p.results + u/p.pieces*p.kept[0].n + u%p.pieces*p.unit
	return scratch[at*p.f.size : (at+n)*p.f.size]
}

// seek places the walk over the kept axes at unit u and returns the unit's length.
func (p *reducePlan) seek(m *reduceRoom, u int) int {
	m.kept.seek(u / p.pieces)
	return min(p.unit, p.kept[0].n-u%p.pieces*p.unit)
}

// reduce folds the range of the reduced positions for the n results of unit u and
// returns the accumulators.
func (p *reducePlan) reduce(m *reduceRoom, in unsafe.Pointer, u, n, begin, end int) unsafe.Pointer {
	p.f.init(m.acc, n)
	if begin >= end {
		return m.acc
	}
	base := unsafe.Add(in, m.kept.off+u%p.pieces*p.unit*p.kept[0].in)
	if p.rows {
		for j := range n {
			p.row(m, unsafe.Add(m.acc, j*p.f.size), unsafe.Add(base, j*p.kept[0].in), begin, end)
		}
		return m.acc
	}
	return p.columns(m, base, n, begin, end)
}

// row folds one result. Short runs are gathered until they fill a block.
func (p *reducePlan) row(m *reduceRoom, acc, src unsafe.Pointer, begin, end int) {
	inner := p.red[0]
	m.red.seek(begin / inner.n)
	i := begin % inner.n
	size, filled := p.f.in.Size(), 0
	for r := begin; r < end; {
		k := min(inner.n-i, end-r)
		run := unsafe.Add(src, m.red.off+i*inner.in)
		if p.ld.direct && inner.in == size && k >= 32 {
			if filled > 0 {
				p.f.row(acc, m.buf, filled, r-filled)
				filled = 0
			}
			for b := 0; b < k; b += blockLen {
				p.f.row(acc, unsafe.Add(run, b*size), min(blockLen, k-b), r+b)
			}
		} else {
			for b := 0; b < k; {
				c := min(k-b, blockLen-filled)
				p.ld.load(unsafe.Add(m.buf, filled*size), m.tmp, unsafe.Add(run, b*inner.in), inner.in, c)
				b += c
				if filled += c; filled == blockLen {
					p.f.row(acc, m.buf, filled, r+b-filled)
					filled = 0
				}
			}
		}
		r += k
		i = 0
		m.red.next()
	}
	if filled > 0 {
		p.f.row(acc, m.buf, filled, end-filled)
	}
}

// columns folds n results side by side.
func (p *reducePlan) columns(m *reduceRoom, base unsafe.Pointer, n, begin, end int) unsafe.Pointer {
	inner, step := p.red[0], p.kept[0].in
	m.red.seek(begin / inner.n)
	i := begin % inner.n
	added, levels := 0, false
	for r := begin; r < end; r++ {
		x := p.ld.run(m.buf, m.tmp, unsafe.Add(base, m.red.off+i*inner.in), step, n)
		p.f.columns(m.acc, x, n, r)
		if i++; i == inner.n {
			i = 0
			m.red.next()
		}
		if added++; added == columnLevel && r+1 < end {
			if !levels {
				p.f.init(m.upper, n)
			}
			p.f.merge(m.upper, m.acc, n)
			p.f.init(m.acc, n)
			added, levels = 0, true
		}
	}
	if !levels {
		return m.acc
	}
	p.f.merge(m.upper, m.acc, n)
	return m.upper
}

// finish writes the n results of unit u.
func (p *reducePlan) finish(m *reduceRoom, w *reduceWhere, acc unsafe.Pointer, u, n int) {
	k := p.kept[0]
	for o := range p.outs {
		dst := unsafe.Add(w.outs[o], m.kept.out[o]+u%p.pieces*p.unit*k.out[o])
		if size := p.f.out[o].Size(); p.outs[o] == p.f.out[o] && (k.out[o] == size || n == 1) {
			p.f.finish[o](dst, acc, n)
			continue
		}
		p.f.finish[o](m.buf, acc, n)
		p.store[o](dst, m.buf, k.out[o], p.f.out[o].Size(), n)
	}
}
