package kernels

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// side is one end of a copy: what lies where.
type side struct {
	at   int         // index in Mem.Ptrs, or scratchMem
	off  int         // bytes from there to the first element
	meta tensor.Meta // its offset does not count
}

// scratchMem stands for Mem.Scratch in side.at.
const scratchMem = -1

// copyJob copies src into dst, which has the same shape, and converts where the dtypes
// differ. dst and src must not overlap.
type copyJob struct {
	dst, src side
	// back lists dimensions in which src is read from its end: src.off tells the last
	// element, and the stride counts downward.
	back []int
	// fill is a 0-dim tensor that is written everywhere, in place of src.
	fill *tensor.Tensor
}

// axis is a dimension of a copy: its size, the steps in bytes, and into how many tiles of
// which length it is cut.
type axis struct{ n, dst, src, tile, tiles int }

func (x *axis) cut(tile int) {
	x.tile = max(1, min(tile, x.n))
	x.tiles = (x.n + x.tile - 1) / x.tile
}

// copyPlan is a copyJob made ready: tiles over the two dimensions that matter, a along
// which dst is written fastest and b along which src is read fastest, times all others.
type copyPlan struct {
	dst, src side
	fill     unsafe.Pointer
	a, b     axis
	outer    []axis
	row      tensor.ConvertFunc
	alongB   bool          // rows run along b, because it is the longer one
	turn     transposeFunc // not nil: dst is dense along a, src along b
	tiles    int
}

const (
	copyGrain = 32768 // elements worth a chunk
	copyTile  = 128   // side of a tile where dst and src disagree about the fastest dimension
	rowTile   = 16384 // elements of a tile where they agree
)

// plan chooses the walk. It returns nil where there is nothing to copy.
func (j copyJob) plan() (*copyPlan, error) {
	if j.dst.meta.Numel() == 0 {
		return nil, nil
	}
	p := &copyPlan{dst: j.dst, src: j.src}
	if j.fill != nil {
		p.fill = j.fill.Pointer()
		p.src.meta = tensor.Meta{DType: j.fill.DType, Shape: j.dst.meta.Shape, Strides: make([]int, j.dst.meta.Rank())}
	}
	axes, err := walkAxes(p.dst.meta, p.src.meta, j.back)
	if err != nil {
		return nil, err
	}
	p.row = mover(p.dst.meta.DType, p.src.meta.DType)
	p.arrange(axes)
	p.tiles = p.a.tiles * p.b.tiles
	for _, x := range p.outer {
		p.tiles *= x.n
	}
	return p, nil
}

// mover returns the loop over a row. Equal dtypes are moved as they are; the converter
// from bool to bool would look at every byte.
func mover(dst, src tensor.DType) tensor.ConvertFunc {
	if dst == tensor.Bool && src == tensor.Bool {
		return tensor.Converter(tensor.Uint8, tensor.Uint8)
	}
	return tensor.Converter(dst, src)
}

// walkAxes coalesces the dimensions by an iteration over both sides; reversed dimensions,
// which an iterator has not, stand by themselves.
func walkAxes(dst, src tensor.Meta, back []int) ([]axis, error) {
	var axes []axis
	if len(back) > 0 {
		shape := append([]int(nil), dst.Shape...)
		for _, d := range back {
			axes = append(axes, axis{n: shape[d], dst: dst.Strides[d] * dst.DType.Size(), src: -src.Strides[d] * src.DType.Size()})
			shape[d] = 1
		}
		dst.Shape, src.Shape = shape, shape
	}
	it, err := iter.Copy(iter.Of(dst), iter.Of(src)).Build()
	if err != nil {
		return nil, err
	}
	ds, ss := it.WalkStrides(0), it.WalkStrides(1)
	for d, n := range it.WalkShape() {
		axes = append(axes, axis{n: n, dst: ds[d], src: ss[d]})
	}
	return axes, nil
}

// arrange picks a and b from the axes and cuts them into tiles.
func (p *copyPlan) arrange(axes []axis) {
	one := axis{n: 1, tile: 1, tiles: 1}
	p.a, p.b = one, one
	var rest []axis
	for _, x := range axes {
		if x.n > 1 {
			rest = append(rest, x)
		}
	}
	take := func(key func(x axis) int) (axis, bool) {
		at := -1
		for i, x := range rest {
			if k := key(x); k > 0 && (at < 0 || k < key(rest[at])) {
				at = i
			}
		}
		if at < 0 {
			return one, false
		}
		x := rest[at]
		rest = append(rest[:at:at], rest[at+1:]...)
		return x, true
	}
	p.a, _ = take(func(x axis) int { return x.dst })
	bySrc := func(x axis) int { return max(x.src, -x.src) }
	b, differ := take(func(x axis) int {
		if s := bySrc(x); s < bySrc(p.a) {
			return s
		}
		return 0
	})
	if differ {
		p.b = b
		p.cutSquare()
	} else {
		p.b, _ = take(func(x axis) int { return x.dst })
		p.cutRows()
	}
	p.outer = rest
}

// cutSquare cuts tiles in which the lines of both sides stay in the cache.
func (p *copyPlan) cutSquare() {
	ta, tb := min(copyTile, p.a.n), min(copyTile, p.b.n)
	if ta < copyTile {
		tb = min(p.b.n, copyTile*copyTile/ta)
	} else if tb < copyTile {
		ta = min(p.a.n, copyTile*copyTile/tb)
	}
	p.a.cut(ta)
	p.b.cut(tb)
	p.alongB = tb > ta
	size := p.dst.meta.DType.Size()
	if p.dst.meta.DType == p.src.meta.DType && p.a.dst == size && p.b.src == size && min(ta, tb) >= 4 {
		p.turn = transposers[size]
	}
}

// cutRows cuts tiles of long rows; where rows are short and many, they are walked across.
func (p *copyPlan) cutRows() {
	if p.a.n < 16 && p.b.n > p.a.n {
		p.alongB = true
		p.a.cut(p.a.n)
		p.b.cut(1024)
		return
	}
	p.a.cut(rowTile)
	p.b.cut(rowTile / p.a.tile)
}

// run copies tiles [from, to).
func (p *copyPlan) run(m *graph.Mem, from, to int) {
	dst, src := p.dst.base(m), p.fill
	if src == nil {
		src = p.src.base(m)
	}
	for t := from; t < to; t++ {
		ia, r := t%p.a.tiles, t/p.a.tiles
		ib, r := r%p.b.tiles, r/p.b.tiles
		ia, ib = ia*p.a.tile, ib*p.b.tile
		d, s := ia*p.a.dst+ib*p.b.dst, ia*p.a.src+ib*p.b.src
		for i := range p.outer {
			x := &p.outer[i]
			k := r % x.n
			r /= x.n
			d, s = d+k*x.dst, s+k*x.src
		}
		p.tile(m, unsafe.Add(dst, d), unsafe.Add(src, s), min(p.a.tile, p.a.n-ia), min(p.b.tile, p.b.n-ib))
	}
}

func (s side) base(m *graph.Mem) unsafe.Pointer {
	if s.at == scratchMem {
		return unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.Scratch)), s.off)
	}
	return unsafe.Add(m.Ptrs[s.at], s.off)
}

// tile copies na by nb elements.
func (p *copyPlan) tile(m *graph.Mem, dst, src unsafe.Pointer, na, nb int) {
	switch {
	case p.turn != nil:
		p.turn(unsafe.Pointer(unsafe.SliceData(m.Worker)), dst, src, p.b.dst, p.a.src, na, nb)
	case p.alongB:
		for i := range na {
			p.row(unsafe.Add(dst, i*p.a.dst), unsafe.Add(src, i*p.a.src), p.b.dst, p.b.src, nb)
		}
	default:
		for j := range nb {
			p.row(unsafe.Add(dst, j*p.b.dst), unsafe.Add(src, j*p.b.src), p.a.dst, p.a.src, na)
		}
	}
}

// copyPhase returns the jobs as one phase; their destinations must not overlap. Chunks
// take tiles worth copyGrain elements, of several jobs where those are small. worker is
// the room that a worker needs.
func copyPhase(jobs ...copyJob) (phase graph.Phase, worker int, err error) {
	var plans []*copyPlan
	total := 0
	for _, j := range jobs {
		p, err := j.plan()
		if err != nil {
			return phase, 0, err
		}
		if p == nil {
			continue
		}
		if p.turn != nil {
			worker = max(worker, copyTile*copyTile*p.dst.meta.DType.Size())
		}
		total += p.tiles * p.a.tile * p.b.tile
		plans = append(plans, p)
	}
	cuts := cutCopies(plans, max(copyGrain, total/maxCopyCuts))
	phase = graph.Phase{Chunks: len(cuts) - 1, Run: func(m *graph.Mem, chunk int) error {
		from, to := cuts[chunk], cuts[chunk+1]
		for i := from.plan; i <= to.plan; i++ {
			first, last := 0, plans[i].tiles
			if i == from.plan {
				first = from.tile
			}
			if i == to.plan {
				last = to.tile
			}
			plans[i].run(m, first, last)
		}
		return nil
	}}
	return phase, worker, nil
}

// place is a tile of a plan.
type place struct{ plan, tile int }

// maxCopyCuts bounds the chunks of a phase, which are listed: the copy of a huge tensor has
// larger ones.
const maxCopyCuts = 1 << 14

// cutCopies returns where chunks of about grain elements begin, and where the last ends.
func cutCopies(plans []*copyPlan, grain int) []place {
	cuts := []place{{}}
	cost := 0
	for i, p := range plans {
		each := p.a.tile * p.b.tile
		for left := 0; left < p.tiles; {
			n := min(p.tiles-left, max(1, (grain-cost+each-1)/each))
			left += n
			if cost += n * each; cost >= grain {
				cuts, cost = append(cuts, place{i, left}), 0
			}
		}
	}
	if cost > 0 {
		cuts = append(cuts, place{len(plans) - 1, plans[len(plans)-1].tiles})
	}
	return cuts
}

// copyKernel returns a kernel of jobs whose destinations do not overlap.
func copyKernel(jobs ...copyJob) (*graph.Kernel, error) {
	phase, worker, err := copyPhase(jobs...)
	return &graph.Kernel{Phases: []graph.Phase{phase}, Worker: worker}, err
}

// outSide and inSide are an output and an operand of a call as they lie.

func outSide(c *graph.Call, i int) side { return side{at: i, meta: c.Out[i]} }

func inSide(c *graph.Call, i int) side { return side{at: len(c.Out) + i, meta: c.Meta(i)} }

// show returns the side under another meta of the same memory, a view, whose offset
// counts from the same start as the side's own.
func (s side) show(m tensor.Meta) side {
	s.off += (m.Offset - s.meta.Offset) * m.DType.Size()
	s.meta = m
	return s
}

// copyOrdered copies src to dst by logical order: where the shapes differ, by a view of
// either side in the other's shape, else through scratch memory.
func copyOrdered(dst, src side) (*graph.Kernel, error) {
	if m, err := src.meta.View(dst.meta.Shape); err == nil {
		return copyKernel(copyJob{dst: dst, src: src.show(m)})
	}
	if m, err := dst.meta.View(src.meta.Shape); err == nil {
		return copyKernel(copyJob{dst: dst.show(m), src: src})
	}
	mid := side{at: scratchMem, meta: tensor.New(src.meta.DType, src.meta.Shape...)}
	in, w0, err := copyPhase(copyJob{dst: mid, src: src})
	if err != nil {
		return nil, err
	}
	mid.meta = tensor.New(src.meta.DType, dst.meta.Shape...)
	out, w1, err := copyPhase(copyJob{dst: dst, src: mid})
	return &graph.Kernel{Phases: []graph.Phase{in, out}, Worker: max(w0, w1), Scratch: mid.meta.Bytes()}, err
}
