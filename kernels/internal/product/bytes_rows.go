package product

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// byteRows copies operand a to rows of whole groups of uint8 or words, unless tiles can read the operand in place. It
// also sums the rows, which the zero points of columns multiply.
type byteRows struct {
	byteShape
	signed   bool        // elements are int8
	row, col int         // strides of the operand, in bytes
	loop     *loops.Loop // converts elements; nil if they are copied unchanged
	copied   bool        // rows are copied
	summed   bool        // the sums of rows are needed
	group    int         // rows per chunk
}

func newByteRows(s byteShape, x *contraction, signed, summed bool) (*byteRows, error) {
	r := &byteRows{byteShape: s, signed: signed, row: x.a.row, col: x.a.col, summed: summed,
		group: max(1, machine.MoveGrain/s.k)}
	r.copied = signed || s.per < groupBytes || s.k%s.per > 0 || x.a.col != 1 || s.unit && x.a.row > byteUnitStep
	text, out := "", tensor.Uint8
	switch {
	case s.per < groupBytes && signed:
		text, out = fmt.Sprintf("int16(x ^ %d)", signBit), tensor.Int16
	case s.per < groupBytes:
		text, out = "int16(x)", tensor.Int16
	case signed:
		text = fmt.Sprintf("x ^ %d", signBit)
	default:
		return r, nil
	}
	var err error
	r.loop, err = kit.FormulaLoop(text, []string{"x"}, []tensor.DType{tensor.Uint8}, nil, out)
	return r, err
}

// chunks returns the number of chunks of the rows of a matrix.
func (r *byteRows) chunks() int {
	if !r.copied && !r.summed {
		return 0
	}
	return kit.DivUp(r.m, r.group)
}

// room returns the bytes of worker memory that a chunk needs to make strided rows contiguous before the loop.
func (r *byteRows) room() int {
	if r.copied && r.col != 1 && r.loop != nil {
		return r.group * r.k
	}
	return 0
}

// step returns the number of bytes between the rows that tiles read.
func (r *byteRows) step() int {
	if r.copied {
		return r.rowBytes()
	}
	return r.row
}

// copyRows copies the rows first to end of a matrix, if they are not read in place. If sum is not nil, copyRows calls
// it with the sum of each row.
func (r *byteRows) copyRows(state *loops.State, to, from unsafe.Pointer, first, end int, room unsafe.Pointer,
	sum func(row int, total int32)) {
	n, plain, plainStep := end-first, unsafe.Add(from, first*r.row), r.row
	if r.copied {
		dst, step := unsafe.Add(to, first*r.rowBytes()), r.rowBytes()
		bytes := r.k * (groupBytes / r.per)
		if r.col != 1 || r.loop == nil {
			at, rowStep := dst, step
			if r.loop != nil {
				at, rowStep = room, r.k
			}
			e := strided.Move(1)
			e.Block(at, plain, strided.Axis{N: r.k, Dst: 1, Src: r.col}, strided.Axis{N: n, Dst: rowStep, Src: r.row})
			plain, plainStep = at, rowStep
		}
		if r.loop != nil {
			ptrs := [2]unsafe.Pointer{dst, plain}
			r.loop.Run(state, ptrs[:], []int{step, plainStep}, r.k, n)
		}
		if bytes < step {
			for i := range n {
				clear(kit.ElementsOf[byte](unsafe.Add(dst, i*step+bytes), step-bytes))
			}
		}
	}
	if sum == nil {
		return
	}
	for i := range n {
		sum(first+i, byteTotal(kit.ElementsOf[byte](unsafe.Add(plain, i*plainStep), r.k), r.signed))
	}
}

// byteTotal sums bytes. Signed bytes are summed with an offset of 128 each, as tiles read them. Eight bytes are added
// at a time, as four words.
func byteTotal(x []byte, signed bool) (total int32) {
	const even = 0x00ff00ff00ff00ff
	flip := uint64(0)
	if signed {
		flip = 0x8080808080808080
	}
	for len(x) >= 8 {
		sum := uint64(0)
		n := min(len(x)/8, 128) // sums of words stay below 2^16
		for i := range n {
			v := binary.LittleEndian.Uint64(x[8*i:]) ^ flip
			sum += v&even + v>>8&even
		}
		x = x[8*n:]
		for range 4 {
			total += int32(sum & 0xffff)
			sum = bits.RotateLeft64(sum, 16)
		}
	}
	for _, v := range x {
		total += int32(v ^ byte(flip))
	}
	return total
}

// byteFactors has the properties of the zero points of both operands that are known when a kernel is compiled. Tiles
// multiply uint8 rows by int8 columns; an operand of the other dtype is offset by 128, and so is its zero point.
type byteFactors struct {
	dtype  [2]tensor.DType // dtype of the operand
	step   [2]int          // stride of the zero points; 0 if there is only one
	shift  [2]bool         // a zero point may differ from 0 after the offset
	signed [2]bool         // the operand is int8
}

func newByteFactors(c *graph.Call) (f byteFactors) {
	for i, zero := range [2]int{bytesAZero, bytesBZero} {
		f.dtype[i], f.step[i] = c.Meta(i).DType, perIndex(c, zero)
		f.signed[i] = f.dtype[i] == tensor.Int8
		none := 0.0 // the zero point that the offset makes 0
		switch {
		case i == bytesA && f.signed[i]:
			none = -signBit
		case i == bytesB && !f.signed[i]:
			none = signBit
		}
		f.shift[i] = !allAre(c, zero, none)
	}
	return f
}

// allAre reports whether all elements of an operand are known to equal a number. An omitted operand is 0.
func allAre(c *graph.Call, k int, number float64) bool {
	if !c.Has(k) {
		return number == 0
	}
	t := c.Const(k)
	if t == nil {
		return false
	}
	all := true
	kit.EachIndex(t.Shape, func(at []int) { all = all && t.At(at...).Float() == number })
	return all
}

// zero returns zero point i of an operand (side), after the offset.
func (f *byteFactors) zero(side int, p unsafe.Pointer, i int) int32 {
	z := byteAt(p, f.dtype[side], i*f.step[side])
	switch {
	case side == bytesA && f.signed[side]:
		return z + signBit
	case side == bytesB && !f.signed[side]:
		return z - signBit
	}
	return z
}
