package reduce

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type sumAttrs struct {
	Dim     []int        `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
	Keepdim bool         `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
	DType   tensor.DType `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

// Sum adds the elements over some dimensions.
//
// Floats are added in float64. In a sum of n elements, an element takes part in at most k additions. k is n/32 + 512,
// or n/1024 + 512 if the elements are in contiguous runs of at least 1024. The error is at most k*2^-53 times the sum
// of the magnitudes, plus the error of rounding to the dtype of the result. If the terms do not nearly cancel, results
// for 16-bit floats and float32 are within one rounding of the exact sum.
var Sum = folds.Define(graph.SchemaOf[*sumAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "sum",
	Doc:      "Adds up the elements over the given dimensions. Bools and integers give int64 unless `dtype` is given.",
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": []int{1}}}},
}}, func(c *graph.Call) (folds.Spec, error) {
	attrs, self := kit.Attrs[*sumAttrs](c), c.Type(0)
	mask, err := rule.ReduceMask(attrs.Dim, self.Rank())
	if err != nil {
		return folds.Spec{}, err
	}
	dtype := folds.SumDType(self.DType, attrs.DType)
	const divisor = 1
	return folds.Spec{Mask: mask, Keepdim: attrs.Keepdim, Cast: dtype, Outs: []tensor.DType{dtype},
		Computation: func() folds.Computation { return folds.Summing(dtype, divisor) }}, nil
})

// Mean averages the elements over some dimensions, with the error bounds of Sum.
var Mean = folds.Define(graph.SchemaOf[*sumAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "mean",
	Doc:      "Averages the elements over the given dimensions. Bools and integers need a float or complex `dtype`.",
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": []int{1}}}},
}}, func(c *graph.Call) (folds.Spec, error) {
	attrs, self := kit.Attrs[*sumAttrs](c), c.Type(0)
	dtype, source := self.DType, "Input"
	if attrs.DType != tensor.Invalid {
		dtype, source = attrs.DType, "Optional"
	}
	if !dtype.IsFloat() && !dtype.IsComplex() {
		return folds.Spec{}, fmt.Errorf("mean(): could not infer output dtype. %s dtype must be either a floating point or "+
			"complex dtype. Got: %s", source, dtype.TorchName())
	}
	mask, err := rule.ReduceMask(attrs.Dim, self.Rank())
	if err != nil {
		return folds.Spec{}, err
	}
	count := folds.SymbolicCount(self.Shape, mask)
	return folds.Spec{Mask: mask, Keepdim: attrs.Keepdim, Cast: dtype, Outs: []tensor.DType{dtype},
		Computation: func() folds.Computation { return folds.Summing(dtype, float64(kit.KnownSize(count))) }}, nil
})
