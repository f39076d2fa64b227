package iter

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// maxRank bounds the rank of a value, to bound allocations.
const maxRank = 1 << 12

// ReduceMask marks the reduced dimensions of a value of some rank; an empty list means all (make_dim_mask). A negative
// dim counts from the end; for a 0-dim value dims 0 and -1 are valid. The errors are PyTorch's.
func ReduceMask(dims []int, rank int) ([]bool, error) {
	if rank < 0 || rank > maxRank {
		return nil, fmt.Errorf("a value of %d dimensions: want 0 to %d", rank, maxRank)
	}
	seen := make([]bool, max(rank, 1))
	for _, d := range dims {
		w, err := tensor.WrapDim(d, rank)
		if err != nil {
			return nil, err
		}
		if seen[w] {
			return nil, fmt.Errorf("dim %d appears multiple times in the list of dims", w)
		}
		seen[w] = true
	}
	if len(dims) == 0 {
		for d := range seen {
			seen[d] = true
		}
	}
	return seen[:rank], nil
}

// ReduceShape returns a shape without the marked dimensions or, with keepdim, with size 1 there (shape_from_dim_mask).
// It panics if mask and shape differ in length. For unknown sizes see [tensor.Type.Reduced].
func ReduceShape(shape []int, mask []bool, keepdim bool) []int {
	if len(mask) != len(shape) {
		panic(fmt.Sprintf("iter: ReduceShape of shape %s with %d marks", tensor.ListString(shape), len(mask)))
	}
	out := make([]int, 0, len(shape))
	for d, n := range shape {
		if !mask[d] {
			out = append(out, n)
		} else if keepdim {
			out = append(out, 1)
		}
	}
	return out
}

// ReduceOutput returns an output of shape [ReduceShape] in the form that a reduction takes: with the marked dimensions
// as size 1 and, if keepdim is false, stride 0 (review_reduce_result). It panics if the rank of out does not match
// mask.
func ReduceOutput(out tensor.Meta, mask []bool, keepdim bool) tensor.Meta {
	if keepdim {
		return out
	}
	if kept := countKept(mask); kept != len(out.Shape) || kept != len(out.Strides) {
		panic(fmt.Sprintf("iter: ReduceOutput of %v with a mask that keeps %d dimensions", out, kept))
	}
	out.Shape, out.Strides = unreduced(out.Shape, 1, mask), unreduced(out.Strides, 0, mask)
	return out
}

// ReduceOutputType is [ReduceOutput] for sizes that may be unknown.
func ReduceOutputType(out tensor.Type, mask []bool, keepdim bool) tensor.Type {
	if keepdim {
		return out
	}
	if kept := countKept(mask); kept != len(out.Shape) || kept != len(out.Strides) {
		panic(fmt.Sprintf("iter: ReduceOutputType of %s with a mask that keeps %d dimensions", tensor.Sizes(out.Shape), kept))
	}
	out.Shape, out.Strides = unreduced(out.Shape, sym.Of(1), mask), unreduced(out.Strides, sym.Int{}, mask)
	return out
}

func countKept(mask []bool) int {
	kept := 0
	for _, reduced := range mask {
		if !reduced {
			kept++
		}
	}
	return kept
}

// unreduced inserts fill at the marked dimensions.
func unreduced[S any](kept []S, fill S, mask []bool) []S {
	out := make([]S, len(mask))
	k := 0
	for d, reduced := range mask {
		if out[d] = fill; !reduced {
			out[d] = kept[k]
			k++
		}
	}
	return out
}

var errNilFold = errors.New("iter: a nil Fold")

// checkFold returns an error for an iteration that the Fold cannot reduce.
func (it *Iterator) checkFold(f *Fold) error {
	inputs := len(it.ops) - it.noutputs
	switch {
	case f == nil:
		return errNilFold
	case f.err != nil:
		return f.err
	case !it.flags.reduction:
		return fmt.Errorf("iter: the iteration is not marked as a reduction")
	case inputs != 1:
		return fmt.Errorf("iter: a reduction takes one input, the iteration has %d", inputs)
	case len(f.out) == 0:
		return fmt.Errorf("iter: the fold yields no result")
	case len(f.out) != it.noutputs:
		return fmt.Errorf("iter: a fold with %d results for an iteration with %d outputs", len(f.out), it.noutputs)
	case it.noutputs > axes.MaxOutputs:
		return fmt.Errorf("iter: a reduction with %d outputs; the limit is %d", it.noutputs, axes.MaxOutputs)
	}
	in := &it.ops[it.noutputs]
	if !widens(in.target, f.in) {
		return fmt.Errorf("iter: the fold takes %v, the iteration has input 0, %v, as %v", f.in, in.meta, in.target)
	}
	for i, d := range f.out {
		o := &it.ops[i]
		if o.isLaidOut() {
			return fmt.Errorf("iter: output %d of a reduction is undefined or has another shape; it must be given with the "+
				"shape of the result, and ResizeOutputs(false)", i)
		}
		if o.meta.DType != d && !storable(d, o.meta.DType) {
			return fmt.Errorf("result type %s can't be cast to the desired output type %s (output %d, %v)", d.TorchName(),
				o.meta.DType.TorchName(), i, o.meta)
		}
		for dim := range it.shape {
			if it.reduces(i, dim) != it.reduces(0, dim) {
				return fmt.Errorf("iter: dimension %d of shape %s is reduced in one output and kept in another: output 0, %v, "+
					"and output %d, %v",
					dim, tensor.ListString(it.shape), it.ops[0].meta, i, o.meta)
			}
		}
	}
	if it.accumulate && len(f.resume) != len(f.out) {
		return fmt.Errorf("iter: the iteration resumes from its outputs, the fold can resume from %d of "+
			"its %d results", len(f.resume), len(f.out))
	}
	return nil
}

// widens reports whether loops over d can take elements of dtype from: the same kind, and no narrower.
func widens(from, d tensor.DType) bool {
	switch {
	case from == d:
		return true
	case from.IsIntegral(true):
		return d.IsIntegral(false) && d.Size() >= from.Size()
	case from.IsFloat():
		return d.IsFloat() && d.Size() > from.Size()
	}
	return from.IsComplex() && d.IsComplex() && d.Size() > from.Size()
}

// storable reports whether results of dtype d may be written to an output of dtype to: narrowing is allowed, another
// kind is not, except that integers may become bool.
func storable(d, to tensor.DType) bool {
	return tensor.CanCast(d, to) || d.IsIntegral(true) && to.IsIntegral(true)
}
