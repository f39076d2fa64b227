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
// weight gives a column of the result. A level is an integer of the weight minus the default zero point. Each operand
// is packed into panels of adjacent columns of the result:
//
//	weight       levels [k][width], in the form of [tile.VecQuantization]
//	scales       float32 [blocks][width]
//	zero points  int8 [blocks][width], minus the default zero point
type levelShape struct {
	blockWeight         // format of the weight: bits of an integer, elements of a block, default zero point
	m, n, k        int  // rows of the result, columns of the result, depth
	blocks         int  // number of blocks of the depth
	lanes, vectors int  // number of columns of a vector; number of vectors of a panel
	hasZeros       bool // whether the call has zero points
}

// levelVectors is the number of vectors of a panel. A tile of one row needs this number of sums to hide the latency of
// multiplications.
const levelVectors = 4

// floatBytes is the number of bytes of a float32. Elements, scales and sums are float32.
const floatBytes = 4

// newLevelShape returns the division of a call's product. It depends on shapes and attributes only.
func newLevelShape(call *graph.Call) levelShape {
	input := call.Meta(blocksInput)
	_, vectorBytes := tile.VectorRegisters(machine.HostFeatures())
	shape := levelShape{blockWeight: newBlockWeight(call), k: input.Shape[input.Rank()-1],
		n: call.Meta(blocksWeight).Shape[0],
		m: kit.BoundedProduct(input.Shape[:input.Rank()-1]...), lanes: vectorBytes / floatBytes, vectors: levelVectors,
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

// panelBytes returns the size, in bytes, of a panel of an operand: the weight, the scales or the zero points.
func (shape *levelShape) panelBytes(operand int) int {
	switch operand {
	case blocksWeight:
		return shape.k * shape.termBytes()
	case blocksScale:
		return shape.blocks * shape.width() * floatBytes
	}
	return shape.blocks * shape.width() // zero points
}

// levelWalks implements [graph.Impl.Walks] for products by panels of levels. They require machine code, and their
// results are row-major.
func levelWalks(call *graph.Call, _ []tensor.Order) []graph.Walk {
	input := call.Meta(blocksInput)
	if !tile.Supports(machine.HostFeatures()) || jit.Available() != nil || call.Out[0].Numel() == 0 ||
		input.Shape[input.Rank()-1] == 0 || input.Shape[input.Rank()-1] > maxLevelDepth {
		return nil
	}
	return []graph.Walk{{}}
}

// maxLevelDepth bounds the depth. The code of a tile contains the distances between rows, which must be below 2^30
// bytes (see package tile).
const maxLevelDepth = 1 << 24

// packLevels implements [graph.Impl.Pack]. It packs the weight, the scales or the zero points into panels.
func packLevels(call *graph.Call, operand int) (graph.Packing, bool) {
	if operand < blocksWeight || operand > blocksZero || call.Out[0].Numel() == 0 || call.Meta(operand).Numel() == 0 {
		return graph.Packing{}, false
	}
	shape, meta := newLevelShape(call), call.Meta(operand)
	meta.Offset = 0 // src.Pointer includes it
	packing := graph.Packing{DType: tensor.Int8, Len: shape.panels() * shape.panelBytes(operand),
		Format: shape.formatName(operand)}
	if operand == blocksScale {
		packing.DType, packing.Len = tensor.Float32, packing.Len/floatBytes
	}
	packing.Fill = func(ctx context.Context, dst, src *tensor.Tensor) {
		for panel := range shape.panels() {
			interrupt.Check(ctx)
			shape.pack(operand, panel, dst.Pointer(), src.Pointer(), meta)
		}
	}
	// Panels drop the padding bits of a weight and the high bits of zero points. If such bits are set, the operand
	// cannot be restored from panels.
	panelsHaveAllBits := operand == blocksScale || operand == blocksZero && shape.bits == 8 ||
		operand == blocksWeight && shape.k*shape.bits == 8*meta.Shape[1]
	if panelsHaveAllBits {
		packing.Unpack = func(dst, packed *tensor.Tensor) { shape.unpack(operand, dst, packed.Pointer()) }
	}
	return packing, true
}

// formatName returns the name of the packed form of an operand, as in [graph.Packing].
func (shape *levelShape) formatName(operand int) string {
	switch operand {
	case blocksScale:
		return fmt.Sprintf("float32 panels of %d by blocks", shape.width())
	case blocksZero:
		return fmt.Sprintf("int8 panels of %d zero points of %d bits by blocks", shape.width(), shape.bits)
	}
	return fmt.Sprintf("panels of %d levels of %d bits by k", shape.width(), shape.bits)
}

// pack packs a panel of an operand, whose layout is meta. dst is the address of the operand's first panel, and src the
// address of the operand. Columns of the last panel beyond the last column of the result are 0.
func (shape *levelShape) pack(operand, panel int, dst, src unsafe.Pointer, meta tensor.Meta) {
	dst = unsafe.Add(dst, panel*shape.panelBytes(operand))
	width, columns := shape.width(), min(shape.width(), shape.n-panel*shape.width())
	clear(kit.ElementsOf[byte](dst, shape.panelBytes(operand)))
	rowStride, colStride := meta.Strides[0], meta.Strides[1]
	weight := shape.blockWeight // the format of integers and zero points, here in the layout of the operand
	weight.rowStride, weight.colStride = rowStride, colStride
	for column := range columns {
		row := panel*width + column // a row of the operand is a column of the result
		switch operand {
		case blocksWeight:
			shape.packColumn(dst, unsafe.Add(src, row*rowStride), weight, column)
		case blocksScale:
			for block := range shape.blocks {
				*(*float32)(kit.AddressOf[float32](dst, block*width+column)) =
					*(*float32)(kit.AddressOf[float32](src, row*rowStride+block*colStride))
			}
		default:
			for block := range shape.blocks {
				zeroPoint := weight.zeroPoint(*(*uint8)(unsafe.Add(src, row*rowStride+block*colStride)))
				*(*int8)(unsafe.Add(dst, block*width+column)) = int8(zeroPoint - weight.defaultZero)
			}
		}
	}
}

// packColumn packs the levels of a column of a cleared panel. row is the address of the weight's row with the integers
// of this column. If levels have 4 bits, byte b of a term (an index of the depth) has the level of column b in its low
// bits, and the level of column b + width/2 in its high bits.
func (shape *levelShape) packColumn(panel, row unsafe.Pointer, weight blockWeight, column int) {
	termBytes, byteIndex, shift := shape.termBytes(), column, 0
	if shape.levelBits() == 4 && column >= termBytes {
		byteIndex, shift = column-termBytes, 4
	}
	mask := 1<<shape.levelBits() - 1
	for term := range shape.k {
		level := weight.integer(row, term) - weight.defaultZero
		*(*uint8)(unsafe.Add(panel, term*termBytes+byteIndex)) |= uint8((level & mask) << shift)
	}
}

// level returns the level of a column of a panel for a term (see packColumn). Shifts extend its sign.
func (shape *levelShape) level(panel unsafe.Pointer, term, column int) int {
	termBytes := shape.termBytes()
	switch {
	case shape.levelBits() == 8:
		return int(*(*int8)(unsafe.Add(panel, term*termBytes+column)))
	case column >= termBytes:
		return int(*(*int8)(unsafe.Add(panel, term*termBytes+column-termBytes)) >> 4)
	}
	return int(*(*int8)(unsafe.Add(panel, term*termBytes+column)) << 4 >> 4)
}

// unpack restores an operand from its panels.
func (shape *levelShape) unpack(operand int, dst *tensor.Tensor, panels unsafe.Pointer) {
	width := shape.width()
	for row := range shape.n {
		panel, column := unsafe.Add(panels, row/width*shape.panelBytes(operand)), row%width
		switch operand {
		case blocksWeight:
			elementsPerByte := 8 / shape.bits
			for byteIndex := range dst.Shape[1] {
				packed := 0
				for element := range elementsPerByte {
					level := shape.level(panel, byteIndex*elementsPerByte+element, column)
					packed |= (level + shape.defaultZero) << (element * shape.bits)
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
				zeroPoint := int(*(*int8)(unsafe.Add(panel, block*width+column))) + shape.defaultZero
				dst.Set(tensor.IntScalar(int64(zeroPoint)), row, block)
			}
		}
	}
}
