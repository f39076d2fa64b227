// Package axes visits the elements of one operand and a few outputs along two kinds of dimensions. Kept dimensions
// index the results. Each result is computed along the other dimensions, which are reduced or scanned. Reductions in
// package iter use this package. So do kernels that process lines, such as a running sum or softmax.
//
// [Dims] converts metas to axes. [Split] separates the two kinds, sorts axes by stride, and merges adjacent axes that
// one axis can replace. A [Walker] visits the positions. A run is a sequence of elements with a constant stride. A
// [Loader] copies runs into blocks of the loop's dtype. Sizes are in elements and strides in bytes.
//
// For example, a sum of a row-major [2, 3, 4] operand of float32 over its last two dimensions has one kept axis, of
// size 2 and stride 48, and one reduced axis, of size 12 and stride 4.
package axes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// MaxOutputs is the maximum number of outputs. The number is a constant, so that [Axis] and [Walker] can contain
// arrays, which need no allocation.
const MaxOutputs = 4

// Axis is a dimension of a walk, the loop nest over the kept or over the reduced dimensions.
type Axis struct {
	Size       int             // size in elements
	InStride   int             // stride of the operand in bytes
	OutStrides [MaxOutputs]int // strides of the outputs in bytes
}

// Dims returns the dimensions of an operand, in order, as axes. Outputs must have the operand's shape, with stride 0 in
// reduced dimensions. Dims panics if there are more than MaxOutputs outputs, or if metas have different ranks.
func Dims(input tensor.Meta, outs ...tensor.Meta) []Axis {
	if len(outs) > MaxOutputs {
		panic(fmt.Sprintf("axes: there are %d outputs: want at most %d", len(outs), MaxOutputs))
	}
	for _, meta := range append([]tensor.Meta{input}, outs...) {
		if len(meta.Strides) != len(input.Shape) {
			panic(fmt.Sprintf("axes: %v has rank %d: want %d, the rank of the operand", meta, len(meta.Strides),
				len(input.Shape)))
		}
	}
	dims := make([]Axis, len(input.Shape))
	for d, n := range input.Shape {
		dims[d] = Axis{Size: n, InStride: input.Strides[d] * input.DType.Size()}
		for i, output := range outs {
			dims[d].OutStrides[i] = output.Strides[d] * output.DType.Size()
		}
	}
	return dims
}

// Split divides dimensions, given slowest first, into kept and reduced axes, fastest first. It sorts both lists by
// ascending stride of the operand, and merges adjacent axes if one axis can replace them. If inOrder is set, it does
// not sort the reduced axes: a position in a walk along them is then the logical index. Each list has at least one
// axis, of size 1 if necessary. Split panics if reducedDims and dims differ in length.
func Split(dims []Axis, reducedDims []bool, inOrder bool) (kept, reduced []Axis) {
	if len(reducedDims) != len(dims) {
		panic(fmt.Sprintf("axes: reducedDims has %d elements: want %d, one for each dimension", len(reducedDims),
			len(dims)))
	}
	for dim, axis := range slices.Backward(dims) {
		if reducedDims[dim] {
			reduced = append(reduced, axis)
		} else {
			kept = append(kept, axis)
		}
	}
	byStride := func(a, b Axis) int { return a.InStride - b.InStride }
	sorted.Func(kept, byStride)
	if !inOrder {
		sorted.Func(reduced, byStride)
	}
	return merge(kept), merge(reduced)
}

// merge removes axes of size 1, and merges adjacent axes that one axis can replace. The result has at least one axis.
func merge(axes []Axis) []Axis {
	out := make([]Axis, 0, max(len(axes), 1))
	for _, axis := range axes {
		if axis.Size == 1 {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].canMerge(&axis) {
			out[k].Size *= axis.Size
			continue
		}
		out = append(out, axis)
	}
	if len(out) == 0 {
		out = append(out, Axis{Size: 1})
	}
	return out
}

// canMerge reports whether one axis can replace a and `next`, the next slower axis. This is possible if a step along
// `next` equals a.Size steps along a, for the operand and all outputs.
func (a *Axis) canMerge(next *Axis) bool {
	mergeable := a.Size*a.InStride == next.InStride
	for i, step := range a.OutStrides {
		mergeable = mergeable && a.Size*step == next.OutStrides[i]
	}
	return mergeable
}

// Numel returns the number of positions.
func Numel(axes []Axis) int {
	count := 1
	for _, axis := range axes {
		count *= axis.Size
	}
	return count
}

// Walker visits the positions of some axes in order. The index along the first axis changes fastest. The zero value of
// Offset and OutOffsets is the first position.
type Walker struct {
	Axes       []Axis
	Index      []int           // by axis: the index of the current position
	Offset     int             // byte offset of the current position in the operand
	OutOffsets [MaxOutputs]int // by output: byte offset of the position after the last Seek
}

// Seek moves to position i, which must be in range. Index must have an element for each axis, or it panics.
func (w *Walker) Seek(i int) {
	w.Offset, w.OutOffsets = 0, [MaxOutputs]int{}
	for dim := range w.Axes {
		axis := &w.Axes[dim]
		index := i
		if dim < len(w.Axes)-1 && axis.Size > 0 { // the last axis needs no division
			index = i % axis.Size
			i /= axis.Size
		}
		w.Index[dim] = index
		w.Offset += index * axis.InStride
		for output := range w.OutOffsets {
			w.OutOffsets[output] += index * axis.OutStrides[output]
		}
	}
}

// Next advances by one position. It updates Index and Offset, but not OutOffsets.
func (w *Walker) Next() {
	for dim := range w.Axes {
		axis := &w.Axes[dim]
		w.Offset += axis.InStride
		if w.Index[dim]++; w.Index[dim] < axis.Size {
			return
		}
		w.Offset -= axis.Size * axis.InStride // go back to index 0, and continue with the next axis
		w.Index[dim] = 0
	}
}
