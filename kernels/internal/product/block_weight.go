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

// The operand indexes of linear_blocks.
const (
	blocksInput = iota
	blocksWeight
	blocksScale
	blocksZero
	blocksBias
)

func linearBlocksFlops(call *graph.Call) float64 {
	x := call.Meta(blocksInput)
	return 2 * float64(call.Out[0].Numel()) * float64(x.Shape[x.Rank()-1])
}

// blockWeight reads the integers of a weight that is quantized by blocks.
type blockWeight struct {
	bits, block int
	mean        int // default zero point
	row, col    int // strides of rows and of the bytes of a row
}

func newBlockWeight(call *graph.Call) blockWeight {
	a, m := kit.Attrs[linearBlocksAttrs](call), call.Meta(blocksWeight)
	return blockWeight{a.Bits, a.BlockSize, 1 << (a.Bits - 1), m.Strides[0], m.Strides[1]}
}

// integer returns element k of a row. bytes is the address of the row.
func (w *blockWeight) integer(bytes unsafe.Pointer, k int) int {
	bit := k * w.bits
	b := *(*uint8)(unsafe.Add(bytes, bit/8*w.col))
	return int(b>>(bit%8)) & (1<<w.bits - 1)
}

// zeroPoint returns the value of an element of operand zero_point.
func (w *blockWeight) zeroPoint(element uint8) int { return int(element) & (1<<w.bits - 1) }
