package reduce

import (
	"fmt"
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type normAttrs struct {
	P       tensor.Scalar `attr:"p" default:"2" doc:"order of the norm"`
	Dim     []int         `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
	Keepdim bool          `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
	DType   tensor.DType  `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

type vectorNormAttrs struct {
	Ord     tensor.Scalar `attr:"ord" default:"2" doc:"order of the norm"`
	Dim     []int         `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
	Keepdim bool          `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
	DType   tensor.DType  `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

const normDoc = "Computes the vector norm of the given order: for order 2, the root of the sum of squares; for inf " +
	"and -inf, the greatest and the least magnitude; for 0, the number of nonzero elements; for another order p, " +
	"the p-th root of the sum of the p-th powers of the magnitudes."

// Norm is aten::norm, the older form of linalg.vector_norm. It is 0 for operands without elements.
var Norm = folds.Define(graph.SchemaOf[normAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name: "norm", Doc: normDoc,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)},
			Attrs: graph.Attrs{"p": 2, "dim": []int{1}}}},
	},
	Facts: graph.Facts{Each: graph.Each{Simple: 2}},
}, func(c *graph.Call) (folds.Spec, error) {
	a, m := kit.Attrs[normAttrs](c), c.Type(0)
	dtype := m.DType
	if a.DType != tensor.Invalid {
		dtype = a.DType
	}
	if !dtype.IsFloat() && !dtype.IsComplex() {
		return folds.Spec{}, fmt.Errorf("norm(): input dtype should be either floating point or complex. Got %s instead.",
			dtype.TorchName())
	}
	mask, err := rule.ReduceMask(a.Dim, m.Rank())
	p := a.P.Float()
	if kit.IsEmpty(m) {
		p = 0 // without elements, norms of all orders are 0
	}
	return normSpec(dtype, mask, a.Keepdim, p), err
})

// VectorNorm is linalg.vector_norm.
var VectorNorm = folds.Define(graph.SchemaOf[vectorNormAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name: "linalg_vector_norm", Doc: normDoc,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)},
			Attrs: graph.Attrs{"ord": 2, "dim": []int{1}}}},
	},
	Facts: graph.Facts{Each: graph.Each{Simple: 2}},
}, func(c *graph.Call) (folds.Spec, error) {
	a, m := kit.Attrs[vectorNormAttrs](c), c.Type(0)
	dtype, err := vectorNormDType(m.DType, a.DType)
	if err != nil {
		return folds.Spec{}, err
	}
	// For these orders, the norm of no elements would be infinite or undefined.
	if p := a.Ord.Float(); (p < 0 || math.IsInf(p, 1)) && kit.IsEmpty(m) {
		err = emptyNorm(m, a.Dim, a.Ord)
	}
	if err != nil {
		return folds.Spec{}, err
	}
	mask, err := rule.ReduceMask(a.Dim, m.Rank())
	return normSpec(dtype, mask, a.Keepdim, a.Ord.Float()), err
})

func vectorNormDType(in, given tensor.DType) (tensor.DType, error) {
	const name = "linalg.vector_norm: "
	switch {
	case !in.IsFloat() && !in.IsComplex():
		return in, fmt.Errorf(name+"Expected a floating point or complex tensor as input. Got %s", in.TorchName())
	case given == tensor.Invalid:
		return in, nil
	case !given.IsFloat() && !given.IsComplex():
		return in, fmt.Errorf(name+"dtype should be floating point or complex, but got %s", given.TorchName())
	case given.IsComplex() != in.IsComplex():
		want := "real for real"
		if in.IsComplex() {
			want = "complex for complex"
		}
		return in, fmt.Errorf(name+"dtype should be %s inputs, but got %s", want, given.TorchName())
	}
	if p, err := tensor.Promote(in, given); err != nil || p != given {
		return in, fmt.Errorf(name+"the dtype of the input (%s) should be convertible without narrowing to the "+
			"specified dtype (%s)", in.TorchName(), given.TorchName())
	}
	return given, nil
}

// emptyNorm rejects norms that are undefined for no elements.
func emptyNorm(self tensor.Type, dims []int, ord tensor.Scalar) error {
	p := fmt.Sprint(ord.Float())
	if math.IsInf(ord.Float(), 0) {
		p = map[bool]string{true: "inf", false: "-inf"}[ord.Float() > 0]
	}
	if len(dims) == 0 {
		return fmt.Errorf("linalg.vector_norm cannot compute the %s norm on an empty tensor because the operation does not "+
			"have an identity", p)
	}
	for _, d := range dims {
		w, err := tensor.WrapDim(d, self.Rank())
		if err != nil {
			return err
		}
		if kit.SizeIs(self.Shape[w], 0) {
			// PyTorch's message lacks this blank too.
			return fmt.Errorf("linalg.vector_norm cannot compute the %s norm on the dimension %dbecause this dimension is "+
				"empty and the operation does not have an identity", p, d)
		}
	}
	return nil
}

func normSpec(d tensor.DType, mask []bool, keepdim bool, p float64) folds.Spec {
	return folds.Spec{Mask: mask, Keepdim: keepdim, Cast: d, Outs: []tensor.DType{d.ToReal()},
		Computation: func() folds.Computation {
			return folds.Computation{Fold: norm2Fold(d, p),
				Row: func(b *expr.Builder, x folds.Number) []folds.Number { return normRow(b, x, p) },
				Ref: func(x []tensor.Scalar) []tensor.Scalar {
					sum, smallest, largest := 0.0, math.Inf(1), 0.0
					for _, v := range x {
						r := cmplx.Abs(v.Complex())
						smallest, largest = min(smallest, r), max(largest, r)
						if p == 0 && r != 0 {
							sum++
						} else if p != 0 {
							sum += math.Pow(r, p)
						}
					}
					switch {
					case math.IsInf(p, 1):
						sum = largest
					case math.IsInf(p, -1):
						sum = smallest
					case p != 0:
						sum = math.Pow(sum, 1/p)
					}
					return []tensor.Scalar{tensor.FloatScalar(sum)}
				}}
		}}
}

// normRow returns the norm of a row of real or complex numbers as an expression in float64.
func normRow(builder *expr.Builder, x folds.Number, p float64) []folds.Number {
	const f64 = tensor.Float64
	zero := builder.Const(f64, 0)
	var v expr.Value
	switch r := magnitude(builder, x); {
	case p == 2:
		v = builder.Do(expr.Sqrt, folds.Total(builder, builder.Do(expr.Mul, r, r)))
	case p == 1:
		v = folds.Total(builder, r)
	case p == 0:
		v = folds.Total(builder, builder.Do(expr.Select, builder.Do(expr.Ne, r, zero), builder.Const(f64, 1), zero))
	case math.IsInf(p, 1):
		v = builder.Do(expr.Max, builder.Reduce(expr.Max, r), zero)
	case math.IsInf(p, -1):
		v = builder.Reduce(expr.Min, r)
	default: // sum(r^p)^(1/p)
		v = builder.Do(expr.Pow, folds.Total(builder, builder.Do(expr.Pow, r, builder.Const(f64, p))),
			builder.Const(f64, 1/p))
	}
	return []folds.Number{folds.Real(v)}
}

// hypotenuse computes the magnitude of a complex number from its parts.
var hypotenuse = kit.Formula("hypot(x, y)", "x", "y")

// magnitude returns the absolute value of a number in float64.
func magnitude(builder *expr.Builder, x folds.Number) expr.Value {
	const f64 = tensor.Float64
	re := folds.InFloat64(builder, x.Re)
	if x.Im == expr.None {
		return builder.Do(expr.Abs, re)
	}
	im := folds.InFloat64(builder, x.Im)
	c, err := hypotenuse.Code([]tensor.DType{f64, f64}, expr.Typing{})
	if err != nil {
		return builder.Fail(err)
	}
	return builder.Inline(c, func(operand, _ int) expr.Value { return [...]expr.Value{re, im}[operand] })[0].Re
}

// norm2Fold returns the fold that computes the norm of order 2 of real numbers. It returns nil for complex numbers and
// for other orders.
func norm2Fold(d tensor.DType, p float64) func() *iter.Fold {
	switch {
	case p != 2 || d.IsComplex():
		return nil
	case kit.LoopDType(d) == tensor.Float32:
		return norm2FoldOf[float32]
	}
	return norm2FoldOf[float64]
}

func norm2FoldOf[T float32 | float64]() *iter.Fold {
	f := iter.Folding(0.0, func(a *float64, x []T, _ int) { *a += sumOfSquares(x, 0) },
		func(a []float64, x []T, _ int) {
			x = x[:len(a)]
			for i := range a {
				v := float64(x[i])
				a[i] += float64(v * v)
			}
		}, folds.AddTo[float64])
	return iter.WithResult(f.Weight(4), func(dst, a []float64) {
		for i, s := range a {
			dst[i] = math.Sqrt(s)
		}
	})
}
