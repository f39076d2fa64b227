package window

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// carriedBytes is about what sums take that one loop hands to the next: they stay in the near cache.
const carriedBytes = 16 << 10

// runElements bounds the elements that one call of a loop folds.
const runElements = 1 << 24

// loopCall is how many simple steps take as long as a call of a loop.
const loopCall = 64

// foldPixels is a pooling over up to three dimensions by compiled loops over channels, which lie together in operand
// and results. Neighbouring results along the last dimension whose windows have as many elements are the rows of one
// run, and one row where all their elements lie one behind another.
type foldPixels struct {
	*tapFold
	n, c     int
	size     int // bytes of an element
	in       [5]int
	out      [2][5]int // steps in bytes: batch, channel, depth, height, width
	plane    [3]int    // sizes of the operand
	axes     [3]poolAxis
	most     [3]int // elements of a window by dimension
	longest  int    // results of a run
	outs     int
	together bool // the pixels of a run may be one row
	state    graph.PerWorker[foldRun]
}

// tapStream is an element of windows: where that of the first result of a run lies, and the bytes from one to the next.
type tapStream struct {
	ptr  unsafe.Pointer
	step int
}

// foldRun is what a worker needs to run loops.
type foldRun struct {
	loops.State
	ptrs    [expr.MaxOperands]unsafe.Pointer
	strides [expr.MaxOperands]int
	used    int
	taps    []tapStream
	// What loops read one of a row.
	divisor [8]byte
	index   int64
}

func (r *foldRun) add(p unsafe.Pointer, step int) {
	r.ptrs[r.used], r.strides[r.used] = p, step
	r.used++
}

// spatialSteps gives the strides of m in bytes, with those of dimensions that it lacks 0.
func spatialSteps(m tensor.Meta, dims int) (st [5]int) {
	size, lead := m.DType.Size(), m.Rank()-dims
	for d, s := range m.Strides {
		if d < lead {
			st[2-lead+d] = s * size
		} else {
			st[5-m.Rank()+d] = s * size
		}
	}
	return st
}

// newFoldPixels returns nil where there is no machine code, or channels do not lie together.
func newFoldPixels(c *graph.Call, f poolFold, axes []poolAxis) (*foldPixels, error) {
	m, dims := c.Meta(0), len(axes)
	lead := m.Rank() - dims
	p := &foldPixels{n: 1, c: m.Shape[lead-1], size: m.DType.Size(), in: spatialSteps(m, dims), outs: len(c.Out)}
	if lead == 2 {
		p.n = m.Shape[0]
	}
	v := newVolume(m, axes)
	p.plane, p.axes = v.in, v.axes
	apart := p.c > 1 && p.in[1] != p.size
	for i, o := range c.Out {
		p.out[i] = spatialSteps(o, dims)
		apart = apart || p.c > 1 && p.out[i][1] != o.DType.Size()
	}
	if apart || c.Out[0].Numel() == 0 {
		return nil, nil
	}
	for d := range p.axes {
		p.most[d] = p.axes[d].most()
	}
	taps := p.most[0] * p.most[1] * p.most[2]
	if taps == 0 {
		return nil, nil
	}
	var err error
	f.indices = len(c.Out) > 1
	if p.tapFold, err = newTapFold(f, m.DType, taps, p.offset); p.tapFold == nil || err != nil {
		return nil, err
	}
	p.together = p.in[4] == p.c*p.size && p.out[0][4] == p.in[4] && !p.indices
	p.longest = max(1, runElements/(p.c*min(taps, fewTaps)))
	if !p.single && p.kind == poolAvg {
		p.longest = max(1, carriedBytes/(p.c*p.sum.Size()))
	}
	return p, nil
}

// offset is the distance between the indices of the first element of a window and tap k.
func (p *foldPixels) offset(k int) int {
	step := func(d int) int { return max(1, p.axes[d].at(0).step) }
	d, h, w := k/(p.most[1]*p.most[2]), k/p.most[2]%p.most[1], k%p.most[2]
	return (d*step(0)*p.plane[1]+h*step(1))*p.plane[2] + w*step(2)
}

// kernel goes by rows of results.
func (p *foldPixels) kernel() *graph.Kernel {
	nd, nh := p.axes[0].out, p.axes[1].out
	rows := p.n * nd * nh
	area := p.most[0] * p.most[1] * p.most[2]
	cut := machine.CutUnits(rows, mulBounded(p.axes[2].out*p.c, area), machine.ReduceGrain)
	neutral := kit.AlignUp(p.c * p.size)
	k := &graph.Kernel{Worker: neutral, Code: p.listings}
	if !p.single && p.kind == poolAvg {
		k.Worker += max(carriedBytes, p.c*p.sum.Size())
	}
	k.Phases = []graph.Phase{{Chunks: cut.Chunks, Run: func(m *graph.Mem, chunk int) error {
		r := p.state.Of(m)
		r.begin(m)
		p.fill(p.d, m.Worker[:p.c*p.size])
		for row, end := cut.Range(chunk); row < end; row++ {
			p.row(m, r, row/nh/nd, row/nh%nd, row%nh)
		}
		clear(r.taps[:cap(r.taps)])
		clear(r.ptrs[:])
		r.Release()
		return nil
	}}}
	return k
}

// row makes a row of results.
func (p *foldPixels) row(m *graph.Mem, r *foldRun, n, d, h int) {
	ds, hs := p.axes[0].at(d), p.axes[1].at(h)
	from := unsafe.Add(m.Ptrs[p.outs], n*p.in[0]+ds.start*p.in[2]+hs.start*p.in[3])
	at := func(i int) unsafe.Pointer {
		return unsafe.Add(m.Ptrs[i], n*p.out[i][0]+d*p.out[i][2]+h*p.out[i][3])
	}
	for next := 0; next < p.axes[2].out; {
		run := p.axes[2].run(next, p.longest, true)
		next += run.n
		m.Count(loopCall + p.c*run.n)
		ws := p.axes[2].at(run.at)
		first, windows := unsafe.Add(from, ws.start*p.in[4]), [3]window{ds, hs, ws}
		to := unsafe.Add(at(0), run.at*p.out[0][4])
		if p.kind == poolAvg {
			p.putDivisor(r.divisor[:], p.d, p.sum, areaOf(ds.size, hs.size, ws.size))
		}
		if !p.single {
			p.runMany(m, r, to, run, first, windows)
			continue
		}
		full := p.streams(r, first, windows, run.step*p.in[4], unsafe.Pointer(unsafe.SliceData(m.Worker)))
		if p.indices {
			r.index = int64((ds.start*p.plane[1]+hs.start)*p.plane[2] + ws.start)
			p.runIndices(m, r, to, unsafe.Add(at(1), run.at*p.out[1][4]), run)
			continue
		}
		p.runSingle(r, to, run, full)
	}
}

// streams lists the elements of a window for one loop. Elements outside of the operand read the neutral element; full
// says that there are none.
func (p *foldPixels) streams(r *foldRun, at unsafe.Pointer, w [3]window, step int, neutral unsafe.Pointer) (full bool) {
	full = true
	r.taps = r.taps[:0]
	for d := range p.most[0] {
		for h := range p.most[1] {
			for k := range p.most[2] {
				if d >= w[0].taps() || h >= w[1].taps() || k >= w[2].taps() {
					full = false
					r.taps = append(r.taps, tapStream{neutral, 0})
					continue
				}
				r.taps = append(r.taps, tapStream{unsafe.Add(at, p.tapAt(w, d, h, k)), step})
			}
		}
	}
	return full
}

// tapAt is the distance in bytes from the first element of a window to another.
func (p *foldPixels) tapAt(w [3]window, d, h, k int) int {
	return d*w[0].step*p.in[2] + h*w[1].step*p.in[3] + k*w[2].step*p.in[4]
}

// begin readies r for a chunk: the one before may have ended within a loop.
func (r *foldRun) begin(m *graph.Mem) { r.used, r.Context = 0, m.Context }

// run runs a loop over rows of n0 elements with the operands that r has.
func (r *foldRun) run(l *loops.Loop, n0, n1 int) {
	l.Run(&r.State, r.ptrs[:r.used], r.strides[:r.used], n0, n1)
	r.used = 0
}

// runSingle makes a run of results by one loop.
func (p *foldPixels) runSingle(r *foldRun, to unsafe.Pointer, run windowRun, full bool) {
	r.add(to, p.out[0][4])
	for _, t := range r.taps {
		r.add(t.ptr, t.step)
	}
	if p.kind == poolAvg {
		r.add(unsafe.Pointer(&r.divisor), 0)
	}
	if full && p.together && run.step == 1 {
		r.run(p.first, p.c*run.n, 1)
		return
	}
	r.run(p.first, p.c, run.n)
}

// runIndices makes a run of greatest elements and their indices, which differ from result to result.
func (p *foldPixels) runIndices(m *graph.Mem, r *foldRun, to, index unsafe.Pointer, run windowRun) {
	for i := range run.n {
		r.add(unsafe.Add(to, i*p.out[0][4]), 0)
		r.add(unsafe.Add(index, i*p.out[1][4]), 0)
		for _, t := range r.taps {
			r.add(unsafe.Add(t.ptr, i*t.step), 0)
		}
		r.add(unsafe.Pointer(&r.index), 0)
		m.Count(loopCall + p.c*len(r.taps))
		r.run(p.first, p.c, 1)
		r.index += int64(run.step)
	}
}

// runMany makes a run of results by several loops, each over manyTaps elements of windows that begin at from. The last
// loop reads the neutral element in place of missing elements.
func (p *foldPixels) runMany(m *graph.Mem, r *foldRun, to unsafe.Pointer, run windowRun, from unsafe.Pointer,
	w [3]window) {
	carried, step := to, p.out[0][4]
	if p.kind == poolAvg {
		carried, step = unsafe.Pointer(&m.Worker[kit.AlignUp(p.c*p.size)]), p.c*p.sum.Size()
	}
	ht, wt := w[1].taps(), w[2].taps()
	all := w[0].taps() * ht * wt
	for first := 0; first < all || first == 0; first += manyTaps {
		l := p.first
		r.add(carried, step)
		if first > 0 {
			l = p.next
			r.add(carried, step)
		}
		for t := first; t < first+manyTaps; t++ {
			if t >= all {
				r.add(unsafe.Pointer(unsafe.SliceData(m.Worker)), 0)
				continue
			}
			r.add(unsafe.Add(from, p.tapAt(w, t/wt/ht, t/wt%ht, t%wt)), run.step*p.in[4])
		}
		m.Count(loopCall + manyTaps*p.c*run.n)
		r.run(l, p.c, run.n)
	}
	if p.kind == poolAvg {
		r.add(to, p.out[0][4])
		r.add(carried, step)
		r.add(unsafe.Pointer(&r.divisor), 0)
		r.run(p.last, p.c, run.n)
	}
}
