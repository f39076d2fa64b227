package linalg

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type linalgQRAttrs struct {
	Mode string `attr:"mode" default:"reduced" oneof:"reduced|complete|r" doc:"Q has as many columns as R has rows, or is square, or is empty"`
}

type ormqrAttrs struct {
	Left      bool `attr:"left" default:"true" doc:"return Q input3; else input3 Q"`
	Transpose bool `attr:"transpose" default:"false" doc:"use the adjoint of Q"`
}

type qrAttrs struct {
	Some bool `attr:"some" default:"true" doc:"Q has as many columns as R has rows; else it is square"`
}

// Ops that compute QR decompositions A = Q R, or the reflections whose product is the factor Q (solver.qr). ormqr
// multiplies input3 by Q, from the left or the right. The mode of linalg_qr chooses the sizes of Q and R. For example,
// for A [4, 3]:
//
//	reduced   Q [4, 3]  R [3, 3]
//	complete  Q [4, 4]  R [4, 3]
//	r         Q empty   R [3, 3]
//
// define.go has the types task and algorithm. A task is one index of the batch, with copies of the operands (in), which
// may be overwritten, and results (out), which are 0 at first. An algorithm has the functions that compute a task. Its
// function ranks gives the number of dimensions besides the batch of each operand and result: 2 for a matrix, 1 for a
// vector. Its function solverElements gives the number of elements of temporary matrices. elementsOfCopies(1) stands
// for one copy of all operands.
var (
	LinalgQR = qrOp(graph.SchemaOf[*linalgQRAttrs](), "linalg_qr", operandA, func(c *graph.Call) string {
		return kit.Attrs[*linalgQRAttrs](c).Mode
	})
	QR = qrOp(graph.SchemaOf[*qrAttrs](), "qr", kit.Self, func(c *graph.Call) string {
		if kit.Attrs[*qrAttrs](c).Some {
			return "reduced"
		}
		return "complete"
	})
	Geqrf = matrixOp(kit.NoAttrs, graph.Semantics{Name: "geqrf",
		Doc: "Factors matrices by reflections I - tau v v^H: `a` has R, and below it the vectors v, whose first " +
			"element, 1, is not stored.", Params: selfOnly, Outputs: []string{"a", "tau"},
		Infer: inferGeqrf, Examples: examples(nil, tallExample, wideExample, complexExample),
	}, algorithm{float: factorToReflections[float64], complex: factorToReflections[complex128],
		ranks: fixedRanks([]int{2}, []int{2, 1})})
	HouseholderProduct = householderOp("linalg_householder_product", []graph.Param{{Name: "input"}, {Name: "tau"}})
	Orgqr              = householderOp("orgqr", []graph.Param{kit.Self, {Name: "input2"}})
	Ormqr              = matrixOp(graph.SchemaOf[*ormqrAttrs](), graph.Semantics{Name: "ormqr",
		Doc: "Multiplies matrices `input3` by the products Q of the reflections that geqrf returns as self and " +
			"`input2`.",
		Params: []graph.Param{kit.Self, {Name: "input2"}, {Name: "input3"}}, Infer: inferOrmqr,
		Examples: []graph.Example{kit.Example(nil, tallExample, kit.F32(2, 3), tallExample),
			kit.Example(graph.Attrs{"left": false, "transpose": true}, complexExample, tensor.New(tensor.Complex128, 2),
				tensor.New(tensor.Complex128, 2, 3))},
	}, algorithm{float: multiplyByQ[float64], complex: multiplyByQ[complex128], solverElements: elementsOfCopies(1),
		ranks: fixedRanks([]int{2, 1, 2}, []int{2})})
)

// qrOp defines linalg_qr or qr. mode returns the mode of a call.
func qrOp(attrs *graph.Schema, name string, operand graph.Param, mode func(*graph.Call) string) *graph.Op {
	return matrixOp(attrs, graph.Semantics{Name: name,
		Doc: "Returns the factors of matrices Q R: Q has orthonormal columns, and R is an upper triangle. As with LAPACK, " +
			"elements of R's diagonal can be negative.", Params: []graph.Param{operand}, Outputs: []string{"Q", "R"},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			aType := c.Type(0)
			if err := (matrixCheck{name: "linalg.qr", kernel: "geqrf", integerErrorNamesOp: true}).check(aType); err != nil {
				return nil, err
			}
			rank := aType.Rank()
			rows, cols := aType.Shape[rank-2], aType.Shape[rank-1]
			rRows := rows.Min(cols) // also the number of columns of Q
			if mode(c) == "complete" {
				rRows = rows
			}
			rType, err := columnMajor(aType.DType, withBatch(batchSizes(aType), rRows, cols)...)
			if err != nil || mode(c) == "r" {
				return c.NewResults(emptyVector(aType.DType), rType), err
			}
			qType, err := columnMajor(aType.DType, withBatch(batchSizes(aType), rows, rRows)...)
			return c.NewResults(qType, rType), err
		},
		Examples: examples(nil, tallExample, wideExample, complexExample),
	}, algorithm{
		float:          func(t *task[float64]) error { return factorQR(t, mode(t.call)) },
		complex:        func(t *task[complex128]) error { return factorQR(t, mode(t.call)) },
		solverElements: elementsOfCopies(1), ranks: matrixResults(2)}) // two results: Q and R
}

// factorQR computes the factors Q and R of the matrix of a task. If mode is r, it computes only R.
func factorQR[T number](t *task[T], mode string) error {
	a, q, r := t.in[0], t.out[0], t.out[1]
	tau := t.zeros(min(a.rows, a.cols), 1).elements
	t.qr(a, tau)
	for j := range r.cols { // R is the upper triangle of a
		copy(r.column(j), a.column(j)[:min(j+1, r.rows)])
	}
	if mode == "r" {
		return nil
	}
	for i := range min(q.rows, q.cols) { // q becomes the identity, and then Q times the identity
		q.set(i, i, t.fromParts(1, 0))
	}
	t.multiplyQ(a, tau, q, notAdjoint)
	return nil
}

func inferGeqrf(c *graph.Call) ([]graph.Result, error) {
	aType := c.Type(0)
	rank := aType.Rank()
	if rank < 2 {
		return nil, errors.New("torch.geqrf: input must have at least 2 dimensions.")
	}
	if err := (matrixCheck{kernel: "geqrf"}).checkDType(aType.DType); err != nil {
		return nil, err
	}
	out, err := columnMajor(aType.DType, aType.Shape...)
	reflections := aType.Shape[rank-2].Min(aType.Shape[rank-1])
	return c.NewResults(out, tensor.NewType(aType.DType, withBatch(batchSizes(aType), reflections)...)), err
}

// factorToReflections computes the results a and tau of geqrf.
func factorToReflections[T number](t *task[T]) error {
	t.qr(t.in[0], t.out[1].elements)
	copy(t.out[0].elements, t.in[0].elements)
	return nil
}

// householderOp defines linalg_householder_product or orgqr, which multiply reflections. The result has as many columns
// as the operand: the first columns of the product.
func householderOp(name string, params []graph.Param) *graph.Op {
	return matrixOp(kit.NoAttrs, graph.Semantics{Name: name,
		Doc: "Returns the first columns of the products of reflections, which geqrf returns.", Params: params,
		Infer: inferHouseholder,
		Examples: []graph.Example{kit.Example(nil, tallExample, kit.F32(2, 2)),
			kit.Example(nil, complexExample, tensor.New(tensor.Complex128, 3))},
	}, algorithm{float: multiplyReflections[float64], complex: multiplyReflections[complex128],
		ranks: fixedRanks([]int{2, 1}, []int{2})})
}

func inferHouseholder(c *graph.Call) ([]graph.Result, error) {
	const name = "torch.linalg.householder_product: "
	inputType, tau := c.Type(0), c.Type(1)
	rank := inputType.Rank()
	switch {
	case rank < 2:
		return nil, errors.New(name + "input must have at least 2 dimensions.")
	case inputType.Shape[rank-2].Lt(inputType.Shape[rank-1]).Holds():
		return nil, errors.New(name + "input.shape[-2] must be greater than or equal to input.shape[-1]")
	case tau.Rank() != rank-1:
		return nil, fmt.Errorf(name+"Expected tau to have one dimension less than input, but got tau.ndim equal to %d and "+
			"input.ndim is equal to %d", tau.Rank(), rank)
	case tau.Shape[rank-2].Gt(inputType.Shape[rank-1]).Holds():
		return nil, errors.New(name + "input.shape[-1] must be greater than or equal to tau.shape[-1]")
	case !tensor.SameSizes(tau.Shape[:rank-2], batchSizes(inputType)):
		return nil, fmt.Errorf(name+"Expected batch dimensions of tau to be equal to input.shape[:-2], but got %s",
			tensor.Sizes(tau.Shape[:rank-2]))
	case inputType.DType != tau.DType:
		return nil, fmt.Errorf(name+"tau dtype %s does not match input dtype %s", tau.DType.TorchName(),
			inputType.DType.TorchName())
	}
	if err := (matrixCheck{kernel: "orgqr"}).checkDType(inputType.DType); err != nil {
		return nil, err
	}
	out, err := columnMajor(inputType.DType, inputType.Shape...)
	return c.NewResult(out), err
}

// multiplyReflections computes the first columns of Q, the product of the reflections of a task, as Q times the first
// columns of the identity.
func multiplyReflections[T number](t *task[T]) error {
	q := t.out[0]
	for i := range q.cols {
		q.set(i, i, t.fromParts(1, 0))
	}
	t.multiplyQ(t.in[0], t.in[1].elements, q, notAdjoint)
	return nil
}

func inferOrmqr(c *graph.Call) ([]graph.Result, error) {
	const name = "torch.ormqr: "
	inputType, tau, other := c.Type(0), c.Type(1), c.Type(2)
	rank, otherRank := inputType.Rank(), other.Rank()
	if rank < 2 || otherRank < 2 {
		return nil, errors.New(name + "input and other must have at least 2 dimensions.")
	}
	// Q is a square matrix with as many rows as input. The product with Q sums over a dimension of other: summedSize.
	summedSize, sizeName := other.Shape[otherRank-2], "other.shape[-2]"
	if !kit.Attrs[*ormqrAttrs](c).Left {
		summedSize, sizeName = other.Shape[otherRank-1], "other.shape[-1]"
	}
	switch {
	case tau.Rank() != rank-1:
		return nil, fmt.Errorf(name+"Expected tau to have one dimension less than input, but got tau.ndim equal to %d and "+
			"input.ndim is equal to %d", tau.Rank(), rank)
	case otherRank != rank:
		return nil, fmt.Errorf(name+"Expected other to have the same number of dimensions as input, but got other.ndim "+
			"equal to %d and input.ndim is equal to %d", otherRank, rank)
	case summedSize.Lt(tau.Shape[rank-2]).Holds():
		return nil, errors.New(name + sizeName + " must be greater than or equal to tau.shape[-1]")
	case summedSize.Ne(inputType.Shape[rank-2]).Holds():
		return nil, errors.New(name + sizeName + " must be equal to input.shape[-2]")
	case inputType.Shape[rank-1].Lt(tau.Shape[rank-2]).Holds():
		return nil, errors.New(name + "tau.shape[-1] must be at most input.shape[-1]")
	case !tensor.SameSizes(tau.Shape[:rank-2], batchSizes(inputType)):
		return nil, fmt.Errorf(name+"Expected batch dimensions of tau to be equal to input.shape[:-2], but got %s",
			tensor.Sizes(tau.Shape[:rank-2]))
	case !tensor.SameSizes(batchSizes(other), batchSizes(inputType)):
		return nil, fmt.Errorf(name+"Expected batch dimensions of other to be equal to input.shape[:-2], but got %s",
			tensor.Sizes(batchSizes(other)))
	case inputType.DType != tau.DType || inputType.DType != other.DType:
		return nil, fmt.Errorf(name+"Expected input, tau and other to have the same dtype, but got %s, %s and %s",
			inputType.DType.TorchName(), tau.DType.TorchName(), other.DType.TorchName())
	}
	if err := (matrixCheck{kernel: "ormqr"}).checkDType(inputType.DType); err != nil {
		return nil, err
	}
	out, err := columnMajor(inputType.DType, other.Shape...)
	return c.NewResult(out), err
}

// multiplyByQ computes the result of ormqr for C = input3: Q C or C Q, or with Q^H in place of Q. C Q is the adjoint of
// Q^H C^H.
func multiplyByQ[T number](t *task[T]) error {
	attrs, tau, other := kit.Attrs[*ormqrAttrs](t.call), t.in[1].elements, t.in[2]
	if attrs.Left {
		copy(t.out[0].elements, other.elements)
		t.multiplyQ(t.in[0], tau, t.out[0], attrs.Transpose)
		return nil
	}
	otherAdjoint := t.adjointOf(other)
	t.multiplyQ(t.in[0], tau, otherAdjoint, !attrs.Transpose)
	t.storeAdjoint(otherAdjoint, t.out[0])
	return nil
}
