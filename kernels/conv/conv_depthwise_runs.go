package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// depthwiseRuns convolves pixels, whose channels lie together, by compiled loops over channels: neighbouring pixels of
// an output row that see the same columns of the window are the rows of one run. What of the window lies outside of the
// image is read from zeros in the worker's memory.
type depthwiseRuns struct {
	s    *convShape
	size int // bytes of an element
	sum  *tapSum
	runs []pixelSpan
	run  graph.PerWorker[tapRun]
}

// pixelSpan is output pixels from at on that see columns [first, end) of the window.
type pixelSpan struct{ at, n, first, end int }

// newDepthwiseRuns returns nil where there is no machine code, or other streams than it goes along.
func newDepthwiseRuns(s *convShape, d tensor.DType) (*depthwiseRuns, error) {
	if s.o != s.c || s.hasBias && s.bias != 1 {
		return nil, nil
	}
	t := &depthwiseRuns{s: s, size: d.Size()}
	var err error
	if t.sum, err = newTapSum(d, s.kh*s.kw, s.hasBias, false); t.sum == nil || err != nil {
		return nil, err
	}
	for ow := range s.ow {
		first, end := validRange(ow*s.sw-s.pw, s.dw, s.w, s.kw)
		if last := len(t.runs) - 1; last >= 0 && t.runs[last].first == first && t.runs[last].end == end {
			t.runs[last].n++
			continue
		}
		t.runs = append(t.runs, pixelSpan{ow, 1, first, end})
	}
	return t, nil
}

// phase goes output row by output row. Weight gives the weight by taps and channels.
func (t *depthwiseRuns) phase(weight func(m *graph.Mem) unsafe.Pointer) graph.Phase {
	s := t.s
	rows := s.n * s.oh
	group := max(1, machine.DirectMACGrain/max(1, s.ow*s.o*s.kh*s.kw))
	return graph.Phase{Chunks: kit.DivUp(rows, group), Run: func(m *graph.Mem, chunk int) error {
		r := t.run.Of(m)
		r.room(s.kh * s.kw)
		clear(m.Worker[:s.c*t.size])
		for k, w := range r.w {
			w.ptr = unsafe.Add(weight(m), k*s.o*t.size)
			r.w[k] = w
		}
		for row := chunk * group; row < min(rows, (chunk+1)*group); row++ {
			t.row(m, r, row/s.oh, row%s.oh)
		}
		r.release()
		return nil
	}}
}

// row computes a row of the output.
func (t *depthwiseRuns) row(m *graph.Mem, r *tapRun, n, oh int) {
	s := t.s
	pixel := s.c * t.size
	img := unsafe.Add(m.Ptrs[1], n*s.h*s.w*pixel)
	out := unsafe.Add(m.Ptrs[0], (n*s.oh+oh)*s.ow*pixel)
	for _, p := range t.runs {
		for k := range r.x {
			kw := k % s.kw
			ih, iw := oh*s.sh-s.ph+k/s.kw*s.dh, p.at*s.sw-s.pw+kw*s.dw
			if uint(ih) < uint(s.h) && p.first <= kw && kw < p.end {
				r.x[k] = stream{unsafe.Add(img, (ih*s.w+iw)*pixel), s.sw * pixel}
			} else {
				r.x[k] = stream{unsafe.Pointer(unsafe.SliceData(m.Worker)), 0}
			}
		}
		t.sum.run(r, stream{unsafe.Add(out, p.at*pixel), pixel}, stream{ptr: s.biasAt(m)}, s.c, p.n)
	}
}
