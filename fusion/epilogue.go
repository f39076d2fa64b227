package fusion

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// Epilogue is the expression that a step computes of each element of the result of its anchor, a product or a
// convolution, and of further operands. Its outputs are the results of the step; the anchor's result is in the memory
// of one of them. Kernels of implementations with [graph.Impl.Epilogues] apply it to each part of the result as soon
// as that part is final and still in a cache. It is immutable and may be used by several goroutines.
type Epilogue struct {
	code    *expr.Code  // its operand 0 is the anchor's result
	loop    *loops.Loop // nil where the kernel applies the chain itself
	streams []stream    // results, then operands, as the code has them
	sizes   []int       // of the dimensions of the anchor's result in memory, the fastest first
	strides []int       // of these dimensions, in elements
	staged  []int       // the streams that are not contiguous
	numel   int
	dense   bool // whether the anchor's result is dense

	absorbed bool // the kernel applies the chain in registers: see Absorb
	left     bool // the kernel does not apply it: see Leave
}

// stream is an operand or a result of an epilogue: the index of its address among those of the anchor's kernel, its
// stride along each dimension in bytes, and the bytes of an element.
type stream struct {
	place int
	steps []int
	size  int
}

// EpilogueOf returns the epilogue that a kernel is asked to apply; nil for none.
func EpilogueOf(c *graph.Call) *Epilogue {
	if c == nil {
		return nil
	}
	e, _ := c.Epilogue.(*Epilogue)
	return e
}

// Code returns the expression of the epilogue. Operand 0 is the anchor's result.
func (t *Epilogue) Code() *expr.Code {
	if t == nil {
		return nil
	}
	return t.code
}

// Absorb records, while the kernel is made, that the kernel applies [Epilogue.Chain] in registers. No loop is then
// listed as its code.
func (t *Epilogue) Absorb() {
	if t != nil {
		t.absorbed = true
	}
}

// Leave records, while the kernel is made, that the kernel does not apply the epilogue: another phase follows that
// does.
func (t *Epilogue) Leave() {
	if t != nil {
		t.left = true
	}
}

// newEpilogue prepares the epilogue of a fusion for a call of its node, with results as they are laid out.
func newEpilogue(f *Fusion, c *graph.Call) (*Epilogue, error) {
	t := &Epilogue{code: f.code}
	into, others := f.into(), 1+len(c.In)
	if into < 0 || len(c.Out) != len(f.code.Out) || len(f.code.In) != 1+len(c.In)-f.Anchor {
		return nil, errors.New("a tail is made by passes")
	}
	lies := c.Out[into]
	metas := make([]tensor.Meta, 0, len(c.Out)+len(f.code.In))
	for o, m := range c.Out {
		s := stream{size: m.DType.Size()}
		if o != into {
			s.place, others = others, others+1
		}
		t.streams, metas = append(t.streams, s), append(metas, m)
	}
	t.streams, metas = append(t.streams, stream{size: lies.DType.Size()}), append(metas, lies)
	for i := f.Anchor; i < len(c.In); i++ {
		m := c.Meta(i)
		t.streams, metas = append(t.streams, stream{place: 1 + i, size: m.DType.Size()}), append(metas, m)
	}
	if err := t.span(lies, metas); err != nil {
		return nil, err
	}
	return t, nil
}

// compile makes the loop of an epilogue that no kernel has absorbed.
func (t *Epilogue) compile() (err error) {
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

// span finds the fewest dimensions of the anchor's result in memory by which all streams can be walked.
func (t *Epilogue) span(lies tensor.Meta, metas []tensor.Meta) error {
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

// EpilogueRun is the memory of a worker that applies an epilogue. It is released at the end of a chunk.
type EpilogueRun struct {
	state loops.State
	base  []unsafe.Pointer // by stream
	at    []int            // the place of an element, by dimension
	ptrs  []unsafe.Pointer
	steps []int
	stage []byte
}

// stageElems is the number of elements that are copied to contiguous memory at a time.
const stageElems = 2048

// Enter takes the addresses of a chunk, which are those of the anchor's kernel and then those of the epilogue.
func (t *Epilogue) Enter(r *EpilogueRun, m *graph.Mem) {
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

// Release drops the addresses.
func (r *EpilogueRun) Release() {
	if r == nil {
		return
	}
	clear(r.base)
	clear(r.ptrs)
	r.state.Release()
}

// Do applies the epilogue to a rectangle of the anchor's result, which is final: rows of cols elements. at is the
// index of the first element in memory, step the distance of rows, and col the distance of elements in a row.
func (t *Epilogue) Do(r *EpilogueRun, at, rows, step, cols, col int) {
	if cols == 1 || col != 1 && step == 1 { // contiguous elements become rows
		rows, step, cols, col = cols, col, rows, step
	}
	switch {
	case rows <= 0 || cols <= 0:
		return
	case col != 1 && cols > 1: // neither is contiguous
		for c := range cols {
			t.lines(r, at+c*col, rows, step, 1)
		}
		return
	case rows > 1 && step == cols && cols < t.sizes[0]: // several within the nearest dimension
		rows, cols = 1, rows*cols
	}
	t.lines(r, at, rows, step, cols)
}

// lines applies the epilogue to rows of contiguous elements.
func (t *Epilogue) lines(r *EpilogueRun, at, rows, step, cols int) {
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

// place returns the offset in memory of the element with an index in the order of memory.
func (t *Epilogue) place(index int) (at int) {
	if t.dense {
		return index
	}
	for d, n := range t.sizes {
		at += index % n * t.strides[d]
		index /= n
	}
	return at
}

// locate sets the coordinates of the element at an offset.
func (t *Epilogue) locate(r *EpilogueRun, at int) {
	for d := len(t.sizes) - 1; d >= 0; d-- {
		r.at[d], at = at/t.strides[d], at%t.strides[d]
	}
}

// block computes rows of cols elements from the coordinates that were located. Rows are by elements apart along a
// dimension.
func (t *Epilogue) block(r *EpilogueRun, rows, along, by, cols int) {
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

// aim sets the addresses of all streams at the coordinates that were located, and their strides from row to row.
func (t *Epilogue) aim(r *EpilogueRun, along, by int) {
	for i, s := range t.streams {
		off := 0
		for d, x := range r.at {
			off += x * s.steps[d]
		}
		r.ptrs[i], r.steps[i] = unsafe.Add(r.base[i], off), by*s.steps[along]
	}
}

// exchange points streams that are not contiguous to memory of the worker. Operands are copied there before the loop,
// results are copied from there after it.
func (t *Epilogue) exchange(r *EpilogueRun, rows, cols int, results bool) {
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

// pieces is block for at most as many elements as the worker's memory holds.
func (t *Epilogue) pieces(r *EpilogueRun, rows, along, by, cols int) {
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
