package multiply

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Panels is the form in which the matrix engine wants the constant side of a product: matrices of an
// operand, each cut into panels of Width lanes (rows of A, columns of B), in which the elements of one
// depth are side by side.
type Panels struct {
	Form   string // as in [graph.Packing]
	Width  int
	Lanes  int
	Starts []int // where each matrix begins in the operand
	Lane   int   // from one lane to the next; all steps count elements
	// Terms lists the steps by depth; nil: they are even. It is called by who packs or unpacks: to ask for the form
	// alone costs nothing.
	Terms func() []int
	Depth int
	Step  int // of even ones
}

// Each is the elements that one matrix takes.
func (p *Panels) Each() int { return kit.Times(kit.DivUp(p.Lanes, p.Width), p.Width, p.Depth) }

// terms are the steps by depth.
func (p *Panels) terms() []int {
	if p.Terms != nil {
		return p.Terms()
	}
	list := make([]int, p.Depth)
	for k := range list {
		list[k] = k * p.Step
	}
	return list
}

// FillPanel fills panel i of a matrix that begins at src. dst holds the matrix; terms are the steps by depth.
func FillPanel[T gemm.Number](p *Panels, terms []int, dst []T, src unsafe.Pointer, i int) {
	first := i * p.Width
	dst = dst[first*p.Depth:][:p.Width*p.Depth]
	lanes := min(p.Width, p.Lanes-first)
	if lanes < p.Width {
		clear(dst)
	}
	e, size := strided.Move(int(unsafe.Sizeof(dst[0]))), int(unsafe.Sizeof(dst[0]))
	to := unsafe.Pointer(unsafe.SliceData(dst))
	for k := 0; k < len(terms); {
		n, step := evenSteps(terms[k:])
		e.Block(unsafe.Add(to, k*p.Width*size), kit.Elem[T](src, first*p.Lane+terms[k]),
			strided.Axis{N: lanes, Dst: size, Src: p.Lane * size},
			strided.Axis{N: n, Dst: p.Width * size, Src: step * size})
		k += n
	}
}

// evenSteps returns how many steps at the beginning of a list, of which there is one at least, are as far apart as the
// first two, and how far that is. More than the caches that are near hold are left to another time.
func evenSteps(steps []int) (n, apart int) {
	const most = 256
	if len(steps) < 2 {
		return len(steps), 0
	}
	n, apart = 2, steps[1]-steps[0]
	for n < min(len(steps), most) && steps[n]-steps[n-1] == apart {
		n++
	}
	return n, apart
}

// filledElements is about how many elements of panels are filled between two looks at the context.
const filledElements = 1 << 20

// fillMatrix fills all panels of a matrix. Even steps are the engine's own.
func fillMatrix[T gemm.Number](ctx context.Context, p *Panels, dst []T, src unsafe.Pointer) {
	var terms []int
	if p.Terms != nil {
		terms = p.terms()
	}
	panels := max(1, filledElements/max(1, p.Width*p.Depth))
	for first := 0; first < p.Lanes; first += panels * p.Width {
		ends.Look(ctx)
		lanes := min(panels*p.Width, p.Lanes-first)
		to, from := dst[first*p.Depth:], kit.Elem[T](src, first*p.Lane)
		switch {
		case p.Terms != nil:
			for i := range kit.DivUp(lanes, p.Width) {
				FillPanel(p, terms, dst, src, first/p.Width+i)
			}
		case p.Width == gemm.PanelRows[T]():
			gemm.PackA(to, from, lanes, p.Depth, p.Lane, p.Step)
		default:
			gemm.PackPanels(to, p.Width, from, p.Depth, lanes, p.Step, p.Lane)
		}
	}
}

// unpackMatrix is the inverse of fillMatrix.
func unpackMatrix[T gemm.Number](p *Panels, dst unsafe.Pointer, src []T) {
	terms := p.terms()
	for l := range p.Lanes {
		at := l/p.Width*p.Width*p.Depth + l%p.Width
		for k, step := range terms {
			*(*T)(kit.Elem[T](dst, l*p.Lane+step)) = src[at+k*p.Width]
		}
	}
}

// PackingOf is the form of an operand whose kernel computes in dtype d, that of T: lists of panels one
// after another.
func PackingOf[T gemm.Number](d tensor.DType, list ...*Panels) graph.Packing {
	pk := graph.Packing{DType: d}
	for i, p := range list {
		if i > 0 {
			pk.Form += " and "
		}
		pk.Form, pk.Len = pk.Form+p.Form, pk.Len+kit.Times(p.Each(), len(p.Starts))
	}
	each := func(row *tensor.Tensor, f func(p *Panels, matrix []T, start int)) {
		all := kit.ElementsOf[T](row.Pointer(), pk.Len)
		for _, p := range list {
			for _, start := range p.Starts {
				f(p, all[:p.Each()], start)
				all = all[p.Each():]
			}
		}
	}
	pk.Fill = func(ctx context.Context, dst, src *tensor.Tensor) {
		if src.DType != d {
			src = kit.CopyTo(ctx, src, copies.DenseAs(src.Meta, d))
		}
		each(dst, func(p *Panels, to []T, start int) { fillMatrix(ctx, p, to, kit.Elem[T](src.Pointer(), start)) })
	}
	pk.Unpack = func(dst, packed *tensor.Tensor) {
		t := dst
		if dst.DType != d {
			t = tensor.Empty(copies.DenseAs(dst.Meta, d))
		}
		each(packed, func(p *Panels, from []T, start int) { unpackMatrix(p, kit.Elem[T](t.Pointer(), start), from) })
		if t != dst {
			tensor.CopyElements(dst, t)
		}
	}
	return pk
}

// InPanels reports whether operand i comes in the panels that are wanted of it. A kernel that wants
// none passes nil. The error tells of another form.
func InPanels(c *graph.Call, i int, want *Panels) (bool, error) {
	is := c.Packed(i)
	switch {
	case is == nil || is.Form == denseForm(is.Meta.DType):
		return false, nil
	case want != nil && want.Form == is.Form:
		return true, nil
	case want == nil:
		return false, fmt.Errorf("operand %d is packed as %s, and is wanted in its own layout", i, is.Form)
	}
	return false, fmt.Errorf("operand %d is packed as %s, and is wanted as %s", i, is.Form, want.Form)
}

// MatrixPanels are the panels of one side of a product, of lanes by depth elements, whose entries begin
// at offsets: each distinct matrix is packed once.
func MatrixPanels(d tensor.DType, width, lanes, lane, depth, step int, offsets []int) *Panels {
	p := &Panels{Width: width, Lanes: lanes, Lane: lane, Depth: depth, Step: step, Starts: []int{0}}
	p.Form = fmt.Sprintf("%v panels of %d of %dx%d by %d,%d", d, width, lanes, depth, lane, step)
	if offsets != nil {
		p.Starts = slices.Compact(slices.Sorted(slices.Values(offsets)))
		p.Form += fmt.Sprintf(" at %s", startsText(p.Starts))
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

// Places returns where the packed matrices of entries lie whose offsets in the operand are these.
func (p *Panels) Places(offsets []int) []int {
	if offsets == nil {
		return nil
	}
	out := make([]int, len(offsets))
	for e, o := range offsets {
		i, _ := slices.BinarySearch(p.Starts, o)
		out[e] = i * p.Each()
	}
	return out
}
