package reduce

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type extremeAttrs struct {
	Dim     []int `attr:"dim" default:"" doc:"dimensions to reduce; none: all"`
	Keepdim bool  `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
	// PyTorch rejects reductions over no elements.
	AcceptEmpty bool `attr:"accept_empty" default:"false" doc:"give the least number of the dtype (for amin: the greatest) for a reduction over no elements, as ONNX does"`
}

// Amax and Amin return the greatest and the least element. NaN propagates.
var (
	Amax = extremeOp("amax", "Returns the greatest element over the given dimensions. NaN is greater than all numbers.",
		"max_values", true)
	Amin = extremeOp("amin", "Returns the least element over the given dimensions. NaN is less than all numbers.",
		"min_values", false)
)

// extremeOp defines amax if isMax is set, else amin. kernel is the name of PyTorch's kernel, for messages.
func extremeOp(name, doc, kernel string, isMax bool) *graph.Op {
	return folds.Define(graph.SchemaOf[*extremeAttrs](), graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)},
			Attrs: graph.Attrs{"dim": []int{1}}}},
	}}, func(c *graph.Call) (folds.Spec, error) {
		attrs, self := kit.Attrs[*extremeAttrs](c), c.Type(0)
		if !attrs.AcceptEmpty {
			hint := " Specify the reduction dim with the 'dim' argument."
			if err := checkNonEmpty(name, self, attrs.Dim, hint); err != nil {
				return folds.Spec{}, err
			}
		}
		mask, err := rule.ReduceMask(attrs.Dim, self.Rank())
		if err == nil && !kit.IsEmpty(self) && (self.DType.IsComplex() || self.DType.IsBareUnsigned()) {
			err = kit.NotImplemented(kernel, self.DType)
		}
		return extremeSpec(self.DType, mask, attrs.Keepdim, isMax), err
	})
}
