package reduce_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
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
	for range testsize.Of(50, 150) {
		shape := kerneltest.RandomShape(r, 1+r.IntN(4))
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		last := shape[r.IntN(len(shape)):]
		in := append([]*tensor.Tensor{kerneltest.RandomTensor(r, kerneltest.RandomLayout(r, d, shape))},
			normParams(r, d, 2, last...)...)
		kerneltest.CheckReduce(t, "layer_norm", graph.Attrs{"normalized_shape": last, "eps": 0.01}, in...)
	}
}

// TestMixedNormParams checks that parameters of a norm have one dtype, with PyTorch's message.
func TestMixedNormParams(t *testing.T) {
	const bf16, f32 = tensor.BFloat16, tensor.Float32
	for _, dtypes := range [][2]tensor.DType{{bf16, f32}, {f32, bf16}} {
		op := kernels.Lookup("layer_norm")
		call, err := kerneltest.CallOf(op, graph.Attrs{"normalized_shape": []int{4}},
			[]tensor.Meta{tensor.New(bf16, 3, 4), tensor.New(dtypes[0], 4), tensor.New(dtypes[1], 4)})
		require.NoError(t, err)
		_, err = kerneltest.Infer(op, call)
		require.ErrorContains(t, err, "expected scalar type BFloat16 but found Float")
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

// TestNormsFarFromZero compares norms of rows whose mean is many deviations away from 0 with float64, to a few units in
// the last place. Rows of one number become zeros.
func TestNormsFarFromZero(t *testing.T) {
	means := []float64{0, 1, -100, 1e4, 1e6, -3e7, 1e30}
	for _, c := range []struct {
		op    string
		shape func(n int) []int
		a     func(n int) graph.Attrs
		sizes []int
	}{
		{"layer_norm", func(n int) []int { return []int{2 * len(means), n} },
			func(n int) graph.Attrs { return graph.Attrs{"normalized_shape": n} }, []int{1, 5, 768, 1025, 4096, 1 << 16}},
		{"group_norm", func(n int) []int { return []int{2 * len(means), 2, n} },
			func(int) graph.Attrs { return graph.Attrs{"num_groups": 1} }, []int{5, 384, 300000}},
		{"instance_norm", func(n int) []int { return []int{1, 2 * len(means), n} },
			func(int) graph.Attrs { return nil }, []int{1, 7, 3136, 300000}},
	} {
		for _, n := range c.sizes {
			for _, deviation := range []float64{1, 0.01} {
				checkFarFromZero(t, c.op, c.a(n), c.shape(n), means, deviation)
			}
		}
	}
}

// TestBatchNormFarFromZero is the same for the statistics of a batch.
func TestBatchNormFarFromZero(t *testing.T) {
	means := []float64{0, 1, -100, 1e4, 1e6, -3e7, 1e30}
	r := rand.New(rand.NewPCG(16, 1))
	for _, n := range []int{5, 49, 3136} {
		data := make([]float32, 2*len(means)*n)
		for i := range data {
			c := i / n
			data[i] = float32(means[c/2] + float64(c%2)*r.NormFloat64())
		}
		x := tensor.Must(tensor.FromSlice(data, 1, 2*len(means), n))
		got, err := kerneltest.RunParts(kernels.Lookup("batch_norm"), graph.Attrs{"training": true},
			[]*tensor.Tensor{x, nil, nil, nil, nil})
		if err != nil {
			t.Fatal(err)
		}
		y, err := tensor.ToSlice[float32](got[0])
		if err != nil {
			t.Fatal(err)
		}
		for c := range 2 * len(means) {
			if err := normed(data[c*n:][:n], y[c*n:][:n]); err != nil {
				t.Errorf("%d around %g, deviation %d: %v", n, means[c/2], c%2, err)
			}
		}
	}
}

func checkFarFromZero(t *testing.T, name string, a graph.Attrs, shape []int, means []float64, deviation float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(15, 1))
	rows, data := 2*len(means), make([]float32, tensor.Numel(shape))
	n := len(data) / rows
	for i := range rows {
		for j := range n {
			v := means[i/2]
			if i%2 == 1 {
				v += deviation * r.NormFloat64()
			}
			data[i*n+j] = float32(v)
		}
	}
	x := tensor.Must(tensor.FromSlice(data, shape...))
	op, c, err := kerneltest.NewReduceCall(name, a, []*tensor.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	got, err := kerneltest.RunReduce(op, c, []*tensor.Tensor{x}, false)
	if err != nil {
		t.Fatal(err)
	}
	y, err := tensor.ToSlice[float32](got[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := normed(data[i*n:][:n], y[i*n:][:n]); err != nil {
			t.Errorf("%s of %d around %g, deviation %g: %v", name, n, means[i/2], deviation*float64(i%2), err)
		}
	}
}

// normed compares y with x less its mean and divided by its deviation. The mean of squares, which rows from 1,025 to
// 4,096 take, loses 2^-50 of the squared mean.
func normed(x, y []float32) error {
	n := float64(len(x))
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += float64(v)
	}
	mean /= n
	for _, v := range x {
		d := float64(v) - mean
		square += d * d / n
	}
	f := 1 / math.Sqrt(square+1e-5)
	bound := 4 * 0x1p-24
	if 1024 < n && n <= 4096 {
		bound += 0x1p-50 * mean * mean * f * f
	}
	for j, v := range x {
		want := (float64(v) - mean) * f
		if got := float64(y[j]); !(math.Abs(got-want) <= bound*max(1, math.Abs(want))) {
			return fmt.Errorf("element %d is %g, want %g", j, got, want)
		}
	}
	return nil
}
