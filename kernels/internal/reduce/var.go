package reduce

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type varAttrs struct {
	Dim        []int    `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
	Correction *float64 `attr:"correction" default:"none" doc:"number subtracted from the number of elements to give the divisor; none: 1"`
	Unbiased   *bool    `attr:"unbiased" default:"none" doc:"false stands for correction 0, true for 1; ignored if correction is given"`
	Keepdim    bool     `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
}

// correction returns the number c in the divisor n - c, where n is the number of elements.
func (attrs *varAttrs) correction() float64 {
	switch {
	case attrs.Correction != nil:
		return *attrs.Correction
	case attrs.Unbiased != nil && !*attrs.Unbiased:
		return 0
	}
	return 1
}

// Var, Std, VarMean and StdMean compute in float64, by the formulas of Welford and Chan.
var (
	Var = varOp("var", "Computes the variance over the given dimensions. The variance of complex numbers "+
		"is the sum of the variances of their real and imaginary parts.", variance{})
	Std = varOp("std", "Computes the standard deviation over the given dimensions.",
		variance{returnsStd: true})
	VarMean = varOp("var_mean", "Computes the variance and the mean over the given dimensions.",
		variance{returnsMean: true})
	StdMean = varOp("std_mean", "Computes the standard deviation and the mean over the given dimensions.",
		variance{returnsStd: true, returnsMean: true})
)

// varOp defines an op. The template has only the fields returnsStd and returnsMean, which select the results of the op.
// For each call, the op copies the template and sets the other fields of the copy.
func varOp(name, doc string, template variance) *graph.Op {
	op := graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc,
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)},
				Attrs: graph.Attrs{"dim": []int{1}}}},
		},
		Facts: graph.Facts{FlopsPerElement: graph.ElementFlops{Simple: 2}},
	}
	if template.returnsMean {
		op.Outputs = []string{name[:3], "mean"} // var or std
	}
	return folds.Define(graph.SchemaOf[*varAttrs](), op, func(c *graph.Call) (folds.Spec, error) {
		attrs, self := kit.Attrs[*varAttrs](c), c.Type(0)
		if !self.DType.IsFloat() && !self.DType.IsComplex() {
			if template.returnsMean {
				return folds.Spec{}, errors.New(name + " only support floating point and complex dtypes")
			}
			return folds.Spec{}, errors.New("std and var only support floating point and complex dtypes")
		}
		mask, err := rule.ReduceMask(attrs.Dim, self.Rank())
		if err != nil {
			return folds.Spec{}, err
		}
		computed := template
		computed.dtype, computed.n = self.DType, folds.SymbolicCount(self.Shape, mask)
		computed.correction = attrs.correction()
		outs := []tensor.DType{self.DType.ToReal()}
		if computed.returnsMean {
			outs = append(outs, self.DType)
		}
		return computed.spec(mask, attrs.Keepdim, outs...), nil
	})
}
