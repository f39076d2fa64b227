package multiply

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Panels is the packed form of the constant operand of a product. The operand holds one or more matrices. Each matrix
// is divided into panels of Width lanes (rows of A, columns of B). A term is an index along a lane, the dimension that
// the product sums. In a panel, the elements of one term are contiguous. All offsets and strides are in elements.
// For example, this is a matrix of 3 lanes with 4 terms, and its panels of Width 2:
//
//	a0 a1 a2 a3        a0 b0 a1 b1 a2 b2 a3 b3
//	b0 b1 b2 b3   ->
//	c0 c1 c2 c3        c0 0  c1 0  c2 0  c3 0
type Panels struct {
	Format     string       // the name of the packed form, as in [graph.Packing]
	DType      tensor.DType // the dtype of the computation, or a 16-bit float that tiles convert: see [Half]
	Width      int          // number of lanes of a panel
	Lanes      int          // number of lanes of a matrix
	Starts     []int        // offsets of the matrices in the operand
	LaneStride int          // stride between lanes
	// Terms returns the offset of each term from the start of its lane. Terms is nil if the terms are evenly spaced.
	// Only packing and unpacking call Terms.
	Terms      func() []int
	Depth      int  // number of terms of a lane
	TermStride int  // stride between evenly spaced terms
	isMatrix   bool // from MatrixPanels: Format states lanes, terms and strides
}

// MatrixPanels returns the panels of one operand of a product. Each matrix of the operand has `lanes` lanes and `depth`
// terms; laneStride and termStride are their strides in elements. offsets has the offset of the matrix of each entry
// (product of the batch). nil stands for a single matrix at offset 0. Each distinct matrix is packed once.
func MatrixPanels(dtype tensor.DType, width, lanes, laneStride, depth, termStride int, offsets []int) *Panels {
	p := &Panels{DType: dtype, Width: width, Lanes: lanes, LaneStride: laneStride, Depth: depth, TermStride: termStride,
		Starts: []int{0}, isMatrix: true}
	p.Format = fmt.Sprintf("%v panels of %d of %dx%d by %d,%d", dtype, width, lanes, depth, laneStride, termStride)
	if offsets != nil {
		p.Starts = slices.Clone(offsets)
		sorted.Ints(p.Starts)
		p.Starts = slices.Compact(p.Starts)
		p.Format += fmt.Sprintf(" at %s", startsText(p.Starts))
	}
	return p
}

// startsText formats offsets. Evenly spaced offsets are formatted as FIRST+NUMBERxSPACING, other offsets as a list.
func startsText(starts []int) string {
	if len(starts) > 1 {
		spacing := starts[1] - starts[0]
		for i, s := range starts {
			if s != starts[0]+i*spacing {
				return tensor.ListString(starts)
			}
		}
		return fmt.Sprintf("%d+%dx%d", starts[0], len(starts), spacing)
	}
	return tensor.ListString(starts)
}

// MatrixLen returns the number of elements of one packed matrix.
func (p *Panels) MatrixLen() int {
	return kit.BoundedProduct(kit.DivUp(p.Lanes, p.Width), p.Width, p.Depth)
}

// PackedOffsets returns the offset of each entry's packed matrix, in elements, or nil for nil offsets. offsets has the
// offset of each entry's matrix in the operand.
func (p *Panels) PackedOffsets(offsets []int) []int {
	if offsets == nil {
		return nil
	}
	out := make([]int, len(offsets))
	for entry, offset := range offsets {
		matrix, _ := slices.BinarySearch(p.Starts, offset)
		out[entry] = matrix * p.MatrixLen()
	}
	return out
}

// PackingOf returns the packing of an operand that is packed in several forms of the same dtype, one after another.
func PackingOf(forms ...*Panels) graph.Packing {
	dtype := forms[0].DType
	packing := graph.Packing{DType: dtype}
	for i, p := range forms {
		if i > 0 {
			packing.Format += " and "
		}
		packing.Format += p.Format
		packing.Len += kit.BoundedProduct(p.MatrixLen(), len(p.Starts))
	}
	if len(forms) == 1 && forms[0].isMatrix {
		packing.View = forms[0].view
	}
	packing.Fill = func(ctx context.Context, dst, src *tensor.Tensor) {
		if src = packing.Source(src); src.DType != dtype {
			src = kit.CopyTo(ctx, src, copies.DenseAs(src.Meta, dtype))
		}
		packed := kit.ElementsOf[byte](dst.Pointer(), packing.Len*dtype.Size())
		forEachMatrix(forms, packed, src, func(p *Panels, panels []byte, matrix unsafe.Pointer) {
			p.fill(ctx, panels, matrix)
		})
	}
	packing.Unpack = func(dst, src *tensor.Tensor) {
		unpacked := dst
		switch {
		case dst.DType.Size() > dtype.Size(): // panels of the numbers before their conversion: see Half
			unpacked = tensor.Empty(tensor.Meta{DType: dtype, Shape: dst.Shape, Strides: dst.Strides})
		case dst.DType != dtype:
			unpacked = tensor.Empty(copies.DenseAs(dst.Meta, dtype))
		}
		packed := kit.ElementsOf[byte](src.Pointer(), packing.Len*dtype.Size())
		forEachMatrix(forms, packed, unpacked, func(p *Panels, panels []byte, matrix unsafe.Pointer) {
			p.unpack(matrix, panels)
		})
		if unpacked != dst {
			tensor.CopyElements(dst, unpacked)
		}
	}
	return packing
}

// view implements [graph.Packing.View] for panels of one matrix with evenly spaced terms.
func (p *Panels) view(operand tensor.Meta) (view tensor.Meta, laneDim int, ok bool) {
	if p.Terms != nil || len(p.Starts) != 1 || p.Starts[0] != 0 || p.Lanes < 2 || p.Depth < 2 {
		return view, 0, false
	}
	view = tensor.Meta{DType: p.DType}
	hasLanes, hasTerms := false, false
	for dim, size := range operand.Shape {
		switch stride := operand.Strides[dim]; {
		case !hasLanes && size == p.Lanes && stride == p.LaneStride:
			hasLanes, laneDim = true, dim
			view.Shape = append(view.Shape, kit.DivUp(size, p.Width), p.Width)
			view.Strides = append(view.Strides, p.Width*p.Depth, 1)
		case !hasTerms && size == p.Depth && stride == p.TermStride:
			hasTerms = true
			view.Shape, view.Strides = append(view.Shape, size), append(view.Strides, p.Width)
		case size == 1:
			view.Shape, view.Strides = append(view.Shape, 1), append(view.Strides, 0)
		default:
			return view, 0, false
		}
	}
	return view, laneDim, hasLanes && hasTerms
}

// Half returns the dtype of the packed panels of operand i if a product in the given dtype reads them in 16-bit floats:
// the operand is a constant that was converted from this dtype. Otherwise Half returns 0.
func Half(c *graph.Call, i int, dtype tensor.DType) (half tensor.DType) {
	if i < 0 || i >= len(c.In) || c.In[i].Kind != graph.TensorArg {
		return 0
	}
	if v := c.In[i].Value; v.Packed != nil {
		half = v.Meta.DType
	} else if narrow := v.Const.Unwidened(); narrow != nil {
		half = narrow.DType
	}
	if !gemm.ReadsHalves(dtype, half) {
		return 0
	}
	return half
}

// forEachMatrix calls visit with each matrix of an operand in each of its packed forms: the panels of the matrix, and
// its address in the operand. packed has the panels of all forms, stored as [form][matrix].
func forEachMatrix(forms []*Panels, packed []byte, operand *tensor.Tensor,
	visit func(p *Panels, panels []byte, matrix unsafe.Pointer)) {
	for _, p := range forms {
		size := p.DType.Size()
		for _, start := range p.Starts {
			matrixBytes := p.MatrixLen() * size
			visit(p, packed[:matrixBytes], unsafe.Add(operand.Pointer(), start*size))
			packed = packed[matrixBytes:]
		}
	}
}

// fill packs the matrix at src into dst. It checks the context after about elementsPerCheck elements: several panels,
// or a part of a panel.
func (p *Panels) fill(ctx context.Context, dst []byte, src unsafe.Pointer) {
	var terms []int
	if p.Terms != nil {
		terms = p.terms()
	}
	size := p.DType.Size()
	panelsPerCheck := max(1, elementsPerCheck/max(1, p.Width*p.Depth))
	termsPerCheck := elementsPerCheck / p.Width // terms of a part, if a panel is packed in parts
	for firstLane := 0; firstLane < p.Lanes; firstLane += panelsPerCheck * p.Width {
		interrupt.Check(ctx)
		lanes := min(panelsPerCheck*p.Width, p.Lanes-firstLane)
		panels, srcLanes := dst[firstLane*p.Depth*size:], unsafe.Add(src, firstLane*p.LaneStride*size)
		switch {
		case p.Terms != nil: // unevenly spaced terms
			for i := range kit.DivUp(lanes, p.Width) {
				p.FillPanel(ctx, terms, dst, src, firstLane/p.Width+i)
			}
		case panelsPerCheck == 1: // pack the panel in parts; k is the first term of a part
			for k := 0; k < p.Depth; k += termsPerCheck {
				interrupt.Check(ctx)
				gemm.PackPanels(p.DType, panels[k*p.Width*size:], p.Width, unsafe.Add(srcLanes, k*p.TermStride*size),
					min(termsPerCheck, p.Depth-k), lanes, p.TermStride, p.LaneStride)
			}
		default:
			gemm.PackPanels(p.DType, panels, p.Width, srcLanes, p.Depth, lanes, p.TermStride, p.LaneStride)
		}
	}
}

// FillPanel packs panel i of the matrix at src into dst. terms has the offset of each term from the start of its lane.
// In long panels, FillPanel checks the context and panics as [interrupt.Check] does.
func (p *Panels) FillPanel(ctx context.Context, terms []int, dst []byte, src unsafe.Pointer, i int) {
	firstLane, size := i*p.Width, p.DType.Size()
	dst = dst[firstLane*p.Depth*size:][:p.Width*p.Depth*size]
	lanes := min(p.Width, p.Lanes-firstLane)
	elem, packed := strided.MoverOf(size), unsafe.Pointer(unsafe.SliceData(dst))
	for k, filledElements := 0, 0; k < len(terms); { // filledElements since the last check
		termCount, step := evenPrefix(terms[k:])
		if filledElements += termCount * p.Width; filledElements >= elementsPerCheck {
			interrupt.Check(ctx)
			filledElements = 0
		}
		if lanes < p.Width { // the missing lanes of the last panel are 0
			clear(dst[k*p.Width*size:][:termCount*p.Width*size])
		}
		elem.CopyBlock(unsafe.Add(packed, k*p.Width*size), unsafe.Add(src, (firstLane*p.LaneStride+terms[k])*size),
			strided.Axis{N: lanes, Dst: size, Src: p.LaneStride * size},
			strided.Axis{N: termCount, Dst: p.Width * size, Src: step * size})
		k += termCount
	}
}

// evenPrefix returns the length and the spacing of an evenly spaced prefix of a list of offsets. The prefix is as long
// as possible, but at most maxLength, so that the elements of its terms stay in the caches. offsets must not be empty.
func evenPrefix(offsets []int) (count, spacing int) {
	const maxLength = 256
	if len(offsets) < 2 {
		return len(offsets), 0
	}
	count, spacing = 2, offsets[1]-offsets[0]
	for count < min(len(offsets), maxLength) && offsets[count]-offsets[count-1] == spacing {
		count++
	}
	return count, spacing
}

// elementsPerCheck is the number of elements that are packed between two checks of the context.
const elementsPerCheck = 1 << 17

// terms returns the offset of each term from the start of its lane.
func (p *Panels) terms() []int {
	if p.Terms != nil {
		return p.Terms()
	}
	list := make([]int, p.Depth)
	for k := range list {
		list[k] = k * p.TermStride
	}
	return list
}

// unpack is the inverse of fill.
func (p *Panels) unpack(dst unsafe.Pointer, src []byte) {
	terms, size := p.terms(), p.DType.Size()
	elem := strided.MoverOf(size)
	for firstLane := 0; firstLane < p.Lanes; firstLane += p.Width {
		panel, lanes := src[firstLane*p.Depth*size:][:p.Width*p.Depth*size], min(p.Width, p.Lanes-firstLane)
		for k, offset := range terms {
			elem.Row(unsafe.Add(dst, (firstLane*p.LaneStride+offset)*size), unsafe.Pointer(&panel[k*p.Width*size]),
				p.LaneStride*size, size, lanes)
		}
	}
}

// IsPackedIn reports whether operand i is packed in panels of the form that the kernel requires. required is nil if the
// kernel reads the operand in place. IsPackedIn returns false if the operand is not packed, or is packed as a dense
// copy. It fails if the operand has any other packed form.
func IsPackedIn(c *graph.Call, i int, required *Panels) (bool, error) {
	packed := c.Packed(i)
	switch {
	case packed == nil || packed.Format == denseFormat(packed.Meta.DType):
		return false, nil
	case required != nil && required.Format == packed.Format:
		return true, nil
	case required == nil:
		return false, fmt.Errorf("operand %d is packed as %s, but the kernel needs it unpacked", i, packed.Format)
	}
	return false, fmt.Errorf("operand %d is packed as %s, but the kernel needs %s", i, packed.Format, required.Format)
}
