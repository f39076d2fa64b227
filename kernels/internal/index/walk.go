package index

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// lookup describes a dimension of the table that an index operand indexes. A negative index counts from the end.
type lookup struct {
	operand    int  // operand of the walk that has the index
	byteOffset int  // offset in bytes of the index from the operand's address; a tuple has several indices
	isInt64    bool // the index is int64, else int32
	dim        int  // the dimension, for error messages
	size       int  // size of the dimension
	step       int  // stride of the dimension in bytes, or bytes of an element if the index is flat
	// flatLayout is the layout of the table if the index is a flat row-major index; else nil.
	flatLayout *tensor.Meta
}

// offset reads the index at p and returns its byte offset in the table.
func (l *lookup) offset(p unsafe.Pointer) (int, error) {
	var index int64
	if l.isInt64 {
		index = *(*int64)(unsafe.Add(p, l.byteOffset))
	} else {
		index = int64(*(*int32)(unsafe.Add(p, l.byteOffset)))
	}
	if size := int64(l.size); index < -size || index >= size {
		return 0, outOfBounds(index, l.dim, l.size)
	}
	i := int(index)
	if i < 0 {
		i += l.size
	}
	if l.flatLayout == nil {
		return i * l.step, nil
	}
	at := 0
	for d := l.flatLayout.Rank() - 1; d >= 0; d-- {
		n := l.flatLayout.Shape[d]
		at += i % n * l.flatLayout.Strides[d]
		i /= n
	}
	return at * l.step, nil
}

// outOfBounds returns the error for index i of a dimension.
func outOfBounds(i int64, dim, size int) error {
	return fmt.Errorf("index %d is out of bounds for dimension %d with size %d", i, dim, size)
}

// walkOperand is an operand of an indexed walk.
type walkOperand struct {
	kit.Buffer
	steps []int // strides in bytes in the dimensions of the walk
}

// operandAt returns the operand with address Mem.Ptrs[ptrIndex] and meta m, for a walk over the dimensions of m.
func operandAt(ptrIndex int, m tensor.Meta) walkOperand {
	return walkOperand{kit.PtrBuffer(ptrIndex, m), kit.ByteStrides(m)}
}

// indexedWalk is a walk: it visits all indices of a shape and moves elements between two operands. Operand 0, the plain
// operand, is accessed by its own strides. Operand 1, the table, is accessed at positions given by lookups. The other
// operands have the indices. A gather reads the table, and a scatter writes the table.
//
// If the table has stride 0 in a dimension, a scatter may write several elements along that dimension to the same
// position. Such a dimension is serial: one worker visits its elements in order. Other dimensions are parallel. The
// innermost dimension is divided into pieces. A unit of work is one piece, at one index of the parallel outer
// dimensions. It visits all indices of the serial outer dimensions.
type indexedWalk struct {
	shape       []int
	operands    []walkOperand
	lookups     []lookup
	writesTable bool // the table is written

	parallelDims, serialDims []int // parallel and serial outer dimensions
	innerDim                 int   // innermost dimension
	pieceLen                 int   // elements per piece of the innermost dimension
	pieces                   int   // number of pieces of the innermost dimension
	units                    int   // number of units of work
	serialCount              int   // number of indices of the serial outer dimensions
	unitsPerChunk            int   // number of units of a chunk
	positionsVary            bool  // whether an index operand has different elements along the innermost dimension
}

const (
	maxOperands   = 12  // greatest number of operands of a walk
	positionBlock = 512 // greatest number of positions that are looked up at once, in worker memory
)

// isSerial reports whether dimension d is serial.
func (x *indexedWalk) isSerial(d int) bool { return x.writesTable && x.operands[1].steps[d] == 0 }

// merge merges dimensions that are contiguous in all operands, and drops dimensions of size 1.
func (x *indexedWalk) merge() {
	var dims []int
	shape := append([]int(nil), x.shape...)
	for d, n := range shape {
		if n == 1 && len(shape) > 1 {
			continue
		}
		if k := len(dims) - 1; k >= 0 && x.isSerial(dims[k]) == x.isSerial(d) {
			p, mergeable := dims[k], true
			for _, s := range x.operands {
				mergeable = mergeable && s.steps[p] == s.steps[d]*n
			}
			if mergeable {
				shape[d] *= shape[p]
				dims[k] = d
				continue
			}
		}
		dims = append(dims, d)
	}
	for i := range x.operands {
		steps := make([]int, len(dims))
		for k, d := range dims {
			steps[k] = x.operands[i].steps[d]
		}
		x.operands[i].steps = steps
	}
	x.shape = nil
	for _, d := range dims {
		x.shape = append(x.shape, shape[d])
	}
	if len(x.shape) == 0 {
		x.shape = []int{1}
		for i := range x.operands {
			x.operands[i].steps = []int{0}
		}
	}
}

// divideWork divides the walk into units of work.
func (x *indexedWalk) divideWork() {
	x.merge()
	x.innerDim = len(x.shape) - 1
	x.serialCount, x.units = 1, 1
	for d := range x.innerDim {
		if x.isSerial(d) {
			x.serialDims = append(x.serialDims, d)
			x.serialCount *= x.shape[d]
		} else {
			x.parallelDims = append(x.parallelDims, d)
			x.units *= x.shape[d]
		}
	}
	n := x.shape[x.innerDim]
	x.pieceLen = max(1, n)
	if !x.isSerial(x.innerDim) {
		x.pieceLen = max(1, min(n, max(64, machine.GatherGrain/max(1, x.serialCount))))
	}
	x.pieces = kit.DivUp(n, x.pieceLen)
	x.units *= x.pieces
	if x.serialCount == 0 {
		x.units = 0
	}
	x.unitsPerChunk = max(1, machine.GatherGrain/max(1, x.serialCount*x.pieceLen))
	for _, l := range x.lookups {
		x.positionsVary = x.positionsVary || x.operands[l.operand].steps[x.innerDim] != 0
	}
}

// phase returns the phase that runs the walk. ops are the loops over a row of elements.
func (x *indexedWalk) phase(ops kit.RowOps) graph.Phase {
	x.divideWork()
	return graph.Phase{Chunks: kit.DivUp(x.units, x.unitsPerChunk), Run: func(m *graph.Mem, chunk int) error {
		positions := unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(m.Worker))), positionBlock)
		for u := chunk * x.unitsPerChunk; u < min(x.units, (chunk+1)*x.unitsPerChunk); u++ {
			if err := x.runUnit(m, ops, u, positions); err != nil {
				return err
			}
		}
		return nil
	}}
}

// kernel returns a kernel that consists only of the walk.
func (x *indexedWalk) kernel(ops kit.RowOps) *graph.Kernel {
	return &graph.Kernel{Phases: []graph.Phase{x.phase(ops)}, Worker: positionBlock * 8}
}

// moveAddresses moves the addresses p of the operands to index i of the dimensions dims.
func (x *indexedWalk) moveAddresses(p *[maxOperands]unsafe.Pointer, dims []int, i int) {
	for k := len(dims) - 1; k >= 0; k-- {
		d := dims[k]
		at := i % x.shape[d]
		i /= x.shape[d]
		for s := range x.operands {
			p[s] = unsafe.Add(p[s], at*x.operands[s].steps[d])
		}
	}
}

// runUnit runs unit u of work. positions is memory for looked-up positions.
func (x *indexedWalk) runUnit(m *graph.Mem, ops kit.RowOps, u int, positions []int) error {
	var start [maxOperands]unsafe.Pointer
	for s := range x.operands {
		start[s] = x.operands[s].Address(m)
	}
	at := u % x.pieces * x.pieceLen
	x.moveAddresses(&start, x.parallelDims, u/x.pieces)
	for s := range x.operands {
		start[s] = unsafe.Add(start[s], at*x.operands[s].steps[x.innerDim])
	}
	n := min(x.pieceLen, x.shape[x.innerDim]-at)
	for i := range x.serialCount {
		p := start
		x.moveAddresses(&p, x.serialDims, i)
		if err := x.runRow(m, ops, &p, n, positions); err != nil {
			return err
		}
	}
	return nil
}

// runRow moves n elements along the innermost dimension. p are the addresses of the operands.
func (x *indexedWalk) runRow(m *graph.Mem, ops kit.RowOps, p *[maxOperands]unsafe.Pointer, n int,
	positions []int) error {
	plain, table := x.operands[0].steps[x.innerDim], x.operands[1].steps[x.innerDim]
	if !x.positionsVary {
		off := 0
		for i := range x.lookups {
			at, err := x.lookups[i].offset(p[x.lookups[i].operand])
			if err != nil {
				return err
			}
			off += at
		}
		kit.Blocks(m.Context, n, func(begin, end int) {
			ops.Strided(unsafe.Add(p[0], begin*plain), unsafe.Add(p[1], off+begin*table), plain, table, end-begin)
		})
		m.Count(n)
		return nil
	}
	for from := 0; from < n; from += positionBlock {
		b := positions[:min(positionBlock, n-from)]
		for i := range b {
			b[i] = (from + i) * table
		}
		for i := range x.lookups {
			l := &x.lookups[i]
			step := x.operands[l.operand].steps[x.innerDim]
			for k := range b {
				at, err := l.offset(unsafe.Add(p[l.operand], (from+k)*step))
				if err != nil {
					return err
				}
				b[k] += at
			}
		}
		ops.AtOffsets(unsafe.Add(p[0], from*plain), p[1], plain, b)
		m.Count(len(b) * (1 + len(x.lookups)))
	}
	return nil
}

// checkIndexDType rejects dtypes that cannot hold indices.
func checkIndexDType(op string, d tensor.DType) error {
	if d != tensor.Int64 && d != tensor.Int32 {
		return fmt.Errorf("%s(): Expected dtype int32/int64 for index", op)
	}
	return nil
}

// withoutStep returns a copy of steps in which the step of dimension dim is 0.
func withoutStep(steps []int, dim int) []int {
	out := append([]int(nil), steps...)
	if len(out) > 0 {
		out[dim] = 0
	}
	return out
}

// sizeAt returns the size of a dimension. It returns 1 for a 0-dim value.
func sizeAt(m tensor.Meta, dim int) int {
	if m.Rank() == 0 {
		return 1
	}
	return m.Shape[dim]
}

// lookupAlong returns the lookup for dimension dim of a table with meta m. Operand 2 of the walk indexes the dimension,
// and index is the operand's meta.
func lookupAlong(m, index tensor.Meta, dim int) lookup {
	return lookup{operand: 2, isInt64: index.DType == tensor.Int64, dim: dim, size: sizeAt(m, dim),
		step: kit.StepAt(m, dim)}
}

// refIndex reads the element of index operand t at a position, and checks it as a lookup does. size is the size of
// dimension dim.
func refIndex(t *tensor.Tensor, size, dim int, position ...int) (int, error) {
	i := t.At(position...).Int()
	if n := int64(size); i < -n || i >= n {
		return 0, outOfBounds(i, dim, size)
	}
	if i < 0 {
		return int(i) + size, nil
	}
	return int(i), nil
}
