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

// PairwiseProbabilities couples the decisions of a support vector machine between pairs of classes, as libsvm does.
var PairwiseProbabilities = kit.Define[pairwiseAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "pairwise_probabilities",
		Doc: "Computes the probabilities of k classes from those of the first of each pair of classes: [rows, k(k-1)/2] " +
			"gives [rows, k]. The pairs are in the order (0, 1), (0, 2), ..., (1, 2), ...\n" +
			"The method is the second of Wu, Lin and Weng, Probability Estimates for Multi-class Classification by " +
			"Pairwise Coupling, 2004. It iterates until errors are below 0.005/k, at most 100 times.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			x := c.Type(0)
			if x.DType != tensor.Float32 && x.DType != tensor.Float64 {
				return nil, kit.NotImplemented("pairwise_probabilities", x.DType)
			}
			if x.Rank() != 2 {
				return nil, fmt.Errorf("pairwise_probabilities: self must have 2 dimensions, got %s", tensor.Sizes(x.Shape))
			}
			k := kit.Attrs[pairwiseAttrs](c).Classes
			if k < 2 || k > maxPairwiseClasses || !kit.SizeIs(x.Shape[1], k*(k-1)/2) {
				return nil, fmt.Errorf("pairwise_probabilities: %v is not the number of pairs of %d classes", x.Shape[1], k)
			}
			out, err := kit.FreshType(x.DType, []sym.Int{x.Shape[0], sym.Of(k)})
			return c.One(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			k := kit.Attrs[pairwiseAttrs](c).Classes
			out, s := tensor.Zeros(in[0].DType, in[0].Shape[0], k), newCoupling(k)
			for r := range in[0].Shape[0] {
				for i := range in[0].Shape[1] {
					s.pairs[i] = in[0].At(r, i).Float()
				}
				for i, p := range s.solve() {
					out.Set(tensor.FloatScalar(p), r, i)
				}
			}
			return []*tensor.Tensor{out}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(4, 3)}, Attrs: graph.Attrs{"classes": 3}},
			{In: []tensor.Meta{tensor.New(tensor.Float64, 3, 6).WithStrides([]int{1, 3})}, Attrs: graph.Attrs{"classes": 4}}},
	},
	Facts: graph.Facts{
		WritesAnyOrder:  true,
		Parallel:        kit.LoopsExceptDims(1),
		UnfusableReason: "iterates over a whole row, in its own kernel",
		Flops: func(c *graph.Call) float64 {
			k := c.Out[0].Shape[1]
			return float64(c.Out[0].Numel()) * float64(k) * 10
		},
	},
	Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
		if c.Out[0].Numel() == 0 {
			return &graph.Kernel{}, nil
		}
		x, rows, pairs, k := copies.NewKernelBuilder(c), c.Out[0].Shape[0], c.Meta(0).Shape[1], c.Out[0].Shape[1]
		var states graph.PerWorker[coupling]
		states.Make = func() *coupling { return newCoupling(k) }
		x.AddPhases(0, 0, []kit.Buffer{x.Result(0, tensor.Float64), x.Dense(x.In(0), tensor.Float64)},
			copies.ChunkedPhase(rows, 20*k*k, func(m *graph.Mem, begin, end int) error {
				s := states.Of(m)
				for r := begin; r < end; r++ {
					copy(s.pairs, kit.PlaneOf[float64](m.Ptrs[1], r, pairs))
					s.mem = m
					copy(kit.PlaneOf[float64](m.Ptrs[0], r, k), s.solve())
					s.mem = nil
				}
				return nil
			}))
		return x.Kernel()
	}},
})

// maxPairwiseClasses bounds the memory of a worker, which has a matrix [classes, classes].
const maxPairwiseClasses = 1 << 12

// coupling computes the probabilities of a row.
type coupling struct {
	classes int
	pairs   []float64 // the operand's row
	q       []float64 // the matrix Q of the method, [classes, classes]
	qp, p   []float64 // the product of Q and p; the probabilities
	mem     *graph.Mem
}

func newCoupling(classes int) *coupling {
	return &coupling{classes: classes, pairs: make([]float64, classes*(classes-1)/2), q: make([]float64, classes*classes),
		qp: make([]float64, classes), p: make([]float64, classes)}
}

// solve returns the probabilities. They are valid until the next call. It minimizes p*Q*p for probabilities p whose sum
// is 1. With r[i][j], the probability of i against j, Q has
//
//	Q[i][i] = sum over j != i of r[j][i]^2
//	Q[i][j] = -r[j][i]*r[i][j]
func (s *coupling) solve() []float64 {
	classes := s.classes
	clear(s.q)
	pair := 0
	for i := range classes {
		s.p[i] = 1 / float64(classes)
		for j := i + 1; j < classes; j++ {
			probability := s.pairs[pair] // the probability of i against j
			s.q[i*classes+i] += float64((1 - probability) * (1 - probability))
			s.q[j*classes+j] += float64(probability * probability)
			s.q[i*classes+j] = -probability * (1 - probability)
			s.q[j*classes+i] = s.q[i*classes+j]
			pair++
		}
	}
	for range 100 {
		// At the minimum, all elements of Q*p equal p*Q*p.
		pqp, worst := 0.0, 0.0
		for i := range classes {
			s.qp[i] = 0
			for j, p := range s.p {
				s.qp[i] += float64(s.q[i*classes+j] * p)
			}
			pqp += float64(s.p[i] * s.qp[i])
			s.mem.Count(classes)
		}
		for _, v := range s.qp {
			worst = max(worst, math.Abs(v-pqp))
		}
		if worst < 0.005/float64(classes) {
			break
		}
		for i := range classes {
			// p[i] grows by step; then all of p is divided by its sum, 1+step. pqp and qp follow.
			step := (pqp - s.qp[i]) / s.q[i*classes+i]
			s.p[i] += step
			pqp = (pqp + float64(step*(float64(step*s.q[i*classes+i])+2*s.qp[i]))) / (1 + step) / (1 + step)
			for j := range classes {
				s.qp[j] = (s.qp[j] + float64(step*s.q[i*classes+j])) / (1 + step)
				s.p[j] /= 1 + step
			}
			s.mem.Count(classes)
		}
	}
	return s.p
}
