package rule

import (
	"fmt"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// maxRank bounds the rank of a value, and thereby the memory of a mask.
const maxRank = 1 << 12

// ReduceMask returns, for each dimension of a value, whether it is reduced (make_dim_mask). dims lists the reduced
// dimensions; an empty list means all dimensions. A negative dimension counts from the end. For a 0-dim value, 0 and -1
// are valid. The errors are PyTorch's.
func ReduceMask(dims []int, rank int) ([]bool, error) {
	if rank < 0 || rank > maxRank {
		return nil, fmt.Errorf("the value has %d dimensions: want 0 to %d", rank, maxRank)
	}
	mask := make([]bool, max(rank, 1))
	for _, d := range dims {
		dim, err := tensor.WrapDim(d, rank)
		if err != nil {
			return nil, err
		}
		if mask[dim] {
			return nil, fmt.Errorf("dim %d appears multiple times in the list of dims", dim)
		}
		mask[dim] = true
	}
	if len(dims) == 0 {
		for d := range mask {
			mask[d] = true
		}
	}
	return mask[:rank], nil
}

// ReduceShape returns a shape without the dimensions that mask marks (shape_from_dim_mask). If keepdim is set, these
// dimensions instead have size 1. It panics if mask and shape differ in length. [tensor.Type.Reduced] is the function
// for symbolic sizes.
func ReduceShape(shape []int, mask []bool, keepdim bool) []int {
	if len(mask) != len(shape) {
		panic(fmt.Sprintf("iter: ReduceShape: shape %s and a mask of %d elements differ in length",
			tensor.ListString(shape), len(mask)))
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

// ReduceOutput returns a view of the output of a reduction, as [Reduction] requires: the view has the rank of the
// operand. If keepdim is false, it adds the reduced dimensions with size 1 and stride 0 (review_reduce_result). out has
// the shape that [ReduceShape] returns. It panics if the rank of out does not match mask.
func ReduceOutput(out tensor.Meta, mask []bool, keepdim bool) tensor.Meta {
	if keepdim {
		return out
	}
	if kept := countKept(mask); kept != len(out.Shape) || kept != len(out.Strides) {
		panic(fmt.Sprintf("iter: ReduceOutput: the rank of %v differs from the rank that the mask requires, %d", out, kept))
	}
	out.Shape, out.Strides = unreduced(out.Shape, 1, mask), unreduced(out.Strides, 0, mask)
	return out
}

// ReduceOutputType is [ReduceOutput] for sizes that may be symbolic.
func ReduceOutputType(out tensor.Type, mask []bool, keepdim bool) tensor.Type {
	if keepdim {
		return out
	}
	if kept := countKept(mask); kept != len(out.Shape) || kept != len(out.Strides) {
		panic(fmt.Sprintf("iter: ReduceOutputType: the rank of %s differs from the rank that the mask requires, %d",
			tensor.Sizes(out.Shape), kept))
	}
	out.Shape, out.Strides = unreduced(out.Shape, sym.Of(1), mask), unreduced(out.Strides, sym.Int{}, mask)
	return out
}

// countKept returns the number of dimensions that are not reduced.
func countKept(mask []bool) int {
	kept := 0
	for _, isReduced := range mask {
		if !isReduced {
			kept++
		}
	}
	return kept
}

// unreduced returns a list with an entry for each dimension of mask. The entry is `fill` if mask marks the dimension as
// reduced, else the next entry of `kept`.
func unreduced[S any](kept []S, fill S, mask []bool) []S {
	out := make([]S, len(mask))
	k := 0
	for d, isReduced := range mask {
		if isReduced {
			out[d] = fill
			continue
		}
		out[d] = kept[k]
		k++
	}
	return out
}
