package linalg

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Ops that compute signs and logarithms of determinants. An [algorithm] computes a [task]: one index of the batch.
// ranks has the numbers of dimensions of operands and results besides the batch: 2 for a matrix, 0 for a number.
var (
	LinalgSlogdet = slogdetOp("linalg_slogdet", operandA)
	Slogdet       = slogdetOp("slogdet", kit.Self)
	Logdet        = matrixOp(kit.NoAttrs, graph.Semantics{Name: "logdet",
		Doc: "Returns the logarithms of determinants, NaN for negative ones.", Params: selfOnly,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			self := c.Type(0)
			if err := (matrixCheck{name: "logdet"}).checkSquare(self); err != nil {
				return nil, err
			}
			return c.NewResult(tensor.NewType(self.DType, batchSizes(self)...)), nil
		},
		Examples: examples(nil, squareExample, complexExample),
	}, algorithm{float: logdet[float64], complex: logdet[complex128], ranks: fixedRanks([]int{2}, []int{0})})
)

// slogdetOp defines an op that returns signs of determinants and logarithms of their magnitudes.
func slogdetOp(name string, operand graph.Param) *graph.Op {
	return matrixOp(kit.NoAttrs, graph.Semantics{Name: name,
		Doc: "Returns the signs of determinants, or their quotients by their magnitudes, and the logarithms of the " +
			"magnitudes.",
		Params: []graph.Param{operand}, Outputs: []string{"sign", "logabsdet"},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			self := c.Type(0)
			if err := (matrixCheck{name: "linalg.slogdet"}).checkSquare(self); err != nil {
				return nil, err
			}
			return c.NewResults(tensor.NewType(self.DType, batchSizes(self)...),
					tensor.NewType(self.DType.ToReal(), batchSizes(self)...)),
				nil
		},
		Examples: examples(nil, squareExample, complexExample),
	}, algorithm{float: signAndLogarithm[float64], complex: signAndLogarithm[complex128],
		ranks: fixedRanks([]int{2}, []int{0, 0})})
}

// slogdet returns the sign of the determinant of the matrix of a task, and the logarithm of the determinant's
// magnitude. The sign of a complex number z is z / |z|. For P A = L U, where P makes the exchanges of pivots, the
// determinant is the product of U's diagonal, negated once for each exchange.
func slogdet[T number](t *task[T]) (sign T, logarithm float64) {
	a := t.in[0]
	pivots := make([]int, a.rows)
	t.lu(a, pivots)
	sign = t.fromParts(1, 0)
	for k, pivot := range pivots {
		diagonal := a.at(k, k)
		logarithm += math.Log(t.abs(diagonal))
		sign = t.mul(sign, t.sgn(diagonal))
		if pivot != k+1 { // rows are numbered from 1: the rows k and pivot-1 differ
			sign = -sign
		}
	}
	return sign, logarithm
}

// signAndLogarithm computes the results sign and logabsdet of a task.
func signAndLogarithm[T number](t *task[T]) error {
	sign, logarithm := slogdet(t)
	t.out[0].set(0, 0, sign)
	t.out[1].set(0, 0, t.fromParts(logarithm, 0))
	return nil
}

// logdet computes the result of logdet: log |det|, with the angle of det as imaginary part if the matrix is complex.
// The logarithm of a negative real determinant is NaN.
func logdet[T number](t *task[T]) error {
	sign, logarithm := slogdet(t)
	re, im := t.re(sign), t.im(sign)
	angle := math.Atan2(im, re)
	switch isReal := !t.call.Out[0].DType.IsComplex(); {
	case math.IsInf(logarithm, -1): // the determinant is 0
		angle = 0
	case math.IsNaN(re), isReal && re < 0:
		logarithm = math.NaN()
	}
	t.out[0].set(0, 0, t.fromParts(logarithm, angle))
	return nil
}
