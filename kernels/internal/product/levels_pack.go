package product

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// levelShape is the division of a product by a weight that is quantized by blocks (see [LinearBlocks]). A row of the
// weight gives a column of the result. A level is an integer of the weight minus the default zero point. A panel has
// the levels of adjacent columns of the result, in the form of [tile.VecQuantization]: for each index of the depth k,
// the levels of all these columns. The panels of scales and of zero points have, for each block of the depth, the
// values of all these columns.
type levelShape struct {
	blockWeight
	m, n, k        int  // rows of the result, columns of the result, depth
	blocks         int  // number of blocks of the depth
	lanes, vectors int  // number of columns of a vector; number of vectors of a panel
	hasZeros       bool // whether the call has zero points
}

// levelVectors is the number of vectors of a panel. A tile of one row needs as many sums to hide the latency of
// multiplications.
const levelVectors = 4

// newLevelShape returns the division of a call's product. It depends on shapes and attributes only.
func newLevelShape(call *graph.Call) levelShape {
	x := call.Meta(blocksInput)
	_, vectorBytes := tile.VectorRegisters(machine.HostFeatures())
	shape := levelShape{blockWeight: newBlockWeight(call), k: x.Shape[x.Rank()-1], n: call.Meta(blocksWeight).Shape[0],
		m: kit.BoundedProduct(x.Shape[:x.Rank()-1]...), lanes: vectorBytes / 4, vectors: levelVectors,
		hasZeros: call.HasOperand(blocksZero)}
	shape.blockElements = min(shape.blockElements, max(1, shape.k))
	shape.blocks = kit.DivUp(shape.k, shape.blockElements)
	return shape
}

// width returns the number of columns of a panel.
func (shape *levelShape) width() int { return shape.lanes * shape.vectors }

// panels returns the number of panels of an operand.
func (shape *levelShape) panels() int { return kit.DivUp(shape.n, shape.width()) }

// levelBits returns the number of bits of a packed level. Levels of two bits are stored in four bits.
func (shape *levelShape) levelBits() int { return max(4, shape.bits) }

// termBytes returns the size of the levels of a panel for one index of the depth, in bytes.
func (shape *levelShape) termBytes() int { return shape.width() * shape.levelBits() / 8 }

// panelBytes returns the size, in bytes, of a panel of operand i: the weight, the scales or the zero points.
func (shape *levelShape) panelBytes(i int) int {
	switch i {
	case blocksWeight:
		return shape.k * shape.termBytes()
	case blocksScale:
		return shape.blocks * shape.width() * 4
	}
	return shape.blocks * shape.width()
}

// levelWalks implements [graph.Impl.Walks] for products by panels of levels, which need machine code. The results are
// row-major.
func levelWalks(call *graph.Call, _ []tensor.Order) []graph.Walk {
	x := call.Meta(blocksInput)
	if !tile.Supports(machine.HostFeatures()) || jit.Available() != nil || call.Out[0].Numel() == 0 ||
		x.Shape[x.Rank()-1] == 0 || x.Shape[x.Rank()-1] > maxLevelDepth {
		return nil
	}
	return []graph.Walk{{}}
}

// maxLevelDepth bounds the depth. The code of a tile contains the distances between rows, which must be below 2^30
// bytes (see package tile).
const maxLevelDepth = 1 << 24

// packLevels implements [graph.Impl.Pack]. It packs operand i, which is the weight, the scales or the zero points, into
// panels.
func packLevels(call *graph.Call, i int) (graph.Packing, bool) {
	if i < blocksWeight || i > blocksZero || call.Out[0].Numel() == 0 || call.Meta(i).Numel() == 0 {
		return graph.Packing{}, false
	}
	shape, meta := newLevelShape(call), call.Meta(i)
	meta.Offset = 0
	packing := graph.Packing{DType: tensor.Int8, Len: shape.panels() * shape.panelBytes(i), Format: shape.form(i)}
	if i == blocksScale {
		packing.DType, packing.Len = tensor.Float32, packing.Len/4
	}
	packing.Fill = func(ctx context.Context, dst, src *tensor.Tensor) {
		for panel := range shape.panels() {
			interrupt.Check(ctx)
			shape.pack(i, panel, dst.Pointer(), src.Pointer(), meta)
		}
	}
	// Panels do not have the bits of a weight that belong to no element, and have only the low bits of a zero point. An
	// operand with other bits cannot be restored.
	if i == blocksScale || i == blocksZero && shape.bits == 8 ||
		i == blocksWeight && shape.k*shape.bits == 8*meta.Shape[1] {
		packing.Unpack = func(dst, packed *tensor.Tensor) { shape.unpack(i, dst, packed.Pointer()) }
	}
	return packing, true
}

// form returns the name of the packed form of operand i.
func (shape *levelShape) form(i int) string {
	switch i {
	case blocksScale:
		return fmt.Sprintf("float32 panels of %d by blocks", shape.width())
	case blocksZero:
		return fmt.Sprintf("int8 panels of %d zero points of %d bits by blocks", shape.width(), shape.bits)
	}
	return fmt.Sprintf("panels of %d levels of %d bits by k", shape.width(), shape.bits)
}

// pack packs a panel of operand i, whose layout is meta. to is the address of the operand's first panel, and from the
// address of the operand.
func (shape *levelShape) pack(i, panel int, to, from unsafe.Pointer, meta tensor.Meta) {
	to = unsafe.Add(to, panel*shape.panelBytes(i))
	width, columns := shape.width(), min(shape.width(), shape.n-panel*shape.width())
	clear(kit.ElementsOf[byte](to, shape.panelBytes(i)))
	format, rowStride, colStride := shape.blockWeight, meta.Strides[0], meta.Strides[1]
	format.rowStride, format.colStride = rowStride, colStride
	for column := range columns {
		row := panel*width + column // a row of the operand is a column of the result
		switch i {
		case blocksWeight:
			shape.packColumn(to, unsafe.Add(from, row*rowStride), format, column)
		case blocksScale:
			for block := range shape.blocks {
				*(*float32)(kit.AddressOf[float32](to, block*width+column)) =
					*(*float32)(kit.AddressOf[float32](from, row*rowStride+block*colStride))
			}
		default:
			for block := range shape.blocks {
				zero := format.zeroPoint(*(*uint8)(unsafe.Add(from, row*rowStride+block*colStride)))
				*(*int8)(unsafe.Add(to, block*width+column)) = int8(zero - format.defaultZero)
			}
		}
	}
}

// packColumn packs the levels of column j of a panel that is cleared. row is the address of the weight's row, which has
// the integers of this column. If levels have 4 bits, byte b of an index of the depth has the levels of columns b and
// b + width/2.
func (shape *levelShape) packColumn(panel, row unsafe.Pointer, format blockWeight, j int) {
	termBytes, byteIndex, shift := shape.termBytes(), j, 0
	if shape.levelBits() == 4 && j >= termBytes {
		byteIndex, shift = j-termBytes, 4
	}
	mask := 1<<shape.levelBits() - 1
	for k := range shape.k {
		level := format.integer(row, k) - format.defaultZero
		*(*uint8)(unsafe.Add(panel, k*termBytes+byteIndex)) |= uint8(level & mask << shift)
	}
}

// level returns the level of column j of a panel for index k of the depth (see packColumn). Shifts extend its sign.
func (shape *levelShape) level(panel unsafe.Pointer, k, j int) int {
	termBytes := shape.termBytes()
	switch {
	case shape.levelBits() == 8:
		return int(*(*int8)(unsafe.Add(panel, k*termBytes+j)))
	case j >= termBytes:
		return int(*(*int8)(unsafe.Add(panel, k*termBytes+j-termBytes)) >> 4)
	}
	return int(*(*int8)(unsafe.Add(panel, k*termBytes+j)) << 4 >> 4)
}

// unpack restores operand i from its panels.
func (shape *levelShape) unpack(i int, dst *tensor.Tensor, panels unsafe.Pointer) {
	width := shape.width()
	for row := range shape.n {
		panel, column := unsafe.Add(panels, row/width*shape.panelBytes(i)), row%width
		switch i {
		case blocksWeight:
			perByte := 8 / shape.bits
			for byteIndex := range dst.Shape[1] {
				packed := 0
				for element := range perByte {
					packed |= (shape.level(panel, byteIndex*perByte+element, column) + shape.defaultZero) << (element * shape.bits)
				}
				dst.Set(tensor.IntScalar(int64(packed)), row, byteIndex)
			}
		case blocksScale:
			for block := range shape.blocks {
				scale := *(*float32)(kit.AddressOf[float32](panel, block*width+column))
				dst.Set(tensor.FloatScalar(float64(scale)), row, block)
			}
		default:
			for block := range shape.blocks {
				zero := int(*(*int8)(unsafe.Add(panel, block*width+column))) + shape.defaultZero
				dst.Set(tensor.IntScalar(int64(zero)), row, block)
			}
		}
	}
}
