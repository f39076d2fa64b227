package strided

import (
	"slices"
	"unsafe"
)

// Run copies without a [Copy] plan, in this goroutine. It takes the same axes as [New], and sorts and coalesces them in
// place.
func (e Elem) Run(dst, src unsafe.Pointer, axes []Axis) {
	if isEmpty(axes) {
		return
	}
	switch axes = Coalesce(axes); {
	case len(axes) == 0:
		e.Row(dst, src, 0, 0, 1)
		return
	case len(axes) == 1:
		e.Row(dst, src, axes[0].Dst, axes[0].Src, axes[0].N)
		return
	case len(axes) == 2 && axes[0].N*axes[1].N <= maxUnplannedElems:
		e.CopyBlock(dst, src, axes[0], axes[1])
		return
	}
	plan := Copy{elem: e}
	plan.addOuter(plan.chooseTiles(axes))
	var scratch []byte
	if size := plan.ScratchBytes(); size > 0 {
		words := make([]uint64, (size+7)/8) // aligned to 8 bytes
		scratch = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
	}
	plan.Run(dst, src, scratch, 0, plan.tileCount)
}

// maxUnplannedElems is the number of elements up to which a copy is faster without tiles.
const maxUnplannedElems = 1024

// isEmpty reports whether there are no elements. dst and src may then be nil, so callers must not compute addresses.
func isEmpty(axes []Axis) bool {
	return slices.ContainsFunc(axes, func(x Axis) bool { return x.N == 0 })
}

// InOrder copies in the order of the axes; the last axis changes fastest. If several elements of dst have the same
// address, the last one written remains.
func (e Elem) InOrder(dst, src unsafe.Pointer, axes []Axis) {
	if isEmpty(axes) {
		return
	}
	switch len(axes) {
	case 0:
		e.Row(dst, src, 0, 0, 1)
	case 1:
		e.Row(dst, src, axes[0].Dst, axes[0].Src, axes[0].N)
	default:
		for i := range axes[0].N {
			e.InOrder(unsafe.Add(dst, i*axes[0].Dst), unsafe.Add(src, i*axes[0].Src), axes[1:])
		}
	}
}
