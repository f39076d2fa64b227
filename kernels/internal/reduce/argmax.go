package reduce

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/tensor"
)

type argmaxAttrs struct {
	Dim     *int `attr:"dim" default:"none" doc:"dimension to reduce; none: all, in row-major order"`
	Keepdim bool `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
}

// Argmax gives the index of the first greatest element, and Argmin the index of the first least element. For example,
// the argmax of [1 3 3] is 1. Functions for both call this element the best ([bestElement]).
var (
	Argmax = argOp("argmax", "Returns the index of the first greatest element along a dimension, or of all elements. "+
		"NaN counts as greater than all numbers.", true)
	Argmin = argOp("argmin", "Returns the index of the first least element along a dimension, or of all elements. "+
		"NaN counts as less than all numbers.", false)
)

// Max and Min give the extreme of all elements. With a dim, they give the extremes along this dimension and their
// indices. With a second tensor, they are the pointwise maximum and minimum.
var (
	Max = withPairwise(bestOp("max", "Returns the greatest of all elements. With `dim`, it returns the greatest "+
		"elements along a dimension and their indices; with `other`, the greater of self and `other` at each position, "+
		"as `maximum` does.", true), pointwise.Maximum)
	Min = withPairwise(bestOp("min", "Returns the least of all elements. With `dim`, it returns the least elements "+
		"along a dimension and their indices; with `other`, the lesser of self and `other` at each position, as "+
		"`minimum` does.", false), pointwise.Minimum)
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
			// Like PyTorch, accept these dtypes for results that need no comparison: no elements, or one element per row.
			if err == nil && !kit.IsEmpty(self) && !isDimOfSizeOne(self, mask, attrs.Dim) {
				err = kit.NotImplemented(name, dtype)
			}
			dtype = tensor.Float64 // any dtype works, because at most one element is reduced
		}
		return folds.Spec{Mask: mask, Keepdim: attrs.Keepdim, Cast: dtype, Outs: []tensor.DType{tensor.Int64},
			Computation: func() folds.Computation { return bestComputation(dtype, isMax, onlyIndex) }}, err
	})
}

// bestComputation returns the computation of the index of the best element of a row. If withValue is set, the element
// is the first result.
func bestComputation(dtype tensor.DType, isMax, withValue bool) folds.Computation {
	return folds.Computation{
		Fold:                   func() *iter.Fold { return bestFold(dtype, isMax, withValue) },
		UseFoldForUnsuitedRows: true,
		Row: func(builder *expr.Builder, x folds.Number) []folds.Number {
			return bestRow(builder, x.Re, isMax, withValue)
		},
		Ref: func(x []tensor.Scalar) []tensor.Scalar {
			i := refBestIndex(x, isMax)
			if withValue {
				return []tensor.Scalar{x[i], tensor.IntScalar(int64(i))}
			}
			return []tensor.Scalar{tensor.IntScalar(int64(i))}
		},
	}
}

// bestOp defines max if isMax is set, else min, for calls with one tensor. With a dim, the results are the best
// elements and their indices. Without a dim, the result is the value of the best element.
func bestOp(name, doc string, isMax bool) *graph.Op {
	in := []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}
	return folds.Define(graph.SchemaOf[*argmaxAttrs](), graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, VariadicResults: true,
			Examples: []graph.Example{{In: in}, {In: in, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{FlopsPerElement: graph.ElementFlops{Simple: 3.5}},
	}, func(c *graph.Call) (folds.Spec, error) {
		attrs, self := kit.Attrs[*argmaxAttrs](c), c.Type(0)
		err := checkNonEmptyDim(name, self, attrs.Dim, " Specify the reduction dim with the 'dim' argument.")
		if err != nil {
			return folds.Spec{}, err
		}
		mask, err := folds.MaskOfDim(attrs.Dim, self.Rank())
		if err != nil {
			return folds.Spec{}, err
		}
		if attrs.Dim == nil {
			if self.DType.IsComplex() || self.DType.IsBareUnsigned() {
				err = fmt.Errorf("\"%s_all\" not implemented for '%s'", name, self.DType.TorchName())
			}
			return extremeSpec(self.DType, mask, attrs.Keepdim, isMax), err
		}
		switch {
		case self.DType.IsComplex():
			err = fmt.Errorf("%s(): does not support complex input", name)
		case self.DType.IsBareUnsigned():
			err = kit.NotImplemented(name, self.DType)
		}
		dtype := self.DType
		return folds.Spec{Mask: mask, Keepdim: attrs.Keepdim, Cast: dtype, Outs: []tensor.DType{dtype, tensor.Int64},
			Computation: func() folds.Computation { return bestComputation(dtype, isMax, valueAndIndex) }}, err
	})
}

// withPairwise returns the op `reduction` with an additional overload: calls with a second tensor are calls of the op
// `pairwise`.
func withPairwise(reduction, pairwise *graph.Op) *graph.Op {
	op := *reduction
	op.Impls = nil // kit.Define derives them from Compile
	op.Params = []graph.Param{kit.Self, {Name: "other", Optional: true, Overload: "other"}}
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		if !c.HasOperand(1) {
			return reduction.Infer(c)
		}
		if attrs := kit.Attrs[*argmaxAttrs](c); attrs.Dim != nil || attrs.Keepdim {
			return nil, errors.New(op.Name + "(): dim and keepdim cannot be given together with other")
		}
		return pairwise.Infer(c)
	}
	if reduction.Rows != nil {
		op.Rows = func(c *graph.Call) (*graph.Rows, error) {
			if c.HasOperand(1) {
				return nil, nil
			}
			return reduction.Rows(c)
		}
	}
	op.Compile = func(c *graph.Call) (*graph.Kernel, error) {
		if c.HasOperand(1) {
			return pairwise.Compile(c)
		}
		return reduction.Compile(c)
	}
	op.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if c.HasOperand(1) {
			return pairwise.Ref(c, in)
		}
		return reduction.Ref(c, in)
	}
	op.Examples = append(slices.Clone(op.Examples), graph.Example{In: []tensor.Meta{kit.TransposedMatrix, kit.FloatRow}})
	return kit.Define[*argmaxAttrs](op)
}

// isDimOfSizeOne reports whether dim is given and has size 1. PyTorch then returns index 0 and does not check the
// dtype. mask marks dim.
func isDimOfSizeOne(self tensor.Type, mask []bool, dim *int) bool {
	return dim != nil && self.Rank() > 0 && kit.SizeIs(folds.SymbolicCount(self.Shape, mask), 1)
}

// checkNonEmptyDim is checkNonEmpty for the single dimension dim, or for all dimensions if dim is nil.
func checkNonEmptyDim(name string, self tensor.Type, dim *int, hint string) error {
	if dim == nil {
		return checkNonEmpty(name, self, nil, hint)
	}
	// Unlike the message of amax, this message counts the dimension from the front.
	wrapped, err := tensor.WrapDim(*dim, self.Rank())
	if err != nil {
		return err
	}
	return checkNonEmpty(name, self, []int{wrapped}, hint)
}
