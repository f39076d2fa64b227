package pool

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// poolReference is the reference implementation of poolings over the last len(axes) dimensions. shape is the shape of
// the result.
func poolReference(input *tensor.Tensor, shape []int, axes []geometry.Axis, fold poolFold) []*tensor.Tensor {
	out := []*tensor.Tensor{tensor.Zeros(input.DType, shape...)}
	if fold.indices {
		out = append(out, tensor.Zeros(tensor.Int64, shape...))
	}
	lead := input.Rank() - len(axes)
	sizes := input.Shape[lead:]
	kit.EachIndex(shape, func(index []int) {
		counts, start, area := make([]int, len(axes)), 0, 1.0
		for d := range axes {
			w := axes[d].WindowAt(index[lead+d])
			counts[d], start, area = w.Count(), start*sizes[d]+w.Start, area*fold.averageCount(w)
		}
		src, folded := slices.Clone(index), newFoldedWindow(input.DType, start)
		kit.EachIndex(counts, func(tap []int) {
			at := 0
			for d := range axes {
				r := axes[d].WindowAt(index[lead+d])
				src[lead+d] = r.Start + tap[d]*r.Step
				at = at*sizes[d] + src[lead+d]
			}
			folded.add(input.At(src...), at, &fold)
		})
		out[0].Set(folded.result(&fold, max(area, 1)), index...)
		if fold.indices {
			out[1].Set(tensor.IntScalar(int64(folded.index)), index...)
		}
	})
	return out
}

// foldedWindow accumulates the elements of a window. Integer sums are exact.
type foldedWindow struct {
	integers bool          // whether elements are integers
	best     tensor.Scalar // maximum
	index    int           // index of the maximum in the plane
	sum      tensor.Scalar // sum, or sum of powers of a norm
}

// newFoldedWindow returns the fold of an empty window that begins at index start of the plane.
func newFoldedWindow(d tensor.DType, start int) *foldedWindow {
	if !d.IsIntegral(true) {
		return &foldedWindow{best: tensor.FloatScalar(math.Inf(-1)), sum: tensor.FloatScalar(0), index: start}
	}
	lowest := int64(0)
	if d != tensor.Uint8 {
		lowest = -1 << (8*d.Size() - 1)
	}
	return &foldedWindow{integers: true, best: tensor.IntScalar(lowest), sum: tensor.IntScalar(0), index: start}
}

// add folds an element with its index in the plane.
func (w *foldedWindow) add(element tensor.Scalar, index int, fold *poolFold) {
	if w.integers {
		if element.Int() > w.best.Int() {
			w.best, w.index = element, index
		}
		w.sum = tensor.IntScalar(w.sum.Int() + element.Int())
		return
	}
	x := element.Float()
	if x > w.best.Float() || x != x {
		w.best, w.index = element, index
	}
	if fold.kind == poolNorm {
		x = math.Pow(math.Abs(x), fold.exponent)
	}
	w.sum = tensor.FloatScalar(w.sum.Float() + x)
}

// result returns the element of the result for a window of the given area.
func (w *foldedWindow) result(fold *poolFold, area float64) tensor.Scalar {
	switch {
	case fold.kind == poolMax:
		return w.best
	case fold.kind == poolNorm:
		return tensor.FloatScalar(math.Pow(w.sum.Float(), 1/fold.exponent))
	case w.integers:
		return tensor.IntScalar(w.sum.Int() / divisorOf[int64](fold, area))
	}
	return tensor.FloatScalar(w.sum.Float() / divisorOf[float64](fold, area))
}
