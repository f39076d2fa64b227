package product_test

import (
	"testing"

	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

func BenchmarkMatmul(b *testing.B) {
	f := func(d tensor.DType, shape ...int) *tensor.Tensor {
		return kerneltest.BenchTensor(tensor.New(d, shape...))
	}
	b.Run("1024x1024x1024", func(b *testing.B) {
		kerneltest.BenchProduct(b, "matmul", nil,
			[]*tensor.Tensor{f(tensor.Float32, 1024, 1024), f(tensor.Float32, 1024, 1024)})
	})
	b.Run("bfloat16-1024x1024x1024", func(b *testing.B) {
		kerneltest.BenchProduct(b, "matmul", nil,
			[]*tensor.Tensor{f(tensor.BFloat16, 1024, 1024), f(tensor.BFloat16, 1024, 1024)})
	})
	b.Run("float64-512x512x512", func(b *testing.B) {
		kerneltest.BenchProduct(b, "matmul", nil, []*tensor.Tensor{f(tensor.Float64, 512, 512), f(tensor.Float64, 512, 512)})
	})
	b.Run("int32-256x256x256", func(b *testing.B) {
		kerneltest.BenchProduct(b, "matmul", nil, []*tensor.Tensor{f(tensor.Int32, 256, 256), f(tensor.Int32, 256, 256)})
	})
	b.Run("linear-1x4096x1000", func(b *testing.B) {
		kerneltest.BenchProduct(b, "linear", nil, []*tensor.Tensor{f(tensor.Float32, 1, 4096), f(tensor.Float32, 1000, 4096),
			f(tensor.Float32, 1000)}, 1)
	})
	b.Run("linear-128x768x3072", func(b *testing.B) {
		kerneltest.BenchProduct(b, "linear", nil,
			[]*tensor.Tensor{f(tensor.Float32, 1, 128, 768), f(tensor.Float32, 3072, 768), f(tensor.Float32, 3072)}, 1)
	})
	b.Run("attention-12x128x64x128", func(b *testing.B) {
		kerneltest.BenchProduct(b, "matmul", nil,
			[]*tensor.Tensor{f(tensor.Float32, 8, 12, 128, 64), f(tensor.Float32, 8, 12, 64, 128)})
	})
}
