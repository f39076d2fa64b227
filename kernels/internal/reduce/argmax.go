package reduce

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Argmax gives the index of the first greatest element, and Argmin the index of the first least element. For example,
// the argmax of [1 3 3] is 1. Functions for both ops call the greatest or least element the best ([bestElement]).
var (
	Argmax = argOp("argmax", "Returns the index of the first greatest element along a dimension, or of all elements. "+
		"NaN counts as greater than all numbers.", true)
	Argmin = argOp("argmin", "Returns the index of the first least element along a dimension, or of all elements. "+
		"NaN counts as less than all numbers.", false)
)

// argOp defines argmax if isMax is set, else argmin.
func argOp(name, doc string, isMax bool) *graph.Op {
	return folds.Define(graph.SchemaOf[*argmaxAttrs](), graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc,
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{FlopsPerElement: graph.ElementFlops{Simple: 3.5}},
	}, func(c *graph.Call) (folds.Spec, error) {
		attrs, self := kit.Attrs[*argmaxAttrs](c), c.Type(0)
		if err := checkNonEmptyDim(name, self, attrs.Dim, ""); err != nil {
			return folds.Spec{}, err
		}
		mask, err := folds.MaskOfDim(attrs.Dim, self.Rank())
		dtype := self.DType
		isUnsupported := dtype == tensor.Bool || dtype.IsComplex() || dtype.IsBareUnsigned()
		if isUnsupported {
			// Like PyTorch, accept these dtypes if no elements are compared: the operand is empty, or a row has one
			// element.
			if err == nil && !kit.IsEmpty(self) && !isDimOfSizeOne(self, mask, attrs.Dim) {
				err = kit.NotImplemented(name, dtype)
			}
			dtype = tensor.Float64 // any dtype works, because at most one element is reduced
		}
		return folds.Spec{Mask: mask, Keepdim: attrs.Keepdim, Cast: dtype, Outs: []tensor.DType{tensor.Int64},
			Computation: func() folds.Computation { return bestComputation(dtype, isMax, onlyIndex) }}, err
	})
}

// isDimOfSizeOne reports whether dim is given and has size 1. PyTorch then returns index 0 and does not check the
// dtype. mask marks dim.
func isDimOfSizeOne(self tensor.Type, mask []bool, dim *int) bool {
	return dim != nil && self.Rank() > 0 && kit.SizeIs(folds.SymbolicCount(self.Shape, mask), 1)
}
