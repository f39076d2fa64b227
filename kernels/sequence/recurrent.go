package sequence

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// cellKind is what a recurrent layer computes at each step.
type cellKind uint8

const (
	cellRNN cellKind = iota
	cellGRU
	cellLSTM
)

func (k cellKind) gates() int { return [...]int{1, 3, 4}[k] }

// recurrent is a recurrent layer over one or both directions. Sequences are in memory in
// any order of steps and batch: row t*xStep + b*xBatch of x is the input of step t of
// sequence b. Strides of y and of the states count elements.
type recurrent struct {
	kind                           cellKind
	steps, batch, inputs, hidden   int
	dirs                           int
	backward                       [2]bool // directions that run from the last step
	xStep, xBatch                  int
	yStep, yBatch, yDir            int
	stateBatch, stateDir           int
	order                          [4]int // block of the weights' rows of gate i, o, f, c; or z, r, h
	resetAfter                     bool   // GRU: the reset gate applies after the product
	couple                         bool   // LSTM: the forget gate is 1 minus the input gate
	clip                           float64
	integer                        tensor.DType  // in which integers wrap
	acts                           [2][3]cellAct // functions of each direction: f, g, h
	x, h0, c0, lens, y, hn, cn     kit.Buffer
	w, r, inBias, stateBias, peeps [2]kit.Buffer
}

// cellAct is an activation with its parameters.
type cellAct struct {
	name        string
	alpha, beta float64
}

// cellBlock is the number of sequences that go through the steps together.
const cellBlock = 16

// stepper is a recurrent layer prepared in a dtype.
type stepper[T float32 | float64] struct {
	*recurrent
	rows     int // of all gates
	block    int
	at       [2][2]int // where weights that are not packed before are in scratch memory, in elements
	prepack  bool
	second   int                 // where the second product's weights are behind the first one's, in elements
	plans    [2][2]*gemm.Plan[T] // for whole blocks and for the last one; the second product of a GRU
	loops    [2][]cellLoop       // behind the products of a step, by direction
	buffers  int                 // elements of a worker's state and gates
	gemmWork int
	shared   int
	runs     graph.PerWorker[cellRun[T]]
}

// addRecurrent adds the parts of a layer: biases, the product of all inputs, and the steps.
func addRecurrent[T float32 | float64](x *copies.Compound, l *recurrent) error {
	d := tensor.DTypeOf[T]()
	rows := l.kind.gates() * l.hidden
	bias := x.Temp(d, l.dirs, rows)
	x.Run(0, 0, []kit.Buffer{bias, l.inBias[0], l.stateBias[0], l.inBias[1], l.stateBias[1]},
		graph.Phase{Chunks: l.dirs, Run: func(m *graph.Mem, dir int) error {
			joinBiases(l, kit.ElementsOf[T](kit.Elem[T](m.Ptrs[0], dir*rows), rows),
				kit.ElementsOf[T](m.Ptrs[1+2*dir], rows), kit.ElementsOf[T](m.Ptrs[2+2*dir], rows))
			return nil
		}})
	all := l.steps * l.batch
	projected := x.Temp(d, l.dirs, all, rows)
	for dir := range l.dirs {
		to := projected.Show(tensor.Meta{DType: d, Shape: []int{all, rows}, Strides: []int{rows, 1},
			Offset: dir * all * rows})
		from := bias.Show(tensor.Meta{DType: d, Shape: []int{rows}, Strides: []int{1}, Offset: dir * rows})
		if err := project[T](x, to, l.x, l.w[dir], from, all, rows, l.inputs); err != nil {
			return err
		}
	}
	return addSteps[T](x, l, projected)
}

// addPlain adds the parts of a layer in numbers that have no fast products: a chunk takes one
// sequence through all steps, in one direction, as the definition says. A layer of PyTorch's
// has no lengths, peepholes or bounds.
func addPlain[T complex128 | int64](x *copies.Compound, l *recurrent) error {
	buffers := []kit.Buffer{l.x, l.y, l.hn, l.cn, l.h0, l.c0}
	for dir := range 2 {
		buffers = append(buffers, l.w[dir], l.r[dir], l.inBias[dir], l.stateBias[dir])
	}
	x.Run(0, 0, buffers, graph.Phase{Chunks: l.dirs * l.batch, Run: func(m *graph.Mem, chunk int) error {
		var at [14][]T
		for i, s := range buffers {
			if s.Given() {
				at[i] = kit.ElementsOf[T](m.Ptrs[i], s.Meta.Numel())
			}
		}
		state := func(dir, b, k int) int { return dir*l.stateDir + b*l.stateBatch + k }
		c := &cellReference[T]{l: l,
			x:  func(t, b, i int) T { return at[0][(t*l.xStep+b*l.xBatch)*l.inputs+i] },
			y:  func(t, dir, b, k int, v T) { at[1][t*l.yStep+b*l.yBatch+dir*l.yDir+k] = v },
			hn: func(dir, b, k int, v T) { at[2][state(dir, b, k)] = v },
			h0: func(dir, b, k int) T { return at[4][state(dir, b, k)] },
			w:  func(dir, row, i int) T { return at[6+4*dir][row*l.inputs+i] },
			r:  func(dir, row, k int) T { return at[7+4*dir][row*l.hidden+k] }}
		if l.kind == cellLSTM {
			c.cn = func(dir, b, k int, v T) { at[3][state(dir, b, k)] = v }
			c.c0 = func(dir, b, k int) T { return at[5][state(dir, b, k)] }
		}
		if l.inBias[0].Given() {
			c.inBias = func(dir, row int) T { return at[8+4*dir][row] }
			c.stateBias = func(dir, row int) T { return at[9+4*dir][row] }
		}
		c.runSequence(chunk/l.batch, chunk%l.batch)
		return nil
	}})
	return nil
}

// joinBiases adds both biases up, but for that of a GRU's state that the reset gate
// scales.
func joinBiases[T float32 | float64](l *recurrent, out, in, state []T) {
	clear(out)
	copy(out, in)
	for i, v := range state {
		if l.kind == cellGRU && l.resetAfter && i/l.hidden == l.order[2] {
			continue
		}
		out[i] += v
	}
}

// project adds to = from @ wᵀ + bias.
func project[T float32 | float64](x *copies.Compound, to, from, w, bias kit.Buffer, m, n, k int) error {
	spec := gemm.Spec{M: m, N: n, K: k, A: gemm.Operand{RowStride: k, ColStride: 1},
		B:          gemm.Operand{RowStride: 1, ColStride: k},
		CRowStride: n, CColStride: 1, Bias: gemm.BiasCols, BiasStride: 1}
	if w.Packed {
		spec.B = gemm.Operand{Source: gemm.Prepacked}
	}
	plan, err := gemm.NewPlan[T](spec)
	if err != nil {
		return err
	}
	p := &multiply.Multiplier[T]{Plan: plan, Entries: 1, MACs: kit.Times(m, n, max(k, 1))}
	p.Bind = func(mem *graph.Mem, j *multiply.Job[T]) {
		j.C, j.A, j.B, j.Bias = mem.Ptrs[0], mem.Ptrs[1], mem.Ptrs[2], mem.Ptrs[3]
	}
	ph, scratch, worker := p.Phases(0)
	x.Run(scratch, worker, []kit.Buffer{to, from, w, bias}, ph...)
	x.List(p.Listings)
	return nil
}

// addSteps adds the steps: a chunk takes a block of sequences through all of them, in one
// direction.
func addSteps[T float32 | float64](x *copies.Compound, l *recurrent, projected kit.Buffer) error {
	s := &stepper[T]{recurrent: l, rows: l.kind.gates() * l.hidden, block: l.blockSize()}
	s.prepack = s.r[0].Packed || s.r[1].Packed || packsSteps[T](l) && (s.block > multiply.Thin || s.steps > fewSteps)
	if err := s.plan(); err != nil {
		return err
	}
	for dir := range l.dirs {
		var err error
		if s.loops[dir], err = l.stepLoops(tensor.DTypeOf[T](), dir); err != nil {
			return err
		}
	}
	x.List(s.listings)
	packs := x.Temp(tensor.DTypeOf[T](), s.packingRoom())
	buffers := []kit.Buffer{packs, projected, l.y, l.hn, l.cn, l.h0, l.c0, l.lens}
	buffers = append(buffers, l.r[:]...)
	buffers = append(buffers, l.stateBias[:]...)
	buffers = append(buffers, l.peeps[:]...)
	if s.prepack && packs.Meta.Numel() > 0 {
		x.Run(0, 0, buffers, graph.Phase{Chunks: l.dirs, Run: func(m *graph.Mem, dir int) error {
			s.pack(dir, kit.ElementsOf[T](m.Ptrs[0], packs.Meta.Numel()), m.Ptrs[stepR+dir])
			return nil
		}})
	}
	size := int(unsafe.Sizeof(T(0)))
	blocks := kit.DivUp(l.batch, s.block)
	worker := kit.AlignUp(s.buffers*size) + kit.AlignUp(s.gemmWork*size) + kit.AlignUp(s.shared*size)
	x.Run(0, worker, buffers, graph.Phase{Chunks: l.dirs * blocks, Run: func(m *graph.Mem, chunk int) error {
		s.run(m, chunk/blocks, chunk%blocks*s.block)
		return nil
	}})
	return nil
}

// The places of a step's operands in Mem.Ptrs.
const (
	stepPacks = iota
	stepInputs
	stepY
	stepHN
	stepCN
	stepH0
	stepC0
	stepLens
	stepR
	stepBias  = stepR + 2
	stepPeeps = stepBias + 2
)

func (s *stepper[T]) plan() error {
	h := s.hidden
	for i, m := range []int{s.block, s.batch % s.block} {
		for q, n := range s.products() {
			if m == 0 || n == 0 {
				continue
			}
			spec := gemm.Spec{M: m, N: n, K: h, A: gemm.Operand{RowStride: h, ColStride: 1},
				B:          gemm.Operand{RowStride: 1, ColStride: h},
				CRowStride: s.rows, CColStride: 1, Near: true}
			if s.prepack {
				spec.B = gemm.Operand{Source: gemm.Prepacked}
			}
			p, err := gemm.NewPlan[T](spec)
			if err != nil {
				return err
			}
			s.plans[i][q] = p
			s.gemmWork, s.shared = max(s.gemmWork, p.WorkerScratchLen()), max(s.shared, p.ScratchLen())
		}
	}
	// The state, the cell, the gates, and the state that a GRU resets.
	s.buffers = s.block * (3*h + s.rows)
	return nil
}

// packingRoom returns the room for weights that are packed in the run.
func (s *stepper[T]) packingRoom() int {
	room := 0
	if !s.prepack {
		return 0
	}
	s.second = gemm.PackedBLen[T](s.hidden, s.products()[0])
	for dir := range s.dirs {
		for q, n := range s.products() {
			if n > 0 && !s.r[dir].Packed {
				s.at[dir][q] = room
				room += kit.AlignUp(gemm.PackedBLen[T](s.hidden, n)*8) / 8
			}
		}
	}
	return room
}

// pack packs the weights of a direction that were not packed before.
func (s *stepper[T]) pack(dir int, room []T, r unsafe.Pointer) {
	if s.r[dir].Packed {
		return
	}
	for q, n := range s.products() {
		if n > 0 {
			dst := room[s.at[dir][q]:][:gemm.PackedBLen[T](s.hidden, n)]
			gemm.PackB(dst, kit.Elem[T](r, s.firstRow(q)*s.hidden), s.hidden, n, 1, s.hidden)
		}
	}
}

// weights is where product q finds B.
func (s *stepper[T]) weights(m *graph.Mem, dir, q int) unsafe.Pointer {
	switch {
	case !s.prepack:
		return kit.Elem[T](m.Ptrs[stepR+dir], s.firstRow(q)*s.hidden)
	case s.r[dir].Packed:
		return kit.Elem[T](m.Ptrs[stepR+dir], q*s.second)
	}
	return kit.Elem[T](m.Ptrs[stepPacks], s.at[dir][q])
}
