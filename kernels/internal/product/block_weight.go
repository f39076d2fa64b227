package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

type linearBlocksAttrs struct {
	Bits      int `attr:"bits" default:"4" doc:"bits of an element of weight: 2, 4 or 8"`
	BlockSize int `attr:"block_size" doc:"elements of a block"`
}

// Indices of the operands of linear_blocks.
const (
	blocksInput = iota
	blocksWeight
	blocksScale
	blocksZero
	blocksBias
)

// linearBlocksFlops counts a multiplication and an addition for each term of each sum.
func linearBlocksFlops(call *graph.Call) float64 {
	input := call.Meta(blocksInput)
	return 2 * float64(call.Out[0].Numel()) * float64(input.Shape[input.Rank()-1])
}

// blockWeight is the format of the weight of linear_blocks, which is quantized by blocks. A row of the weight is a
// sequence of integers of 2, 4 or 8 bits, packed into bytes from the lowest bits. A block has adjacent integers of a
// row, with one scale and one zero point. An integer q stands for (q - zero point) * scale.
//
// For example, with 4 bits and blocks of two integers, the bytes 0x52 0xF8 are a row of the integers 2, 5, 8 and 15.
// The blocks are [2, 5] and [8, 15]. With the zero point 8 and the scales 0.5 and 10, the row stands for -3, -1.5, 0
// and 70.
type blockWeight struct {
	bits          int // bits of an integer
	blockElements int // number of integers of a block
	defaultZero   int // zero point of all blocks if operand zero_point is omitted: 2^(bits-1)
	rowStride     int // distance between rows, in bytes
	colStride     int // distance between consecutive bytes of a row
}

// newBlockWeight returns the format of a call's weight.
func newBlockWeight(call *graph.Call) blockWeight {
	attrs, weight := kit.Attrs[*linearBlocksAttrs](call), call.Meta(blocksWeight)
	return blockWeight{bits: attrs.Bits, blockElements: attrs.BlockSize, defaultZero: 1 << (attrs.Bits - 1),
		rowStride: weight.Strides[0], colStride: weight.Strides[1]}
}

// integer returns the integer with the given index in a row. row is the address of the row.
func (w *blockWeight) integer(row unsafe.Pointer, index int) int {
	firstBit := index * w.bits
	packed := *(*uint8)(unsafe.Add(row, firstBit/8*w.colStride))
	return int(packed>>(firstBit%8)) & (1<<w.bits - 1)
}

// zeroPoint returns the zero point of a block, which is in the lowest bits of a byte of operand zero_point.
func (w *blockWeight) zeroPoint(element uint8) int { return int(element) & (1<<w.bits - 1) }
