package conv_test

import (
	"fmt"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// convLayers are the kinds of layers of ResNet-50, and depthwise ones of MobileNet: channels, size, outputs, window,
// stride, groups.
var convLayers = [][6]int{
	{3, 224, 64, 7, 2, 1}, {64, 56, 64, 1, 1, 1}, {64, 56, 64, 3, 1, 1}, {64, 56, 256, 1, 1, 1},
	{128, 56, 128, 3, 2, 1}, {256, 56, 512, 1, 2, 1}, {128, 28, 128, 3, 1, 1}, {512, 28, 128, 1, 1, 1},
	{256, 14, 256, 3, 1, 1}, {256, 14, 1024, 1, 1, 1}, {512, 7, 512, 3, 1, 1}, {2048, 7, 512, 1, 1, 1},
	{32, 112, 32, 3, 1, 32}, {96, 56, 96, 3, 2, 96},
}

// depthwiseLayers are layers of MobileNet, EfficientNet and ConvNeXt.
var depthwiseLayers = [][6]int{
	{32, 112, 32, 3, 1, 32}, {144, 56, 144, 3, 1, 144}, {192, 28, 192, 3, 1, 192}, {576, 14, 576, 3, 1, 576},
	{960, 7, 960, 3, 1, 960}, {96, 112, 96, 3, 2, 96}, {144, 56, 144, 3, 2, 144}, {576, 14, 576, 3, 2, 576},
	{240, 28, 240, 5, 1, 240}, {576, 14, 576, 5, 1, 576}, {1152, 7, 1152, 5, 1, 1152}, {144, 56, 144, 5, 2, 144},
	{96, 56, 96, 7, 1, 96}, {384, 14, 384, 7, 1, 384},
}

func BenchmarkConv2d(b *testing.B) { benchConv2d(b, convLayers) }

func BenchmarkDepthwise(b *testing.B) { benchConv2d(b, depthwiseLayers) }

func benchConv2d(b *testing.B, layers [][6]int) {
	for _, f := range []tensor.MemoryFormat{tensor.Contiguous, tensor.ChannelsLast} {
		for _, l := range layers {
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
