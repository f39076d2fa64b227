package reduce_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// rowCalls are calls that are expressions over the rows of a matrix.
var rowCalls = []struct {
	op string
	a  graph.Attrs
}{
	{"sum", graph.Attrs{"dim": 1}}, {"mean", graph.Attrs{"dim": 1}}, {"prod", graph.Attrs{"dim": 1}},
	{"amax", graph.Attrs{"dim": 1}}, {"amin", graph.Attrs{"dim": 1}}, {"any", graph.Attrs{"dim": 1}},
	{"all", graph.Attrs{"dim": 1}}, {"logsumexp", graph.Attrs{"dim": 1}}, {"var", graph.Attrs{"dim": 1}},
	{"std_mean", graph.Attrs{"dim": 1}}, {"norm", graph.Attrs{"dim": 1}}, {"norm", graph.Attrs{"dim": 1, "p": 1}},
	{"norm", graph.Attrs{"dim": 1, "p": math.Inf(1)}}, {"norm", graph.Attrs{"dim": 1, "p": math.Inf(-1)}},
	{"norm", graph.Attrs{"dim": 1, "p": 0}}, {"softmax", graph.Attrs{"dim": 1}}, {"log_softmax", graph.Attrs{"dim": 1}},
	{"layer_norm", graph.Attrs{"normalized_shape": 70}}, {"group_norm", graph.Attrs{"num_groups": 7}},
	{"group_norm", graph.Attrs{"num_groups": 1}}, {"rms_norm", graph.Attrs{"normalized_shape": 70}},
}

// specialRows are rows of infinities, NaN, negative zeros and numbers that overflow.
func specialRows(rng *rand.Rand, d tensor.DType, n int, turned bool) *tensor.Tensor {
	inf, nan := math.Inf(1), math.NaN()
	kinds := [][]float64{{0}, {math.Copysign(0, -1)}, {-inf}, {inf}, {nan}, {1, -inf}, {1, inf}, {2, nan}, {inf, -inf},
		{6e4}, {-3, 0, 5}, {1e-8, 1}, {nan, inf}, {-5, -7}}
	m := tensor.New(d, len(kinds), n)
	if turned {
		m = m.WithStrides([]int{1, len(kinds)})
	}
	x := tensor.Empty(m)
	for i, k := range kinds {
		for j := range n {
			x.Set(tensor.FloatScalar(k[rng.IntN(len(k))]), i, j)
		}
	}
	return x
}

// TestRowsBesideFolds compares machine code with the kernels that run without it: folds in Go or the interpreter. The
// mean of std_mean is compared with the definition, because the fold updates means by differences, which are NaN for
// infinities.
func TestRowsBesideFolds(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("no machine code here")
	}
	compiles := loops.CodeAvailable
	defer func() { loops.CodeAvailable = compiles }()
	rng := rand.New(rand.NewPCG(1, 5))
	for _, tc := range rowCalls {
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float64} {
			for _, turned := range []bool{false, true} {
				in := []*tensor.Tensor{specialRows(rng, d, 70, turned)}
				op, c, err := kerneltest.NewReduceCall(tc.op, tc.a, in)
				if err != nil {
					t.Fatal(err)
				}
				rows, err := op.Rows(c)
				if err != nil || rows == nil {
					t.Fatalf("%s %v of %v: no expression: %v", tc.op, tc.a, d, err)
				}
				if k, err := fusion.CompileRows(rows, c); err != nil || k == nil {
					t.Errorf("%s %v of %v: no machine code: %v", tc.op, tc.a, d, err)
				}
				got, err := kerneltest.RunReduce(op, c, in, false)
				if err != nil {
					t.Fatal(err)
				}
				loops.CodeAvailable = func() bool { return false }
				want, err := kerneltest.RunReduce(op, c, in, false)
				loops.CodeAvailable = compiles
				if err != nil {
					t.Fatal(err)
				}
				def, err := op.Ref(c, in)
				if err != nil {
					t.Fatal(err)
				}
				if tc.op == "std_mean" {
					want[1] = def[1]
				}
				if err := kerneltest.CompareResults(op, c, in, got, want); err != nil {
					t.Errorf("%s %v of %v, turned %v: %v", tc.op, tc.a, d, turned, err)
				}
			}
		}
	}
}
