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
var Norm = folds.Define(graph.SchemaOf[*normAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name: "norm", Doc: normDoc,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)},
			Attrs: graph.Attrs{"p": 2, "dim": []int{1}}}},
	},
	Facts: graph.Facts{FlopsPerElement: graph.ElementFlops{Simple: 2}},
}, func(c *graph.Call) (folds.Spec, error) {
	attrs, self := kit.Attrs[*normAttrs](c), c.Type(0)
	dtype := self.DType
	if attrs.DType != tensor.Invalid {
		dtype = attrs.DType
	}
	if !dtype.IsFloat() && !dtype.IsComplex() {
		return folds.Spec{}, fmt.Errorf("norm(): input dtype should be either floating point or complex. Got %s instead.",
			dtype.TorchName())
	}
	mask, err := rule.ReduceMask(attrs.Dim, self.Rank())
	p := attrs.P.Float()
	if kit.IsEmpty(self) {
		p = 0 // the norms of all orders are 0 without elements
	}
	return normSpec(dtype, mask, attrs.Keepdim, p), err
})

// VectorNorm is linalg.vector_norm.
var VectorNorm = folds.Define(graph.SchemaOf[*vectorNormAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name: "linalg_vector_norm", Doc: normDoc,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)},
			Attrs: graph.Attrs{"ord": 2, "dim": []int{1}}}},
	},
	Facts: graph.Facts{FlopsPerElement: graph.ElementFlops{Simple: 2}},
}, func(c *graph.Call) (folds.Spec, error) {
	attrs, self := kit.Attrs[*vectorNormAttrs](c), c.Type(0)
	dtype, err := vectorNormDType(self.DType, attrs.DType)
	if err != nil {
		return folds.Spec{}, err
	}
	// For these orders, the norm of an empty row would be infinite or undefined.
	if p := attrs.Ord.Float(); (p < 0 || math.IsInf(p, 1)) && kit.IsEmpty(self) {
		err = checkEmptyNorm(self, attrs.Dim, attrs.Ord)
	}
	if err != nil {
		return folds.Spec{}, err
	}
	mask, err := rule.ReduceMask(attrs.Dim, self.Rank())
	return normSpec(dtype, mask, attrs.Keepdim, attrs.Ord.Float()), err
})

// vectorNormDType returns the dtype to which operands of dtype in are converted. given is the attribute dtype, or
// Invalid if it is not given.
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
	if promoted, err := tensor.Promote(in, given); err != nil || promoted != given {
		return in, fmt.Errorf(name+"the dtype of the input (%s) should be convertible without narrowing to the "+
			"specified dtype (%s)", in.TorchName(), given.TorchName())
	}
	return given, nil
}

// checkEmptyNorm rejects a reduction of an empty self over dims if rows are empty, because the norm of order ord of an
// empty row is undefined. If only other dimensions have size 0, there are no rows, and the call is valid.
func checkEmptyNorm(self tensor.Type, dims []int, ord tensor.Scalar) error {
	order := fmt.Sprint(ord.Float())
	if math.IsInf(ord.Float(), 0) {
		order = map[bool]string{true: "inf", false: "-inf"}[ord.Float() > 0]
	}
	if len(dims) == 0 {
		return fmt.Errorf("linalg.vector_norm cannot compute the %s norm on an empty tensor because the operation does not "+
			"have an identity", order)
	}
	for _, dim := range dims {
		wrapped, err := tensor.WrapDim(dim, self.Rank())
		if err != nil {
			return err
		}
		if kit.SizeIs(self.Shape[wrapped], 0) {
			// PyTorch's message lacks the blank before "because" too.
			return fmt.Errorf("linalg.vector_norm cannot compute the %s norm on the dimension %dbecause this dimension is "+
				"empty and the operation does not have an identity", order, dim)
		}
	}
	return nil
}

// normSpec describes the norm of order p as a reduction. Operands are converted to dtype.
func normSpec(dtype tensor.DType, mask []bool, keepdim bool, p float64) folds.Spec {
	return folds.Spec{Mask: mask, Keepdim: keepdim, Cast: dtype, Outs: []tensor.DType{dtype.ToReal()},
		Computation: func() folds.Computation {
			return folds.Computation{Fold: euclideanFold(dtype, p),
				Row: func(builder *expr.Builder, x folds.Number) []folds.Number { return normRow(builder, x, p) },
				Ref: func(x []tensor.Scalar) []tensor.Scalar {
					return []tensor.Scalar{tensor.FloatScalar(referenceNorm(x, p))}
				}}
		}}
}

// referenceNorm returns the norm of order p of a row by its definition.
func referenceNorm(x []tensor.Scalar, p float64) float64 {
	sum, smallest, largest := 0.0, math.Inf(1), 0.0
	for _, element := range x {
		abs := cmplx.Abs(element.Complex())
		smallest, largest = min(smallest, abs), max(largest, abs)
		if p == 0 && abs != 0 {
			sum++
		} else if p != 0 {
			sum += math.Pow(abs, p)
		}
	}
	switch {
	case math.IsInf(p, 1):
		return largest
	case math.IsInf(p, -1):
		return smallest
	case p == 0:
		return sum
	}
	return math.Pow(sum, 1/p)
}

// normRow returns the norm of order p of a row of real or complex numbers as an expression in float64. folds.Total is
// the sum over the row, and Reduce folds the row by an operation.
func normRow(builder *expr.Builder, x folds.Number, p float64) []folds.Number {
	const f64 = tensor.Float64
	zero := builder.Const(f64, 0)
	var norm expr.Value
	switch abs := magnitude(builder, x); {
	case p == 2:
		norm = builder.Emit(expr.Sqrt, folds.Total(builder, builder.Emit(expr.Mul, abs, abs)))
	case p == 1:
		norm = folds.Total(builder, abs)
	case p == 0:
		norm = folds.Total(builder, builder.Emit(expr.Select, builder.Emit(expr.Ne, abs, zero), builder.Const(f64, 1), zero))
	case math.IsInf(p, 1):
		norm = builder.Emit(expr.Max, builder.Reduce(expr.Max, abs), zero)
	case math.IsInf(p, -1):
		norm = builder.Reduce(expr.Min, abs)
	default: // sum(abs^p)^(1/p)
		norm = builder.Emit(expr.Pow, folds.Total(builder, builder.Emit(expr.Pow, abs, builder.Const(f64, p))),
			builder.Const(f64, 1/p))
	}
	return []folds.Number{folds.Real(norm)}
}

// hypotenuse computes the magnitude of a complex number from its parts.
var hypotenuse = kit.Formula("hypot(x, y)", "x", "y")

// magnitude returns the absolute value of a number in float64.
func magnitude(builder *expr.Builder, x folds.Number) expr.Value {
	const f64 = tensor.Float64
	re := folds.InFloat64(builder, x.Re)
	if x.Im == expr.None {
		return builder.Emit(expr.Abs, re)
	}
	im := folds.InFloat64(builder, x.Im)
	code, err := hypotenuse.Code([]tensor.DType{f64, f64}, expr.Typing{})
	if err != nil {
		return builder.Fail(err)
	}
	return builder.Inline(code, func(operand, _ int) expr.Value { return [...]expr.Value{re, im}[operand] })[0].Re
}

// euclideanFold returns the fold that computes the norm of order 2 of real numbers. It returns nil for complex numbers
// and for other orders.
func euclideanFold(dtype tensor.DType, p float64) func() *iter.Fold {
	switch {
	case p != 2 || dtype.IsComplex():
		return nil
	case kit.LoopDType(dtype) == tensor.Float32:
		return euclideanFoldOf[float32]
	}
	return euclideanFoldOf[float64]
}

// euclideanFoldOf is euclideanFold for elements of type T. The accumulator is the sum of squares.
func euclideanFoldOf[T float32 | float64]() *iter.Fold {
	const mean = 0 // the elements themselves are squared, not their deviations
	fold := iter.NewFold(0.0, func(accumulator *float64, x []T, _ int) { *accumulator += sumOfSquares(x, mean) },
		func(accumulators []float64, x []T, _ int) {
			x = x[:len(accumulators)]
			for i := range accumulators {
				element := float64(x[i])
				accumulators[i] += float64(element * element)
			}
		}, folds.AddTo[float64])
	const weight = 4 // time to fold an element, relative to an addition
	return iter.WithResult(fold.Weight(weight), func(dst, accumulators []float64) {
		for i, sum := range accumulators {
			dst[i] = math.Sqrt(sum)
		}
	})
}
