package kernels

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/tensor"
)

// panels is the form in which the matrix engine wants the constant side of a product: matrices of an
// operand, each cut into panels of width lanes (rows of A, columns of B), in which the elements of one
// depth stand side by side.
type panels struct {
	form   string // as in [graph.Packing]
	width  int
	lanes  int
	starts []int // where each matrix begins in the operand
	lane   int   // from one lane to the next; all steps count elements
	terms  []int // steps by depth; nil: they are even
	depth  int
	step   int // of even ones
}

// each is the elements that one matrix takes.
func (p *panels) each() int { return divUp(p.lanes, p.width) * p.width * p.depth }

// term is the step to depth k.
func (p *panels) term(k int) int {
	if p.terms == nil {
		return k * p.step
	}
	return p.terms[k]
}

// fillPanel fills panel i of a matrix that begins at src. dst holds the matrix.
func fillPanel[T gemm.Number](p *panels, dst []T, src unsafe.Pointer, i int) {
	first := i * p.width
	dst = dst[first*p.depth:][:p.width*p.depth]
	lanes := min(p.width, p.lanes-first)
	if lanes < p.width {
		clear(dst)
	}
	for l := range lanes {
		from, at := elem[T](src, (first+l)*p.lane), l
		for k := range p.depth {
			dst[at] = *(*T)(elem[T](from, p.term(k)))
			at += p.width
		}
	}
}

// fillMatrix fills all panels of a matrix. Even steps are the engine's own.
func fillMatrix[T gemm.Number](p *panels, dst []T, src unsafe.Pointer) {
	switch {
	case p.terms == nil && p.width == gemm.PanelCols[T]():
		gemm.PackB(dst, src, p.depth, p.lanes, p.step, p.lane)
	case p.terms == nil && p.width == gemm.PanelRows[T]():
		gemm.PackA(dst, src, p.lanes, p.depth, p.lane, p.step)
	default:
		for i := range divUp(p.lanes, p.width) {
			fillPanel(p, dst, src, i)
		}
	}
}

// unpackMatrix is the inverse of fillMatrix.
func unpackMatrix[T gemm.Number](p *panels, dst unsafe.Pointer, src []T) {
	for l := range p.lanes {
		at := l/p.width*p.width*p.depth + l%p.width
		for k := range p.depth {
			*(*T)(elem[T](dst, l*p.lane+p.term(k))) = src[at+k*p.width]
		}
	}
}

// packingOf is the form of an operand whose kernel computes in dtype d, that of T: lists of panels one
// after another.
func packingOf[T gemm.Number](d tensor.DType, list ...*panels) graph.Packing {
	pk := graph.Packing{DType: d}
	for i, p := range list {
		if i > 0 {
			pk.Form += " and "
		}
		pk.Form, pk.Len = pk.Form+p.form, pk.Len+p.each()*len(p.starts)
	}
	each := func(row *tensor.Tensor, f func(p *panels, matrix []T, start int)) {
		all := elementsOf[T](row.Pointer(), pk.Len)
		for _, p := range list {
			for _, start := range p.starts {
				f(p, all[:p.each()], start)
				all = all[p.each():]
			}
		}
	}
	pk.Fill = func(dst, src *tensor.Tensor) {
		if src.DType != d {
			src = src.CopyTo(denseAs(src.Meta, d))
		}
		each(dst, func(p *panels, to []T, start int) { fillMatrix(p, to, elem[T](src.Pointer(), start)) })
	}
	pk.Unpack = func(dst, packed *tensor.Tensor) {
		t := dst
		if dst.DType != d {
			t = tensor.Empty(denseAs(dst.Meta, d))
		}
		each(packed, func(p *panels, from []T, start int) { unpackMatrix(p, elem[T](t.Pointer(), start), from) })
		if t != dst {
			tensor.CopyElements(dst, t)
		}
	}
	return pk
}

// densePacking packs an operand as a dense copy in the dtype d in which its kernel computes.
func densePacking(m tensor.Meta, d tensor.DType) graph.Packing {
	dense := denseAs(m, d)
	as := func(row *tensor.Tensor) *tensor.Tensor { return tensor.Must(tensor.Over(dense, row.Storage())) }
	return graph.Packing{Form: denseForm(d), DType: d, Len: dense.Numel(),
		Fill:   func(dst, src *tensor.Tensor) { tensor.CopyElements(as(dst), src) },
		Unpack: func(dst, packed *tensor.Tensor) { tensor.CopyElements(dst, as(packed)) }}
}

func denseForm(d tensor.DType) string { return d.String() }

// packs returns the Pack of an implementation whose kernel is made by [converted]. form tells in which
// form it wants an operand of a call in the dtype in which it computes, and may be nil; other operands
// are converted ahead.
func packs(form func(c *graph.Call, i int) (graph.Packing, bool)) func(*graph.Call, int) (graph.Packing, bool) {
	return func(c *graph.Call, i int) (graph.Packing, bool) {
		d, m := computesIn(c), c.Meta(i)
		if c.Out[0].Numel() == 0 || m.Numel() == 0 {
			return graph.Packing{}, false
		}
		if form != nil {
			if p, ok := form(inDType(c, d), i); ok {
				return p, true
			}
		}
		if m.DType == d {
			return graph.Packing{}, false
		}
		return densePacking(m, d), true
	}
}

// computesIn is the dtype in which products compute a result. The and of bools is the product of numbers.
func computesIn(c *graph.Call) tensor.DType {
	if d := c.Out[0].DType.OpMath(); d != tensor.Bool {
		return d
	}
	return tensor.Uint8
}

// inPanels reports whether operand i comes in the panels that are wanted of it. A kernel that wants
// none passes nil. The error tells of another form.
func inPanels(c *graph.Call, i int, want *panels) (bool, error) {
	is := c.Packed(i)
	switch {
	case is == nil || is.Form == denseForm(is.Meta.DType):
		return false, nil
	case want != nil && want.form == is.Form:
		return true, nil
	case want == nil:
		return false, fmt.Errorf("operand %d is packed as %s, and is wanted as it lies", i, is.Form)
	}
	return false, fmt.Errorf("operand %d is packed as %s, and is wanted as %s", i, is.Form, want.form)
}

// engine is the matrix engine in one dtype.
type engine interface {
	contract(x *contraction, c *graph.Call) (*graph.Kernel, error)
	contractPacking(x *contraction, isA bool, d tensor.DType) (graph.Packing, bool)
	conv(s *convShape, a convAlgorithm) (*graph.Kernel, error)
	convPacking(s *convShape, a convAlgorithm, d tensor.DType) (graph.Packing, bool)
	convVolume(v *convVolume) (*graph.Kernel, error)
	convVolumePacking(v *convVolume, d tensor.DType) (graph.Packing, bool)
}

type engineOf[T gemm.Number] struct{}

// engines holds the dtypes that are multiplied. Inference lets the wider unsigned dtypes
// through only where there is nothing to multiply.
var engines = map[tensor.DType]engine{
	tensor.Uint8: engineOf[uint8]{}, tensor.Int8: engineOf[int8]{},
	tensor.Int16: engineOf[int16]{}, tensor.Int32: engineOf[int32]{}, tensor.Int64: engineOf[int64]{},
	tensor.Float32: engineOf[float32]{}, tensor.Float64: engineOf[float64]{},
	tensor.Complex64: engineOf[complex64]{}, tensor.Complex128: engineOf[complex128]{},
	tensor.Uint16: engineOf[uint16]{}, tensor.Uint32: engineOf[uint32]{}, tensor.Uint64: engineOf[uint64]{},
}

// engineFor returns the engine for a dtype; what is what it is wanted for.
func engineFor(d tensor.DType, what string) (engine, error) {
	if e := engines[d]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("no %s of %v", what, d)
}

func (engineOf[T]) contract(x *contraction, c *graph.Call) (*graph.Kernel, error) {
	return compileContraction[T](x, c)
}

func (engineOf[T]) contractPacking(x *contraction, isA bool, d tensor.DType) (graph.Packing, bool) {
	x.fold()
	p := contractionPanels[T](x, isA, d)
	if p == nil {
		return graph.Packing{}, false
	}
	return packingOf[T](d, p), true
}

func (engineOf[T]) conv(s *convShape, a convAlgorithm) (*graph.Kernel, error) {
	return lowerConv[T](s, a)
}

func (engineOf[T]) convPacking(s *convShape, a convAlgorithm, d tensor.DType) (graph.Packing, bool) {
	p := convPanels[T](s, a, d)
	if p == nil {
		return graph.Packing{}, false
	}
	return packingOf[T](d, p), true
}

func (engineOf[T]) convVolume(v *convVolume) (*graph.Kernel, error) { return convVolumes[T](v) }

func (engineOf[T]) convVolumePacking(v *convVolume, d tensor.DType) (graph.Packing, bool) {
	return packingOf[T](d, volumePanels[T](v, d)), true
}

// matrixPanels are the panels of one side of a product, of lanes by depth elements, whose entries begin
// at offsets: each distinct matrix is packed once.
func matrixPanels(d tensor.DType, width, lanes, lane, depth, step int, offsets []int) *panels {
	p := &panels{width: width, lanes: lanes, lane: lane, depth: depth, step: step, starts: []int{0}}
	p.form = fmt.Sprintf("%v panels of %d of %dx%d by %d,%d", d, width, lanes, depth, lane, step)
	if offsets != nil {
		p.starts = slices.Compact(slices.Sorted(slices.Values(offsets)))
		p.form += fmt.Sprintf(" at %s", startsText(p.starts))
	}
	return p
}

// startsText names offsets: by their number and distance where they are even, else one by one.
func startsText(starts []int) string {
	if len(starts) > 1 {
		by := starts[1] - starts[0]
		for i, s := range starts {
			if s != starts[0]+i*by {
				return tensor.ListString(starts)
			}
		}
		return fmt.Sprintf("%d+%dx%d", starts[0], len(starts), by)
	}
	return tensor.ListString(starts)
}

// places returns where the packed matrices of entries lie whose offsets in the operand are these.
func (p *panels) places(offsets []int) []int {
	if offsets == nil {
		return nil
	}
	out := make([]int, len(offsets))
	for e, o := range offsets {
		i, _ := slices.BinarySearch(p.starts, o)
		out[e] = i * p.each()
	}
	return out
}
