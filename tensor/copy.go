package tensor

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/strided"
)

// CopyTo returns a copy of t with the strides and dtype of m, at offset 0. [Converter] defines the conversion. CopyTo
// panics if the shapes of t and m differ.
func (t *Tensor) CopyTo(m Meta) *Tensor {
	m.Offset = 0
	t.mustCheck()
	mustHaveSameShape(m, t.Meta)
	out := Empty(m)
	copyElements(out, t)
	out.SetTexts(t.Texts())
	return out
}

// CopyElements writes the values of src into dst, element by element in logical order. [Converter] defines the
// conversion. The tensors may share memory: the result is as if src were copied first. If several elements of dst share
// an address (a stride of 0), the last of these elements in logical order is kept. CopyElements panics if the shapes
// differ, or if a tensor is nil or reaches outside its storage.
func CopyElements(dst, src *Tensor) {
	dst.mustCheck()
	src.mustCheck()
	mustHaveSameShape(dst.Meta, src.Meta)
	if dst.Numel() == 0 {
		return
	}
	if rangesIntersect(dst, src) && !dst.sameElements(src) {
		src = src.CopyTo(New(src.DType, src.Shape...))
	}
	copyElements(dst, src)
}

// mustHaveSameShape panics if the shapes of dst and src differ.
func mustHaveSameShape(dst, src Meta) {
	if !slices.Equal(dst.Shape, src.Shape) {
		panic(fmt.Sprintf("tensor: values of shape %s cannot be copied to shape %s", ListString(src.Shape),
			ListString(dst.Shape)))
	}
}

// copyElements is CopyElements for checked tensors that do not overlap.
func copyElements(dst, src *Tensor) {
	if dst.Numel() == 0 {
		return
	}
	elem := elementConverter(dst.DType, src.DType)
	var buf [8]strided.Axis // avoids an allocation for ranks up to 8
	axes := append(buf[:0], make([]strided.Axis, dst.Rank())...)
	for d, n := range dst.Shape {
		axes[d] = strided.Axis{N: n, Dst: dst.Strides[d] * elem.DstSize,
			Src: src.Strides[d] * elem.SrcSize}
	}
	if dst.mayShareAddresses() { // the last element at an address must be written last
		elem.InOrder(dst.Pointer(), src.Pointer(), axes)
		return
	}
	elem.Run(dst.Pointer(), src.Pointer(), axes)
}

// elementConverter returns the strided.Elem that converts one element. It normalizes bools to 0 or 1.
func elementConverter(dst, src DType) strided.Elem {
	if dst == src && dst != Bool {
		return strided.MoverOf(dst.Size())
	}
	return strided.ConverterOf(dst.Size(), src.Size(), Converter(dst, src))
}

// mayShareAddresses reports whether several elements may share an address. It is conservative: a result of true may be
// wrong, but a result of false is always right.
func (m Meta) mayShareAddresses() bool {
	for dim, size := range m.Shape {
		// reach is the greatest offset, in elements, that the dimensions of smaller stride reach together. Of
		// dimensions with equal strides, the later one counts as smaller.
		reach := 0
		for k, s := range m.Strides {
			if s < m.Strides[dim] || s == m.Strides[dim] && k > dim {
				reach += (m.Shape[k] - 1) * s
			}
		}
		if size > 1 && m.Strides[dim] <= reach {
			return true
		}
	}
	return false
}

// sameElements reports whether the element of t and the element of other at each index have the same address. An
// element-by-element copy between such tensors reads each element before it overwrites the element.
func (t *Tensor) sameElements(other *Tensor) bool {
	return t.Pointer() == other.Pointer() && t.DType.Size() == other.DType.Size() && t.SameAddresses(other.Meta)
}

// rangesIntersect reports whether the address ranges [Tensor.Span] of a and b intersect. Ranges are compared by
// address, because two storages may have been made from the same slice ([FromSlice], [StorageOf]). Interleaved tensors,
// such as the odd and the even columns of a matrix, count as overlapping. [Overlap] is exact.
func rangesIntersect(a, b *Tensor) bool {
	if a == nil || b == nil {
		return false
	}
	aBegin, aEnd := a.Span()
	bBegin, bEnd := b.Span()
	return aBegin < bEnd && bBegin < aEnd
}

// Span returns the address of the first byte of the elements and the address after their last byte. Both are 0 for a
// tensor without elements. The addresses may be compared while the tensor is alive. Span panics where [Tensor.Pointer]
// does.
func (t *Tensor) Span() (from, to uintptr) {
	p := t.Pointer()
	if p == nil {
		return 0, 0
	}
	return uintptr(p), uintptr(p) + uintptr((t.Extent()-t.Offset)*t.DType.Size())
}
