package reduce

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/tensor"
)

// Max and Min give the extreme of all elements. With a dim, they give the extremes along this dimension and their
// indices. With a second tensor, they are the pointwise maximum and minimum.
var (
	Max = withPairwise(bestOp("max", "Returns the greatest of all elements. With `dim`, it returns the greatest "+
		"elements along a dimension and their indices; with `other`, the greater of self and `other` at each position, "+
		"as `maximum` does.", true), pointwise.Maximum) // true: isMax
	Min = withPairwise(bestOp("min", "Returns the least of all elements. With `dim`, it returns the least elements "+
		"along a dimension and their indices; with `other`, the lesser of self and `other` at each position, as "+
		"`minimum` does.", false), pointwise.Minimum)
)

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
