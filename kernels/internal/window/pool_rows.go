package window

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// foldedBytes is about how much of folded rows a worker has at once: they stay in the near cache.
const foldedBytes = 16 << 10

// foldRows is a pooling over up to three dimensions of row-major operands by compiled loops over rows. The rows of a
// window are folded first, into rows of the worker's memory with the border's neutral elements around them; then the
// columns of those. With steps of 2 a row is read as one of pairs, which are its even and its odd elements.
type foldRows struct {
	*rowFold
	planes, plane int // of the operand; elements of one
	width, size   int // of a row; bytes of an element
	in            [3]int
	axes          [3]poolAxis
	most          [2]int // elements of a window by depth and height
	pitch, begin  int    // of folded rows: elements from one to the next, and before the operand's first
	rows, batch   int    // results by height, and planes, that are folded at once
	divisors      []byte // of averages, by depth, height and width
	even          bool   // one for all, or none
	state         graph.PerWorker[foldRun]
}

// newFoldRows returns nil where there is no machine code, or windows do not lie as it takes them.
func newFoldRows(c *graph.Call, f poolFold, axes []poolAxis) (*foldRows, error) {
	m, out := c.Meta(0), c.Out[0]
	if len(c.Out) > 1 || out.Numel() == 0 || !m.IsContiguous() || !out.IsContiguous() {
		return nil, nil
	}
	v := newVolume(m, axes)
	p := &foldRows{planes: v.planes, plane: v.plane(), width: v.in[2], size: m.DType.Size(), in: v.in, axes: v.axes}
	for d := range p.most {
		p.most[d] = p.axes[d].most()
	}
	cols, ok := evenColumns(&p.axes[2])
	if !ok || p.most[0]*p.most[1] == 0 || p.most[0]*p.most[1] > fewTaps {
		return nil, nil
	}
	sum := m.DType.OpMath()
	if f.kind == poolAvg && m.DType.IsFloat() && p.most[0]*p.most[1]*cols.taps > fewTaps {
		sum = tensor.Float64
	}
	if !p.divide(f, sum, m.DType) {
		return nil, nil
	}
	var err error
	if p.rowFold, err = newRowFold(f, m.DType, sum, p.most[0]*p.most[1], cols, p.even); p.rowFold == nil || err != nil {
		return nil, err
	}
	p.cut()
	return p, nil
}

// columns are windows of a row that lie evenly: window i begins at first + i*step, and has taps elements apart from one
// another. Those before the row and behind it do not count.
type columns struct{ first, step, taps, apart, results int }

// evenColumns finds them; false where there are none that the loops take.
func evenColumns(axis *poolAxis) (c columns, ok bool) {
	c = columns{step: 1, apart: 1, results: axis.out}
	first := axis.at(0)
	switch {
	case axis.out == 1:
		c.first, c.taps, c.apart = first.start, first.taps(), max(1, first.step)
	case axis.shares:
		least, most := axis.share()
		if least != most || axis.n%axis.out != 0 {
			return c, false
		}
		c.taps, c.step = most, most
	default:
		s := &axis.side
		c.first, c.taps, c.step, c.apart = -s.begin, s.kernel, s.stride, s.dilation
	}
	// Rows with their border are about as long as the operand's and the results'.
	far := c.taps > 2*fewTaps || mulBounded(c.taps-1, c.apart)+max(-c.first, 0) > 4*(axis.n+axis.out)
	return c, c.taps > 0 && !far && (c.step == 1 || c.step == 2)
}

// cut chooses how many rows are folded at once. It depends on sizes alone, and decides no bits.
func (p *foldRows) cut() {
	p.begin = max(0, -p.cols.first)
	last := p.cols.first + (p.cols.results-1)*p.cols.step + (p.cols.taps-1)*p.cols.apart
	p.pitch = p.begin + max(p.width, last+2) + 1 // one more where pairs are read
	row := p.pitch * p.sum.Size()
	p.rows = min(p.axes[1].out, max(1, foldedBytes/row))
	p.batch = 1
	if p.rows == p.axes[1].out {
		p.batch = min(p.planes, max(1, foldedBytes/(row*p.rows)))
	}
}

// mostDivisors bounds the results of a plane that have a divisor each.
const mostDivisors = 1 << 22

// divide sets the divisors of averages: one number, or one for each result of a plane. It returns false if those are
// too many.
func (p *foldRows) divide(f poolFold, sum, d tensor.DType) bool {
	p.even = f.kind != poolAvg || f.divisor != 0 || p.axes[0].even() && p.axes[1].even() && p.axes[2].even()
	if f.kind != poolAvg {
		return true
	}
	nd, nh, nw := p.axes[0].out, p.axes[1].out, p.axes[2].out
	if p.even {
		nd, nh, nw = 1, 1, 1
	}
	if mulBounded(mulBounded(nd, nh), nw) > mostDivisors {
		return false
	}
	size := sum.Size()
	p.divisors = make([]byte, 0, nd*nh*nw*size)
	for i := range nd * nh * nw {
		ds, hs, ws := p.axes[0].at(i/nw/nh), p.axes[1].at(i/nw%nh), p.axes[2].at(i%nw)
		p.divisors = p.divisors[:(i+1)*size]
		f.putDivisor(p.divisors[i*size:], d, sum, areaOf(ds.size, hs.size, ws.size))
	}
	return true
}

// kernel goes by planes, depths and blocks of rows.
func (p *foldRows) kernel() *graph.Kernel {
	depths := p.axes[0].out
	blocks, batches := kit.DivUp(p.axes[1].out, p.rows), kit.DivUp(p.planes, p.batch)
	units := batches * depths * blocks
	work := p.batch * p.rows * (p.width*p.most[0]*p.most[1] + p.cols.results*p.cols.taps)
	cut := machine.CutUnits(units, work, machine.ReduceGrain)
	neutral := kit.AlignUp(p.width * p.size)
	return &graph.Kernel{Worker: neutral + p.batch*p.rows*p.pitch*p.sum.Size(), Code: p.listings,
		Phases: []graph.Phase{{Chunks: cut.Chunks, Run: func(m *graph.Mem, chunk int) error {
			r := p.state.Of(m)
			r.begin(m)
			p.fill(p.d, m.Worker[:p.width*p.size])
			p.fill(p.sum, m.Worker[neutral:][:p.batch*p.rows*p.pitch*p.sum.Size()])
			for u, end := cut.Range(chunk); u < end; u++ {
				p.block(m, r, u/blocks/depths, u/blocks%depths, u%blocks*p.rows)
			}
			clear(r.taps[:cap(r.taps)])
			clear(r.ptrs[:])
			r.Release()
			return nil
		}}}}
}

// block makes a block of rows of a batch of planes.
func (p *foldRows) block(m *graph.Mem, r *foldRun, batch, depth, row int) {
	first := batch * p.batch
	planes, rows := min(p.batch, p.planes-first), min(p.rows, p.axes[1].out-row)
	in := unsafe.Add(m.Ptrs[1], first*p.plane*p.size)
	folded := unsafe.Pointer(&m.Worker[kit.AlignUp(p.width*p.size)])
	at := func(plane, h int) unsafe.Pointer {
		return unsafe.Add(folded, ((plane*rows+h-row)*p.pitch+p.begin)*p.sum.Size())
	}
	line := p.pitch * p.sum.Size()
	for from := row; from < row+rows; {
		run := p.axes[1].run(from, row+rows-from, false)
		end := from + run.n
		switch {
		case planes > end-from: // plane by plane, row after row
			for h := from; h < end; h++ {
				p.foldDown(m, r, in, depth, h, stepped{at(0, h), rows * line}, p.plane*p.size, planes)
			}
		default:
			for i := range planes {
				p.foldDown(m, r, unsafe.Add(in, i*p.plane*p.size), depth, from, stepped{at(i, from), line},
					run.step*p.width*p.size, end-from)
			}
		}
		from = end
	}
	results := p.axes[1].out * p.cols.results
	out := unsafe.Add(m.Ptrs[0], ((first*p.axes[0].out+depth)*results+row*p.cols.results)*p.size)
	begin := unsafe.Add(at(0, row), p.cols.first*p.sum.Size())
	if p.even && (planes == 1 || p.axes[0].out == 1) { // results of all planes are adjacent
		p.foldAcross(r, out, begin, 0, depth, planes*rows)
		return
	}
	for i := range planes {
		p.foldAcross(r, unsafe.Add(out, i*p.axes[0].out*results*p.size), unsafe.Add(begin, i*rows*line), row, depth, rows)
	}
}

// stepped is where rows lie: the first, and the bytes from one to the next.
type stepped struct {
	ptr  unsafe.Pointer
	step int
}

// foldDown folds the rows of windows, n times: those that follow one another lie step bytes apart.
func (p *foldRows) foldDown(m *graph.Mem, r *foldRun, in unsafe.Pointer, depth, h int, to stepped, step, n int) {
	ds, hs := p.axes[0].at(depth), p.axes[1].at(h)
	neutral := unsafe.Pointer(unsafe.SliceData(m.Worker))
	m.Count(loopCall + p.width*n)
	r.add(to.ptr, to.step)
	for d := range p.most[0] {
		for k := range p.most[1] {
			if d < ds.taps() && k < hs.taps() {
				line := (ds.start+d*ds.step)*p.in[1] + hs.start + k*hs.step
				r.add(unsafe.Add(in, line*p.width*p.size), step)
			} else {
				r.add(neutral, 0)
			}
		}
	}
	r.run(p.down, p.width, n)
}

// foldAcross folds the columns of folded rows, of which from on there are n, into results.
func (p *foldRows) foldAcross(r *foldRun, to, from unsafe.Pointer, row, depth, n int) {
	size := p.sum.Size()
	r.add(to, p.cols.results*p.size)
	for _, o := range p.cols.operands() {
		r.add(unsafe.Add(from, o*size), p.pitch*size)
	}
	switch {
	case p.kind != poolAvg:
	case p.even:
		r.add(unsafe.Pointer(&p.divisors[0]), 0)
	default:
		step := p.cols.results * size
		r.add(unsafe.Pointer(&p.divisors[(depth*p.axes[1].out+row)*step]), step)
	}
	r.run(p.across, p.cols.results, n)
}

// rowFold is what a pooling by rows makes of windows, as two loops: down over the rows of windows, and across over the
// columns of what that made.
type rowFold struct {
	poolFold
	d, sum       tensor.DType
	cols         columns
	down, across *loops.Loop
}

// operands are where the operands of the loop across begin, in elements from the first of a window: a row each, or with
// steps of 2 one of pairs.
func (c *columns) operands() (list []int) {
	for k := range c.taps {
		at := k * c.apart / c.step * c.step
		if len(list) == 0 || list[len(list)-1] != at {
			list = append(list, at)
		}
	}
	return list
}

// newRowFold returns nil where the loops do not become machine code. Even says that all averages have one divisor.
func newRowFold(f poolFold, d, sum tensor.DType, lines int, cols columns, even bool) (*rowFold, error) {
	t := &rowFold{poolFold: f, d: d, sum: sum, cols: cols}
	if !loops.Compiles() || f.kind == poolNorm || max(lines, len(cols.operands())) > fewTaps ||
		cols.step > 1 && !sum.IsFloat() {
		return nil, nil
	}
	down, err := t.downLoop(lines)
	if err != nil {
		return nil, err
	}
	across, err := t.acrossLoop(even)
	if err != nil {
		return nil, err
	}
	if t.down, err = loops.New(down, loops.Options{}); err != nil || !t.down.Compiled() {
		return nil, err
	}
	if t.across, err = loops.New(across, loops.Options{}); err != nil || !t.across.Compiled() {
		return nil, err
	}
	return t, nil
}

// join folds one value more.
func (t *rowFold) join(b *expr.Builder, x, y expr.Value) expr.Value {
	if t.kind == poolMax {
		return b.Do(expr.Max, y, x)
	}
	return b.Do(expr.Add, x, y)
}

// downLoop folds so many rows.
func (t *rowFold) downLoop(lines int) (*expr.Loop, error) {
	b := expr.NewBuilder(slices.Repeat([]tensor.DType{t.d}, lines)...)
	v := b.Convert(t.sum, b.Load(0))
	if t.kind == poolAvg {
		v = b.Do(expr.Add, b.Const(t.sum, 0), v)
	}
	for k := 1; k < lines; k++ {
		v = t.join(b, v, b.Convert(t.sum, b.Load(k)))
	}
	c, err := b.Build(b.Real(v))
	return &expr.Loop{Code: c, Scalar: make([]bool, lines)}, err
}

// acrossLoop folds columns of folded rows, and divides by a last operand, one of each row if divisors are even.
func (t *rowFold) acrossLoop(even bool) (*expr.Loop, error) {
	places := t.cols.operands()
	of := t.sum
	if t.cols.step == 2 {
		of = t.sum.ToComplex()
	}
	in := slices.Repeat([]tensor.DType{of}, len(places))
	scalar := make([]bool, len(places))
	if t.kind == poolAvg {
		in, scalar = append(in, t.sum), append(scalar, even)
	}
	b := expr.NewBuilder(in...)
	tap := func(k int) expr.Value {
		at := k * t.cols.apart
		i, _ := slices.BinarySearch(places, at/t.cols.step*t.cols.step)
		if t.cols.step == 2 && at%2 == 1 {
			return b.LoadImag(i)
		}
		return b.Load(i)
	}
	v := tap(0)
	for k := 1; k < t.cols.taps; k++ {
		v = t.join(b, v, tap(k))
	}
	if t.kind == poolAvg {
		divide := expr.Div
		if inverse(t.d, t.sum) {
			divide = expr.Mul
		}
		v = b.Do(divide, v, b.Load(len(places)))
	}
	c, err := b.Build(b.Real(b.Convert(t.d, v)))
	return &expr.Loop{Code: c, Scalar: scalar}, err
}

// listings lists the loops.
func (t *rowFold) listings() []expr.Listing {
	return []expr.Listing{t.down.Listing("rows of windows"), t.across.Listing("columns of windows")}
}
