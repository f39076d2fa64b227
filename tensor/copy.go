package tensor

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/strided"
)

// CopyTo returns a copy of the values with the layout and dtype of m, converted as
// [Convert] does. The shapes must be equal: it panics where [CopyElements] does.
func (t *Tensor) CopyTo(m Meta) *Tensor {
	m.Offset = 0
	t.must()
	sameShape(m, t.Meta)
	out := Empty(m)
	copyElements(out, t)
	return out
}

// CopyElements writes the values of src into dst, element by element in logical order,
// converted as [Converter] does. The shapes must be equal: it panics where they are not, or
// where either is nil or reaches outside its storage. Both may be in the same memory: the
// values are those that src had before. Where several elements of dst are one place in
// memory (a stride of 0), the last one stays.
func CopyElements(dst, src *Tensor) {
	dst.must()
	src.must()
	sameShape(dst.Meta, src.Meta)
	if dst.Numel() == 0 {
		return
	}
	if overlap(dst, src) && !dst.sameElements(src) {
		src = src.CopyTo(New(src.DType, src.Shape...))
	}
	copyElements(dst, src)
}

func sameShape(dst, src Meta) {
	if !slices.Equal(dst.Shape, src.Shape) {
		panic(fmt.Sprintf("tensor: values of shape %s cannot be copied to shape %s", ListString(src.Shape),
			ListString(dst.Shape)))
	}
}

// copyElements is CopyElements for tensors that were checked and do not overlap.
func copyElements(dst, src *Tensor) {
	if dst.Numel() == 0 {
		return
	}
	e := elemOf(dst.DType, src.DType)
	var few [8]strided.Axis
	axes := append(few[:0], make([]strided.Axis, dst.Rank())...)
	for d, n := range dst.Shape {
		axes[d] = strided.Axis{N: n, Dst: dst.Strides[d] * e.Dst, Src: src.Strides[d] * e.Src}
	}
	if dst.repeats() {
		e.InOrder(dst.Pointer(), src.Pointer(), axes)
		return
	}
	e.Run(dst.Pointer(), src.Pointer(), axes)
}

// elemOf returns how elements go from one dtype to another. Bools become 0 or 1, whatever
// byte they were.
func elemOf(dst, src DType) strided.Elem {
	if dst == src && dst != Bool {
		return strided.Move(dst.Size())
	}
	return strided.Convert(dst.Size(), src.Size(), Converter(dst, src))
}

// repeats reports whether several elements may be one place in memory.
func (m Meta) repeats() bool {
	for d, n := range m.Shape {
		// The furthest that the dimensions within this one reach.
		within := 0
		for k, s := range m.Strides {
			if s < m.Strides[d] || s == m.Strides[d] && k > d {
				within += (m.Shape[k] - 1) * s
			}
		}
		if n > 1 && m.Strides[d] <= within {
			return true
		}
	}
	return false
}

// sameElements reports whether every element of t is where that of o does, so that
// copying one after another reads each before it is written.
func (t *Tensor) sameElements(o *Tensor) bool {
	return t.Pointer() == o.Pointer() && t.DType.Size() == o.DType.Size() && t.SameAddresses(o.Meta)
}

// overlap reports whether the bytes from the first to the last element of a and of b have
// some in common. Storage is compared by address: two of them made of one slice
// ([FromSlice], [StorageOf]) are the same memory. Tensors that are between one another,
// such as the odd and the even columns of a matrix, overlap by this measure.
func overlap(a, b *Tensor) bool {
	if a == nil || b == nil {
		return false
	}
	alo, ahi := a.Span()
	blo, bhi := b.Span()
	return alo < bhi && blo < ahi
}

// Span returns the addresses of the first byte of the elements and of the one past the last;
// both are 0 without elements. They are for comparing, which is right as long
// as both tensors are alive. It panics where [Tensor.Pointer] does.
func (t *Tensor) Span() (from, to uintptr) {
	p := t.Pointer()
	if p == nil {
		return 0, 0
	}
	return uintptr(p), uintptr(p) + uintptr((t.Extent()-t.Offset)*t.DType.Size())
}
