package window

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// pool is a pooling in Go over one or two dimensions, prepared for fixed layouts. Missing batch and height dimensions
// have size 1.
//
// Two walks support all layouts. By planes, the output is computed row by row from contiguous rows of the operand;
// strided rows are copied first. By pixels, each output pixel is computed for all channels at once.
type pool struct {
	n, c, h, w int
	rows, cols poolAxis
	in         [4]int // strides in bytes: batch, channel, height, width
	out        [2][4]int
	outs       []tensor.Meta
	ld         axes.Loader
	store      [2]tensor.ConvertFunc
	op         poolOp

	rowsPer  int // output rows in a unit of a plane
	blocks   int // units of a plane
	perChunk int
	gathered int // bytes of the rows that a unit copies
}

// poolOp is the reduction of a pooling. acc is memory of size() bytes for each channel.
type poolOp interface {
	// row computes one row of the output from rows of step bytes at x; top is the index of the first. index is nil if no
	// indices are requested. It checks the context of the run.
	row(m *graph.Mem, p *pool, dst, index, x unsafe.Pointer, step, top, oh int)
	size() int
	// begin initializes acc for a window whose first element has index first in the plane.
	begin(acc unsafe.Pointer, n, first int)
	// take folds n channels of the operand's pixel at index `at` into acc.
	take(acc, x unsafe.Pointer, n, at int)
	// end writes n results and indices.
	end(dst, index, acc unsafe.Pointer, n int, area float64)
	// fold describes the reduction for compiled loops.
	fold() poolFold
}

// poolSteps returns the strides in bytes of batch, channel, height and width; missing dimensions have 0.
func poolSteps(m tensor.Meta, spatial int) (st [4]int) {
	size := m.DType.Size()
	lead := m.Rank() - spatial // 1 (channels) or 2 (batch, channels)
	for d := range m.Rank() {
		k := 2 + d - lead + 2 - spatial
		if d < lead {
			k = 2 + d - lead
		}
		st[k] = m.Strides[d] * size
	}
	return st
}

// newPool compiles a pooling over one or two spatial dimensions, with one of its walks.
func newPool(c *graph.Call, by poolWalk, windows []poolAxis, op poolOp) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	m, spatial := c.Meta(0), len(windows)
	if k, err := compiledPool(c, by, op.fold(), windows); k != nil || err != nil {
		return k, err
	}
	loops := kit.Wide(m.DType)
	p := &pool{n: 1, h: 1, rows: wholeAxis(), cols: windows[spatial-1], outs: c.Out,
		ld: axes.NewLoader(m.DType, m.DType, loops), op: op}
	lead := m.Rank() - spatial
	p.c, p.w = m.Shape[lead-1], m.Shape[m.Rank()-1]
	if lead == 2 {
		p.n = m.Shape[0]
	}
	if spatial == 2 {
		p.h, p.rows = m.Shape[lead], windows[0]
	}
	p.in = poolSteps(m, spatial)
	for i, o := range c.Out {
		p.out[i] = poolSteps(o, spatial)
		p.store[i] = tensor.Converter(o.DType, loops)
	}
	if len(c.Out) > 1 {
		p.store[1] = tensor.Converter(tensor.Int64, tensor.Int64)
	}
	if by == poolPixels {
		return p.byPixels(), nil
	}
	return p.byPlanes(), nil
}

// compiledPool returns the kernel of a pooling by compiled loops, or nil if they do not support it.
func compiledPool(c *graph.Call, by poolWalk, f poolFold, axes []poolAxis) (*graph.Kernel, error) {
	if by != poolPixels {
		p, err := newCompiledPlanes(c, f, axes)
		if p == nil || err != nil {
			return nil, err
		}
		return p.kernel(), nil
	}
	p, err := newCompiledPixels(c, f, axes)
	if p == nil || err != nil {
		return nil, err
	}
	return p.kernel(), nil
}

// area returns the maximum number of elements of a window.
func (p *pool) area() int {
	return max(1, p.rows.most()) * max(1, p.cols.most())
}

func (p *pool) byPlanes() *graph.Kernel {
	ow := p.cols.out
	grain := machine.ReduceGrain / 2
	p.rowsPer = min(max(1, grain/mulBounded(ow, p.area())), p.rows.out)
	p.blocks = (p.rows.out + p.rowsPer - 1) / p.rowsPer
	units := p.n * p.c * p.blocks
	p.perChunk = max(1, grain/mulBounded(ow*p.rowsPer, p.area()))
	if !p.direct() {
		p.gathered = p.spanned() * p.w * p.ld.Size
	}
	return &graph.Kernel{
		Worker: kit.AlignUp(p.gathered) + kit.AlignUp(axes.BlockBytes) + kit.AlignUp(ow*8)*2,
		Phases: []graph.Phase{{Chunks: (units + p.perChunk - 1) / p.perChunk, Run: func(m *graph.Mem, chunk int) error {
			for u := chunk * p.perChunk; u < min((chunk+1)*p.perChunk, units); u++ {
				p.plane(m, u)
			}
			return nil
		}}},
	}
}

// direct reports whether rows of the operand are read in place.
func (p *pool) direct() bool { return p.ld.Direct && (p.in[3] == p.ld.Size || p.w == 1) }

// span returns the range of the operand's rows that block b of output rows needs.
func (p *pool) span(b int) (top, bottom int) {
	from, last := b*p.rowsPer, p.rows.at(min((b+1)*p.rowsPer, p.rows.out)-1)
	if p.rows.adaptive {
		top = p.rows.at(from).start
	} else {
		top = min(max(from*p.rows.params.stride-p.rows.params.begin, 0), p.h)
	}
	return top, max(top, last.end)
}

// spanned returns a bound on the rows that a block needs.
func (p *pool) spanned() int {
	if p.rows.adaptive {
		rows, _ := mulDiv(p.rowsPer, p.h, p.rows.out)
		return min(p.h, rows+2)
	}
	s := &p.rows.params
	return min(p.h, (p.rowsPer-1)*s.stride+s.reach()+1)
}

// plane computes unit u: a block of rows of one plane.
func (p *pool) plane(m *graph.Mem, u int) {
	r := kit.RegionOf(m.Worker)
	rows, tmp := r.Take(p.gathered), r.Take(axes.BlockBytes)
	res := [2]unsafe.Pointer{r.Take(p.cols.out * 8), r.Take(p.cols.out * 8)}
	plane, b := u/p.blocks, u%p.blocks
	n, c := plane/p.c, plane%p.c
	src := unsafe.Add(m.Ptrs[len(p.outs)], n*p.in[0]+c*p.in[1])
	top, bottom := p.span(b)
	x, step, first := src, p.in[2], 0
	if p.gathered > 0 {
		x, step, first = rows, p.w*p.ld.Size, top
		for h := top; h < bottom; h++ {
			for w := 0; w < p.w; w += folds.BlockLen {
				p.ld.Load(unsafe.Add(rows, (h-top)*step+w*p.ld.Size), tmp, unsafe.Add(src, h*p.in[2]+w*p.in[3]), p.in[3],
					min(folds.BlockLen, p.w-w))
			}
		}
	}
	for oh := b * p.rowsPer; oh < min((b+1)*p.rowsPer, p.rows.out); oh++ {
		var dst, at [2]unsafe.Pointer
		for i, o := range p.out[:len(p.outs)] {
			dst[i] = unsafe.Add(m.Ptrs[i], n*o[0]+c*o[1]+oh*o[2])
			at[i] = p.resultBuffer(i, res[i], dst[i], o[3], p.cols.out)
		}
		p.op.row(m, p, at[0], at[1], x, step, first, oh)
		p.storeResults(at, dst, 3, p.cols.out)
	}
}

// resultBuffer returns the address for n results of output i: the output itself if it is contiguous, else buf.
func (p *pool) resultBuffer(i int, buf, dst unsafe.Pointer, step, n int) unsafe.Pointer {
	size := p.outs[i].DType.Size()
	if (p.ld.Direct || i > 0) && (step == size || n == 1) {
		return dst
	}
	return buf
}

// storeResults copies n results from the buffers to the outputs, along dimension d.
func (p *pool) storeResults(at, dst [2]unsafe.Pointer, d, n int) {
	for i := range p.outs {
		if at[i] != dst[i] {
			size := p.ld.Size
			if i > 0 {
				size = 8
			}
			p.store[i](dst[i], at[i], p.out[i][d], size, n)
		}
	}
}

func (p *pool) byPixels() *graph.Kernel {
	oh, ow := p.rows.out, p.cols.out
	units := p.n * oh * ow
	perChunk := max(1, machine.ReduceGrain/2/(p.c*p.area()))
	block := min(p.c, folds.BlockLen)
	return &graph.Kernel{
		Worker: kit.AlignUp(block*p.op.size()) + 2*axes.BlockBytes + 2*kit.AlignUp(block*8),
		Phases: []graph.Phase{{Chunks: (units + perChunk - 1) / perChunk, Run: func(m *graph.Mem, chunk int) error {
			r := kit.RegionOf(m.Worker)
			acc, buf, tmp := r.Take(block*p.op.size()), r.Take(axes.BlockBytes), r.Take(axes.BlockBytes)
			res := [2]unsafe.Pointer{r.Take(block * 8), r.Take(block * 8)}
			for u := chunk * perChunk; u < min((chunk+1)*perChunk, units); u++ {
				for c := 0; c < p.c; c += block {
					p.pixel(m, u, c, min(block, p.c-c), acc, buf, tmp, res)
				}
			}
			return nil
		}}},
	}
}

// pixel computes n channels of the output's pixel u.
func (p *pool) pixel(m *graph.Mem, u, c, n int, acc, buf, tmp unsafe.Pointer, res [2]unsafe.Pointer) {
	ow := u % p.cols.out
	oh := u / p.cols.out % p.rows.out
	b := u / p.cols.out / p.rows.out
	src := unsafe.Add(m.Ptrs[len(p.outs)], b*p.in[0]+c*p.in[1])
	hs, ws := p.rows.at(oh), p.cols.at(ow)
	p.op.begin(acc, n, hs.start*p.w+ws.start)
	for h := hs.start; h < hs.end; h += hs.step {
		for w := ws.start; w < ws.end; w += ws.step {
			x := p.ld.Run(buf, tmp, unsafe.Add(src, h*p.in[2]+w*p.in[3]), p.in[1], n)
			p.op.take(acc, x, n, h*p.w+w)
			m.Count(2 * n)
		}
	}
	var dst, at [2]unsafe.Pointer
	for i, o := range p.out[:len(p.outs)] {
		dst[i] = unsafe.Add(m.Ptrs[i], b*o[0]+c*o[1]+oh*o[2]+ow*o[3])
		at[i] = p.resultBuffer(i, res[i], dst[i], o[1], n)
	}
	p.op.end(at[0], at[1], acc, n, areaOf(1, hs.size, ws.size))
	p.storeResults(at, dst, 1, n)
}
