package pool

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// foldReference is the reference implementation of poolings over the last len(axes) dimensions. shape is the shape of
// the result. The elements of one channel are a plane. Indices in the plane are row-major.
// A tap is an element of a window.
func foldReference(input *tensor.Tensor, shape []int, axes []geometry.Axis, fold foldSpec) []*tensor.Tensor {
	out := []*tensor.Tensor{tensor.Zeros(input.DType, shape...)}
	if fold.returnsIndices {
		out = append(out, tensor.Zeros(tensor.Int64, shape...))
	}
	leadDims := input.Rank() - len(axes)
	sizes := input.Shape[leadDims:]
	kit.EachIndex(shape, func(index []int) {
		counts := make([]int, len(axes)) // the taps of the window in each dimension
		start := 0                       // the index in the plane of the window's first element
		area := 1.0                      // the number of taps that an average counts
		for d := range axes {
			window := axes[d].WindowAt(index[leadDims+d])
			counts[d] = window.Count()
			start = start*sizes[d] + window.Start
			area *= fold.averageCount(window)
		}
		tapIndex, folded := slices.Clone(index), newFoldedWindow(input.DType, start)
		kit.EachIndex(counts, func(tap []int) {
			planeIndex := 0
			for d := range axes {
				window := axes[d].WindowAt(index[leadDims+d])
				tapIndex[leadDims+d] = window.Start + tap[d]*window.Step
				planeIndex = planeIndex*sizes[d] + tapIndex[leadDims+d]
			}
			folded.add(input.At(tapIndex...), planeIndex, &fold)
		})
		out[0].Set(folded.result(&fold, max(area, 1)), index...) // the average of no elements is 0
		if fold.returnsIndices {
			out[1].Set(tensor.IntScalar(int64(folded.index)), index...)
		}
	})
	return out
}

// foldedWindow accumulates the elements of a window. Integer sums are exact.
type foldedWindow struct {
	isInteger bool          // whether elements are integers
	best      tensor.Scalar // maximum
	index     int           // index of the maximum in the plane
	sum       tensor.Scalar // sum, or sum of powers of a norm
}

// newFoldedWindow returns the state before the first element: the least value of the dtype as maximum, at index start,
// and the sum 0. start is the index in the plane at which the window begins. A window without elements returns start as
// the index.
func newFoldedWindow(dtype tensor.DType, start int) *foldedWindow {
	if !dtype.IsIntegral(true) { // true: Bool counts as an integer
		return &foldedWindow{best: tensor.FloatScalar(math.Inf(-1)), sum: tensor.FloatScalar(0), index: start}
	}
	lowest := int64(0)
	if dtype != tensor.Uint8 {
		lowest = -1 << (8*dtype.Size() - 1)
	}
	return &foldedWindow{isInteger: true, best: tensor.IntScalar(lowest), sum: tensor.IntScalar(0), index: start}
}

// add folds an element. index is its index in the plane.
func (w *foldedWindow) add(element tensor.Scalar, index int, fold *foldSpec) {
	if w.isInteger {
		if element.Int() > w.best.Int() {
			w.best, w.index = element, index
		}
		w.sum = tensor.IntScalar(w.sum.Int() + element.Int())
		return
	}
	x := element.Float()
	if x > w.best.Float() || x != x { // NaN replaces every maximum
		w.best, w.index = element, index
	}
	if fold.kind == reduceNorm {
		x = math.Pow(math.Abs(x), fold.exponent)
	}
	w.sum = tensor.FloatScalar(w.sum.Float() + x)
}

// result returns the element of the result. area is the number of taps that an average counts (foldSpec.averageCount).
// If fold.divisor is set, averages use it instead of area.
func (w *foldedWindow) result(fold *foldSpec, area float64) tensor.Scalar {
	switch {
	case fold.kind == reduceMax:
		return w.best
	case fold.kind == reduceNorm:
		return tensor.FloatScalar(math.Pow(w.sum.Float(), 1/fold.exponent))
	case w.isInteger:
		return tensor.IntScalar(w.sum.Int() / divisorOf[int64](fold, area))
	}
	return tensor.FloatScalar(w.sum.Float() / divisorOf[float64](fold, area))
}
