package graph

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// Tail is what a step does to the result of its head, a product or a convolution, element by element: an expression
// of that result and of further operands, which makes the results of the step. The head's result is in the memory of
// one of them; kernels of implementations that take a tail ([Impl.Tails], [Call.Tail]) have it applied to each part as
// soon as that is final, while the caches have it. It is immutable and may be used by several goroutines.
type Tail struct {
	code    *expr.Code   // its operand 0 is the head's result
	loop    *loops.Loop  // nil where the kernel applies the chain itself
	streams []tailStream // results, then operands, as the code has them
	sizes   []int        // of the dimensions of the head's result, as it lies: the nearest first
	strides []int        // theirs, in elements of the head's result
	staged  []int        // the streams that do not lie one behind another
	numel   int
	dense   bool // the head's result is

	absorbed bool // the kernel applies the chain in registers: see Absorb
	left     bool // the kernel does not apply it: see Leave
}

// tailStream is an operand or a result of a tail: where its address is among those of the head's kernel, its bytes from
// an element to the next along each dimension, and the bytes of an element.
type tailStream struct {
	place int
	steps []int
	size  int
}

// Code returns the expression of the tail: operand 0 is the head's result, and output Into of [Tail.Into] replaces it.
func (t *Tail) Code() *expr.Code {
	if t == nil {
		return nil
	}
	return t.code
}

// Absorb notes, while the kernel is made, that it applies the [Tail.Chain] itself, so that no loop is listed as its
// code.
func (t *Tail) Absorb() {
	if t != nil {
		t.absorbed = true
	}
}

// Leave notes, while the kernel is made, that it does not apply the tail after all: another phase does so behind it.
func (t *Tail) Leave() {
	if t != nil {
		t.left = true
	}
}

// newTail prepares the tail of a fusion. The call is that of its node, with results as they are laid out.
func newTail(f *Fusion, c *Call) (*Tail, error) {
	t := &Tail{code: f.code}
	into, others := f.into(), 1+len(c.In)
	if into < 0 || len(c.Out) != len(f.code.Out) || len(f.code.In) != 1+len(c.In)-f.Head {
		return nil, errors.New("a tail is made by passes")
	}
	lies := c.Out[into]
	metas := make([]tensor.Meta, 0, len(c.Out)+len(f.code.In))
	for o, m := range c.Out {
		s := tailStream{size: m.DType.Size()}
		if o != into {
			s.place, others = others, others+1
		}
		t.streams, metas = append(t.streams, s), append(metas, m)
	}
	t.streams, metas = append(t.streams, tailStream{size: lies.DType.Size()}), append(metas, lies)
	for i := f.Head; i < len(c.In); i++ {
		m := c.Meta(i)
		t.streams, metas = append(t.streams, tailStream{place: 1 + i, size: m.DType.Size()}), append(metas, m)
	}
	if err := t.span(lies, metas); err != nil {
		return nil, err
	}
	return t, nil
}

// compile makes the loop of a tail that no kernel has absorbed.
func (t *Tail) compile() (err error) {
	results := len(t.code.Out)
	l := &expr.Loop{Code: t.code, Scalar: make([]bool, len(t.code.In))}
	for i, s := range t.streams {
		switch step := s.steps[0]; {
		case step == s.size:
		case step == 0 && i >= results:
			l.Scalar[i-results] = true
		default:
			t.staged = append(t.staged, i)
		}
	}
	t.loop, err = loops.New(l, loops.Options{})
	return err
}

// span finds the dimensions of the head's result in memory, as few as all streams can be gone over by.
func (t *Tail) span(lies tensor.Meta, metas []tensor.Meta) error {
	t.numel, t.dense = lies.Numel(), lies.IsNonOverlappingAndDense()
	var dims []int
	for d, n := range lies.Shape {
		if n > 1 {
			dims = append(dims, d)
		}
	}
	slices.SortFunc(dims, func(a, b int) int { return lies.Strides[a] - lies.Strides[b] })
	t.sizes, t.strides = []int{1}, []int{1}
	for i := range t.streams {
		t.streams[i].steps = []int{t.streams[i].size}
	}
	extent := 1
	for _, d := range dims {
		if lies.Strides[d] < extent {
			return errors.New("elements of the result of a head must have memory of their own")
		}
		extent = lies.Strides[d] * lies.Shape[d]
		last := len(t.sizes) - 1
		joins := true
		steps := make([]int, len(metas))
		for i, m := range metas {
			if k := d - (lies.Rank() - m.Rank()); k >= 0 && m.Shape[k] > 1 {
				steps[i] = m.Strides[k] * t.streams[i].size
			}
			joins = joins && steps[i] == t.streams[i].steps[last]*t.sizes[last]
		}
		switch {
		case t.sizes[last] == 1: // the first
			t.sizes[last], joins = lies.Shape[d], false
		case joins:
			t.sizes[last] *= lies.Shape[d]
			continue
		default:
			t.sizes, t.strides = append(t.sizes, lies.Shape[d]), append(t.strides, lies.Strides[d])
		}
		for i := range t.streams {
			s := &t.streams[i]
			s.steps = append(s.steps[:len(t.sizes)-1], steps[i])
		}
	}
	return nil
}

// TailRun is what a worker needs while it applies a tail. Whoever is done with a chunk releases it.
type TailRun struct {
	state loops.State
	base  []unsafe.Pointer // by stream
	at    []int            // the place of an element, by dimension
	ptrs  []unsafe.Pointer
	steps []int
	stage []byte
}

// stageElems are the elements that are brought to lie one behind another at a time.
const stageElems = 2048

// Enter notes the addresses of a chunk: those of the head's kernel, which the tail's follow.
func (t *Tail) Enter(r *TailRun, m *Mem) {
	if r.base == nil {
		n := len(t.streams)
		r.base, r.ptrs, r.steps = make([]unsafe.Pointer, n), make([]unsafe.Pointer, n), make([]int, n)
		r.at = make([]int, len(t.sizes))
		bytes := 0
		for _, i := range t.staged {
			bytes += stageElems * t.streams[i].size
		}
		r.stage = tensor.NewStorage(bytes).Bytes()
	}
	for i, s := range t.streams {
		r.base[i] = m.Ptrs[s.place]
	}
}

// Release forgets the addresses.
func (r *TailRun) Release() {
	if r == nil {
		return
	}
	clear(r.base)
	clear(r.ptrs)
	r.state.Release()
}

// Do applies the tail to a rectangle of the head's result, which is final: rows of cols elements each, from element at
// on, counted from the first, with step from a row to the next and col from an element to the next.
func (t *Tail) Do(r *TailRun, at, rows, step, cols, col int) {
	if cols == 1 || col != 1 && step == 1 { // rows are what lies together
		rows, step, cols, col = cols, col, rows, step
	}
	switch {
	case rows <= 0 || cols <= 0:
		return
	case col != 1 && cols > 1: // neither does
		for c := range cols {
			t.lines(r, at+c*col, rows, step, 1)
		}
		return
	case rows > 1 && step == cols && cols < t.sizes[0]: // several within the nearest dimension
		rows, cols = 1, rows*cols
	}
	t.lines(r, at, rows, step, cols)
}

// lines applies the tail to rows of elements that lie one behind another.
func (t *Tail) lines(r *TailRun, at, rows, step, cols int) {
	along := 0 // the dimension along which rows follow one another
	for d := range t.sizes {
		if step%t.strides[d] == 0 {
			along = d
		}
	}
	by := step / t.strides[along]
	last := len(t.sizes) - 1
	for rows > 0 {
		for done := 0; done < cols; {
			t.locate(r, at+done)
			n := min(cols-done, t.sizes[0]-r.at[0])
			if done > 0 || n < cols { // the row goes over the end of the nearest dimension
				t.block(r, 1, 0, 0, n)
				done += n
				continue
			}
			together := rows
			switch {
			case rows == 1:
			case along == 0:
				together = min(rows, (t.sizes[0]-r.at[0]-cols)/by+1)
			case along < last:
				together = min(rows, (t.sizes[along]-1-r.at[along])/by+1)
			}
			t.block(r, together, along, by, cols)
			at, rows = at+(together-1)*step, rows-(together-1)
			done = cols
		}
		at, rows = at+step, rows-1
	}
}

// place is where an element is in memory, counted from the first, of which so many are before it.
func (t *Tail) place(index int) (at int) {
	if t.dense {
		return index
	}
	for d, n := range t.sizes {
		at += index % n * t.strides[d]
		index /= n
	}
	return at
}

// locate finds the place of an element.
func (t *Tail) locate(r *TailRun, at int) {
	for d := len(t.sizes) - 1; d >= 0; d-- {
		r.at[d], at = at/t.strides[d], at%t.strides[d]
	}
}

// block computes rows of cols elements from the place that was located on, each by elements of a dimension behind the
// one before.
func (t *Tail) block(r *TailRun, rows, along, by, cols int) {
	if len(t.staged) > 0 && (cols > stageElems || rows*cols > stageElems) {
		t.pieces(r, rows, along, by, cols)
		return
	}
	t.aim(r, along, by)
	t.exchange(r, rows, cols, false)
	t.loop.Run(&r.state, r.ptrs, r.steps, cols, rows)
	if results := len(t.code.Out); len(t.staged) > 0 && t.staged[0] < results {
		t.aim(r, along, by)
		t.exchange(r, rows, cols, true)
	}
}

// aim finds the addresses of all streams at the place that was located, and their steps from row to row.
func (t *Tail) aim(r *TailRun, along, by int) {
	for i, s := range t.streams {
		off := 0
		for d, x := range r.at {
			off += x * s.steps[d]
		}
		r.ptrs[i], r.steps[i] = unsafe.Add(r.base[i], off), by*s.steps[along]
	}
}

// exchange has the loop find streams that do not lie one behind another in memory of the worker, where operands are
// brought before it, and from where results are taken afterwards.
func (t *Tail) exchange(r *TailRun, rows, cols int, results bool) {
	room := unsafe.Pointer(unsafe.SliceData(r.stage))
	for _, i := range t.staged {
		s, here := t.streams[i], room
		room = unsafe.Add(room, stageElems*s.size)
		e := strided.Move(s.size)
		along := strided.Axis{N: cols, Dst: s.size, Src: s.steps[0]}
		across := strided.Axis{N: rows, Dst: cols * s.size, Src: r.steps[i]}
		switch is := i < len(t.code.Out); {
		case is && results:
			e.Block(r.ptrs[i], here, along.Swapped(), across.Swapped())
			continue
		case !is && !results:
			e.Block(here, r.ptrs[i], along, across)
		}
		r.ptrs[i], r.steps[i] = here, cols*s.size
	}
}

// pieces is block by as many elements as there is room for.
func (t *Tail) pieces(r *TailRun, rows, along, by, cols int) {
	first, column := r.at[along], r.at[0]
	for row := 0; row < rows; {
		n := max(1, min(rows-row, stageElems/cols))
		for c := 0; c < cols; c += stageElems {
			r.at[0] = column + c
			r.at[along] += row * by
			t.block(r, n, along, by, min(stageElems, cols-c))
			r.at[along] = first
		}
		r.at[0] = column
		r.at[along] = first
		row += n
	}
}
