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
	axes     [3][]window
	most     [3]int // elements of a window by dimension
	runs     []windowRun
	outs     int
	together bool // the pixels of a run may be one row
	state    graph.PerWorker[foldRun]
}

// windowRun is n results from at on whose windows have as many elements, and begin step apart.
type windowRun struct{ at, n, step int }

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
func newFoldPixels(c *graph.Call, f poolFold, axes [][]window) (*foldPixels, error) {
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
	for d, axis := range p.axes {
		for _, w := range axis {
			p.most[d] = max(p.most[d], w.taps())
		}
	}
	offsets, ok := p.offsets()
	if apart || !ok || c.Out[0].Numel() == 0 {
		return nil, nil
	}
	var err error
	f.indices = len(c.Out) > 1
	if p.tapFold, err = newTapFold(f, m.DType, offsets); p.tapFold == nil || err != nil {
		return nil, err
	}
	p.findRuns()
	return p, nil
}

// offsets are the distances between indices of the elements of a window, by tap. Those of windows that may not be
// one loop's do not matter. Not ok: steps differ from window to window.
func (p *foldPixels) offsets() (list []int, ok bool) {
	var step [3]int
	for d, axis := range p.axes {
		step[d] = 1
		for _, w := range axis {
			if w.taps() > 1 {
				step[d] = w.step
			}
		}
	}
	taps := p.most[0] * p.most[1] * p.most[2]
	list = make([]int, taps)
	for k := range list {
		d, h, w := k/(p.most[1]*p.most[2]), k/p.most[2]%p.most[1], k%p.most[2]
		list[k] = (d*step[0]*p.plane[1]+h*step[1])*p.plane[2] + w*step[2]
	}
	return list, taps > 0
}

// findRuns parts the last dimension. Sums that are handed on must have room for all of a run.
func (p *foldPixels) findRuns() {
	axis := p.axes[2]
	longest := len(axis)
	if !p.single && p.kind == poolAvg {
		longest = max(1, carriedBytes/(p.c*p.sum.Size()))
	}
	p.together = p.in[4] == p.c*p.size && p.out[0][4] == p.in[4] && !p.indices
	for i, w := range axis {
		last := len(p.runs) - 1
		if last >= 0 {
			r := &p.runs[last]
			first := axis[r.at]
			step := w.start - axis[i-1].start
			if r.n < longest && first.taps() == w.taps() && first.size == w.size && (r.n == 1 || step == r.step) {
				r.n, r.step = r.n+1, step
				continue
			}
		}
		p.runs = append(p.runs, windowRun{at: i, n: 1})
	}
}

// kernel goes by rows of results.
func (p *foldPixels) kernel() *graph.Kernel {
	nd, nh := len(p.axes[0]), len(p.axes[1])
	rows := p.n * nd * nh
	area := p.most[0] * p.most[1] * p.most[2]
	cut := machine.CutUnits(rows, len(p.axes[2])*p.c*area, machine.ReduceGrain)
	neutral := kit.AlignUp(p.c * p.size)
	k := &graph.Kernel{Worker: neutral, Code: p.listings}
	if !p.single && p.kind == poolAvg {
		k.Worker += max(carriedBytes, p.c*p.sum.Size())
	}
	k.Phases = []graph.Phase{{Chunks: cut.Chunks, Run: func(m *graph.Mem, chunk int) error {
		r := p.state.Of(m)
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
	ds, hs := p.axes[0][d], p.axes[1][h]
	from := unsafe.Add(m.Ptrs[p.outs], n*p.in[0]+ds.start*p.in[2]+hs.start*p.in[3])
	at := func(i int) unsafe.Pointer {
		return unsafe.Add(m.Ptrs[i], n*p.out[i][0]+d*p.out[i][2]+h*p.out[i][3])
	}
	for _, run := range p.runs {
		ws := p.axes[2][run.at]
		full := p.streams(r, unsafe.Add(from, ws.start*p.in[4]), [3]window{ds, hs, ws}, run.step*p.in[4],
			unsafe.Pointer(unsafe.SliceData(m.Worker)))
		to := unsafe.Add(at(0), run.at*p.out[0][4])
		if p.kind == poolAvg {
			putDivisor(r.divisor[:], p.d, p.sum, p.by(ds.size*hs.size*ws.size))
		}
		switch {
		case p.indices:
			r.index = int64((ds.start*p.plane[1]+hs.start)*p.plane[2] + ws.start)
			p.runIndices(r, to, unsafe.Add(at(1), run.at*p.out[1][4]), run)
		case p.single:
			p.runSingle(r, to, run, full)
		default:
			p.runMany(m, r, to, run)
		}
	}
}

// streams lists the elements of a window. Of those that one loop takes the ones that there are not read the neutral
// element, and full says that there are all; of others they are left out.
func (p *foldPixels) streams(r *foldRun, at unsafe.Pointer, w [3]window, step int, neutral unsafe.Pointer) (full bool) {
	full = true
	r.taps = r.taps[:0]
	for d := range p.most[0] {
		for h := range p.most[1] {
			for k := range p.most[2] {
				switch {
				case d < w[0].taps() && h < w[1].taps() && k < w[2].taps():
					to := d*w[0].step*p.in[2] + h*w[1].step*p.in[3] + k*w[2].step*p.in[4]
					r.taps = append(r.taps, tapStream{unsafe.Add(at, to), step})
				case p.single:
					full = false
					r.taps = append(r.taps, tapStream{neutral, 0})
				}
			}
		}
	}
	for !p.single && (len(r.taps)%manyTaps != 0 || len(r.taps) == 0) {
		r.taps = append(r.taps, tapStream{neutral, 0})
	}
	return full
}

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
func (p *foldPixels) runIndices(r *foldRun, to, index unsafe.Pointer, run windowRun) {
	for i := range run.n {
		r.add(unsafe.Add(to, i*p.out[0][4]), 0)
		r.add(unsafe.Add(index, i*p.out[1][4]), 0)
		for _, t := range r.taps {
			r.add(unsafe.Add(t.ptr, i*t.step), 0)
		}
		r.add(unsafe.Pointer(&r.index), 0)
		r.run(p.first, p.c, 1)
		r.index += int64(run.step)
	}
}

// runMany makes a run of results by several loops.
func (p *foldPixels) runMany(m *graph.Mem, r *foldRun, to unsafe.Pointer, run windowRun) {
	carried, step := to, p.out[0][4]
	if p.kind == poolAvg {
		carried, step = unsafe.Pointer(&m.Worker[kit.AlignUp(p.c*p.size)]), p.c*p.sum.Size()
	}
	for k := 0; k < len(r.taps); k += manyTaps {
		l := p.first
		r.add(carried, step)
		if k > 0 {
			l = p.next
			r.add(carried, step)
		}
		for _, t := range r.taps[k : k+manyTaps] {
			r.add(t.ptr, t.step)
		}
		r.run(l, p.c, run.n)
	}
	if p.kind == poolAvg {
		r.add(to, p.out[0][4])
		r.add(carried, step)
		r.add(unsafe.Pointer(&r.divisor), 0)
		r.run(p.last, p.c, run.n)
	}
}
