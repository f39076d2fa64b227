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

const normDoc = "Computes the vector norm of an order: of 2 the root of the sum of squares, of inf and -inf the " +
	"greatest and least magnitude, of 0 the number of elements that are not zero."

// Norm is the older form of the vector norm. It is 0 for no elements.
var Norm = folds.Define(graph.SchemaOf[normAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name: "norm", Doc: normDoc,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)},
			Attrs: graph.Attrs{"p": 2, "dim": []int{1}}}},
	},
	Facts: graph.Facts{Each: graph.Each{Simple: 2}},
}, func(c *graph.Call) (folds.Spec, error) {
	a, m := kit.Attrs[normAttrs](c), c.Type(0)
	d := m.DType
	if a.DType != tensor.Invalid {
		d = a.DType
	}
	if !d.IsFloat() && !d.IsComplex() {
		return folds.Spec{}, fmt.Errorf("norm(): input dtype should be either floating point or complex. Got %s instead.",
			d.TorchName())
	}
	mask, err := rule.ReduceMask(a.Dim, m.Rank())
	p := a.P.Float()
	if kit.Empty(m) {
		p = 0 // there is nothing to fold, whatever the order
	}
	return normSpec(d, mask, a.Keepdim, p), err
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
	d, err := vectorNormDType(m.DType, a.DType)
	if err != nil {
		return folds.Spec{}, err
	}
	if p := a.Ord.Float(); (p < 0 || math.IsInf(p, 1)) && kit.Empty(m) {
		err = emptyNorm(m, a.Dim, a.Ord)
	}
	if err != nil {
		return folds.Spec{}, err
	}
	mask, err := rule.ReduceMask(a.Dim, m.Rank())
	return normSpec(d, mask, a.Keepdim, a.Ord.Float()), err
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
func emptyNorm(m tensor.Type, dims []int, ord tensor.Scalar) error {
	p := fmt.Sprint(ord.Float())
	if math.IsInf(ord.Float(), 0) {
		p = map[bool]string{true: "inf", false: "-inf"}[ord.Float() > 0]
	}
	if len(dims) == 0 {
		return fmt.Errorf("linalg.vector_norm cannot compute the %s norm on an empty tensor because the operation does not "+
			"have an identity", p)
	}
	for _, d := range dims {
		w, err := tensor.WrapDim(d, m.Rank())
		if err != nil {
			return err
		}
		if kit.Is(m.Shape[w], 0) {
			// The missing blank is PyTorch's.
			return fmt.Errorf("linalg.vector_norm cannot compute the %s norm on the dimension %dbecause this dimension is "+
				"empty and the operation does not have an identity", p, d)
		}
	}
	return nil
}

func normSpec(d tensor.DType, mask []bool, keepdim bool, p float64) folds.Spec {
	return folds.Spec{Mask: mask, Keepdim: keepdim, Cast: d, Outs: []tensor.DType{d.ToReal()},
		How: func() folds.How {
			return folds.How{Fold: func() *iter.Fold { return normFold(d, p) },
				Row: func(b *expr.Builder, x folds.Part) []folds.Part { return normRow(b, x, p) },
				Ref: func(x []tensor.Scalar) []tensor.Scalar {
					sum, least, most := 0.0, math.Inf(1), 0.0
					for _, v := range x {
						r := cmplx.Abs(v.Complex())
						least, most = min(least, r), max(most, r)
						if p == 0 && r != 0 {
							sum++
						} else if p != 0 {
							sum += math.Pow(r, p)
						}
					}
					switch {
					case math.IsInf(p, 1):
						sum = most
					case math.IsInf(p, -1):
						sum = least
					case p != 0:
						sum = math.Pow(sum, 1/p)
					}
					return []tensor.Scalar{tensor.FloatScalar(sum)}
				}}
		}}
}

// normRow is normFold as an expression, for the usual orders of real numbers.
func normRow(b *expr.Builder, x folds.Part, p float64) []folds.Part {
	const f64 = tensor.Float64
	if x.Im != expr.None {
		return nil
	}
	r := b.Do(expr.Abs, folds.InFloat64(b, x.Re))
	zero := b.Const(f64, 0)
	var v expr.Value
	switch {
	case p == 2:
		v = b.Do(expr.Sqrt, folds.Total(b, b.Do(expr.Mul, r, r)))
	case p == 1:
		v = folds.Total(b, r)
	case p == 0:
		v = folds.Total(b, b.Do(expr.Select, b.Do(expr.Ne, r, zero), b.Const(f64, 1), zero))
	case math.IsInf(p, 1):
		v = b.Do(expr.Max, b.Reduce(expr.Max, r), zero)
	case math.IsInf(p, -1):
		v = b.Reduce(expr.Min, r)
	default:
		return nil
	}
	return []folds.Part{folds.Real(v)}
}

// magnitudes describes a norm: how it folds the magnitude r of an element into s, combines two partial results, and
// ends.
type magnitudes struct {
	zero float64
	step func(s, r float64) float64
	join func(s, t float64) float64
	root func(s float64) float64
}

func normOrder(p float64) magnitudes {
	plus := func(s, t float64) float64 { return s + t }
	id := func(s float64) float64 { return s }
	switch {
	case p == 2:
		return magnitudes{0, func(s, r float64) float64 { return s + r*r }, plus, math.Sqrt}
	case p == 1:
		return magnitudes{0, plus, plus, id}
	case p == 0:
		return magnitudes{0, func(s, r float64) float64 {
			if r != 0 {
				s++
			}
			return s
		}, plus, id}
	case math.IsInf(p, 1):
		most := func(s, t float64) float64 { return max(s, t) }
		return magnitudes{0, most, most, id}
	case math.IsInf(p, -1):
		least := func(s, t float64) float64 { return min(s, t) }
		return magnitudes{math.Inf(1), least, least, id}
	}
	return magnitudes{0, func(s, r float64) float64 { return s + math.Pow(r, p) }, plus,
		func(s float64) float64 { return math.Pow(s, 1/p) }}
}

// normFold computes in float64. The common norms of reals have specialized loops; the others call a function per
// element.
func normFold(d tensor.DType, p float64) *iter.Fold {
	m := normOrder(p)
	var f *iter.Fold
	switch kit.Wide(d) {
	case tensor.Float32:
		f = normFolding(m, realNormRow[float32](p), realNormColumns[float32](p),
			func(v float32) float64 { return math.Abs(float64(v)) })
	case tensor.Float64:
		f = normFolding(m, realNormRow[float64](p), realNormColumns[float64](p), math.Abs)
	case tensor.Complex64:
		f = normFolding(m, nil, nil, func(v complex64) float64 { return cmplx.Abs(complex128(v)) })
	default:
		f = normFolding(m, nil, nil, cmplx.Abs)
	}
	if p != 0 && p != 1 && p != 2 && !math.IsInf(p, 0) {
		f = f.Weight(16)
	}
	return f
}

func normFolding[T tensor.Element](m magnitudes, row func(*float64, []T, int), columns func([]float64, []T, int),
	abs func(T) float64) *iter.Fold {
	if row == nil {
		row = func(a *float64, x []T, _ int) {
			s := m.zero
			for _, v := range x {
				s = m.step(s, abs(v))
			}
			*a = m.join(*a, s)
		}
	}
	if columns == nil {
		columns = func(a []float64, x []T, _ int) {
			x = x[:len(a)]
			for i := range a {
				a[i] = m.step(a[i], abs(x[i]))
			}
		}
	}
	f := iter.Folding(m.zero, row, columns,
		func(a, from []float64) {
			for i := range a {
				a[i] = m.join(a[i], from[i])
			}
		})
	return iter.Yields(f.Weight(4), func(dst, a []float64) {
		for i := range a {
			dst[i] = m.root(a[i])
		}
	})
}

// realNormRow returns the row loop of the orders 1 and 2, else nil.
func realNormRow[T float32 | float64](p float64) func(a *float64, x []T, _ int) {
	switch p {
	case 1:
		return func(a *float64, x []T, _ int) {
			var s0, s1, s2, s3 float64
			for len(x) >= 4 {
				s0 += math.Abs(float64(x[0]))
				s1 += math.Abs(float64(x[1]))
				s2 += math.Abs(float64(x[2]))
				s3 += math.Abs(float64(x[3]))
				x = x[4:]
			}
			for _, v := range x {
				s0 += math.Abs(float64(v))
			}
			*a += (s0 + s1) + (s2 + s3)
		}
	case 2:
		return func(a *float64, x []T, _ int) { *a += folds.Squares(x, 0) }
	}
	return nil
}

// realNormColumns returns the loop over columns of the orders 1, 2, inf and -inf, else nil.
func realNormColumns[T float32 | float64](p float64) func(a []float64, x []T, _ int) {
	switch {
	case p == 1:
		return func(a []float64, x []T, _ int) {
			x = x[:len(a)]
			for i := range a {
				a[i] += math.Abs(float64(x[i]))
			}
		}
	case p == 2:
		return func(a []float64, x []T, _ int) {
			x = x[:len(a)]
			for i := range a {
				v := float64(x[i])
				a[i] += v * v
			}
		}
	case math.IsInf(p, 1):
		return func(a []float64, x []T, _ int) {
			x = x[:len(a)]
			for i := range a {
				a[i] = max(a[i], math.Abs(float64(x[i])))
			}
		}
	case math.IsInf(p, -1):
		return func(a []float64, x []T, _ int) {
			x = x[:len(a)]
			for i := range a {
				a[i] = min(a[i], math.Abs(float64(x[i])))
			}
		}
	}
	return nil
}
