package linalg

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Exponentials of matrices. An [algorithm] computes a [task]: one index of the batch, with a copy of the operand (in),
// the result (out), which is 0 at first, and memory for other matrices (solverElements).
var (
	LinalgMatrixExp = matrixExpOp("linalg_matrix_exp")
	MatrixExp       = matrixExpOp("matrix_exp")
)

func matrixExpOp(name string) *graph.Op {
	return matrixOp(kit.NoAttrs, graph.Semantics{Name: name, Doc: "Returns the exponentials of square matrices.",
		Params: selfOnly,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			self := c.Type(0)
			// OpMath is float32 for 16-bit floats, which matrixCheck would reject.
			err := (matrixCheck{name: "linalg.matrix_exp"}).checkSquare(self.WithDType(self.DType.OpMath()))
			if err != nil {
				return nil, err
			}
			out, err := exponentialType(self)
			return c.NewResult(out), err
		},
		Examples: examples(nil, squareExample, complexExample),
	}, algorithm{float: exponential[float64], complex: exponential[complex128], solverElements: elementsOfCopies(1),
		ranks: matrixResults(1)})
}

// exponentialType returns the type of the result for operands of type t. The strides are as in PyTorch, which copies
// 0x0 matrices, applies the elementwise exp to 1x1 matrices, and otherwise views all batch dimensions as one dimension.
func exponentialType(t tensor.Type) (tensor.Type, error) {
	rank := t.Rank()
	switch size := t.Shape[rank-1]; {
	case kit.SizeIs(size, 0):
		return rule.PreserveType(t), nil
	case kit.SizeIs(size, 1):
		return kit.FirstResultType(rule.Unary(rule.UndefinedOutputOf(t.DType), rule.OperandOfType(t)))
	}
	matrices := append([]sym.Int{tensor.Product(batchSizes(t))}, t.Shape[rank-2:]...)
	// The result has the strides that PreserveType gives to the view with one batch dimension.
	flat, err := t.View(matrices)
	if err != nil {
		return t, err
	}
	return rule.PreserveType(flat).View(t.Shape)
}

// exponential computes exp(a) by scaling and squaring: exp(a) = exp(a / 2^squarings)^(2^squarings). If the 1-norm of
// a / 2^squarings is at most 1, the error of the Taylor polynomial of degree taylorDegree is below the rounding error.
func exponential[T number](t *task[T]) error {
	a, x := t.in[0], t.out[0]
	norm := t.oneNorm(a)
	if math.IsInf(norm, 0) || math.IsNaN(norm) {
		for i := range x.elements {
			x.elements[i] = t.fromParts(math.NaN(), math.NaN())
		}
		return nil
	}
	squarings := 0
	if norm > 1 {
		squarings = math.Ilogb(norm) + 1 // norm < 2^squarings
	}
	t.scale(a, math.Ldexp(1, -squarings))
	product := t.zeros(a.rows, a.cols)
	t.addIdentity(x)
	for k := taylorDegree; k > 0; k-- { // Horner's scheme: x = I + a x / k
		t.multiply(a, x, product)
		t.scale(product, 1/float64(k))
		copy(x.elements, product.elements)
		t.addIdentity(x)
	}
	for range squarings {
		t.multiply(x, x, product)
		copy(x.elements, product.elements)
	}
	return nil
}

// taylorDegree is the degree of the Taylor polynomial of exponential.
const taylorDegree = 18

// oneNorm returns the 1-norm of a: the greatest sum of the magnitudes of a column, or NaN if an element is NaN.
func (s *solver[T]) oneNorm(a matrix[T]) float64 {
	norm := 0.0
	for j := range a.cols {
		sum := 0.0
		for _, v := range a.column(j) {
			sum += s.abs(v)
		}
		norm = max(norm, sum) // max returns NaN if an argument is NaN
	}
	return norm
}

// addIdentity adds 1 to the diagonal of the square matrix a.
func (s *solver[T]) addIdentity(a matrix[T]) {
	for i := range a.cols {
		a.set(i, i, a.at(i, i)+s.fromParts(1, 0))
	}
}

// scale multiplies a by a real number.
func (s *solver[T]) scale(a matrix[T], factor float64) {
	for i, v := range a.elements {
		a.elements[i] = s.fromParts(s.re(v)*factor, s.im(v)*factor)
	}
	s.checkContextAfter(len(a.elements))
}

// multiply sets c to the product a b. c shares no elements with a and b.
func (s *solver[T]) multiply(a, b, c matrix[T]) {
	c.clear()
	for j := range c.cols {
		for k, factor := range b.column(j) {
			s.addScaled(factor, a.column(k), c.column(j))
			s.checkContextAfter(a.rows)
		}
	}
}
