package product

import (
	"context"
	"fmt"
	"strings"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// signBit is the offset of 128 that converts between int8 and uint8.
const signBit = 0x80

// bytePacker packs operand b into panels (see [byteShape]). A block is the range of columns of a register tile, and a
// panel is a packed block. A group is the sequence of elements along the depth that one instruction multiplies. A panel
// stores the groups of all columns at one depth contiguously, then the groups at the next depth. For example, this is a
// block of the columns a and b, with 6 elements each, and its panel with groups of 4 elements (the values of ? do not
// matter):
//
//	a0 b0
//	a1 b1
//	...     ->  a0 a1 a2 a3  b0 b1 b2 b3
//	a5 b5       a4 a5 ?  ?   b4 b5 ?  ?
//
// The sums of all columns of the matrix follow the panels. The elements of operand b are bytes, so strides and offsets
// are the same in elements and in bytes. In a group, an element is a byte or, if usesWords is true, a word of 16 bits.
type bytePacker struct {
	byteShape
	isSigned      bool        // whether elements are int8
	joinCode      *loops.Loop // joins the elements of a group
	ones          []byte      // a packed row of ones; its product with a panel gives the sums of the columns
	columnSumCode *jit.Func   // multiplies ones by a panel
}

// byteWorker is the state of a worker that runs the phases of a byte product.
type byteWorker struct {
	state     loops.State            // of loops over elements, such as joinCode
	args      jit.Args               // of the code of tiles
	lanes     multiply.EpilogueLanes // operands of the epilogue, the fused operations that tiles apply
	zeroPoint int32                  // zero point of the result, for tiles on the matrix unit
}

// newBytePacker returns the packer of a matrix b. isSigned is set if its elements are int8.
func newBytePacker(shape byteShape, isSigned bool) (*bytePacker, error) {
	packer := &bytePacker{byteShape: shape, isSigned: isSigned, ones: make([]byte, shape.rowBytes())}
	for i := range shape.k {
		packer.ones[i*shape.groupBytes/shape.groupElements] = 1 // the low byte of element i
	}
	var err error
	if packer.joinCode, err = shape.joinLoop(isSigned); err != nil {
		return nil, err
	}
	const areSigned = true // the ones
	spec := shape.tileSpec(tile.ReadsSigned(machine.HostFeatures(), areSigned))
	spec.Rows, spec.Vectors, spec.InitialSum = 1, shape.vectors, tile.FromResult
	packer.columnSumCode, err = tile.Compile(spec, machine.HostFeatures())
	return packer, err
}

// tileSpec describes the operands of tiles, which multiply rows (In) by a panel (Vec). A term of the tile's loop is a
// group. isSigned is set if tiles read the elements of rows as int8. Numbers that are tile.Dynamic are arguments of
// each call.
func (shape *byteShape) tileSpec(isSigned bool) *tile.Spec {
	return &tile.Spec{ElemBytes: sumBytes, Int8: !shape.usesWords(), Int16: shape.usesWords(),
		Int8Matrix: shape.multipliesMatrices(), SignedIn: isSigned,
		Tiles: tile.Loop{InStep: tile.Dynamic, OutStep: tile.Dynamic},
		Runs:  []tile.Run{{InStep: shape.groupBytes, VecStep: shape.width() * shape.groupBytes, Terms: tile.Dynamic}}}
}

// joinLoop returns the loop that joins elements of a column to a group. Operand i of the loop supplies element i of
// each group. The loop subtracts 128 from uint8 elements. In a group of bytes, it flips the sign bits instead, which
// has the same effect. For example, these are the formulas for groups of four int8 bytes, and of two words for uint8
// elements:
//
//	(int32(a) << 0) | (int32(b) << 8) | (int32(c) << 16) | (int32(d) << 24)
//	(((int32(a) - 128) & 65535) << 0) | (((int32(b) - 128) & 65535) << 16)
func (shape *byteShape) joinLoop(isSigned bool) (*loops.Loop, error) {
	names := strings.Split("abcdefgh", "")[:shape.groupElements]
	types := make([]tensor.DType, shape.groupElements)
	elementBits := 8 * shape.groupBytes / shape.groupElements
	loadDType, wordOffset := tensor.Uint8, signBit // bytes have the same bits as uint8 and as int8
	if shape.usesWords() && isSigned {
		loadDType, wordOffset = tensor.Int8, 0
	}
	groupDType := tensor.Int32
	if shape.groupBytes == 8 {
		groupDType = tensor.Int64
	}
	var shifted []string // the formulas of the elements at their places in the group
	for i, name := range names {
		types[i] = loadDType
		element := fmt.Sprintf("%v(%s)", groupDType, name)
		if shape.usesWords() { // the mask removes the bits of a negative element above its word
			element = fmt.Sprintf("((%s - %d) & %d)", element, wordOffset, 1<<elementBits-1)
		}
		shifted = append(shifted, fmt.Sprintf("(%s << %d)", element, i*elementBits))
	}
	formula := strings.Join(shifted, " | ")
	if !shape.usesWords() && !isSigned {
		signBits := int64(-0x7f7f7f7f7f7f7f80) >> (64 - 8*shape.groupBytes) // 0x80 in each byte of a group
		formula = fmt.Sprintf("(%s) ^ %v(%d)", formula, groupDType, signBits)
	}
	return kit.FormulaLoop(formula, names, types, nil, groupDType)
}

// packBlock packs and sums a block of columns of the matrix at address src, with the given strides. packed is the
// address of the packed matrix. transposeBuffer is worker memory for the block in row-major order, which joinGroups
// needs.
func (p *bytePacker) packBlock(worker *byteWorker, packed, src unsafe.Pointer, rowStride, colStride, block int,
	transposeBuffer unsafe.Pointer) {
	width := p.width()
	columns := min(width, p.n-block*width)
	src = unsafe.Add(src, block*width*colStride)
	if colStride != 1 && columns > 1 {
		p.transposeBlock(worker, transposeBuffer, src, rowStride, colStride, columns)
		src, rowStride = transposeBuffer, columns
	}
	panel, wholeGroups := unsafe.Add(packed, block*p.panelBytes()), p.k/p.groupElements
	p.joinGroups(worker, panel, src, rowStride, 0, wholeGroups, columns)
	if p.k%p.groupElements > 0 {
		p.joinGroups(worker, panel, src, rowStride, wholeGroups, 1, columns)
	}
	p.sumColumns(worker, panel, p.columnSums(packed, block))
}

// transposeBytes returns the size in bytes of the worker memory in which a block of columns is transposed.
func (p *bytePacker) transposeBytes() int { return p.k * p.width() }

// transposeBlock copies a block with the given number of columns to dst, in row-major order.
func (p *bytePacker) transposeBlock(worker *byteWorker, dst, src unsafe.Pointer, rowStride, colStride, columns int) {
	move, rows := strided.MoverOf(1), max(1, kit.CheckEvery/columns)
	for k := 0; k < p.k; k += rows {
		interrupt.Check(worker.state.Context)
		move.CopyBlock(unsafe.Add(dst, k*columns), unsafe.Add(src, k*rowStride),
			strided.Axis{N: columns, Dst: 1, Src: colStride},
			strided.Axis{N: min(rows, p.k-k), Dst: columns, Src: rowStride})
	}
}

// joinGroups joins the elements of groupCount groups of each column of a block, starting with group `first`. The given
// number of columns are adjacent in each row at src. The last group may have elements beyond the depth. Their values do
// not matter, because tiles multiply them by 0.
func (p *bytePacker) joinGroups(worker *byteWorker, panel, src unsafe.Pointer, rowStride, first, groupCount,
	columns int) {
	step := p.width() * p.groupBytes // between groups of a column in the panel
	var ptrs [1 + maxGroupBytes]unsafe.Pointer
	var strides [1 + maxGroupBytes]int
	ptrs[0], strides[0] = unsafe.Add(panel, first*step), step
	for i := range p.groupElements { // elements beyond the depth are copies of the column's last element
		ptrs[1+i], strides[1+i] = unsafe.Add(src, min(first*p.groupElements+i, p.k-1)*rowStride), p.groupElements*rowStride
	}
	p.joinCode.Run(&worker.state, ptrs[:1+p.groupElements], strides[:1+p.groupElements], columns, groupCount)
}

// columnSums returns the address of the column sums of a block. The sums of all blocks follow the panels of the
// matrix.
func (shape *byteShape) columnSums(matrix unsafe.Pointer, block int) unsafe.Pointer {
	return unsafe.Add(matrix, shape.blocks()*shape.panelBytes()+block*shape.width()*sumBytes)
}

// sumColumns writes the sums of the columns of a panel to address dst, as int32. It multiplies a row of ones by the
// panel, at most maxCallGroups groups per call of machine code.
func (p *bytePacker) sumColumns(worker *byteWorker, panel, dst unsafe.Pointer) {
	sums := kit.ElementsOf[int32](dst, p.width())
	clear(sums)
	args := &worker.args // addresses in Ptr, offsets from them in Row
	args.Ptr[tile.In], args.Ptr[tile.Vec], args.Ptr[tile.Out], args.Rows = unsafe.Pointer(&p.ones[0]), panel, dst, 1
	defer clear(args.Ptr[:])
	for group := 0; group < p.groups; group += maxCallGroups {
		interrupt.Check(worker.state.Context)
		args.InnerCount = min(maxCallGroups, p.groups-group)
		args.Row[tile.In], args.Row[tile.Vec], args.Row[tile.Out] = group*p.groupBytes, group*p.width()*p.groupBytes, 0
		if p.columnSumCode.Call(args) != nil { // there is no executable memory
			p.sumColumnsInGo(panel, sums)
			return
		}
	}
}

// sumColumnsInGo is sumColumns without machine code.
func (p *bytePacker) sumColumnsInGo(panel unsafe.Pointer, sums []int32) {
	clear(sums)
	for k := range p.k {
		for column := range sums {
			sums[column] += p.element(panel, k, column)
		}
	}
}

// element returns the element of a panel at the given depth and column.
func (shape *byteShape) element(panel unsafe.Pointer, depth, column int) int32 {
	group, offset := depth/shape.groupElements, depth%shape.groupElements*(shape.groupBytes/shape.groupElements)
	address := unsafe.Add(panel, (group*shape.width()+column)*shape.groupBytes+offset)
	if shape.usesWords() {
		return int32(*(*int16)(address))
	}
	return int32(*(*int8)(address))
}

// formatName returns the name of the packed form, as in [graph.Packing].
func (shape byteShape) formatName() string {
	dtype := tensor.Int8
	if shape.usesWords() {
		dtype = tensor.Int16
	}
	return fmt.Sprintf("%v panels of %d by k in %ds, and sums", dtype, shape.width(), shape.groupElements)
}

// packBytes implements [graph.Impl.Pack] for operand b. The packed form has all distinct matrices of the operand, one
// after another.
func packBytes(call *graph.Call, operand int) (graph.Packing, bool) {
	if operand != bytesB || call.Out[0].Numel() == 0 {
		return graph.Packing{}, false
	}
	_, shape, err := bytesContraction(call)
	if err != nil {
		return graph.Packing{}, false
	}
	b := call.Meta(bytesB)
	packer, err := newBytePacker(shape, b.DType == tensor.Int8)
	if err != nil {
		return graph.Packing{}, false
	}
	return graph.Packing{
		Format: shape.formatName(), DType: tensor.Int8, Len: storedMatrices(b) * shape.matrixBytes(),
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			elements := kit.ElementsOf[int8](dst.Pointer(), dst.Numel())
			kit.ForEachBlock(ctx, len(elements), func(begin, end int) { clear(elements[begin:end]) })
			transposeBuffer := tensor.NewStorage(packer.transposeBytes()).Bytes()
			rowStride, colStride, starts := matrixLayout(src.Meta)
			var worker byteWorker
			worker.state.Context = ctx
			for matrix, start := range starts {
				for block := range packer.blocks() {
					interrupt.Check(ctx)
					packer.packBlock(&worker, unsafe.Add(dst.Pointer(), matrix*packer.matrixBytes()),
						unsafe.Add(src.Pointer(), start), rowStride, colStride, block,
						unsafe.Pointer(unsafe.SliceData(transposeBuffer)))
				}
			}
		},
		Unpack: func(dst, packed *tensor.Tensor) { packer.unpack(dst, packed) }}, true
}

// matrixLayout returns the strides of an operand's matrices, and the offset of each matrix, in elements. A vector is a
// matrix of one column.
func matrixLayout(m tensor.Meta) (rowStride, colStride int, starts []int) {
	batchRank := max(0, m.Rank()-2)
	rowStride = m.Strides[batchRank]
	if m.Rank() > 1 {
		colStride = m.Strides[batchRank+1]
	}
	tensor.Meta{Shape: m.Shape[:batchRank], Strides: m.Strides[:batchRank]}.Walk(func(offset int) {
		starts = append(starts, offset)
	})
	return rowStride, colStride, starts
}

// unpack restores operand b from its packed form.
func (p *bytePacker) unpack(dst, packed *tensor.Tensor) {
	offset := int32(0)
	if !p.isSigned {
		offset = signBit
	}
	kit.EachIndex(dst.Shape, func(index []int) {
		batchRank, matrix, column := max(0, len(index)-2), 0, 0
		for d, i := range index[:batchRank] {
			matrix = matrix*dst.Shape[d] + i
		}
		if len(index) > 1 {
			column = index[len(index)-1]
		}
		panel := unsafe.Add(packed.Pointer(), matrix*p.matrixBytes()+column/p.width()*p.panelBytes())
		element := p.element(panel, index[batchRank], column%p.width()) + offset
		dst.Set(tensor.IntScalar(int64(element)), index...)
	})
}
