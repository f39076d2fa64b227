package composite

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the tolerances up to which singular values count as 0: an absolute one, atol, and one relative to the
// greatest singular value of a matrix, rtol. Each is an attribute for all matrices, or an operand with a number for
// each matrix.

const tolerancesDoc = "Singular values up to the greater of `atol` and `rtol` times the greatest singular value " +
	"count as 0. A tolerance is an attribute, or an operand that is broadcast to the batch."

// toleranceParams returns the operands of an op that are tolerances: atol, rtol and `older`, a deprecated name of atol
// or rtol.
func toleranceParams(older string) (params []graph.Param) {
	for _, name := range []string{"atol", "rtol", older} {
		params = append(params, graph.Param{Name: name, Optional: true})
	}
	return params
}

// givenTolerance is the tolerance atol or rtol of a call: a number, a tensor, or neither if the call omits it.
type givenTolerance struct {
	number *float64
	tensor *graph.Arg
}

func numberTolerance(x float64) givenTolerance { return givenTolerance{number: &x} }

func (t givenTolerance) isTensor() bool { return t.tensor != nil && t.tensor.Kind != graph.Null }

func (t givenTolerance) isGiven() bool { return t.number != nil || t.isTensor() }

// toleranceOf returns the tolerance that a call of linalg_NAME gives as an attribute or an operand.
func (s applier) toleranceOf(op, name string, number *float64, operand *graph.Arg) givenTolerance {
	tolerance := givenTolerance{number, operand}
	if tolerance.isTensor() {
		s.Reject(number != nil, "torch.linalg.%s: %s is given twice, as an operand and as an attribute", op, name)
		dtype := operand.Type().DType
		s.Reject(dtype.IsComplex(), "torch.linalg.%s: %s tensor of complex type is not supported. Got %s", op, name,
			dtype.TorchName())
	}
	return tolerance
}

// zeroThreshold returns the number up to which singular values of the matrices x count as 0: max(atol, rtol * greatest
// singular value). values has the singular values. If rtol is omitted, and atol is omitted or at most 0, rtol is
// max(rows, columns) of the matrices times the precision of the dtype.
func (s applier) zeroThreshold(x, values *graph.Arg, atol, rtol givenTolerance) *graph.Arg {
	absolute := 0.0
	if atol.number != nil {
		absolute = *atol.number
	}
	if !rtol.isGiven() && !atol.isTensor() {
		rtol = numberTolerance(0)
		if absolute <= 0 {
			rtol = numberTolerance(s.relativePrecision(x))
		}
	}
	if !atol.isTensor() && !rtol.isTensor() && *rtol.number == 0 {
		return float(max(absolute, 0))
	}
	greatest := s.Apply(reduce.Amax, graph.Attrs{"dim": []int{-1}, "keepdim": true}, values)
	var relative *graph.Arg
	switch {
	case rtol.isTensor():
		relative = s.mul(s.unsqueeze(rtol.tensor, -1), greatest)
	case rtol.number != nil:
		relative = s.mul(greatest, float(*rtol.number))
	default: // rtol is omitted: it is the relative precision for matrices with atol <= 0, and 0 for others
		isZero := s.to(s.Apply(pointwise.Le, nil, s.unsqueeze(atol.tensor, -1), float(0)), tensor.Float64)
		relative = s.mul(s.mul(isZero, float(s.relativePrecision(x))), greatest)
	}
	if atol.isTensor() {
		return s.Apply(pointwise.Maximum, nil, s.unsqueeze(atol.tensor, -1), relative)
	}
	return s.Apply(pointwise.ClampMin, graph.Attrs{"min": absolute}, relative)
}

// relativePrecision returns max(rows, columns) of the matrices x times the precision of their dtype.
func (s applier) relativePrecision(x *graph.Arg) float64 {
	shape := s.shape(x)
	rank := len(shape)
	return kit.Precision(x.Type().DType) * float64(max(shape[rank-1].Specialize(), shape[rank-2].Specialize()))
}
