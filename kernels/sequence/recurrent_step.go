package sequence

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// cellRun is a block of sequences on its way through the steps. A worker keeps its
// own: the products take the address of args.
type cellRun[T float32 | float64] struct {
	m              *graph.Mem
	dir, b0, n     int
	h, c, gates, t []T // of the block; t holds the state that a GRU has reset
	lens           []int32
	bias, peeps    []T
	args           gemm.Args[T]
	work           []T
}

// run takes the sequences from b0 on through all steps.
func (s *stepper[T]) run(m *graph.Mem, dir, b0 int) {
	n, h := min(s.block, s.batch-b0), s.hidden
	size := int(unsafe.Sizeof(T(0)))
	room := kit.RegionOf(m.Worker)
	buffers := kit.ElementsOf[T](room.Take(s.buffers*size), s.buffers)
	r := s.runs.Of(m)
	*r = cellRun[T]{m: m, dir: dir, b0: b0, n: n,
		h: buffers[:n*h], c: buffers[s.block*h:][:n*h], t: buffers[2*s.block*h:][:n*h], gates: buffers[3*s.block*h:],
		lens:  kit.ElementsOf[int32](m.Ptrs[stepLens], s.batch),
		bias:  kit.ElementsOf[T](m.Ptrs[stepBias+dir], s.rows),
		peeps: kit.ElementsOf[T](m.Ptrs[stepPeeps+dir], 3*h)}
	r.work = kit.SliceOf[T](m.Worker, kit.AlignUp(s.buffers*size), s.gemmWork)
	r.args.Shared = kit.SliceOf[T](m.Worker, kit.AlignUp(s.buffers*size)+kit.AlignUp(s.gemmWork*size), s.shared)
	s.begin(r)
	longest := 0
	for i := range n {
		longest = max(longest, s.length(r, i))
	}
	for step := range longest {
		s.multiply(r, 0, r.h)
		if s.kind == cellGRU && !s.resetAfter {
			for i := range n {
				s.resetGates(r, step, i)
			}
			s.multiply(r, 1, r.t)
		}
		for i := range n {
			s.step(r, step, i)
		}
	}
	s.finish(r)
	*r = cellRun[T]{}
}

// length is the number of steps of the block's sequence i.
func (s *stepper[T]) length(r *cellRun[T], i int) int {
	if r.lens == nil {
		return s.steps
	}
	return min(max(int(r.lens[r.b0+i]), 0), s.steps)
}

// begin sets the initial states.
func (s *stepper[T]) begin(r *cellRun[T]) {
	for i := range r.n {
		for q, to := range [2][]T{r.h, r.c} {
			row := to[i*s.hidden:][:s.hidden]
			if from := r.m.Ptrs[stepH0+q]; from != nil {
				copy(row, s.state(from, r, i))
			} else {
				clear(row)
			}
		}
	}
}

// state is the row of a state outside.
func (s *stepper[T]) state(p unsafe.Pointer, r *cellRun[T], i int) []T {
	return unsafe.Slice((*T)(kit.Elem[T](p, r.dir*s.stateDir+(r.b0+i)*s.stateBatch)), s.hidden)
}

// multiply is gates = from @ rᵀ for the weights of product q.
func (s *stepper[T]) multiply(r *cellRun[T], q int, from []T) {
	plan := s.plans[0][q]
	if r.n != s.block {
		plan = s.plans[1][q]
	}
	r.args.A = unsafe.Pointer(unsafe.SliceData(from))
	r.args.B = s.weights(r.m, r.dir, q)
	r.args.C = unsafe.Pointer(&r.gates[s.firstRow(q)])
	plan.RunAll(&r.args, r.work)
}

// sums returns a gate's sum of the input's part and the state's.
func (s *stepper[T]) sums(r *cellRun[T], in []T, i, gate int) []T {
	at := s.order[gate] * s.hidden
	g := r.gates[i*s.rows+at:][:s.hidden]
	for k, v := range in[at:][:s.hidden] {
		g[k] += v
	}
	return g
}

// inputs is the projected input of a step of sequence i, and the step's place in time.
func (s *stepper[T]) inputsOf(r *cellRun[T], step, i int) ([]T, int) {
	t := step
	if s.backward[r.dir] {
		t = s.length(r, i) - 1 - step
	}
	row := r.dir*s.steps*s.batch + t*s.xStep + (r.b0+i)*s.xBatch
	return unsafe.Slice((*T)(kit.Elem[T](r.m.Ptrs[stepInputs], row*s.rows)), s.rows), t
}

// apply clips the sums and applies function f of the direction.
func (s *stepper[T]) apply(r *cellRun[T], f int, v []T) {
	if s.limit > 0 {
		for k, x := range v {
			v[k] = min(max(x, -s.limit), s.limit)
		}
	}
	s.acts[r.dir][f](v)
}

// resetGates computes the gates z and r of a GRU, and the state times r.
func (s *stepper[T]) resetGates(r *cellRun[T], step, i int) {
	if step >= s.length(r, i) {
		return
	}
	in, _ := s.inputsOf(r, step, i)
	s.apply(r, 0, s.sums(r, in, i, 0))
	reset := s.sums(r, in, i, 1)
	s.apply(r, 0, reset)
	t, h := r.t[i*s.hidden:][:s.hidden], r.h[i*s.hidden:][:s.hidden]
	for k, v := range reset {
		t[k] = v * h[k]
	}
}

// step does one step of sequence i from the gates' products.
func (s *stepper[T]) step(r *cellRun[T], step, i int) {
	if step >= s.length(r, i) {
		return
	}
	in, t := s.inputsOf(r, step, i)
	h, c := r.h[i*s.hidden:][:s.hidden], r.c[i*s.hidden:][:s.hidden]
	switch s.kind {
	case cellRNN:
		g := s.sums(r, in, i, 0)
		s.apply(r, 0, g)
		copy(h, g)
	case cellGRU:
		s.stepGRU(r, in, i, h)
	default:
		s.stepLSTM(r, in, i, h, c)
	}
	if p := r.m.Ptrs[stepY]; p != nil {
		copy(unsafe.Slice((*T)(kit.Elem[T](p, t*s.yStep+(r.b0+i)*s.yBatch+r.dir*s.yDir)), s.hidden), h)
	}
}

func (s *stepper[T]) stepGRU(r *cellRun[T], in []T, i int, h []T) {
	at := func(gate int) []T { return r.gates[i*s.rows+s.order[gate]*s.hidden:][:s.hidden] }
	z, reset, g := at(0), at(1), at(2)
	if s.resetAfter {
		s.apply(r, 0, s.sums(r, in, i, 0))
		s.apply(r, 0, s.sums(r, in, i, 1))
		x := in[s.order[2]*s.hidden:][:s.hidden]
		for k := range g {
			v := g[k]
			if r.bias != nil {
				v += r.bias[s.order[2]*s.hidden+k]
			}
			g[k] = x[k] + reset[k]*v
		}
	} else {
		s.sums(r, in, i, 2)
	}
	s.apply(r, 1, g)
	for k := range h {
		h[k] = (1-z[k])*g[k] + z[k]*h[k]
	}
}

func (s *stepper[T]) stepLSTM(r *cellRun[T], in []T, i int, h, c []T) {
	input, output := s.sums(r, in, i, 0), s.sums(r, in, i, 1)
	forget, cell := s.sums(r, in, i, 2), s.sums(r, in, i, 3)
	if n := s.hidden; r.peeps != nil {
		for k, v := range c {
			input[k] += r.peeps[k] * v
			forget[k] += r.peeps[2*n+k] * v
		}
	}
	s.apply(r, 0, input)
	if s.couple {
		for k, v := range input {
			forget[k] = 1 - v
		}
	} else {
		s.apply(r, 0, forget)
	}
	s.apply(r, 1, cell)
	for k := range c {
		c[k] = forget[k]*c[k] + input[k]*cell[k]
	}
	if n := s.hidden; r.peeps != nil {
		for k, v := range c {
			output[k] += r.peeps[n+k] * v
		}
	}
	s.apply(r, 0, output)
	// The cell's gate is no longer needed.
	copy(cell, c)
	s.acts[r.dir][2](cell)
	for k := range h {
		h[k] = output[k] * cell[k]
	}
}

// finish writes the last states, and zeros behind sequences that are shorter.
func (s *stepper[T]) finish(r *cellRun[T]) {
	for i := range r.n {
		for q, from := range [2][]T{r.h, r.c} {
			if p := r.m.Ptrs[stepHN+q]; p != nil {
				copy(s.state(p, r, i), from[i*s.hidden:][:s.hidden])
			}
		}
		p := r.m.Ptrs[stepY]
		if p == nil {
			continue
		}
		for t := s.length(r, i); t < s.steps; t++ {
			clear(unsafe.Slice((*T)(kit.Elem[T](p, t*s.yStep+(r.b0+i)*s.yBatch+r.dir*s.yDir)), s.hidden))
		}
	}
}
