package product_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// BenchmarkMatmulBytes measures products of square matrices that are both inputs, and scaled products of few and of
// many rows by constant weights.
func BenchmarkMatmulBytes(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 3))
	run := func(name string, in []*tensor.Tensor, constants ...int) {
		b.Run(name, func(b *testing.B) { kerneltest.BenchProduct(b, "matmul_bytes", nil, in, constants...) })
	}
	bytes := func(d tensor.DType, shape ...int) *tensor.Tensor {
		t := tensor.Zeros(d, shape...)
		for i := range t.Numel() {
			t.SetFlat(i, tensor.IntScalar(r.Int64N(100)))
		}
		return t
	}
	for _, n := range []int{64, 128, 256, 512, 1024, 2048} {
		run(fmt.Sprint("square", n), []*tensor.Tensor{bytes(tensor.Uint8, n, n), bytes(tensor.Int8, n, n)})
	}
	for _, s := range [][3]int{{64, 512, 512}, {64, 512, 2048}, {64, 2048, 512}, {50, 768, 768}, {50, 768, 3072},
		{1, 512, 512}, {1, 2048, 1000}, {4, 512, 2048}, {784, 64, 256}} {
		m, k, n := s[0], s[1], s[2]
		scale := tensor.Zeros(tensor.Float32, n)
		for i := range n {
			scale.SetFlat(i, tensor.FloatScalar(0.001))
		}
		in := []*tensor.Tensor{bytes(tensor.Uint8, m, k), bytes(tensor.Int8, k, n), bytes(tensor.Uint8), nil,
			tensor.Zeros(tensor.Int32, n), scale, bytes(tensor.Uint8)}
		run(fmt.Sprintf("layer%dx%dx%d", m, k, n), in, 1, 4, 5)
	}
}
