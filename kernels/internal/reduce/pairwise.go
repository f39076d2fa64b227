package reduce

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type pairwiseAttrs struct {
	Classes int `attr:"classes" doc:"number of classes"`
}

// PairwiseProbabilities computes the probabilities of classes from the decisions of a support vector machine between
// pairs of classes, as libsvm does.
var PairwiseProbabilities = kit.Define[*pairwiseAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "pairwise_probabilities",
		Doc: "Computes the probabilities of k classes from the probabilities that the first class of each pair wins: " +
			"[rows, k(k-1)/2] gives [rows, k]. The pairs are in the order (0, 1), (0, 2), ..., (1, 2), ...\n" +
			"The method is the second of Wu, Lin and Weng, Probability Estimates for Multi-class Classification by " +
			"Pairwise Coupling, 2004. It iterates until errors are below 0.005/k, at most 100 times.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			selfType := c.Type(0)
			if selfType.DType != tensor.Float32 && selfType.DType != tensor.Float64 {
				return nil, kit.NotImplemented("pairwise_probabilities", selfType.DType)
			}
			if selfType.Rank() != 2 {
				return nil, fmt.Errorf("pairwise_probabilities: self must have 2 dimensions, got %s",
					tensor.Sizes(selfType.Shape))
			}
			classes := kit.Attrs[*pairwiseAttrs](c).Classes
			if classes < 2 || classes > maxPairwiseClasses {
				return nil, fmt.Errorf("pairwise_probabilities: classes must be 2 to %d, got %d", maxPairwiseClasses, classes)
			}
			if pairs := classes * (classes - 1) / 2; !kit.SizeIs(selfType.Shape[1], pairs) {
				return nil, fmt.Errorf("pairwise_probabilities: dimension 1 of self must have size %d, the number of pairs of "+
					"%d classes, got %v", pairs, classes, selfType.Shape[1])
			}
			out, err := kit.FreshType(selfType.DType, []sym.Int{selfType.Shape[0], sym.Of(classes)})
			return c.NewResult(out), err
		},
		Ref: pairwiseReference,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(4, 3)}, Attrs: graph.Attrs{"classes": 3}},
			{In: []tensor.Meta{tensor.New(tensor.Float64, 3, 6).WithStrides([]int{1, 3})}, Attrs: graph.Attrs{"classes": 4}}},
	},
	Facts: graph.Facts{
		WritesAnyDenseLayout: true,
		Parallel:             kit.LoopsExceptDims(1),
		UnfusableReason:      "iterates over a whole row, in its own kernel",
		Flops: func(c *graph.Call) float64 {
			const flopsPerPair = 10 // an estimate: the number of iterations depends on the probabilities
			classes := c.Out[0].Shape[1]
			return float64(c.Out[0].Numel()) * float64(classes) * flopsPerPair
		},
	},
	Lowerings: graph.Lowerings{Compile: compilePairwise},
})

// maxPairwiseClasses bounds the memory of a worker, which has a matrix [classes, classes] of float64.
const maxPairwiseClasses = 1 << 12

// The bounds of the iterations, as in libsvm.
const (
	maxPairwiseIterations = 100
	maxPairwiseError      = 0.005 // iterations end when the greatest error is below maxPairwiseError/classes
)

// compilePairwise returns a kernel whose units of work are rows.
func compilePairwise(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	builder := copies.NewKernelBuilder(c)
	rows, pairs, classes := c.Out[0].Shape[0], c.Meta(0).Shape[1], c.Out[0].Shape[1]
	var states graph.PerWorker[coupling]
	states.Make = func() *coupling { return newCoupling(classes) }
	buffers := []kit.Buffer{builder.Result(0, tensor.Float64), builder.ToRowMajor(builder.Operand(0), tensor.Float64)}
	rowCost := 20 * classes * classes // an estimate: the number of iterations depends on the probabilities
	phase := copies.ChunkedPhase(rows, rowCost, func(mem *graph.Mem, begin, end int) error {
		state := states.Get(mem)
		for row := begin; row < end; row++ {
			copy(state.pairs, kit.PlaneOf[float64](mem.Ptrs[1], row, pairs)) // 1: the operand
			state.mem = mem
			copy(kit.PlaneOf[float64](mem.Ptrs[0], row, classes), state.solve()) // 0: the result
			state.mem = nil                                                      // a state outlives the run
		}
		return nil
	})
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, phase)
	return builder.Kernel()
}

// pairwiseReference is the reference implementation.
func pairwiseReference(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	classes := kit.Attrs[*pairwiseAttrs](c).Classes
	out, state := tensor.Zeros(in[0].DType, in[0].Shape[0], classes), newCoupling(classes)
	for row := range in[0].Shape[0] {
		for i := range in[0].Shape[1] {
			state.pairs[i] = in[0].At(row, i).Float()
		}
		for class, probability := range state.solve() {
			out.Set(tensor.FloatScalar(probability), row, class)
		}
	}
	return []*tensor.Tensor{out}, nil
}

// coupling computes the probabilities p of the classes from a row of the operand. Let r[i][j] be the probability that
// class i wins against class j. The row has r[0][1], r[0][2], and so on, and r[j][i] is 1 - r[i][j]. The probabilities
// minimize p*Q*p under the condition that their sum is 1. The elements of the matrix Q are
//
//	Q[i][i] = sum over j != i of r[j][i]^2
//	Q[i][j] = -r[j][i]*r[i][j]
//
// At the minimum, all elements of Q*p equal p*Q*p. The error is the greatest difference between an element of Q*p and
// p*Q*p.
type coupling struct {
	classes int
	pairs   []float64  // the operand's row
	q       []float64  // the matrix Q, [classes, classes]
	p       []float64  // the probabilities
	qp      []float64  // the product Q*p
	mem     *graph.Mem // stops the computation if the run is cancelled; nil for the reference
}

// newCoupling returns a state with memory for the given number of classes.
func newCoupling(classes int) *coupling {
	return &coupling{classes: classes, pairs: make([]float64, classes*(classes-1)/2), q: make([]float64, classes*classes),
		qp: make([]float64, classes), p: make([]float64, classes)}
}

// solve computes the probabilities of the row in s.pairs. The result is valid until the next call. solve starts with
// equal probabilities, and adjusts one probability after another until the error is small.
func (s *coupling) solve() []float64 {
	s.fillQ()
	for i := range s.p {
		s.p[i] = 1 / float64(s.classes)
	}
	for range maxPairwiseIterations {
		pqp := s.multiplyQ()
		greatestError := 0.0
		for _, element := range s.qp {
			greatestError = max(greatestError, math.Abs(element-pqp))
		}
		if greatestError < maxPairwiseError/float64(s.classes) {
			break
		}
		for i := range s.classes {
			pqp = s.adjust(i, pqp)
		}
	}
	return s.p
}

// fillQ computes Q from the operand's row.
func (s *coupling) fillQ() {
	classes := s.classes
	clear(s.q)
	pair := 0
	for i := range classes {
		for j := i + 1; j < classes; j++ {
			r := s.pairs[pair] // r[i][j]; r[j][i] is 1-r
			s.q[i*classes+i] += float64((1 - r) * (1 - r))
			s.q[j*classes+j] += float64(r * r)
			s.q[i*classes+j] = -r * (1 - r)
			s.q[j*classes+i] = s.q[i*classes+j]
			pair++
		}
	}
}

// multiplyQ computes the product Q*p, and returns p*Q*p.
func (s *coupling) multiplyQ() (pqp float64) {
	classes := s.classes
	for i := range classes {
		s.qp[i] = 0
		for j, p := range s.p {
			s.qp[i] += float64(s.q[i*classes+j] * p)
		}
		pqp += float64(s.p[i] * s.qp[i])
		s.mem.CheckContextAfter(classes) // one simple step for each element of s.p
	}
	return pqp
}

// adjust adds delta to p[i], such that element i of Q*p becomes equal to pqp, the value of p*Q*p. It then divides all
// elements of p by their sum, 1+delta. It updates Q*p and returns the new p*Q*p. Adding delta to p[i] increases p*Q*p
// by delta*(delta*Q[i][i] + 2*(Q*p)[i]), because Q is symmetric.
func (s *coupling) adjust(i int, pqp float64) float64 {
	classes := s.classes
	delta := (pqp - s.qp[i]) / s.q[i*classes+i]
	s.p[i] += delta
	pqp = (pqp + float64(delta*(float64(delta*s.q[i*classes+i])+2*s.qp[i]))) / (1 + delta) / (1 + delta)
	for j := range classes {
		s.qp[j] = (s.qp[j] + float64(delta*s.q[i*classes+j])) / (1 + delta)
		s.p[j] /= 1 + delta
	}
	s.mem.CheckContextAfter(classes)
	return pqp
}
