package conv

import (
	"sort"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// planeTileBytes is the target size of a tile in worker memory, in bytes. It is less than the L1 cache, which also
// holds the elements that are being copied.
const planeTileBytes = 28 << 10

// minTileCols is the minimum width of a tile, in elements: one vector.
const minTileCols = 16

// planeTiles convolves planes by compiled loops. A tile is a rectangle of the output. The input of a tile is copied to
// worker memory with zero padding, and deinterleaved by the stride of the window into parts: with strides of 2, even
// and odd rows and columns are different parts. For each tap, the input is then a stream with a constant distance
// between rows. One run of the loop computes all rows of a tile, including some unused pixels between rows.
type planeTiles struct {
	s           *convShape
	size        int // bytes of an element
	sum         *tapSum
	move, pairs *loops.Loop // copies of rows, plain and split into even and odd elements
	elem        strided.Elem
	rows, cols  int // of an output tile
	down, right int // number of tiles of a plane
	planes      int // computed together: the rows of the loop
	batches     int // batches of planes in an image
	parts       []*planePart
	pitch       int   // stride of rows, in elements
	height      int   // rows of a part
	plane       int   // stride of planes, in bytes
	taps        []int // by tap: byte offset of its stream
	out, worker int   // byte offset of the result, and total bytes
	run         graph.PerWorker[tapRun]
}

// planePart is the elements at (row + i*sh, col + j*sw) of the padded plane, stored at byte offset `at`. With a column
// stride of 2, the part of even columns has the part of the same rows and odd columns in the field odd.
type planePart struct {
	row, col, at int
	odd          *planePart
}

// newPlaneTiles returns nil if there is no machine code, or if a tile exceeds the limit of worker memory.
func newPlaneTiles(s *convShape, d tensor.DType) (*planeTiles, error) {
	if !s.tilesPlanes(d) {
		return nil, nil
	}
	t := &planeTiles{s: s, size: d.Size(), elem: strided.Move(d.Size())}
	var err error
	if t.sum, err = newTapSum(d, s.h.Taps*s.w.Taps, s.hasBias, true); t.sum == nil || err != nil {
		return nil, err
	}
	if t.move, err = moveLoop(d); err != nil {
		return nil, err
	}
	if t.pairs, err = moveLoop(d.ToComplex()); err != nil {
		return nil, err
	}
	t.cut()
	if t.layOut(); t.worker > maxTapsBytes {
		return nil, nil
	}
	return t, nil
}

// moveLoop copies rows. Rows of complex numbers are split into real and imaginary parts.
func moveLoop(d tensor.DType) (*loops.Loop, error) {
	b := expr.NewBuilder(d)
	out := []expr.Output{b.Real(b.Load(0))}
	if d.IsComplex() {
		out = append(out, b.Real(b.LoadImag(0)))
	}
	c, err := b.Build(out...)
	if err != nil {
		return nil, err
	}
	return loops.New(&expr.Loop{Code: c, Scalar: make([]bool, 1)}, loops.Options{})
}

// cut chooses the tile size and the number of planes per tile. Tiles have whole rows if these fit, and are of equal
// size. The choice depends only on constants and the shape, and does not affect the bits of results.
func (t *planeTiles) cut() {
	s := t.s
	most := planeTileBytes / t.size
	of := func(planes, rows, cols int) int {
		input := kit.BoundedProduct(s.h.Extent(rows), s.w.Extent(cols))
		return kit.BoundedProduct(planes, input+kit.BoundedProduct(rows, cols))
	}
	evenly := func(n int, elements func(n int) int) (size, pieces int) {
		fit := sort.Search(n, func(i int) bool { return elements(i+1) > most }) // the largest size that fits
		size = kit.DivUp(n, kit.DivUp(n, max(fit, 1)))
		return size, kit.DivUp(n, size)
	}
	t.cols, t.right = evenly(s.w.Results, func(n int) int {
		if n <= minTileCols {
			return 0 // always fits: no narrower tiles
		}
		return of(1, min(s.h.Results, 4), n)
	})
	t.rows, t.down = evenly(s.h.Results, func(n int) int { return of(1, n, t.cols) })
	macs := kit.BoundedProduct(t.rows, t.cols, s.og(), s.h.Taps, s.w.Taps)
	t.planes, t.batches = evenly(s.groups, func(n int) int {
		if kit.BoundedProduct(n, macs) > machine.DirectMACGrain {
			return most + 1
		}
		return of(n, t.rows, t.cols)
	})
}

// layOut assigns offsets to the parts of a tile. The zeros at the right end of a row may also be the zeros at the left
// end of the next row. Elements that come from the image start at a cache line, because a vector that crosses a line
// costs two loads. Rows also start at a cache line if that makes them little longer.
func (t *planeTiles) layOut() {
	s := t.s
	width := t.neededColumns(t.cols)
	shared := width
	if t.right > 1 {
		shared = 0
	}
	var under []*planePart // by tap
	for k := range s.h.Taps * s.w.Taps {
		under = append(under, t.gridPart(k/s.w.Taps*s.h.Dilation%s.h.Stride, k%s.w.Taps*s.w.Dilation%s.w.Stride))
	}
	for _, p := range t.parts {
		if first, end := geometry.Valid(p.col-s.w.Before, s.w.Stride, s.w.Size, width); first < end {
			shared = min(shared, first, width-end)
		}
		if p.col == 0 && s.w.Stride == 2 && s.xs.w == 1 {
			p.odd = t.find(p.row, 1)
		}
	}
	t.pitch = max(t.cols, width-shared)
	line := machine.LineBytes / t.size
	if even := kit.DivUp(t.pitch, line) * line; even-t.pitch <= t.pitch/7 {
		t.pitch = even
	}
	t.height = t.rows + (s.h.Taps-1)*s.h.Dilation/s.h.Stride
	each := kit.AlignUp(((t.height-1)*t.pitch+width)*t.size) + machine.LineBytes
	for i, p := range t.parts {
		first, _ := geometry.Valid(p.col-s.w.Before, s.w.Stride, s.w.Size, width)
		p.at = i*each + (line-first%line)%line*t.size
	}
	t.plane = len(t.parts) * each
	for i, p := range under {
		kh, kw := i/s.w.Taps, i%s.w.Taps
		t.taps = append(t.taps, p.at+(kh*s.h.Dilation/s.h.Stride*t.pitch+kw*s.w.Dilation/s.w.Stride)*t.size)
	}
	t.out = t.planes * t.plane
	t.worker = t.out + t.planes*t.rows*t.pitch*t.size
}

// gridPart returns the part at (row, col) of the stride grid, adding it if it is missing.
func (t *planeTiles) gridPart(row, col int) *planePart {
	p := t.find(row, col)
	if p == nil {
		p = &planePart{row: row, col: col}
		t.parts = append(t.parts, p)
	}
	return p
}

func (t *planeTiles) find(row, col int) *planePart {
	for _, p := range t.parts {
		if p.row == row && p.col == col {
			return p
		}
	}
	return nil
}

// neededColumns returns the number of columns of a part that are needed for cols columns of the output.
func (t *planeTiles) neededColumns(cols int) int {
	return cols + (t.s.w.Taps-1)*t.s.w.Dilation/t.s.w.Stride
}

// kernel returns the kernel, which computes tile by tile. A plane is a channel of the input.
func (t *planeTiles) kernel() *graph.Kernel {
	s := t.s
	tiles := t.down * t.right
	units := s.n * t.batches * tiles
	cut := machine.CutUnits(units, kit.BoundedProduct(t.planes, t.rows, t.cols, s.og(), s.h.Taps, s.w.Taps),
		machine.DirectMACGrain)
	return &graph.Kernel{Worker: t.worker, Phases: []graph.Phase{{Chunks: cut.Chunks,
		Run: func(m *graph.Mem, chunk int) error {
			r := t.run.Of(m)
			r.reserve(len(t.taps))
			first, end := cut.Range(chunk)
			for u := first; u < end; u++ {
				// The next batch has its zeros at the same offsets.
				if tiles > 1 || u == first {
					clear(m.Worker[:t.out])
				}
				t.tile(m, r, u/tiles, u%tiles)
			}
			r.release()
			return nil
		}}}}
}

// tile computes a tile of all output channels of a batch of planes.
func (t *planeTiles) tile(m *graph.Mem, r *tapRun, batch, tile int) {
	s := t.s
	n, g := batch/t.batches, batch%t.batches*t.planes
	planes := min(t.planes, s.groups-g)
	row, col := tile/t.right*t.rows, tile%t.right*t.cols
	rows, cols := min(t.rows, s.h.Results-row), min(t.cols, s.w.Results-col)
	mem := unsafe.Pointer(unsafe.SliceData(m.Worker))
	t.fill(r, mem, unsafe.Add(m.Ptrs[1], (n*s.xs.n+g*s.xs.c)*t.size), planes, row, col, rows, cols)
	for k, at := range t.taps {
		r.x[k] = stream{unsafe.Add(mem, at), t.plane}
	}
	// Each output channel of a group is computed for all planes at once.
	for o := g * s.og(); o < (g+1)*s.og(); o++ {
		w := unsafe.Add(m.Ptrs[2], o*s.ws.n*t.size)
		for k := range t.taps {
			r.w[k] = stream{unsafe.Add(w, (k/s.w.Taps*s.ws.h+k%s.w.Taps*s.ws.w)*t.size), s.og() * s.ws.n * t.size}
		}
		var bias stream
		if s.hasBias {
			bias = stream{unsafe.Add(m.Ptrs[3], o*s.bias*t.size), s.og() * s.bias * t.size}
		}
		run := (rows-1)*t.pitch + cols
		out := stream{unsafe.Add(m.Ptrs[0], (n*s.os.n+o*s.os.c+row*s.os.h+col*s.os.w)*t.size), s.og() * s.os.c * t.size}
		if s.os.w == 1 && (rows == 1 || s.os.h == t.pitch && cols == t.pitch) {
			t.sum.run(r, out, bias, run, planes)
			continue
		}
		sums := stream{unsafe.Add(mem, t.out), rows * t.pitch * t.size}
		t.sum.run(r, sums, bias, run, planes)
		t.copy(r, out.ptr, sums.ptr, strided.Axis{N: cols, Dst: s.os.w * t.size, Src: t.size},
			strided.Axis{N: rows, Dst: s.os.h * t.size, Src: t.pitch * t.size},
			strided.Axis{N: planes, Dst: out.step, Src: sums.step})
	}
}

// fill copies the elements that the tile at (row, col) reads into its parts, between the zeros.
func (t *planeTiles) fill(r *tapRun, mem, plane unsafe.Pointer, planes, row, col, rows, cols int) {
	s := t.s
	top, left := s.h.Begin(row), s.w.Begin(col) // position in the plane
	height := rows + (s.h.Taps-1)*s.h.Dilation/s.h.Stride
	each := strided.Axis{N: planes, Dst: t.plane, Src: s.xs.c * t.size}
	for _, p := range t.parts {
		i0, i1 := geometry.Valid(top+p.row, s.h.Stride, s.h.Size, height)
		j0, j1 := geometry.Valid(left+p.col, s.w.Stride, s.w.Size, t.neededColumns(cols))
		if i0 >= i1 {
			continue
		}
		down := strided.Axis{N: i1 - i0, Dst: t.pitch * t.size, Src: s.h.Stride * s.xs.h * t.size}
		to := unsafe.Add(mem, p.at+i0*t.pitch*t.size)
		from := unsafe.Add(plane, (top+p.row+i0*s.h.Stride)*s.xs.h*t.size)
		switch {
		case p.odd != nil:
			t.split(r, to, unsafe.Add(to, p.odd.at-p.at), from, left, s.w.Extent(cols), down, each)
		case j0 < j1 && (p.col == 0 || t.find(p.row, 0) == nil || t.find(p.row, 0).odd == nil):
			t.copy(r, unsafe.Add(to, j0*t.size), unsafe.Add(from, (left+p.col+j0*s.w.Stride)*s.xs.w*t.size),
				strided.Axis{N: j1 - j0, Dst: t.size, Src: s.w.Stride * s.xs.w * t.size}, down, each)
		}
	}
}

// split copies even and odd columns to their parts in pairs. It copies at most width columns from column left on, and
// only those inside the plane.
func (t *planeTiles) split(r *tapRun, even, odd, from unsafe.Pointer, left, width int, down, each strided.Axis) {
	first, end := geometry.Valid(left, 1, t.s.w.Size, width)
	if first >= end {
		return
	}
	to := [2]unsafe.Pointer{even, odd}
	n := (end - first) / 2
	a, b := unsafe.Add(to[first%2], first/2*t.size), unsafe.Add(to[(first+1)%2], (first+1)/2*t.size)
	from = unsafe.Add(from, (left+first)*t.size)
	down, each = mergeAxes(down, each)
	for i := range each.N {
		r.ptrs[0], r.ptrs[1], r.ptrs[2] = unsafe.Add(a, i*each.Dst), unsafe.Add(b, i*each.Dst), unsafe.Add(from, i*each.Src)
		r.strides[0], r.strides[1], r.strides[2] = down.Dst, down.Dst, down.Src
		t.pairs.Run(&r.State, r.ptrs[:3], r.strides[:3], n, down.N)
	}
	if last := end - 1; (end-first)%2 == 1 {
		t.copy(r, unsafe.Add(to[last%2], last/2*t.size), unsafe.Add(from, (last-first)*t.size),
			strided.Axis{N: 1, Dst: t.size, Src: t.size}, down, each)
	}
}

// mergeAxes divides two axes into the rows of a loop and the calls of the loop. If the axes have a common stride, they
// are merged into the rows. Otherwise the longer one is the rows.
func mergeAxes(rows, calls strided.Axis) (strided.Axis, strided.Axis) {
	switch {
	case calls.N == 1 || calls.Dst == rows.N*rows.Dst && calls.Src == rows.N*rows.Src:
		rows.N *= calls.N
		calls.N = 1
	case calls.N > rows.N:
		return calls, rows
	}
	return rows, calls
}

// copy copies the rows of several planes.
func (t *planeTiles) copy(r *tapRun, dst, src unsafe.Pointer, cols, rows, planes strided.Axis) {
	rows, planes = mergeAxes(rows, planes)
	for i := range planes.N {
		to, from := unsafe.Add(dst, i*planes.Dst), unsafe.Add(src, i*planes.Src)
		if cols.Dst != t.size || cols.Src != t.size || cols.N*t.size >= machine.LineBytes {
			t.elem.Block(to, from, cols, rows)
			continue
		}
		r.ptrs[0], r.ptrs[1] = to, from
		r.strides[0], r.strides[1] = rows.Dst, rows.Src
		t.move.Run(&r.State, r.ptrs[:2], r.strides[:2], cols.N, rows.N)
	}
}
