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

// levelShape is the division of a product by a weight that is quantized by blocks (see [LinearBlocks]). A level is an
// integer of the weight minus the default zero point. A panel has the levels of some columns of the result, in the form
// of [tile.VecQuantization]: for each index of the depth k, the levels of all these columns. The panels of scales and
// of zero points have, for each block of the depth, the values of all these columns.
type levelShape struct {
	blockWeight
	m, n, k        int  // rows of the result, columns of the result, depth
	blocks         int  // number of blocks of the depth
	lanes, vectors int  // columns of a vector; vectors of a panel
	hasZeros       bool // whether the call has zero points
}

// levelVectors is the number of vectors of a panel. A tile of one row needs as many sums to hide the latency of
// multiplications.
const levelVectors = 4

func newLevelShape(call *graph.Call) levelShape {
	x := call.Meta(blocksInput)
	_, bytes := tile.Registers(machine.Host())
	shape := levelShape{blockWeight: newBlockWeight(call), k: x.Shape[x.Rank()-1], n: call.Meta(blocksWeight).Shape[0],
		m: kit.BoundedProduct(x.Shape[:x.Rank()-1]...), lanes: bytes / 4, vectors: levelVectors,
		hasZeros: call.Has(blocksZero)}
	shape.block = min(shape.block, max(1, shape.k))
	shape.blocks = kit.DivUp(shape.k, shape.block)
	return shape
}

func (shape *levelShape) width() int  { return shape.lanes * shape.vectors }
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

// levelWalks implements [graph.Impl.Walks] for panels. The results are row-major. Panels need machine code.
func levelWalks(call *graph.Call, _ []tensor.Order) []graph.Walk {
	x := call.Meta(blocksInput)
	if !tile.Supports(machine.Host()) || jit.Available() != nil || call.Out[0].Numel() == 0 ||
		x.Shape[x.Rank()-1] == 0 || x.Shape[x.Rank()-1] > maxLevelDepth {
		return nil
	}
	return []graph.Walk{{}}
}

// maxLevelDepth bounds the depth. The code of a tile contains the distances between rows, which must be below 2^30
// bytes (see package tile).
const maxLevelDepth = 1 << 24

// packLevels implements [graph.Impl.Pack] for panels.
func packLevels(call *graph.Call, i int) (graph.Packing, bool) {
	if i < blocksWeight || i > blocksZero || call.Out[0].Numel() == 0 || call.Meta(i).Numel() == 0 {
		return graph.Packing{}, false
	}
	shape, m := newLevelShape(call), call.Meta(i)
	m.Offset = 0
	p := graph.Packing{DType: tensor.Int8, Len: shape.panels() * shape.panelBytes(i), Form: shape.form(i)}
	if i == blocksScale {
		p.DType, p.Len = tensor.Float32, p.Len/4
	}
	p.Fill = func(ctx context.Context, dst, src *tensor.Tensor) {
		for panel := range shape.panels() {
			interrupt.Check(ctx)
			shape.pack(i, panel, dst.Pointer(), src.Pointer(), m)
		}
	}
	// Some bits of a weight may belong to no element, and only the low bits of a zero point are packed.
	if i == blocksScale || i == blocksZero && shape.bits == 8 || i == blocksWeight && shape.k*shape.bits == 8*m.Shape[1] {
		p.Unpack = func(dst, packed *tensor.Tensor) { shape.unpack(i, dst, packed.Pointer()) }
	}
	return p, true
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

// pack packs a panel of operand i, of layout m. to and from are the addresses of all panels and of the operand.
func (shape *levelShape) pack(i, panel int, to, from unsafe.Pointer, m tensor.Meta) {
	to = unsafe.Add(to, panel*shape.panelBytes(i))
	width, columns := shape.width(), min(shape.width(), shape.n-panel*shape.width())
	clear(kit.ElementsOf[byte](to, shape.panelBytes(i)))
	w := shape.blockWeight
	w.row, w.col = m.Strides[0], m.Strides[1]
	for j := range columns {
		n := panel*width + j
		switch i {
		case blocksWeight:
			shape.packColumn(to, unsafe.Add(from, n*w.row), w, j)
		case blocksScale:
			for b := range shape.blocks {
				*(*float32)(kit.AddressOf[float32](to, b*width+j)) = *(*float32)(kit.AddressOf[float32](from, n*w.row+b*w.col))
			}
		default:
			for b := range shape.blocks {
				zero := w.zeroPoint(*(*uint8)(unsafe.Add(from, n*w.row+b*w.col)))
				*(*int8)(unsafe.Add(to, b*width+j)) = int8(zero - w.defaultZero)
			}
		}
	}
}

// packColumn packs the levels of column j of a panel that is cleared. row is the address of the weight's row, which has
// the integers of this column. A byte of a 4-bit panel has the levels of columns j and j + width/2.
func (shape *levelShape) packColumn(panel, row unsafe.Pointer, w blockWeight, j int) {
	step, shift := shape.termBytes(), 0
	if shape.levelBits() == 4 && j >= step {
		j, shift = j-step, 4
	}
	mask := 1<<shape.levelBits() - 1
	for k := range shape.k {
		*(*uint8)(unsafe.Add(panel, k*step+j)) |= uint8((w.integer(row, k) - w.defaultZero) & mask << shift)
	}
}

// level returns the level of column j of a panel for index k of the depth.
func (shape *levelShape) level(panel unsafe.Pointer, k, j int) int {
	step := shape.termBytes()
	switch {
	case shape.levelBits() == 8:
		return int(*(*int8)(unsafe.Add(panel, k*step+j)))
	case j >= step:
		return int(*(*int8)(unsafe.Add(panel, k*step+j-step)) >> 4)
	}
	return int(*(*int8)(unsafe.Add(panel, k*step+j)) << 4 >> 4)
}

// unpack restores operand i from its panels.
func (shape *levelShape) unpack(i int, dst *tensor.Tensor, panels unsafe.Pointer) {
	width := shape.width()
	for n := range shape.n {
		panel, j := unsafe.Add(panels, n/width*shape.panelBytes(i)), n%width
		switch i {
		case blocksWeight:
			perByte := 8 / shape.bits
			for b := range dst.Shape[1] {
				packed := 0
				for e := range perByte {
					packed |= (shape.level(panel, b*perByte+e, j) + shape.defaultZero) << (e * shape.bits)
				}
				dst.Set(tensor.IntScalar(int64(packed)), n, b)
			}
		case blocksScale:
			for b := range shape.blocks {
				dst.Set(tensor.FloatScalar(float64(*(*float32)(kit.AddressOf[float32](panel, b*width+j)))), n, b)
			}
		default:
			for b := range shape.blocks {
				dst.Set(tensor.IntScalar(int64(int(*(*int8)(unsafe.Add(panel, b*width+j)))+shape.defaultZero)), n, b)
			}
		}
	}
}
