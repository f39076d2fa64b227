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

// bytePacker packs operand b into panels (see [byteShape]). A panel has the columns of a block. A group is
// groupElements consecutive elements of a column. For each depth, the groups of all columns of the block are
// contiguous.
type bytePacker struct {
	byteShape
	signed        bool        // whether elements are int8
	join          *loops.Loop // joins the elements of a group
	ones          []byte      // a packed row of ones; its product with a panel gives the sums of the columns
	columnSumCode *jit.Func   // multiplies ones by a panel
}

// byteRun is the state of a worker in both phases of a byte product.
type byteRun struct {
	state     loops.State
	args      jit.Args
	lanes     multiply.EpilogueLanes // operands of the epilogue
	zeroPoint int32                  // zero point of the result, for tiles on the matrix unit
}

func newBytePacker(s byteShape, signed bool) (*bytePacker, error) {
	p := &bytePacker{byteShape: s, signed: signed, ones: make([]byte, s.rowBytes())}
	for i := range s.k {
		p.ones[i*groupBytes/s.groupElements] = 1
	}
	var err error
	if p.join, err = joinLoop(s.groupElements, signed); err != nil {
		return nil, err
	}
	p.columnSumCode, err = tile.Compile(&tile.Spec{Size: groupBytes, Bytes: s.groupElements == groupBytes,
		SignedIn: tile.ReadsSigned(machine.Host(), true), Words: s.groupElements != groupBytes, Rows: 1,
		Vectors: s.vectors, Start: tile.FromResult, Tiles: tile.Loop{In: tile.Dynamic, Out: tile.Dynamic},
		Runs: []tile.Run{{InStep: groupBytes, VecStep: s.width() * groupBytes, Terms: tile.Dynamic}}},
		machine.Host())
	return p, err
}

// joinLoop returns the loop that joins bytes of a column to a group. Operand i of the loop supplies element i of each
// group. The loop subtracts 128 from uint8 elements; in a group of four bytes, it does so by flipping the sign bits.
func joinLoop(perGroup int, signed bool) (*loops.Loop, error) {
	names, types := []string{"a", "b", "c", "d"}[:perGroup], make([]tensor.DType, perGroup)
	bits, offset, d := 32/perGroup, 0, tensor.Uint8
	if perGroup < groupBytes && signed {
		d = tensor.Int8
	} else if perGroup < groupBytes {
		offset = signBit
	}
	var parts []string
	for i, name := range names {
		types[i] = d
		part := fmt.Sprintf("((int32(%s) - %d) & %d) << %d", name, offset, 1<<bits-1, i*bits)
		if offset == 0 && perGroup == groupBytes {
			part = fmt.Sprintf("int32(%s) << %d", name, i*bits)
		}
		parts = append(parts, "("+part+")")
	}
	text := strings.Join(parts, " | ")
	if perGroup == groupBytes && !signed {
		text = fmt.Sprintf("(%s) ^ int32(%d)", text, -0x7f7f7f80)
	}
	return kit.FormulaLoop(text, names, types, nil, tensor.Int32)
}

// transposeBytes returns the size in bytes of the worker memory in which a block of columns is transposed.
func (p *bytePacker) transposeBytes() int { return p.k * p.width() }

// packBlock packs a block of columns of a matrix, and sums the columns. row and col are the strides of the matrix.
// transposeBuffer is worker memory for a transposed block.
func (p *bytePacker) packBlock(r *byteRun, to, from unsafe.Pointer, row, col, block int,
	transposeBuffer unsafe.Pointer) {
	width := p.width()
	cols := min(width, p.n-block*width)
	from = unsafe.Add(from, block*width*col)
	if col != 1 && cols > 1 {
		e, rows := strided.Move(1), max(1, kit.CheckEvery/cols)
		for k := 0; k < p.k; k += rows {
			interrupt.Check(r.state.Context)
			e.Block(unsafe.Add(transposeBuffer, k*cols), unsafe.Add(from, k*row), strided.Axis{N: cols, Dst: 1, Src: col},
				strided.Axis{N: min(rows, p.k-k), Dst: cols, Src: row})
		}
		from, row = transposeBuffer, cols
	}
	panel := unsafe.Add(to, block*p.panelBytes())
	p.joinGroups(r, panel, from, row, 0, p.k/p.groupElements, cols)
	if p.k%p.groupElements > 0 {
		p.joinGroups(r, panel, from, row, p.k/p.groupElements, 1, cols)
	}
	p.sumColumns(r, panel, p.columnSums(to, block))
}

// joinGroups joins the n groups of each column from group `first` on. The last group may have elements past the depth.
// They are arbitrary, because tiles multiply them by 0.
func (p *bytePacker) joinGroups(r *byteRun, panel, from unsafe.Pointer, row, first, n, cols int) {
	step := p.width() * groupBytes
	var ptrs [1 + groupBytes]unsafe.Pointer
	var strides [1 + groupBytes]int
	ptrs[0], strides[0] = unsafe.Add(panel, first*step), step
	for i := range p.groupElements {
		ptrs[1+i], strides[1+i] = unsafe.Add(from, min(first*p.groupElements+i, p.k-1)*row), p.groupElements*row
	}
	p.join.Run(&r.state, ptrs[:1+p.groupElements], strides[:1+p.groupElements], cols, n)
}

// columnSums returns the address of the column sums of a block. The sums of all blocks follow the panels of the matrix.
func (s *byteShape) columnSums(matrix unsafe.Pointer, block int) unsafe.Pointer {
	return unsafe.Add(matrix, s.blocks()*s.panelBytes()+block*s.width()*groupBytes)
}

// sumColumns sums the columns of a panel. It multiplies a row of ones by the panel.
func (p *bytePacker) sumColumns(r *byteRun, panel, to unsafe.Pointer) {
	sums := kit.ElementsOf[int32](to, p.width())
	clear(sums)
	a := &r.args
	a.Ptr[tile.In], a.Ptr[tile.Vec], a.Ptr[tile.Out], a.Rows = unsafe.Pointer(&p.ones[0]), panel, to, 1
	defer clear(a.Ptr[:])
	for g := 0; g < p.groups; g += callGroups {
		interrupt.Check(r.state.Context)
		a.N = min(callGroups, p.groups-g)
		a.Row[tile.In], a.Row[tile.Vec], a.Row[tile.Out] = g*groupBytes, g*p.width()*groupBytes, 0
		if p.columnSumCode.Call(a) != nil { // there is no executable memory
			p.sumColumnsInGo(panel, sums)
			return
		}
	}
}

// sumColumnsInGo is sumColumns without machine code.
func (p *bytePacker) sumColumnsInGo(panel unsafe.Pointer, sums []int32) {
	clear(sums)
	for k := range p.k {
		for j := range sums {
			sums[j] += p.element(panel, k, j)
		}
	}
}

// element returns element k of column j of a panel.
func (s *byteShape) element(panel unsafe.Pointer, k, j int) int32 {
	at := unsafe.Add(panel, (k/s.groupElements*s.width()+j)*groupBytes+k%s.groupElements*(groupBytes/s.groupElements))
	if s.groupElements < groupBytes {
		return int32(*(*int16)(at))
	}
	return int32(*(*int8)(at))
}

// form returns the name of the packed form, as in [graph.Packing].
func (s byteShape) form() string {
	dtype := map[int]string{groupBytes: "int8", 2: "int16"}[s.groupElements]
	return fmt.Sprintf("%s panels of %d by k in %ds, and sums", dtype, s.width(), s.groupElements)
}

// packBytes returns the packing of constant operand b: all distinct matrices of the operand, one after another.
func packBytes(c *graph.Call, i int) (graph.Packing, bool) {
	if i != bytesB || c.Out[0].Numel() == 0 {
		return graph.Packing{}, false
	}
	_, s, err := bytesContraction(c)
	if err != nil {
		return graph.Packing{}, false
	}
	b := c.Meta(bytesB)
	p, err := newBytePacker(s, b.DType == tensor.Int8)
	if err != nil {
		return graph.Packing{}, false
	}
	return graph.Packing{
		Form:  s.form(),
		DType: tensor.Int8, Len: storedMatrices(b) * s.matrixBytes(),
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			all := kit.ElementsOf[int8](dst.Pointer(), dst.Numel())
			kit.Blocks(ctx, len(all), func(begin, end int) { clear(all[begin:end]) })
			memory := tensor.NewStorage(p.transposeBytes()).Bytes()
			row, col, starts := matrixLayout(src.Meta)
			var r byteRun
			r.state.Context = ctx
			for matrix, at := range starts {
				for block := range p.blocks() {
					interrupt.Check(ctx)
					p.packBlock(&r, unsafe.Add(dst.Pointer(), matrix*p.matrixBytes()), unsafe.Add(src.Pointer(), at), row, col,
						block, unsafe.Pointer(unsafe.SliceData(memory)))
				}
			}
		},
		Unpack: func(dst, packed *tensor.Tensor) { p.unpack(dst, packed) }}, true
}

// matrixLayout returns the row stride and the column stride of an operand's matrices, and the offset of each matrix.
func matrixLayout(m tensor.Meta) (row, col int, starts []int) {
	lead := max(0, m.Rank()-2)
	row = m.Strides[lead]
	if m.Rank() > 1 {
		col = m.Strides[lead+1]
	}
	tensor.Meta{Shape: m.Shape[:lead], Strides: m.Strides[:lead]}.Walk(func(at int) { starts = append(starts, at) })
	return row, col, starts
}

// unpack is the inverse of packing.
func (p *bytePacker) unpack(dst, packed *tensor.Tensor) {
	offset := int32(0)
	if !p.signed {
		offset = signBit
	}
	kit.EachIndex(dst.Shape, func(at []int) {
		lead, matrix, j := max(0, len(at)-2), 0, 0
		for d, i := range at[:lead] {
			matrix = matrix*dst.Shape[d] + i
		}
		if len(at) > 1 {
			j = at[len(at)-1]
		}
		panel := unsafe.Add(packed.Pointer(), matrix*p.matrixBytes()+j/p.width()*p.panelBytes())
		dst.Set(tensor.IntScalar(int64(p.element(panel, at[lead], j%p.width())+offset)), at...)
	})
}
