package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// An operand that a loop cannot use in place is staged. A stager gathers or converts pieces of an input into a block, a
// small contiguous buffer, and copies the block of an output back.

// blockBytes is the size of a block in bytes. The blocks of a few operands fit into the L1 cache.
const blockBytes = machine.BlockBytes

// forBlocks walks a checked range with a body for contiguous blocks. rows is the result of rowsContiguous.
func (it *Iterator) forBlocks(c *Cursor, ptrs []unsafe.Pointer, r Range, rows bool, body rule.Block) error {
	c.ptrs = sized(c.ptrs, len(it.ops))
	if rows {
		return it.steps(c, ptrs, r, func(p []unsafe.Pointer, n0, n1 int) error {
			for j := range n1 {
				for i := range p {
					c.ptrs[i] = unsafe.Add(p[i], j*it.walkStrides[len(p)+i])
				}
				if err := body(c.ptrs, n0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s := it.newStager(c, true)
	if s.nonTemporal {
		defer strided.Fence()
	}
	return it.steps(c, ptrs, r, func(p []unsafe.Pointer, n0, n1 int) error {
		return s.eachPiece(p, n0, n1, func(k0, k1 int) error { return body(c.ptrs, k0*k1) })
	})
}

// rowsContiguous reports whether rows of all operands can be passed to a block function without copies, and are long
// enough that this is faster.
func (it *Iterator) rowsContiguous() bool {
	if it.Converts() || len(it.walkShape) > 1 && it.walkShape[0] < 16 {
		return false
	}
	for i := range it.ops {
		if it.walkStrides[i] != it.ops[i].Meta.DType.Size() && it.numel != 1 {
			return false
		}
	}
	return true
}

// forStaged is ForRange for an iterator with converted operands.
func (it *Iterator) forStaged(c *Cursor, ptrs []unsafe.Pointer, r Range, loop Loop) error {
	ops := len(it.ops)
	c.ptrs = sized(c.ptrs, ops)
	c.strides = sized(c.strides, 2*ops)
	s := it.newStager(c, false)
	return it.steps(c, ptrs, r, func(p []unsafe.Pointer, n0, n1 int) error {
		return s.eachPiece(p, n0, n1, func(k0, k1 int) error {
			for i := range ops {
				c.strides[i], c.strides[ops+i] = it.walkStrides[i], it.walkStrides[ops+i]
				if o := &it.ops[i]; o.Converted() {
					c.strides[i], c.strides[ops+i] = o.Target.Size(), k0*o.Target.Size()
				}
			}
			return loop(c.ptrs, c.strides, k0, k1)
		})
	})
}

// stager copies pieces of operands into blocks, and outputs back.
type stager struct {
	iterator    *Iterator
	c           *Cursor
	len         int    // elements in a block
	lines       int    // minimum number of rows in a piece if an operand is transposed; else 1
	blocks      bool   // the body requires contiguous blocks of all operands; otherwise only converted operands are staged
	transposed  []byte // buffer for a block that is transposed before it is converted
	nonTemporal bool   // outputs use non-temporal stores
}

func (it *Iterator) newStager(c *Cursor, blocks bool) stager {
	size := 1
	for i := range it.ops {
		size = max(size, it.ops[i].Target.Size())
	}
	s := stager{iterator: it, c: c, len: blockBytes / size, lines: 1, blocks: blocks}
	if blocks && !it.IsReduction() {
		s.lines = it.transposedLines()
		s.nonTemporal = s.lines > 1 && it.outputsFar()
	}
	need := len(it.ops) * blockBytes
	at := need
	if s.lines > 1 {
		// An operand that is transposed and converted is transposed first.
		need += s.len * it.widestHeld()
	}
	if len(c.stage) < need {
		c.stage = tensor.NewStorage(need).Bytes()
	}
	s.transposed = c.stage[at:need]
	c.filled = sized(c.filled, len(it.ops))
	clear(c.filled)
	return s
}

// outputsFar reports whether all outputs exceed the caches and none is also read.
func (it *Iterator) outputsFar() bool {
	for i := range it.noutputs {
		if it.ops[i].ReadWrite || !strided.Streams(it.numel*it.ops[i].Meta.DType.Size()) {
			return false
		}
	}
	return true
}

// widestHeld returns the size in bytes of the largest element in memory among converted operands.
func (it *Iterator) widestHeld() int {
	n := 0
	for i := range it.ops {
		if o := &it.ops[i]; o.Converted() {
			n = max(n, o.Meta.DType.Size())
		}
	}
	return n
}

// transposedLines returns the number of adjacent rows whose elements share a cache line of a transposed operand, or 1
// if no operand is transposed.
func (it *Iterator) transposedLines() int {
	lines := 1
	if len(it.walkShape) < 2 {
		return lines
	}
	for i := range it.ops {
		if it.isTransposed(i) {
			st1 := it.walkStrides[len(it.ops)+i]
			lines = max(lines, machine.LineBytes/max(st1, -st1))
		}
	}
	return lines
}

// isTransposed reports whether adjacent rows of operand i are closer in memory than adjacent elements of a row, and
// within a cache line.
func (it *Iterator) isTransposed(i int) bool {
	st0, st1 := it.walkStrides[i], it.walkStrides[len(it.ops)+i]
	st0, st1 = max(st0, -st0), max(st1, -st1)
	return 0 < st1 && st1 < machine.LineBytes && st1 < st0
}

// panelPieces is the number of pieces in a panel. The pieces of a panel are at the same position along adjacent groups
// of rows, and are processed one after another. Several consecutive cache lines of transposed operands are thus read
// together.
const panelPieces = 4

// eachPiece cuts n1 rows of n0 elements into pieces of k1 rows of k0 elements that fit into a block, and calls f with
// the addresses in c.ptrs. Pieces are whole rows if possible. If an operand is transposed, the number of rows of a
// piece is the number of the operand's elements in a cache line, so that each line is read once. Such pieces are
// processed in panels.
func (s stager) eachPiece(p []unsafe.Pointer, n0, n1 int, f func(k0, k1 int) error) error {
	rows, long := max(1, s.len/n0), s.len
	panel := rows
	if lines := min(s.lines, n1); rows < lines {
		rows, long = lines, s.len/lines
		panel = panelPieces * rows
	}
	for top := 0; top < n1; top += panel {
		bottom := min(top+panel, n1)
		for at := 0; at < n0; at += long {
			for j := top; j < bottom; j += rows {
				if err := s.piece(p, piece{at, j, min(long, n0-at), min(rows, n1-j), n0}, f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s stager) piece(p []unsafe.Pointer, q piece, f func(k0, k1 int) error) error {
	for i := range p {
		s.loadPiece(i, p[i], q)
	}
	if err := f(q.k0, q.k1); err != nil {
		return err
	}
	for i := range s.iterator.noutputs {
		s.storePiece(i, p[i], q)
	}
	return nil
}

// piece is k1 rows of k0 elements. It starts at row j and at the element with index at of each row. Whole rows have n0
// elements.
type piece struct{ at, j, k0, k1, n0 int }

// direct reports whether operand i can be passed without a copy.
func (s stager) direct(i int, q piece) bool {
	o := &s.iterator.ops[i]
	if o.Converted() {
		return false
	}
	if !s.blocks {
		return true
	}
	size := o.Meta.DType.Size()
	st0, st1 := s.iterator.walkStrides[i], s.iterator.walkStrides[len(s.iterator.ops)+i]
	return (st0 == size || q.k0 == 1) && (q.k1 == 1 || st1 == q.k0*size && q.k0 == q.n0)
}

func (s stager) block(i int) unsafe.Pointer {
	return unsafe.Pointer(&s.c.stage[i*blockBytes])
}

// loadPiece sets c.ptrs[i] to the piece of operand i in memory or, if that cannot be used in place, to the operand's
// block, which it fills for an input.
func (s stager) loadPiece(i int, base unsafe.Pointer, q piece) {
	it, o := s.iterator, &s.iterator.ops[i]
	st0, st1 := it.walkStrides[i], it.walkStrides[len(it.ops)+i]
	src := unsafe.Add(base, q.at*st0+q.j*st1)
	if s.direct(i, q) {
		s.c.ptrs[i] = src
		return
	}
	blk := s.block(i)
	s.c.ptrs[i] = blk
	if i < it.noutputs && !it.IsReduction() {
		return
	}
	e := loader(o)
	if st0 == 0 && (st1 == 0 || q.k1 == 1) {
		// The block of a scalar is reused.
		if s.c.filled[i] != src {
			e.Row(blk, src, e.Dst, 0, s.len)
			s.c.filled[i] = src
		}
		return
	}
	s.c.filled[i] = nil
	if s.lines > 1 && o.Converted() && it.isTransposed(i) {
		size := o.Meta.DType.Size()
		raw := unsafe.Pointer(unsafe.SliceData(s.transposed))
		m := strided.Move(size)
		m.Block(raw, src, strided.Axis{N: q.k0, Dst: size, Src: st0}, strided.Axis{N: q.k1, Dst: q.k0 * size, Src: st1})
		e.Row(blk, raw, e.Dst, size, q.k0*q.k1)
		return
	}
	e.Block(blk, src, strided.Axis{N: q.k0, Dst: e.Dst, Src: st0}, strided.Axis{N: q.k1, Dst: q.k0 * e.Dst, Src: st1})
}

// storePiece copies the block of output i to memory, unless the output was used in place.
func (s stager) storePiece(i int, base unsafe.Pointer, q piece) {
	if s.direct(i, q) {
		return
	}
	it, o := s.iterator, &s.iterator.ops[i]
	st0, st1 := it.walkStrides[i], it.walkStrides[len(it.ops)+i]
	dst := unsafe.Add(base, q.at*st0+q.j*st1)
	size := o.Target.Size()
	if o.Cast != tensor.Invalid {
		round(o, s.block(i), q.k0*q.k1)
	}
	e := elemOf(o.Meta.DType, o.Target)
	block := e.Block
	if s.nonTemporal {
		block = e.StreamBlock
	}
	block(dst, s.block(i), strided.Axis{N: q.k0, Dst: st0, Src: size}, strided.Axis{N: q.k1, Dst: st1, Src: q.k0 * size})
}

// round rounds n results in a block to the dtype of PyTorch's temporary, from which PyTorch copies them to an output of
// another dtype.
func round(o *rule.Resolved, block unsafe.Pointer, n int) {
	size := o.Target.Size()
	rounded[[2]tensor.DType{o.Cast, o.Target}](block, block, size, size, n)
}

// loader returns the conversion of an input for the loop. If PyTorch promotes the input to a 16-bit float, the
// conversion rounds to that dtype first, although loops compute in a wider dtype.
func loader(o *rule.Resolved) strided.Elem {
	if o.Cast == tensor.Invalid {
		return elemOf(o.Target, o.Meta.DType)
	}
	return strided.Convert(o.Target.Size(), o.Meta.DType.Size(), rounded[[2]tensor.DType{o.Cast, o.Meta.DType}])
}

// elemOf returns the conversion between two dtypes. Between equal dtypes it is a move, because the converter from bool
// to bool would normalize every byte.
func elemOf(dst, src tensor.DType) strided.Elem {
	if dst == src {
		return strided.Move(dst.Size())
	}
	return strided.Convert(dst.Size(), src.Size(), tensor.Converter(dst, src))
}

// rounded has the conversions to float32 through a 16-bit float, by that float and the source dtype. The second step
// converts in place, so both steps use the strides of the result.
var rounded = func() map[[2]tensor.DType]tensor.ConvertFunc {
	m := map[[2]tensor.DType]tensor.ConvertFunc{}
	for _, by := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		widen := tensor.Converter(by.OpMath(), by)
		for _, from := range tensor.DTypes() {
			narrow := tensor.Converter(by, from)
			m[[2]tensor.DType{by, from}] = func(dst, src unsafe.Pointer, ds, ss, n int) {
				narrow(dst, src, ds, ss, n)
				widen(dst, dst, ds, ds, n)
			}
		}
	}
	return m
}()
