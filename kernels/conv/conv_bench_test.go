package conv_test

import (
	"fmt"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

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
				in := []*tensor.Tensor{kerneltest.BenchTensor(m),
					kerneltest.BenchTensor(tensor.New(tensor.Float32, l[2], l[0]/l[5], l[3], l[3])),
					kerneltest.BenchTensor(tensor.New(tensor.Float32, l[2]))}
				kerneltest.BenchProduct(b, "conv2d", graph.Attrs{"stride": l[4], "padding": l[3] / 2, "groups": l[5]}, in, 1, 2)
			})
		}
	}
}
