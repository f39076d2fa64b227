package iter

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/iter/axes"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// maxRank bounds the dimensions of a value: no graph has as many.
const maxRank = 1 << 12

// ReduceMask marks the reduced dimensions of a value of some rank; no dims means all
// (make_dim_mask). A negative dim counts from the end; a 0-dim value takes the dims 0 and
// -1. The errors are PyTorch's.
func ReduceMask(dims []int, rank int) ([]bool, error) {
	if rank < 0 || rank > maxRank {
		return nil, fmt.Errorf("a value of %d dimensions: want from 0 to %d", rank, maxRank)
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

// ReduceShape returns the shape that is left of a shape without the marked dimensions, or,
// with keepdim, with size 1 there (shape_from_dim_mask). It panics where mask is not as long
// as shape. Of sizes that may be unknown [tensor.Type.Reduced] makes a type.
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

// ReduceOutput returns an output of [ReduceShape] as a reduction takes it: with the marked
// dimensions, which have size 1, and stride 0 where keepdim left them out
// (review_reduce_result). It panics where out has not as many dimensions as mask leaves.
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

// unreduced puts fill at the marked dimensions.
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

// checkFold refuses iterations that are no reduction by a Fold.
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
		return fmt.Errorf("iter: a reduction with %d outputs; %d are the most", it.noutputs, axes.MaxOutputs)
	}
	in := &it.ops[it.noutputs]
	if !widens(in.target, f.in) {
		return fmt.Errorf("iter: the fold takes %v, the iteration has input 0, %v, as %v", f.in, in.meta, in.target)
	}
	for i, d := range f.out {
		o := &it.ops[i]
		if o.isLaidOut() {
			return fmt.Errorf("iter: output %d of a reduction would be laid out anew; it must be given with the shape of the "+
				"result, and ResizeOutputs(false)", i)
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
		return fmt.Errorf("iter: the iteration goes on from what its outputs hold, the fold has a way back from %d of "+
			"its %d results", len(f.resume), len(f.out))
	}
	return nil
}

// widens reports whether loops over d can take elements of dtype from: of the same kind,
// and no narrower.
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

// storable reports whether results of dtype d may be written to an output of dtype to:
// narrowing is allowed, another kind is not, but for integers, which may become bool.
func storable(d, to tensor.DType) bool {
	return tensor.CanCast(d, to) || d.IsIntegral(true) && to.IsIntegral(true)
}
