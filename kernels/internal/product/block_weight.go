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

// linearBlocksFlops counts a multiplication and an addition for each pair of an element of the result and an
// index of the summed dimension.
func linearBlocksFlops(call *graph.Call) float64 {
	input := call.Meta(blocksInput)
	return 2 * float64(call.Out[0].Numel()) * float64(input.Shape[input.Rank()-1])
}

// blockWeight reads the integers of a weight that is quantized by blocks. A block is a number of adjacent elements of a
// row that have the same scale and zero point.
type blockWeight struct {
	bits                 int // bits of an integer: 2, 4 or 8
	blockElements        int // number of elements of a block
	defaultZero          int // default zero point, 2^(bits-1)
	rowStride, colStride int // bytes from a row to the next, and from a byte of a row to its next byte
}

// newBlockWeight returns the format and the strides of a call's weight.
func newBlockWeight(call *graph.Call) blockWeight {
	attrs, weight := kit.Attrs[*linearBlocksAttrs](call), call.Meta(blocksWeight)
	return blockWeight{bits: attrs.Bits, blockElements: attrs.BlockSize, defaultZero: 1 << (attrs.Bits - 1),
		rowStride: weight.Strides[0], colStride: weight.Strides[1]}
}

// integer unpacks element index of the row that begins at address row.
func (w *blockWeight) integer(row unsafe.Pointer, index int) int {
	firstBit := index * w.bits
	packed := *(*uint8)(unsafe.Add(row, firstBit/8*w.colStride))
	return int(packed>>(firstBit%8)) & (1<<w.bits - 1)
}

// zeroPoint returns the zero point in the lowest bits of an element of operand zero_point.
func (w *blockWeight) zeroPoint(element uint8) int { return int(element) & (1<<w.bits - 1) }
