package reduce_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// normParams makes n optional vectors of the shape; of them the last may be a variance.
func normParams(r *rand.Rand, d tensor.DType, n int, shape ...int) []*tensor.Tensor {
	if d.IsReducedFloat() && r.IntN(2) == 0 {
		d = tensor.Float32
	}
	out := make([]*tensor.Tensor, n)
	for i := range out {
		if r.IntN(4) > 0 {
			out[i] = kerneltest.RandomTensor(r, kerneltest.RandomLayout(r, d, shape))
		}
	}
	return out
}

func TestLayerNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	for range 150 {
		shape := kerneltest.RandomShape(r, 1+r.IntN(4))
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		last := shape[r.IntN(len(shape)):]
		in := append([]*tensor.Tensor{kerneltest.RandomTensor(r, kerneltest.RandomLayout(r, d, shape))},
			normParams(r, d, 2, last...)...)
		kerneltest.CheckReduce(t, "layer_norm", graph.Attrs{"normalized_shape": last, "eps": 0.01}, in...)
	}
}

func TestGroupAndInstanceNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	for i := range 150 {
		shape := kerneltest.RandomShape(r, 2+r.IntN(3))
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		groups := 1 + r.IntN(3)
		shape[1] = groups * (1 + r.IntN(4))
		in := append([]*tensor.Tensor{kerneltest.RandomTensor(r, kerneltest.RandomLayout(r, d, shape))},
			normParams(r, d, 2, shape[1])...)
		if i%3 == 0 {
			kerneltest.CheckReduce(t, "instance_norm", graph.Attrs{"eps": 0.01}, in...)
			continue
		}
		kerneltest.CheckReduce(t, "group_norm", graph.Attrs{"num_groups": groups, "eps": 0.01}, in...)
	}
}

func TestBatchNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 1))
	for i := range 150 {
		shape := kerneltest.RandomShape(r, 2+r.IntN(3))
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		p := d
		if d.IsReducedFloat() && r.IntN(2) == 0 {
			p = tensor.Float32
		}
		in := []*tensor.Tensor{kerneltest.RandomTensor(r, kerneltest.RandomLayout(r, d, shape)), nil, nil, nil, nil}
		training := i%2 == 0
		for k := 1; k < 5; k++ {
			if k > 2 && !training || r.IntN(2) == 0 {
				in[k] = positive(kerneltest.RandomTensor(r, tensor.New(p, shape[1])))
			}
		}
		kerneltest.CheckReduce(t, "batch_norm", graph.Attrs{"training": training, "eps": 0.01}, in...)
	}
}

func TestLargeNorms(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 1))
	for _, m := range []tensor.Meta{
		tensor.New(tensor.Float32, 2, 8, 90, 91),
		tensor.New(tensor.Float32, 2, 8, 90, 91).WithStrides([]int{65520, 1, 728, 8}),
		tensor.New(tensor.BFloat16, 1, 2, 300, 200),
	} {
		x := kerneltest.RandomTensor(r, m)
		kerneltest.CheckReduce(t, "batch_norm", graph.Attrs{"training": true}, x)
		kerneltest.CheckReduce(t, "group_norm", graph.Attrs{"num_groups": 2}, x)
		kerneltest.CheckReduce(t, "layer_norm", graph.Attrs{"normalized_shape": m.Shape[2:]}, x)
	}
}

func TestNormRefusals(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 2, 4)
	for _, c := range []struct {
		name string
		a    graph.Attrs
		in   []*tensor.Tensor
		want string
	}{
		{"layer_norm", graph.Attrs{"normalized_shape": 3}, []*tensor.Tensor{x}, "Given normalized_shape=[3], expected " +
			"input with shape [*, 3], but got input of size[2, 4]"},
		{"group_norm", graph.Attrs{"num_groups": 3}, []*tensor.Tensor{x}, "Expected number of channels in input to be " +
			"divisible by num_groups, but got input of shape [2, 4] and num_groups=3"},
		{"batch_norm", nil, []*tensor.Tensor{x}, "running_mean must be defined in evaluation mode"},
		{"batch_norm", graph.Attrs{"training": true}, []*tensor.Tensor{x, tensor.Zeros(tensor.Float32, 3)},
			"weight should contain 4 elements not 3"},
		{"instance_norm", graph.Attrs{"use_input_stats": false}, []*tensor.Tensor{x},
			"Expected running_mean and running_var to be defined when use_input_stats is false"},
		{"softmax", graph.Attrs{"dim": 0}, []*tensor.Tensor{tensor.Zeros(tensor.Int32, 2, 2)},
			"\"softmax_kernel_impl\" not implemented for 'Int'"},
		{"mean", nil, []*tensor.Tensor{tensor.Zeros(tensor.Int64, 2)}, "mean(): could not infer output dtype. Input dtype " +
			"must be either a floating point or complex dtype. Got: Long"},
	} {
		if _, _, err := kerneltest.NewReduceCall(c.name, c.a, c.in); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// TestLayerNormFarFromZero holds rows whose mean is many deviations away from 0 against float64: what the mean loses in
// float32 bounds the error, whatever the variance is computed by. Rows of one number become zeros.
func TestLayerNormFarFromZero(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 1))
	means := []float64{0, 1, -100, 1e4, 1e6, -3e7, 1e30}
	for _, n := range []int{5, 768, 4096, 1 << 16} {
		x := tensor.Empty(tensor.New(tensor.Float32, 2*len(means), n))
		for i := range 2 * len(means) {
			for j := range n {
				v := means[i/2]
				if i%2 == 1 {
					v += r.NormFloat64()
				}
				x.Set(tensor.FloatScalar(v), i, j)
			}
		}
		op, c, err := kerneltest.NewReduceCall("layer_norm", graph.Attrs{"normalized_shape": n}, []*tensor.Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		got, err := kerneltest.RunReduce(op, c, []*tensor.Tensor{x}, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 * len(means) {
			checkNormed(t, x, got[0], i, n)
		}
	}
}

func checkNormed(t *testing.T, x, y *tensor.Tensor, row, n int) {
	t.Helper()
	mean, square := 0.0, 0.0
	for j := range n {
		mean += x.At(row, j).Float() / float64(n)
	}
	for j := range n {
		d := x.At(row, j).Float() - mean
		square += d * d / float64(n)
	}
	f := 1 / math.Sqrt(square+1e-5)
	for j := range n {
		want := (x.At(row, j).Float() - mean) * f
		if square == 0 || mean == x.At(row, j).Float() {
			want = 0
		}
		got := y.At(row, j).Float()
		if bound := 1e-6 + (math.Abs(mean)*f+math.Abs(want))*0x1p-23; !(math.Abs(got-want) <= bound) {
			t.Fatalf("row %d of %d, of mean %g: element %d is %g, want %g within %g", row, n, mean, j, got, want, bound)
		}
	}
}
