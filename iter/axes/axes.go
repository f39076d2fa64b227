// Package axes walks one operand and a few outputs along dimensions of two kinds: kept
// ones, which tell the results apart, and others, which a result is made of. It is what
// reductions in package iter stand on, and are used by kernels that work line by line, such as
// a running sum or softmax.
//
// [Dims] turns metas into axes, [Split] sorts them into the two kinds and merges those that
// form one run, a [Walker] visits the positions, a [Loader] brings runs of elements into
// blocks of the dtype that loops take.
package axes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// MaxOutputs is the number of outputs that an Axis has room for. It is fixed so that walks
// need no memory of their own.
const MaxOutputs = 4

// Axis is a dimension of a walk, with the steps in bytes of the operand and of each
// output.
type Axis struct {
	N, In int
	Out   [MaxOutputs]int
}

// Dims returns the dimensions of an operand, in their order. The outputs have its shape; a
// dimension that is repeated there has stride 0. It panics on more than MaxOutputs outputs,
// and on metas of different ranks.
func Dims(in tensor.Meta, outs ...tensor.Meta) []Axis {
	if len(outs) > MaxOutputs {
		panic(fmt.Sprintf("axes: %d outputs; %d are the most", len(outs), MaxOutputs))
	}
	for _, m := range append([]tensor.Meta{in}, outs...) {
		if len(m.Strides) != len(in.Shape) {
			panic(fmt.Sprintf("axes: %v beside an operand of rank %d", m, len(in.Shape)))
		}
	}
	dims := make([]Axis, len(in.Shape))
	for d, n := range in.Shape {
		dims[d] = Axis{N: n, In: in.Strides[d] * in.DType.Size()}
		for i, o := range outs {
			dims[d].Out[i] = o.Strides[d] * o.DType.Size()
		}
	}
	return dims
}

// Split splits dimensions, slowest first, into those not marked and the marked ones,
// fastest in the operand first, neighbours that form one run merged. With inOrder the
// marked ones stay in order, so that the position of an element in a walk over them is its
// logical index. There is at least one axis of each kind, of size 1 if need be. It panics
// where marked has another length than dims.
func Split(dims []Axis, marked []bool, inOrder bool) (kept, along []Axis) {
	if len(marked) != len(dims) {
		panic(fmt.Sprintf("axes: %d marks for %d dimensions", len(marked), len(dims)))
	}
	for d, a := range slices.Backward(dims) {
		if marked[d] {
			along = append(along, a)
		} else {
			kept = append(kept, a)
		}
	}
	byStride := func(a, b Axis) int { return a.In - b.In }
	slices.SortStableFunc(kept, byStride)
	if !inOrder {
		slices.SortStableFunc(along, byStride)
	}
	return merge(kept), merge(along)
}

// merge drops dimensions of size 1 and merges those that form one run. There is
// always one left.
func merge(v []Axis) []Axis {
	out := make([]Axis, 0, max(len(v), 1))
	for _, a := range v {
		if a.N == 1 {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].continues(&a) {
			out[k].N *= a.N
			continue
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		out = append(out, Axis{N: 1})
	}
	return out
}

// continues reports whether next goes on where the axis ends.
func (a *Axis) continues(next *Axis) bool {
	same := a.N*a.In == next.In
	for i, step := range a.Out {
		same = same && a.N*step == next.Out[i]
	}
	return same
}

// Numel returns the number of positions.
func Numel(v []Axis) int {
	n := 1
	for _, a := range v {
		n *= a.N
	}
	return n
}

// Walker runs over the positions of some axes in order, the first axis fastest. At is its
// counter, a number for each axis; Off and Out are the bytes from the first position.
type Walker struct {
	Axes []Axis
	At   []int
	Off  int // in the operand
	Out  [MaxOutputs]int
}

// Seek goes to position i, which must be one of the axes'. At must have a number for each axis, or it panics.
func (w *Walker) Seek(i int) {
	w.Off, w.Out = 0, [MaxOutputs]int{}
	for d := range w.Axes {
		a := &w.Axes[d]
		k := i
		if d < len(w.Axes)-1 && a.N > 0 { // of the last axis the rest is the place, without a division
			k = i % a.N
			i /= a.N
		}
		w.At[d] = k
		w.Off += k * a.In
		for o := range w.Out {
			w.Out[o] += k * a.Out[o]
		}
	}
}

// Next advances by one position, in the operand only.
func (w *Walker) Next() {
	for d := range w.Axes {
		a := &w.Axes[d]
		w.Off += a.In
		if w.At[d]++; w.At[d] < a.N {
			return
		}
		w.Off -= a.N * a.In
		w.At[d] = 0
	}
}
