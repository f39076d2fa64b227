package reduce

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// linePlan is the walk of ops that work along one dimension and keep the shape, such as cumsum and softmax. The
// positions of the other dimensions are divided into units. A unit processes its lines one by one (rows) or all at once
// (columns).
type linePlan struct {
	kept     []axes.Axis
	line     axes.Axis
	rows     bool
	unit     int
	pieces   int
	units    int
	perChunk int
	ld       axes.Loader
	store    tensor.ConvertFunc // from the dtype of loops to the output's
	size     int                // bytes of an element of the output
	plain    bool               // the output has the dtype of loops
	inPlace  bool               // the op replaces each element in place
}

// columnUnit is the number of lines that are processed at once.
const columnUnit = 256

// newLinePlan plans the walk along dim, or over single elements if dim is negative. A unit then has an offset in each
// meta of side, which follows the strides of that meta.
func newLinePlan(m tensor.Meta, dim int, by lineWalk, out tensor.Meta, side []tensor.Meta, cast, loops tensor.DType,
	weight int) *linePlan {
	kept, red := axes.Split(axes.Dims(m, append([]tensor.Meta{out}, side...)...), lineMask(m.Rank(), dim), true)
	p := &linePlan{kept: kept, line: red[0], ld: axes.NewLoader(m.DType, cast, loops), rows: by == lineRows,
		store: tensor.Converter(out.DType, loops), size: out.DType.Size(), plain: out.DType == loops,
		inPlace: m.DType == out.DType && m.SameAddresses(out)}
	k := kept[0]
	grain := machine.ReduceGrain / weight
	p.unit = max(1, min(k.N, columnUnit))
	if p.rows {
		p.unit = max(1, min(p.unit, grain/max(p.line.N, 1)))
	}
	p.pieces = (k.N + p.unit - 1) / p.unit
	p.units = p.pieces * axes.Numel(kept[1:])
	if p.line.N == 0 {
		p.units = 0
	}
	p.perChunk = max(1, grain/(p.unit*max(p.line.N, 1)))
	return p
}

// lineRoom is the memory of a worker: two blocks, and the memory that the op requested. side has the offsets of the
// unit in the side arrays, in bytes.
type lineRoom struct {
	buf, tmp, own unsafe.Pointer
	side          int
	mem           *graph.Mem
}

// look checks the context of the run about every kit.CheckEvery elements. Element i of n lines is next; i is a multiple
// of the block length or counts single elements.
func (r *lineRoom) look(i, n int) {
	if i > 0 && i*n%kit.CheckEvery < n {
		r.mem.CheckContext()
	}
}

// kernel returns the kernel of f, which processes one unit of n lines. in and out are the addresses of the first
// elements of the first line, equal if it works in place. own is the bytes of memory that f needs.
func (p *linePlan) kernel(own int, f func(m lineRoom, in, out unsafe.Pointer, n int) error) *graph.Kernel {
	counter := kit.AlignUp(8 * len(p.kept))
	k := &graph.Kernel{
		Worker: counter + 2*axes.BlockBytes + kit.AlignUp(own),
		Phases: []graph.Phase{{
			Chunks: (p.units + p.perChunk - 1) / p.perChunk,
			Run: func(m *graph.Mem, chunk int) error {
				r := kit.RegionOf(m.Worker)
				w := axes.Walker{Axes: p.kept[1:], At: r.Ints(len(p.kept) - 1)}
				r.B = m.Worker[counter:]
				room := lineRoom{buf: r.Take(axes.BlockBytes), tmp: r.Take(axes.BlockBytes), mem: m}
				if own > 0 {
					room.own = r.Take(own)
				}
				for u := chunk * p.perChunk; u < min((chunk+1)*p.perChunk, p.units); u++ {
					w.Seek(u / p.pieces)
					at := u % p.pieces * p.unit
					k := p.kept[0]
					in := unsafe.Add(m.Ptrs[1], w.Off+at*k.In)
					out := unsafe.Add(m.Ptrs[0], w.Out[0]+at*k.Out[0])
					room.side = w.Out[1] + at*k.Out[1]
					if err := f(room, in, out, min(p.unit, k.N-at)); err != nil {
						return err
					}
				}
				return nil
			}}}}
	if p.inPlace {
		k.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	}
	return k
}

// target returns the destination of a run of n results: the output itself, or buf.
func (p *linePlan) target(buf, out unsafe.Pointer, step, n int) unsafe.Pointer {
	if p.plain && (step == p.size || n == 1) {
		return out
	}
	return buf
}

// written copies results from buf to the output if target returned buf.
func (p *linePlan) written(at, out unsafe.Pointer, step, n int) {
	if at != out {
		p.store(out, at, step, p.ld.Size, n)
	}
}

// clear writes n zeros to the output.
func (p *linePlan) clear(out unsafe.Pointer, step, n int) {
	if step == p.size {
		clear(unsafe.Slice((*byte)(out), n*p.size))
		return
	}
	zero := uint64(0) // zero in any dtype
	p.store(out, unsafe.Pointer(&zero), step, 0, n)
}
