package product

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// byteRowCopier copies the rows of operand a as bytes or 16-bit words, and pads them to whole groups. A group is the
// sequence of elements along the depth that one instruction multiplies (see [byteShape]). The copier copies nothing if
// tiles can read the operand in place. The copier also sums each row if a zero point of operand b may differ from 0
// (see [byteTiles]). For example, with groups of 4 bytes, a row of 6 bytes x0 ... x5 becomes the 8 bytes x0 ... x5 0 0.
//
// Tiles read bytes as uint8 or as int8 (readsSigned). If the operand has the other dtype, its sign bits are flipped.
// This adds 128 to int8 elements (128 = 0x80 is signBit), and subtracts 128 from uint8 elements.
type byteRowCopier struct {
	byteShape                // m, k: rows, and elements of a row; usesWords: copies have 16-bit words
	isSigned     bool        // whether elements are int8
	readsSigned  bool        // whether tiles read the elements of rows as int8
	rowStride    int         // stride of the operand's rows, in bytes
	colStride    int         // stride of the operand's columns, in bytes
	loop         *loops.Loop // flips the sign bits of elements, widens elements, or both; nil if neither is needed
	copiesRows   bool        // whether rows are copied
	rowsPerChunk int         // number of rows per chunk
}

// newByteRowCopier returns the copier of operand a of a product. isSigned is set if the elements are int8.
func newByteRowCopier(shape byteShape, product *contraction, isSigned bool) (*byteRowCopier, error) {
	copier := &byteRowCopier{byteShape: shape, isSigned: isSigned,
		readsSigned: tile.ReadsSigned(machine.HostFeatures(), isSigned),
		rowStride:   product.a.row, colStride: product.a.col,
		rowsPerChunk: max(1, machine.MoveGrain/shape.k)}
	// Conversion, padding, strided columns and distant rows require a copy. Otherwise tiles read rows in place.
	flipsSign := isSigned != copier.readsSigned
	converts, pads := flipsSign || shape.usesWords(), shape.k%shape.groupElements > 0
	exceedsUnitStep := shape.usesMatrixUnit && product.a.row > maxUnitRowStep // too far apart for the matrix unit
	copier.copiesRows = converts || pads || product.a.col != 1 || exceedsUnitStep
	formula, out := "", tensor.Uint8 // x is the element as uint8; the formula gives the copied element
	switch {
	case shape.usesWords() && isSigned: // words have the int8 elements plus 128
		formula, out = fmt.Sprintf("int16(x ^ %d)", signBit), tensor.Int16
	case shape.usesWords(): // words have the uint8 elements
		formula, out = "int16(x)", tensor.Int16
	case flipsSign: // bytes have the elements plus or minus 128
		formula = fmt.Sprintf("x ^ %d", signBit)
	default:
		return copier, nil
	}
	var err error
	copier.loop, err = kit.FormulaLoop(formula, []string{"x"}, []tensor.DType{tensor.Uint8}, nil, out)
	return copier, err
}

// workerBytes returns the size in bytes of worker memory. A chunk makes strided rows contiguous there before the loop
// converts them.
func (r *byteRowCopier) workerBytes() int {
	if r.copiesRows && r.colStride != 1 && r.loop != nil {
		return r.rowsPerChunk * r.k
	}
	return 0
}

// tileRowStride returns the number of bytes between the rows that tiles read.
func (r *byteRowCopier) tileRowStride() int {
	if r.copiesRows {
		return r.rowBytes()
	}
	return r.rowStride
}

// copyRows copies rows [first, end) of a matrix if r.copiesRows is set. matrix and copies are the addresses of the
// matrix and of its copy. scratch is memory of workerBytes() bytes. If totals is not nil, copyRows stores the total of
// each row there. Totals are of the elements that tiles read.
func (r *byteRowCopier) copyRows(state *loops.State, copies, matrix unsafe.Pointer, first, end int,
	scratch unsafe.Pointer, totals []int32) {
	rows := end - first
	// src and srcStride locate the elements that r.loop converts. They are in the matrix, scratch or copies.
	src, srcStride := unsafe.Add(matrix, first*r.rowStride), r.rowStride
	if r.copiesRows {
		dst, dstStride := unsafe.Add(copies, first*r.rowBytes()), r.rowBytes()
		if r.colStride != 1 || r.loop == nil {
			src, srcStride = r.makeContiguous(dst, src, scratch, rows)
		}
		if r.loop != nil {
			ptrs := [2]unsafe.Pointer{dst, src}
			r.loop.Run(state, ptrs[:], []int{dstStride, srcStride}, r.k, rows)
		}
		r.clearPadding(dst, rows)
	}
	for i := range totals {
		totals[i] = r.rowTotal(kit.ElementsOf[byte](unsafe.Add(src, i*srcStride), r.k))
	}
}

// makeContiguous copies rows from src to scratch if the loop converts them later, otherwise to dst. It returns
// the address and the stride of the copied rows.
func (r *byteRowCopier) makeContiguous(dst, src, scratch unsafe.Pointer, rows int) (copied unsafe.Pointer, stride int) {
	copied, stride = dst, r.rowBytes()
	if r.loop != nil {
		copied, stride = scratch, r.k
	}
	move := strided.MoverOf(1) // for elements of one byte
	move.CopyBlock(copied, src, strided.Axis{N: r.k, Dst: 1, Src: r.colStride},
		strided.Axis{N: rows, Dst: stride, Src: r.rowStride})
	return copied, stride
}

// clearPadding clears the elements with which copied rows are padded to whole groups.
func (r *byteRowCopier) clearPadding(dst unsafe.Pointer, rows int) {
	elementBytes := r.groupBytes / r.groupElements
	usedBytes, rowBytes := r.k*elementBytes, r.rowBytes()
	if usedBytes == rowBytes {
		return
	}
	for i := range rows {
		clear(kit.ElementsOf[byte](unsafe.Add(dst, i*rowBytes+usedBytes), rowBytes-usedBytes))
	}
}

// rowTotal returns the total of the elements of a row that tiles read. byteTotal sums the elements as uint8 in [0,
// 255]. If tiles read int8, each element is less by 128.
func (r *byteRowCopier) rowTotal(row []byte) int32 {
	total := byteTotal(row, r.isSigned)
	if r.readsSigned {
		total -= signBit * int32(r.k)
	}
	return total
}

// byteTotal sums bytes. If isSigned is set, the bytes are int8, and 128 is added to each. Eight bytes at a time are
// added to four 16-bit sums in one word.
func byteTotal(list []byte, isSigned bool) (total int32) {
	const evenBytes = 0x00ff00ff00ff00ff
	signBits := uint64(0)
	if isSigned {
		signBits = 0x8080808080808080
	}
	for len(list) >= 8 {
		sum := uint64(0)
		words := min(len(list)/8, 128) // so that each of the four sums stays below 2^16
		for i := range words {
			word := binary.LittleEndian.Uint64(list[8*i:]) ^ signBits
			sum += word&evenBytes + word>>8&evenBytes
		}
		list = list[8*words:]
		for range 4 {
			total += int32(sum & 0xffff)
			sum = bits.RotateLeft64(sum, 16)
		}
	}
	for _, element := range list {
		total += int32(element ^ byte(signBits))
	}
	return total
}

// byteZeroPoints has the properties of the zero points of both operands that are known when a kernel is compiled. If
// the elements of an operand are offset by 128 or -128 (see [byteShape]), the operand's zero points get the same
// offset, so that differences do not change. The fields are indexed by bytesA and bytesB.
type byteZeroPoints struct {
	dtype        [2]tensor.DType // dtype of the operand
	stride       [2]int          // stride of the zero points; 0 for a single zero point
	offset       [2]int32        // 128, 0 or -128: added to the elements of the operand
	mayBeNonzero [2]bool         // whether a zero point may differ from 0 after the offset is added
	isSigned     [2]bool         // whether the operand is int8
}

// newByteZeroPoints returns the properties of the zero points of a call.
func newByteZeroPoints(call *graph.Call) (points byteZeroPoints) {
	for i, zero := range [2]int{bytesAZero, bytesBZero} {
		points.dtype[i], points.stride[i] = call.Meta(i).DType, vectorStride(call, zero)
		points.isSigned[i] = points.dtype[i] == tensor.Int8
		// Tiles read columns (bytesB) as int8, and rows (bytesA) as ReadsSigned says.
		switch readsSigned := i == bytesB || tile.ReadsSigned(machine.HostFeatures(), points.isSigned[i]); {
		case points.isSigned[i] && !readsSigned:
			points.offset[i] = signBit
		case !points.isSigned[i] && readsSigned:
			points.offset[i] = -signBit
		}
		points.mayBeNonzero[i] = !allEqual(call, zero, float64(-points.offset[i]))
	}
	return points
}

// allEqual reports whether all elements of an operand are known to equal a number. The elements of an omitted operand
// are 0.
func allEqual(call *graph.Call, operand int, number float64) bool {
	if !call.HasOperand(operand) {
		return number == 0
	}
	constant := call.Const(operand)
	if constant == nil {
		return false
	}
	areEqual := true
	kit.EachIndex(constant.Shape, func(index []int) { areEqual = areEqual && constant.At(index...).Float() == number })
	return areEqual
}

// zeroPoint returns zero point i of an operand, bytesA or bytesB, plus the operand's offset. zeroPoints is the address
// of the zero points, or nil if they are omitted.
func (points *byteZeroPoints) zeroPoint(operand int, zeroPoints unsafe.Pointer, i int) int32 {
	return byteAt(zeroPoints, points.dtype[operand], i*points.stride[operand]) + points.offset[operand]
}
