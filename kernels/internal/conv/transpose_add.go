package conv

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// transposedWindows is a transposed convolution over three dimensions; missing ones have size 1.
type transposedWindows struct {
	n, c, o, groups    int
	in, out, k         [3]int
	step, pad, dilated [3]int
	bias               bool
}

// rows returns the number of elements in the windows of a group's output channels.
func (s *transposedWindows) rows() int { return s.o / s.groups * product3(s.k) }

// windowAdder sums overlapping windows by machine code, as a polyphase decomposition: elements of the result that are a
// stride apart meet the same taps. They form a phase, in which the contribution of a tap has the layout of the input,
// row by row. Phases are interleaved at the end.
type windowAdder struct {
	*transposedWindows
	add    *loops.Loop
	size   int    // bytes of an element
	phases [3]int // number of phases of each dimension
	length [3]int // elements of a phase
	run    graph.PerWorker[adderRun]
}

// adderRun is a worker's state.
type adderRun struct {
	state   loops.State
	ptrs    [3]unsafe.Pointer
	strides [3]int
	runs    []unsafe.Pointer
}

// minPlaneElements is the number of elements of a plane below which machine code does not pay.
const minPlaneElements = 128

// newWindowAdder returns nil if there is no machine code for a dtype, or too few elements.
func newWindowAdder(s *transposedWindows, d tensor.DType) (*windowAdder, error) {
	if d != tensor.Float32 && d != tensor.Float64 || !loops.Compiles() || s.in[1]*s.in[2] < minPlaneElements {
		return nil, nil
	}
	b := expr.NewBuilder(d, d)
	code, err := b.Build(b.Real(b.Do(expr.Add, b.Load(0), b.Load(1))))
	if err != nil {
		return nil, err
	}
	a := &windowAdder{transposedWindows: s, size: d.Size(), phases: s.step}
	for i := range 3 {
		a.phases[i] = min(s.step[i], s.out[i])
		a.length[i] = kit.DivUp(s.out[i], s.step[i])
	}
	if a.add, err = loops.New(&expr.Loop{Code: code, Scalar: make([]bool, 2)}, loops.Options{}); err != nil ||
		!a.add.Compiled() {
		return nil, err
	}
	return a, nil
}

// inPlace reports whether there is a single phase, which is the result itself.
func (a *windowAdder) inPlace() bool { return product3(a.phases) == 1 }

// room returns the bytes of the phases of a channel; 0 for nil.
func (a *windowAdder) room() int {
	if a == nil || a.inPlace() {
		return 0
	}
	return product3(a.phases) * product3(a.length) * a.size
}

// tapPhase returns the phase of tap k along a dimension, the offset of its elements in the phase relative to the input,
// and the range of the input that it applies to.
func (a *windowAdder) tapPhase(dim, k int) (phase, shift, first, end int) {
	at := k*a.dilated[dim] - a.pad[dim]
	phase = (at%a.step[dim] + a.step[dim]) % a.step[dim]
	first, end = validRange(at, a.step[dim], a.out[dim], a.in[dim])
	return phase, (at - phase) / a.step[dim], first, max(first, end)
}

// channel sums the windows of one channel and its bias. to is worker memory of room bytes.
func (a *windowAdder) channel(m *graph.Mem, y, cols, to unsafe.Pointer, bias float64) {
	r := a.run.Of(m)
	r.state.Context = m.Context
	if a.inPlace() {
		to = y
	}
	n := product3(a.phases) * product3(a.length)
	if a.size == 4 {
		fill(m, kit.ElementsOf[float32](to, n), float32(bias))
	} else {
		fill(m, kit.ElementsOf[float64](to, n), bias)
	}
	points := product3(a.in)
	for tap := range product3(a.k) {
		a.window(m, r, to, unsafe.Add(cols, tap*points*a.size), tap)
	}
	r.state.Release()
	r.ptrs = [3]unsafe.Pointer{}
	if !a.inPlace() {
		a.join(m, r, y, to)
	}
}

// window adds one tap of all windows.
func (a *windowAdder) window(m *graph.Mem, r *adderRun, to, cols unsafe.Pointer, tap int) {
	pd, sd, d0, d1 := a.tapPhase(0, tap/a.k[2]/a.k[1])
	ph, sh, h0, h1 := a.tapPhase(1, tap/a.k[2]%a.k[1])
	pw, sw, w0, w1 := a.tapPhase(2, tap%a.k[2])
	if d0 == d1 || h0 == h1 || w0 == w1 {
		return
	}
	phase := unsafe.Add(to, ((pd*a.phases[1]+ph)*a.phases[2]+pw)*product3(a.length)*a.size)
	row, column := a.length[2]*a.size, a.in[2]*a.size
	r.strides = [3]int{row, row, column}
	for d := d0; d < d1; d++ {
		at := unsafe.Add(phase, (((d+sd)*a.length[1]+h0+sh)*a.length[2]+w0+sw)*a.size)
		from := unsafe.Add(cols, ((d*a.in[1]+h0)*a.in[2]+w0)*a.size)
		r.ptrs = [3]unsafe.Pointer{at, at, from}
		m.Count((w1 - w0) * (h1 - h0))
		a.add.Run(&r.state, r.ptrs[:], r.strides[:], w1-w0, h1-h0)
	}
}

// join interleaves the phases of a channel.
func (a *windowAdder) join(m *graph.Mem, r *adderRun, y, from unsafe.Pointer) {
	each, columns := product3(a.length)*a.size, a.phases[2]
	whole := a.out[2] / a.step[2]
	for row := range a.out[0] * a.out[1] {
		m.Count(a.out[2])
		d, h := row/a.out[1], row%a.out[1]
		phase := (d%a.step[0]*a.phases[1] + h%a.step[1]) * columns
		at := (d/a.step[0]*a.length[1] + h/a.step[1]) * a.length[2] * a.size
		r.runs = r.runs[:0]
		for w := range columns {
			r.runs = append(r.runs, unsafe.Add(from, (phase+w)*each+at))
		}
		to := unsafe.Add(y, row*a.out[2]*a.size)
		if columns == 2 && a.size == 4 {
			joinPairs(to, r.runs[0], r.runs[1], whole)
		} else {
			strided.Interleave(a.size, to, a.step[2]*a.size, r.runs, whole)
		}
		for w := range a.out[2] - whole*a.step[2] { // the first phases may have one element more
			strided.Move(a.size).Row(unsafe.Add(to, (whole*a.step[2]+w)*a.size), unsafe.Add(r.runs[w], whole*a.size), a.size,
				a.size, 1)
		}
	}
	clear(r.runs)
}

// addWindows sums the windows of one channel in Go, tap by tap.
func addWindows[T int64 | float32 | float64 | complex64 | complex128](m *graph.Mem, s *transposedWindows,
	y, cols []T, bias T) {
	fill(m, y, bias)
	for tap := range product3(s.k) {
		kd, kh, kw := tap/s.k[2]/s.k[1], tap/s.k[2]%s.k[1], tap%s.k[2]
		at := kw*s.dilated[2] - s.pad[2]
		first, end := validRange(at, s.step[2], s.out[2], s.in[2])
		for row := range s.in[0] * s.in[1] {
			m.Count(s.in[2] + 8)
			x := cols[:s.in[2]]
			cols = cols[s.in[2]:]
			d := row/s.in[1]*s.step[0] - s.pad[0] + kd*s.dilated[0]
			h := row%s.in[1]*s.step[1] - s.pad[1] + kh*s.dilated[1]
			if uint(d) >= uint(s.out[0]) || uint(h) >= uint(s.out[1]) || first >= end {
				continue
			}
			line := y[(d*s.out[1]+h)*s.out[2]:][:s.out[2]]
			if s.step[2] == 1 {
				line = line[at+first : at+end]
				for i, e := range x[first:end] {
					line[i] += e
				}
				continue
			}
			for i := first; i < end; i++ {
				line[at+i*s.step[2]] += x[i]
			}
		}
	}
}

// joinPairs interleaves two rows of elements of 4 bytes.
func joinPairs(to, even, odd unsafe.Pointer, n int) {
	x, y := unsafe.Slice((*uint32)(even), n), unsafe.Slice((*uint32)(odd), n)
	y = y[:len(x)]
	pairs := unsafe.Slice((*[2]uint32)(to), n)[:len(x)]
	for i, v := range x {
		pairs[i] = [2]uint32{v, y[i]}
	}
}

func fill[T any](m *graph.Mem, x []T, v T) {
	for block := range slices.Chunk(x, kit.CheckEvery) {
		for i := range block {
			block[i] = v
		}
		m.Count(len(block))
	}
}

// realOf converts a float to float64; it returns 0 for other types, which no windowAdder supports.
func realOf[T int64 | float32 | float64 | complex64 | complex128](v T) float64 {
	switch v := any(v).(type) {
	case float32:
		return float64(v)
	case float64:
		return v
	}
	return 0
}
