package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

func benchProduct(b *testing.B, op string, at graph.Attrs, in []*tensor.Tensor, constants ...int) {
	p, err := newProductCall(op, at, in, constants...)
	if err != nil {
		b.Fatal(err)
	}
	r := p.compile(b)
	for b.Loop() {
		r.run(b, false)
	}
	b.ReportMetric(p.op.Flops(p.call)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

func benchTensor(m tensor.Meta) *tensor.Tensor {
	t := tensor.Empty(m)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range m.Extent() {
		t.SetFlat(i, tensor.FloatScalar(r.Float64()-0.5))
	}
	return t
}

func BenchmarkMatmul(b *testing.B) {
	f := func(d tensor.DType, shape ...int) *tensor.Tensor { return benchTensor(tensor.New(d, shape...)) }
	b.Run("1024x1024x1024", func(b *testing.B) {
		benchProduct(b, "matmul", nil, []*tensor.Tensor{f(tensor.Float32, 1024, 1024), f(tensor.Float32, 1024, 1024)})
	})
	b.Run("bfloat16-1024x1024x1024", func(b *testing.B) {
		benchProduct(b, "matmul", nil, []*tensor.Tensor{f(tensor.BFloat16, 1024, 1024), f(tensor.BFloat16, 1024, 1024)})
	})
	b.Run("float64-512x512x512", func(b *testing.B) {
		benchProduct(b, "matmul", nil, []*tensor.Tensor{f(tensor.Float64, 512, 512), f(tensor.Float64, 512, 512)})
	})
	b.Run("int32-256x256x256", func(b *testing.B) {
		benchProduct(b, "matmul", nil, []*tensor.Tensor{f(tensor.Int32, 256, 256), f(tensor.Int32, 256, 256)})
	})
	b.Run("linear-1x4096x1000", func(b *testing.B) {
		benchProduct(b, "linear", nil, []*tensor.Tensor{f(tensor.Float32, 1, 4096), f(tensor.Float32, 1000, 4096), f(tensor.Float32, 1000)}, 1)
	})
	b.Run("linear-128x768x3072", func(b *testing.B) {
		benchProduct(b, "linear", nil, []*tensor.Tensor{f(tensor.Float32, 1, 128, 768), f(tensor.Float32, 3072, 768), f(tensor.Float32, 3072)}, 1)
	})
	b.Run("attention-12x128x64x128", func(b *testing.B) {
		benchProduct(b, "matmul", nil, []*tensor.Tensor{f(tensor.Float32, 8, 12, 128, 64), f(tensor.Float32, 8, 12, 64, 128)})
	})
}

// convLayers are those of ResNet-50 by kind, and depthwise ones of MobileNet:
// channels, size, outputs, window, stride, groups.
var convLayers = [][6]int{
	{3, 224, 64, 7, 2, 1}, {64, 56, 64, 1, 1, 1}, {64, 56, 64, 3, 1, 1}, {64, 56, 256, 1, 1, 1},
	{128, 56, 128, 3, 2, 1}, {256, 56, 512, 1, 2, 1}, {128, 28, 128, 3, 1, 1}, {512, 28, 128, 1, 1, 1},
	{256, 14, 256, 3, 1, 1}, {256, 14, 1024, 1, 1, 1}, {512, 7, 512, 3, 1, 1}, {2048, 7, 512, 1, 1, 1},
	{32, 112, 32, 3, 1, 32}, {96, 56, 96, 3, 2, 96},
}

func BenchmarkConv2d(b *testing.B) {
	for _, f := range []tensor.MemoryFormat{tensor.Contiguous, tensor.ChannelsLast} {
		for _, l := range convLayers {
			b.Run(fmt.Sprintf("%v/%dx%d-%d-%dx%ds%dg%d", f, l[0], l[1], l[2], l[3], l[3], l[4], l[5]), func(b *testing.B) {
				m, err := tensor.NewFormat(tensor.Float32, []int{1, l[0], l[1], l[1]}, f)
				if err != nil {
					b.Fatal(err)
				}
				in := []*tensor.Tensor{benchTensor(m), benchTensor(tensor.New(tensor.Float32, l[2], l[0]/l[5], l[3], l[3])), benchTensor(tensor.New(tensor.Float32, l[2]))}
				benchProduct(b, "conv2d", graph.Attrs{"stride": l[4], "padding": l[3] / 2, "groups": l[5]}, in, 1, 2)
			})
		}
	}
}
