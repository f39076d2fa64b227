package index

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// lookup is a dimension of the far side of an indexed walk whose index an operand holds.
// A negative index counts from the end.
type lookup struct {
	side  int // the walk's side that holds the index
	off   int // bytes from the side's element to the index
	wide  bool
	dim   int // as messages name it
	size  int
	step  int          // bytes from index to index
	plane *tensor.Meta // not nil: the index counts the elements of this meta in logical order
}

// place reads the index at p and returns what it adds to the far side's address, in bytes.
func (l *lookup) place(p unsafe.Pointer) (int, error) {
	var index int64
	if l.wide {
		index = *(*int64)(unsafe.Add(p, l.off))
	} else {
		index = int64(*(*int32)(unsafe.Add(p, l.off)))
	}
	if size := int64(l.size); index < -size || index >= size {
		return 0, outOfBounds(index, l.dim, l.size)
	}
	i := int(index)
	if i < 0 {
		i += l.size
	}
	if l.plane == nil {
		return i * l.step, nil
	}
	at := 0
	for d := l.plane.Rank() - 1; d >= 0; d-- {
		n := l.plane.Shape[d]
		at += i % n * l.plane.Strides[d]
		i /= n
	}
	return at * l.step, nil
}

func outOfBounds(i int64, dim, size int) error {
	return fmt.Errorf("index %d is out of bounds for dimension %d with size %d", i, dim, size)
}

// walkSide is one value of an indexed walk, and its steps in bytes by dimension of the walk.
type walkSide struct {
	kit.Buffer
	steps []int
}

// sideOf is what is at place at of Mem.Ptrs, in a walk over its dimensions.
func sideOf(at int, m tensor.Meta) walkSide {
	return walkSide{kit.PtrBuffer(at, m), kit.ByteStrides(m)}
}

// indexed walks a shape over several sides: side 0, the near one, by its own strides; side 1, the
// far one, at places that lookups give; the others hold indices. Where the far side is
// written, dimensions along which it has no step of its own are serial: their positions may
// meet the same place, and are taken in order by one worker.
type indexed struct {
	shape  []int
	sides  []walkSide
	looks  []lookup
	writes bool

	outer, mid []int // dimensions
	inner      int
	piece      int
	pieces     int
	units      int
	mids       int
	perChunk   int
	moves      bool // some lookup moves along the inner dimension
}

const (
	maxSides   = 12
	placeBlock = 512
)

func (x *indexed) serial(d int) bool { return x.writes && x.sides[1].steps[d] == 0 }

// merge joins dimensions that are one run for all sides, and drops those of size 1.
func (x *indexed) merge() {
	var dims []int
	shape := append([]int(nil), x.shape...)
	for d, n := range shape {
		if n == 1 && len(shape) > 1 {
			continue
		}
		if k := len(dims) - 1; k >= 0 && x.serial(dims[k]) == x.serial(d) {
			p, one := dims[k], true
			for _, s := range x.sides {
				one = one && s.steps[p] == s.steps[d]*n
			}
			if one {
				shape[d] *= shape[p]
				dims[k] = d
				continue
			}
		}
		dims = append(dims, d)
	}
	for i := range x.sides {
		steps := make([]int, len(dims))
		for k, d := range dims {
			steps[k] = x.sides[i].steps[d]
		}
		x.sides[i].steps = steps
	}
	x.shape = nil
	for _, d := range dims {
		x.shape = append(x.shape, shape[d])
	}
	if len(x.shape) == 0 {
		x.shape = []int{1}
		for i := range x.sides {
			x.sides[i].steps = []int{0}
		}
	}
}

func (x *indexed) arrange() {
	x.merge()
	x.inner = len(x.shape) - 1
	x.mids, x.units = 1, 1
	for d := range x.inner {
		if x.serial(d) {
			x.mid = append(x.mid, d)
			x.mids *= x.shape[d]
		} else {
			x.outer = append(x.outer, d)
			x.units *= x.shape[d]
		}
	}
	n := x.shape[x.inner]
	x.piece = max(1, n)
	if !x.serial(x.inner) {
		x.piece = max(1, min(n, max(64, machine.GatherGrain/max(1, x.mids))))
	}
	x.pieces = kit.DivUp(n, x.piece)
	x.units *= x.pieces
	if x.mids == 0 {
		x.units = 0
	}
	x.perChunk = max(1, machine.GatherGrain/max(1, x.mids*x.piece))
	for _, l := range x.looks {
		x.moves = x.moves || x.sides[l.side].steps[x.inner] != 0
	}
}

// phase cuts the walk into chunks.
func (x *indexed) phase(ops kit.RowOps) graph.Phase {
	x.arrange()
	return graph.Phase{Chunks: kit.DivUp(x.units, x.perChunk), Run: func(m *graph.Mem, chunk int) error {
		places := unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(m.Worker))), placeBlock)
		for u := chunk * x.perChunk; u < min(x.units, (chunk+1)*x.perChunk); u++ {
			if err := x.unit(m, ops, u, places); err != nil {
				return err
			}
		}
		return nil
	}}
}

// kernel is a kernel of the walk alone.
func (x *indexed) kernel(ops kit.RowOps) *graph.Kernel {
	return &graph.Kernel{Phases: []graph.Phase{x.phase(ops)}, Worker: placeBlock * 8}
}

func (x *indexed) seek(p *[maxSides]unsafe.Pointer, dims []int, i int) {
	for k := len(dims) - 1; k >= 0; k-- {
		d := dims[k]
		at := i % x.shape[d]
		i /= x.shape[d]
		for s := range x.sides {
			p[s] = unsafe.Add(p[s], at*x.sides[s].steps[d])
		}
	}
}

func (x *indexed) unit(m *graph.Mem, ops kit.RowOps, u int, places []int) error {
	var start [maxSides]unsafe.Pointer
	for s := range x.sides {
		start[s] = x.sides[s].Address(m)
	}
	at := u % x.pieces * x.piece
	x.seek(&start, x.outer, u/x.pieces)
	for s := range x.sides {
		start[s] = unsafe.Add(start[s], at*x.sides[s].steps[x.inner])
	}
	n := min(x.piece, x.shape[x.inner]-at)
	for i := range x.mids {
		p := start
		x.seek(&p, x.mid, i)
		if err := x.row(m, ops, &p, n, places); err != nil {
			return err
		}
	}
	return nil
}

func (x *indexed) row(m *graph.Mem, ops kit.RowOps, p *[maxSides]unsafe.Pointer, n int, places []int) error {
	near, far := x.sides[0].steps[x.inner], x.sides[1].steps[x.inner]
	if !x.moves {
		off := 0
		for i := range x.looks {
			at, err := x.looks[i].place(p[x.looks[i].side])
			if err != nil {
				return err
			}
			off += at
		}
		kit.Blocks(m.Context, n, func(begin, end int) {
			ops.Block(unsafe.Add(p[0], begin*near), unsafe.Add(p[1], off+begin*far), near, far, end-begin)
		})
		m.Count(n)
		return nil
	}
	for from := 0; from < n; from += placeBlock {
		b := places[:min(placeBlock, n-from)]
		for i := range b {
			b[i] = (from + i) * far
		}
		for i := range x.looks {
			l := &x.looks[i]
			step := x.sides[l.side].steps[x.inner]
			for k := range b {
				at, err := l.place(unsafe.Add(p[l.side], (from+k)*step))
				if err != nil {
					return err
				}
				b[k] += at
			}
		}
		ops.Each(unsafe.Add(p[0], from*near), p[1], near, b)
		m.Count(len(b) * (1 + len(x.looks)))
	}
	return nil
}

// indexDType refuses what does not hold indices.
func indexDType(op string, d tensor.DType) error {
	if d != tensor.Int64 && d != tensor.Int32 {
		return fmt.Errorf("%s(): Expected dtype int32/int64 for index", op)
	}
	return nil
}

// without returns steps with that of one dimension 0.
func without(steps []int, dim int) []int {
	out := append([]int(nil), steps...)
	if len(out) > 0 {
		out[dim] = 0
	}
	return out
}

// sizeAt is the size of a dimension; a 0-dim value counts as one of size 1.
func sizeAt(m tensor.Meta, dim int) int {
	if m.Rank() == 0 {
		return 1
	}
	return m.Shape[dim]
}

// lookAlong is the lookup of a dimension of m whose index side 2 holds.
func lookAlong(m, index tensor.Meta, dim int) lookup {
	return lookup{side: 2, wide: index.DType == tensor.Int64, dim: dim, size: sizeAt(m, dim), step: kit.StepAt(m, dim)}
}

// refIndex reads an index as a lookup does.
func refIndex(t *tensor.Tensor, size, dim int, at ...int) (int, error) {
	i := t.At(at...).Int()
	if n := int64(size); i < -n || i >= n {
		return 0, outOfBounds(i, dim, size)
	}
	if i < 0 {
		return int(i) + size, nil
	}
	return int(i), nil
}
