package pool_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

func TestPools(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 1))
	for i := range 400 {
		shape := []int{1 + r.IntN(2), 1 + r.IntN(5), 4 + r.IntN(9), 4 + r.IntN(9)}
		if r.IntN(5) == 0 {
			shape = shape[1:]
		}
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		x := kerneltest.RandomTensor(r, kerneltest.RandomLayout(r, d, shape))
		if r.IntN(10) == 0 {
			x.Set(tensor.FloatScalar(math.NaN()), make([]int, len(shape))...)
		}
		kh, kw := 1+r.IntN(3), 1+r.IntN(3)
		a := graph.Attrs{"kernel_size": []int{kh, kw}, "padding": []int{r.IntN(kh/2 + 1), r.IntN(kw/2 + 1)},
			"ceil_mode": r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			a["stride"] = []int{1 + r.IntN(3), 1 + r.IntN(3)}
		}
		switch i % 5 {
		case 0, 1:
			a["dilation"] = 1 + r.IntN(2)
			if kh > 2 || kw > 2 {
				a["dilation"] = 1
			}
			kerneltest.CheckReduce(t, []string{"max_pool2d", "max_pool2d_with_indices"}[i%2], a, x)
		case 2:
			a["count_include_pad"] = r.IntN(2) == 0
			if r.IntN(3) == 0 {
				a["divisor_override"] = 3
			}
			kerneltest.CheckReduce(t, "avg_pool2d", a, x)
		default:
			name := []string{"adaptive_avg_pool2d", "adaptive_max_pool2d"}[i%2]
			kerneltest.CheckReduce(t, name, graph.Attrs{"output_size": []int{1 + r.IntN(4), 1 + r.IntN(4)}}, x)
		}
	}
}

func TestPools1d(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 1))
	for i := range 120 {
		shape := []int{1 + r.IntN(3), 1 + r.IntN(5), 4 + r.IntN(30)}
		shape = shape[r.IntN(2):]
		x := kerneltest.RandomTensor(r,
			kerneltest.RandomLayout(r, kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))], shape))
		k := 1 + r.IntN(3)
		a := graph.Attrs{"kernel_size": k, "padding": r.IntN(k/2 + 1), "ceil_mode": r.IntN(2) == 0}
		switch i % 3 {
		case 0:
			kerneltest.CheckReduce(t, "max_pool1d", a, x)
		case 1:
			a["count_include_pad"] = r.IntN(2) == 0
			kerneltest.CheckReduce(t, "avg_pool1d", a, x)
		default:
			kerneltest.CheckReduce(t, "adaptive_avg_pool1d", graph.Attrs{"output_size": 1 + r.IntN(4)}, x)
		}
	}
}

// TestLargePools covers planes that are divided among chunks.
func TestLargePools(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 1))
	for _, m := range []tensor.Meta{
		tensor.New(tensor.Float32, 1, 2, 150, 160),
		tensor.New(tensor.BFloat16, 1, 2, 150, 160),
		tensor.New(tensor.Float32, 1, 1100, 8, 9).WithStrides([]int{1, 1, 9900, 1100}),
		tensor.New(tensor.Float16, 1, 1100, 4, 5).WithStrides([]int{1, 1, 5500, 1100}),
	} {
		x := kerneltest.RandomTensor(r, m)
		kerneltest.CheckReduce(t, "max_pool2d_with_indices", graph.Attrs{"kernel_size": 3, "stride": 2, "padding": 1}, x)
		kerneltest.CheckReduce(t, "avg_pool2d", graph.Attrs{"kernel_size": 3, "stride": 1}, x)
		kerneltest.CheckReduce(t, "adaptive_avg_pool2d", graph.Attrs{"output_size": 1}, x)
	}
}

func TestIntegerAvgPool(t *testing.T) {
	x := tensor.Must(tensor.FromSlice([]int64{7, 0, 0, 0, -7, 0, 0, 0}, 2, 2, 2))
	op, c, err := kerneltest.NewReduceCall("avg_pool2d", graph.Attrs{"kernel_size": 2}, []*tensor.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	out, err := kerneltest.RunReduce(op, c, []*tensor.Tensor{x}, false)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := out[0].At(0, 0, 0).Int(), out[0].At(1, 0, 0).Int(); a != 1 || b != -1 {
		t.Errorf("got %d and %d, want 1 and -1", a, b)
	}
}

func TestPoolRefusals(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 2, 3, 4, 4)
	for _, c := range []struct {
		name string
		a    graph.Attrs
		want string
	}{
		{"max_pool2d", graph.Attrs{"kernel_size": 5}, "Given input size: (3x4x4). Calculated output size: (3x0x0). Output " +
			"size is too small"},
		{"max_pool2d", graph.Attrs{"kernel_size": 2, "stride": 1, "padding": 2}, "pad should be at most half of kernel " +
			"size, but got pad=2 and kernel_size=2"},
		{"avg_pool2d", graph.Attrs{"kernel_size": 2, "divisor_override": 0}, "divisor must be not zero"},
		{"adaptive_avg_pool2d", graph.Attrs{"output_size": []int{1, 2, 3}}, "adaptive_avg_pool2d: output_size must be 2"},
		{"max_pool2d", graph.Attrs{"kernel_size": 2, "stride": 0}, "stride should not be zero"},
	} {
		if _, _, err := kerneltest.NewReduceCall(c.name, c.a, []*tensor.Tensor{x}); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
