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

// carriedBytes is the approximate size of the partial sums that one loop passes to the next, so that they stay in the
// L1 cache.
const carriedBytes = 16 << 10

// runElements bounds the elements that one call of a loop folds.
const runElements = 1 << 24

// loopCall is the cost of a call of a loop, in simple operations.
const loopCall = 64

// compiledPixels is a pooling over up to three dimensions by compiled loops over channels, which are contiguous in
// operand and results. Neighbouring results along the last dimension whose windows have the same number of elements are
// the rows of one run of the loop, or a single row if all their elements are contiguous.
type compiledPixels struct {
	*tapLoops
	n, c      int
	size      int // bytes of an element
	in        [5]int
	out       [2][5]int // strides in bytes: batch, channel, depth, height, width
	plane     [3]int    // sizes of the operand
	axes      [3]poolAxis
	most      [3]int // maximum elements of a window by dimension
	longest   int    // maximum results of a run
	outs      int
	mergeable bool // the pixels of a run are contiguous in operand and result
	state     graph.PerWorker[poolRun]
}

// tapStream is a tap of a run's windows: its address for the first result, and its stride in bytes.
type tapStream struct {
	ptr  unsafe.Pointer
	step int
}

// poolRun is a worker's state for running loops.
type poolRun struct {
	loops.State
	ptrs    [expr.MaxOperands]unsafe.Pointer
	strides [expr.MaxOperands]int
	used    int
	taps    []tapStream
	// Scalar operands of loops.
	divisor [8]byte
	index   int64
}

func (r *poolRun) add(p unsafe.Pointer, step int) {
	r.ptrs[r.used], r.strides[r.used] = p, step
	r.used++
}

// spatialSteps returns the strides of m in bytes for batch, channel, depth, height and width; missing dimensions have
// 0.
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

// newCompiledPixels returns nil if there is no machine code, or if channels are not contiguous.
func newCompiledPixels(c *graph.Call, f poolFold, axes []poolAxis) (*compiledPixels, error) {
	m, dims := c.Meta(0), len(axes)
	lead := m.Rank() - dims
	p := &compiledPixels{n: 1, c: m.Shape[lead-1], size: m.DType.Size(), in: spatialSteps(m, dims), outs: len(c.Out)}
	if lead == 2 {
		p.n = m.Shape[0]
	}
	v := newVolume(m, axes)
	p.plane, p.axes = v.in, v.axes
	strided := p.c > 1 && p.in[1] != p.size
	for i, o := range c.Out {
		p.out[i] = spatialSteps(o, dims)
		strided = strided || p.c > 1 && p.out[i][1] != o.DType.Size()
	}
	if strided || c.Out[0].Numel() == 0 {
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
	if p.tapLoops, err = newTapLoops(f, m.DType, taps, p.offset); p.tapLoops == nil || err != nil {
		return nil, err
	}
	p.mergeable = p.in[4] == p.c*p.size && p.out[0][4] == p.in[4] && !p.indices
	p.longest = max(1, runElements/(p.c*min(taps, maxLoopTaps)))
	if !p.single && p.kind == poolAvg {
		p.longest = max(1, carriedBytes/(p.c*p.sum.Size()))
	}
	return p, nil
}

// offset returns the difference between the indices of tap k and of the first element of a window.
func (p *compiledPixels) offset(k int) int {
	step := func(d int) int { return max(1, p.axes[d].at(0).step) }
	d, h, w := k/(p.most[1]*p.most[2]), k/p.most[2]%p.most[1], k%p.most[2]
	return (d*step(0)*p.plane[1]+h*step(1))*p.plane[2] + w*step(2)
}

// kernel iterates over rows of results.
func (p *compiledPixels) kernel() *graph.Kernel {
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

// row computes a row of results.
func (p *compiledPixels) row(m *graph.Mem, r *poolRun, n, d, h int) {
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

// streams lists the taps of a window for one loop. Taps outside the operand read the neutral element; full says that
// there are none.
func (p *compiledPixels) streams(r *poolRun, at unsafe.Pointer, w [3]window, step int,
	neutral unsafe.Pointer) (full bool) {
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

// tapAt returns the distance in bytes from the first element of a window to another.
func (p *compiledPixels) tapAt(w [3]window, d, h, k int) int {
	return d*w[0].step*p.in[2] + h*w[1].step*p.in[3] + k*w[2].step*p.in[4]
}

// begin prepares r for a chunk; the chunk before may have stopped in a loop.
func (r *poolRun) begin(m *graph.Mem) { r.used, r.Context = 0, m.Context }

// run runs a loop over n1 rows of n0 elements with the operands that were added to r.
func (r *poolRun) run(l *loops.Loop, n0, n1 int) {
	l.Run(&r.State, r.ptrs[:r.used], r.strides[:r.used], n0, n1)
	r.used = 0
}

// runSingle computes a run of results by one loop.
func (p *compiledPixels) runSingle(r *poolRun, to unsafe.Pointer, run windowRun, full bool) {
	r.add(to, p.out[0][4])
	for _, t := range r.taps {
		r.add(t.ptr, t.step)
	}
	if p.kind == poolAvg {
		r.add(unsafe.Pointer(&r.divisor), 0)
	}
	if full && p.mergeable && run.step == 1 {
		r.run(p.first, p.c*run.n, 1)
		return
	}
	r.run(p.first, p.c, run.n)
}

// runIndices computes a run of maxima and their indices. The base index differs from result to result, so each takes
// one call.
func (p *compiledPixels) runIndices(m *graph.Mem, r *poolRun, to, index unsafe.Pointer, run windowRun) {
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

// runMany computes a run of results by several loops, each over tapsPerLoop elements of windows that begin at from. The
// last loop reads the neutral element in place of missing elements.
func (p *compiledPixels) runMany(m *graph.Mem, r *poolRun, to unsafe.Pointer, run windowRun, from unsafe.Pointer,
	w [3]window) {
	carried, step := to, p.out[0][4]
	if p.kind == poolAvg {
		carried, step = unsafe.Pointer(&m.Worker[kit.AlignUp(p.c*p.size)]), p.c*p.sum.Size()
	}
	ht, wt := w[1].taps(), w[2].taps()
	all := w[0].taps() * ht * wt
	for first := 0; first < all || first == 0; first += tapsPerLoop {
		l := p.first
		r.add(carried, step)
		if first > 0 {
			l = p.next
			r.add(carried, step)
		}
		for t := first; t < first+tapsPerLoop; t++ {
			if t >= all {
				r.add(unsafe.Pointer(unsafe.SliceData(m.Worker)), 0)
				continue
			}
			r.add(unsafe.Add(from, p.tapAt(w, t/wt/ht, t/wt%ht, t%wt)), run.step*p.in[4])
		}
		m.Count(loopCall + tapsPerLoop*p.c*run.n)
		r.run(l, p.c, run.n)
	}
	if p.kind == poolAvg {
		r.add(to, p.out[0][4])
		r.add(carried, step)
		r.add(unsafe.Pointer(&r.divisor), 0)
		r.run(p.last, p.c, run.n)
	}
}
