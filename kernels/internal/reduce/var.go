package reduce

import (
	"errors"
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type varAttrs struct {
	Dim        []int    `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
	Correction *float64 `attr:"correction" default:"none" doc:"what is taken from the number of elements to give the divisor; none: 1"`
	Unbiased   *bool    `attr:"unbiased" default:"none" doc:"false stands for correction 0, true for 1"`
	Keepdim    bool     `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
}

func (a *varAttrs) correction() float64 {
	switch {
	case a.Correction != nil:
		return *a.Correction
	case a.Unbiased != nil && !*a.Unbiased:
		return 0
	}
	return 1
}

// Var and the others compute in float64, by the updates of Welford and Chan.
var (
	Var = varOp("var", "Computes the variance over the given dimensions. Of complex numbers it is the sum of the "+
		"parts' variances.", false, false)
	Std     = varOp("std", "Computes the standard deviation over the given dimensions.", true, false)
	VarMean = varOp("var_mean", "Computes the variance and the mean over the given dimensions.", false, true)
	StdMean = varOp("std_mean", "Computes the standard deviation and the mean over the given dimensions.", true, true)
)

func varOp(name, doc string, root, mean bool) *graph.Op {
	o := graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc,
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)},
				Attrs: graph.Attrs{"dim": []int{1}}}},
		},
		Facts: graph.Facts{Each: graph.Each{Simple: 2}},
	}
	if mean {
		o.Outputs = []string{name[:3], "mean"}
	}
	return folds.Define(graph.SchemaOf[varAttrs](), o, func(c *graph.Call) (folds.Spec, error) {
		a, t := kit.Attrs[varAttrs](c), c.Type(0)
		if !t.DType.IsFloat() && !t.DType.IsComplex() {
			if mean {
				return folds.Spec{}, errors.New(name + " only support floating point and complex dtypes")
			}
			return folds.Spec{}, errors.New("std and var only support floating point and complex dtypes")
		}
		mask, err := rule.ReduceMask(a.Dim, t.Rank())
		if err != nil {
			return folds.Spec{}, err
		}
		v := variance{dtype: t.DType, n: folds.Sizes(t.Shape, mask), correction: a.correction(), root: root, mean: mean}
		s := folds.Spec{Mask: mask, Keepdim: a.Keepdim, Cast: t.DType, Outs: []tensor.DType{t.DType.ToReal()},
			How: func() folds.How { return folds.How{Fold: v.fold, Row: v.row, Ref: v.ref} }}
		if mean {
			s.Outs = append(s.Outs, t.DType)
		}
		return s, nil
	})
}

// variance describes the variance of a call, or its root, with or without the mean.
type variance struct {
	dtype      tensor.DType
	n          sym.Int // elements that make one result
	correction float64
	root, mean bool
}

func (v variance) divisor() float64 { return max(float64(kit.NumberOf(v.n))-v.correction, 0) }

func (v variance) fold() *iter.Fold { return varFold(v.dtype, v.divisor(), v.root, v.mean) }

func (v variance) row(b *expr.Builder, x folds.Part) []folds.Part {
	if v.dtype.IsComplex() {
		return nil
	}
	y, mu := varRow(b, x.Re, float64(kit.NumberOf(v.n)), v.divisor())
	if v.root {
		y = b.Do(expr.Sqrt, y)
	}
	if !v.mean {
		return []folds.Part{folds.Real(y)}
	}
	return []folds.Part{folds.Real(y), folds.Real(mu)}
}

func (v variance) ref(x []tensor.Scalar) []tensor.Scalar {
	return refVar(v.dtype.IsComplex(), v.divisor(), v.root, v.mean)(x)
}

func refVar(isComplex bool, divisor float64, root, mean bool) func(x []tensor.Scalar) []tensor.Scalar {
	return func(x []tensor.Scalar) []tensor.Scalar {
		var sum complex128
		for _, v := range x {
			sum += v.Complex()
		}
		n := float64(len(x))
		mu := complex(real(sum)/n, imag(sum)/n)
		var m2 [2]float64
		for _, v := range x {
			d := v.Complex() - mu
			m2[0] += real(d) * real(d)
			m2[1] += imag(d) * imag(d)
		}
		y := m2[0] / divisor
		if isComplex {
			y += m2[1] / divisor
		}
		if root {
			y = math.Sqrt(y)
		}
		if !mean {
			return []tensor.Scalar{tensor.FloatScalar(y)}
		}
		return []tensor.Scalar{tensor.FloatScalar(y), tensor.ComplexScalar(mu)}
	}
}
