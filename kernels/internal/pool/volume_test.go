package pool_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

func TestVolumePools(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	for i := range 400 {
		dims := 1 + r.IntN(3)
		shape := []int{1 + r.IntN(2), 1 + r.IntN(4)}
		k, pad, stride := make([]int, dims), make([]int, dims), make([]int, dims)
		for d := range dims {
			shape = append(shape, 5+r.IntN(5))
			k[d], stride[d] = 1+r.IntN(3), 1+r.IntN(3)
			pad[d] = r.IntN(k[d]/2 + 1)
		}
		if r.IntN(4) == 0 {
			shape = shape[1:]
		}
		a := graph.Attrs{"kernel_size": k, "padding": pad, "stride": stride, "ceil_mode": r.IntN(2) == 0}
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		if r.IntN(2) == 0 { // ONNX's form
			a["padding"] = append(slices.Clone(pad), pad...)
			for j := range dims {
				a["padding"].([]int)[r.IntN(2)*dims+j] = 0
			}
			if r.IntN(3) == 0 && i%4 < 2 {
				d = []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}[r.IntN(5)]
			}
		}
		x := kerneltest.RandomTensor(r, kerneltest.RandomLayout(r, d, shape))
		if r.IntN(10) == 0 && d.IsFloat() {
			x.Set(tensor.FloatScalar(math.NaN()), make([]int, len(shape))...)
		}
		suffix := []string{"1d", "2d", "3d"}[dims-1]
		a["dilation"] = 1 + r.IntN(2)
		switch i % 4 {
		case 0:
			kerneltest.CheckKernel(t, "max_pool"+suffix, a, []*tensor.Tensor{x})
		case 1:
			kerneltest.CheckKernel(t, "max_pool"+suffix+"_with_indices", a, []*tensor.Tensor{x})
		case 2:
			a["count_include_pad"] = r.IntN(2) == 0
			if dims > 1 && r.IntN(3) == 0 {
				a["divisor_override"] = 3
			}
			kerneltest.CheckKernel(t, "avg_pool"+suffix, a, []*tensor.Tensor{x})
		default:
			a["norm_type"] = []float64{1, 2, 3}[r.IntN(3)]
			kerneltest.CheckKernel(t, "lp_pool", a, []*tensor.Tensor{x})
		}
	}
}

func TestAdaptiveVolumes(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 1))
	for i := range 60 {
		name, dims := "adaptive_avg_pool3d", 3
		switch i % 3 {
		case 1:
			name = "adaptive_max_pool3d"
		case 2:
			name, dims = "adaptive_max_pool1d", 1
		}
		shape := []int{1 + r.IntN(2), 1 + r.IntN(4)}
		var size []int
		for range dims {
			shape, size = append(shape, 1+r.IntN(7)), append(size, 1+r.IntN(4))
		}
		shape = shape[r.IntN(2):]
		x := kerneltest.RandomTensor(r,
			kerneltest.RandomLayout(r, kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))], shape))
		kerneltest.CheckKernel(t, name, graph.Attrs{"output_size": size}, []*tensor.Tensor{x})
	}
}

func TestMaxUnpool(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 1))
	for i := range 60 {
		dims := 1 + i%3
		name := []string{"max_unpool1d", "max_unpool2d", "max_unpool3d"}[dims-1]
		shape := []int{1 + r.IntN(2), 1 + r.IntN(3)}
		size := []int{}
		for range dims {
			shape, size = append(shape, 1+r.IntN(4)), append(size, 3+r.IntN(4))
		}
		shape = shape[r.IntN(2):]
		x := kerneltest.RandomTensor(r,
			kerneltest.RandomLayout(r, kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))], shape))
		index := tensor.Zeros(tensor.Int64, shape...)
		kit.EachIndex(shape, func(at []int) { index.Set(tensor.IntScalar(int64(r.IntN(tensor.Numel(size)))), at...) })
		kerneltest.CheckKernel(t, name, graph.Attrs{"output_size": size}, []*tensor.Tensor{x, index})
		index.Set(tensor.IntScalar(int64(tensor.Numel(size))), make([]int, len(shape))...)
		op, c, err := kerneltest.NewCall(name, graph.Attrs{"output_size": size}, []*tensor.Tensor{x, index})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kerneltest.RunInFilledMemory(op, c, []*tensor.Tensor{x, index}, 0, false); err == nil {
			t.Errorf("%s takes an index out of range", name)
		}
	}
}

func TestVolumeRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape []int
		a     graph.Attrs
		want  string
	}{
		{"max_pool3d", []int{2, 3, 4}, graph.Attrs{"kernel_size": 2}, "non-empty 4D or 5D (batch mode) tensor " +
			"expected for input"},
		{"max_pool3d", []int{2, 4, 4, 4}, graph.Attrs{"kernel_size": []int{2, 2}}, "max_pool3d: kernel_size must either be " +
			"a single int, or a tuple of three ints"},
		{"max_pool3d", []int{2, 4, 4, 4}, graph.Attrs{"kernel_size": 2, "stride": []int{2, 2}},
			"max_pool3d: stride must either be omitted, a single int, or a tuple of three ints"},
		{"max_pool3d", []int{2, 4, 4, 4}, graph.Attrs{"kernel_size": 2, "padding": []int{1, 1}},
			"max_pool3d: padding must be either be a single int, or a tuple of three ints"},
		{"max_pool3d", []int{2, 4, 4, 4}, graph.Attrs{"kernel_size": 2, "padding": 2},
			"pad should be at most half of kernel size, but got pad=2 and kernel_size=2"},
		{"max_pool3d", []int{2, 4, 4, 4}, graph.Attrs{"kernel_size": 2, "stride": -1},
			"stride should be greater than zero, but got dT: -1 dH: -1 dW: -1"},
		{"max_pool3d", []int{2, 4, 4, 4}, graph.Attrs{"kernel_size": 5}, "Given input size: (2x4x4x4). Calculated output " +
			"size: (2x0x0x0). Output size is too small"},
		{"max_pool3d", []int{2, 0, 4, 4, 4}, graph.Attrs{"kernel_size": 2}, "max_pool3d_with_indices_out_cpu_template(): " +
			"Expected input's non-batch dimensions to have positive length, but input has a shape of [2, 0, 4, 4, 4] and " +
			"non-batch dimension 0 has length zero!"},
		{"avg_pool3d", []int{2, 4, 4, 4}, graph.Attrs{"kernel_size": []int{2, 2}},
			"avg_pool3d: kernel_size must be a single int, or a tuple of three ints"},
		{"avg_pool3d", []int{2, 4, 4, 4}, graph.Attrs{"kernel_size": 5}, "input image (T: 4 H: 4 W: 4) smaller than kernel " +
			"size (kT: 5 kH: 5 kW: 5)"},
		{"adaptive_avg_pool3d", []int{2, 3, 0, 4}, graph.Attrs{"output_size": []int{2, 2, 1}},
			"adaptive_avg_pool3d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [2, 3, " +
				"0, 4] with dimension 2 being empty"},
		{"adaptive_max_pool3d", []int{2, 3, 4}, graph.Attrs{"output_size": []int{2, 2, 1}},
			"adaptive_max_pool3d(): Expected 4D or 5D tensor, but got: [2, 3, 4]"},
		{"adaptive_max_pool1d", []int{2, 3, 0}, graph.Attrs{"output_size": 2}, "adaptive_max_pool2d(): Expected input to " +
			"have non-zero size for non-batch dimensions, but input has sizes [2, 3, 1, 0] with dimension 3 being empty"},
	} {
		if _, _, err := kerneltest.NewCall(c.name, c.a,
			[]*tensor.Tensor{tensor.Zeros(tensor.Float32, c.shape...)}); err == nil || err.Error() != c.want {
			t.Errorf("%s %v: %v, want %s", c.name, c.a, err, c.want)
		}
	}
}
