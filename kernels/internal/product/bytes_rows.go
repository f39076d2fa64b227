package product

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// byteRows brings the rows' operand to where tiles find it, unless they read it in place: rows of whole
// groups, of bytes
// without sign or of words. It also finds what a row adds to the result by the zero points of columns.
type byteRows struct {
	byteShape
	signed   bool
	row, col int // from element to element
	loop     *loops.Loop
	copied   bool
	summed   bool // rows are added up
	group    int  // rows of a chunk
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
	f, err := expr.Parse(text, "x")
	if err != nil {
		return nil, err
	}
	code, err := f.Code([]tensor.DType{tensor.Uint8}, expr.Typing{Out: []tensor.DType{out}})
	if err != nil {
		return nil, err
	}
	r.loop, err = loops.New(&expr.Loop{Code: code, Scalar: []bool{false}}, loops.Options{})
	return r, err
}

// chunks is how many chunks the rows of a matrix are.
func (r *byteRows) chunks() int {
	if !r.copied && !r.summed {
		return 0
	}
	return kit.DivUp(r.m, r.group)
}

// room is the bytes of memory that a chunk needs.
func (r *byteRows) room() int {
	if r.copied && r.col != 1 && r.loop != nil {
		return r.group * r.k
	}
	return 0
}

// step is the bytes from a row to the next, as tiles find them.
func (r *byteRows) step() int {
	if r.copied {
		return r.rowBytes()
	}
	return r.row
}

// copyRows brings some rows of a matrix to where tiles read them, and adds them up: by sum, if that is not nil.
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

// byteTotal adds up bytes, of which those with sign count 128 more. Eight are added up at a time, as four words.
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

// byteFactors are what is known of zero points when a kernel is made.
type byteFactors struct {
	dtype  [2]tensor.DType
	step   [2]int  // from one to the next: 0 where there is one
	shift  [2]bool // a zero point may be other than 0, once bytes are what tiles take
	signed [2]bool
}

func newByteFactors(c *graph.Call) (f byteFactors) {
	for i, zero := range [2]int{bytesAZero, bytesBZero} {
		f.dtype[i], f.step[i] = c.Meta(i).DType, perIndex(c, zero)
		f.signed[i] = f.dtype[i] == tensor.Int8
		none := 0.0 // the zero point that is 0 in tiles
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

// allAre reports whether all elements of an operand are known to be a number. One that was left out is 0.
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

// zero is a zero point as tiles have it.
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
