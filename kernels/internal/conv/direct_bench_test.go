package conv_test

import (
	"fmt"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// directLayers are the distinct layers of ResNet-50, those of MobileNet-V2 that are not depthwise, and grouped ones:
// channels, size, outputs, window, stride, groups.
var directLayers = [][6]int{
	{3, 224, 64, 7, 2, 1}, {64, 56, 64, 1, 1, 1}, {64, 56, 64, 3, 1, 1}, {64, 56, 256, 1, 1, 1}, {256, 56, 64, 1, 1, 1},
	{256, 56, 128, 1, 1, 1}, {128, 56, 128, 3, 2, 1}, {128, 28, 512, 1, 1, 1}, {256, 56, 512, 1, 2, 1},
	{512, 28, 128, 1, 1, 1}, {128, 28, 128, 3, 1, 1}, {512, 28, 256, 1, 1, 1}, {256, 28, 256, 3, 2, 1},
	{256, 14, 1024, 1, 1, 1}, {512, 28, 1024, 1, 2, 1}, {1024, 14, 256, 1, 1, 1}, {256, 14, 256, 3, 1, 1},
	{1024, 14, 512, 1, 1, 1}, {512, 14, 512, 3, 2, 1}, {512, 7, 2048, 1, 1, 1}, {1024, 14, 2048, 1, 2, 1},
	{2048, 7, 512, 1, 1, 1}, {512, 7, 512, 3, 1, 1},

	{3, 224, 32, 3, 2, 1}, {32, 112, 16, 1, 1, 1}, {16, 112, 96, 1, 1, 1}, {96, 56, 24, 1, 1, 1}, {24, 56, 144, 1, 1, 1},
	{144, 56, 24, 1, 1, 1}, {144, 28, 32, 1, 1, 1}, {32, 28, 192, 1, 1, 1}, {192, 28, 32, 1, 1, 1}, {192, 14, 64, 1, 1, 1},
	{64, 14, 384, 1, 1, 1}, {384, 14, 64, 1, 1, 1}, {384, 14, 96, 1, 1, 1}, {96, 14, 576, 1, 1, 1}, {576, 14, 96, 1, 1, 1},
	{576, 7, 160, 1, 1, 1}, {160, 7, 960, 1, 1, 1}, {960, 7, 160, 1, 1, 1}, {960, 7, 320, 1, 1, 1},
	{320, 7, 1280, 1, 1, 1},

	{104, 28, 104, 3, 1, 13}, {208, 14, 208, 3, 1, 26}, {128, 56, 128, 3, 1, 32},
	{256, 56, 256, 3, 2, 32}, {256, 28, 256, 3, 1, 32}, {96, 28, 96, 3, 1, 12}, {440, 7, 440, 3, 1, 55},
	{1024, 7, 1024, 3, 1, 32},
	{96, 1, 24, 1, 1, 1}, {960, 1, 240, 1, 1, 1},
}

// BenchmarkDirect measures each layer with its weight in cache, as far as it fits, and in memory.
func BenchmarkDirect(b *testing.B) {
	for _, l := range directLayers {
		inputs := []tensor.MemoryFormat{tensor.ChannelsLast}
		if l[0] == 3 {
			inputs = append(inputs, tensor.Contiguous)
		}
		for i := range 2 * len(inputs) {
			f, far := inputs[i/2], i%2 == 1
			name := fmt.Sprintf("%dx%d-%d-%dx%ds%dg%d/%v/far=%v", l[0], l[1], l[2], l[3], l[3], l[4], l[5], f, far)
			b.Run(name, func(b *testing.B) {
				m, err := tensor.NewFormat(tensor.Float32, []int{1, l[0], l[1], l[1]}, f)
				if err != nil {
					b.Fatal(err)
				}
				in := []*tensor.Tensor{kerneltest.BenchTensor(m),
					kerneltest.BenchTensor(tensor.New(tensor.Float32, l[2], l[0]/l[5], l[3], l[3])),
					kerneltest.BenchTensor(tensor.New(tensor.Float32, l[2]))}
				at := graph.Attrs{"stride": l[4], "padding": l[3] / 2, "groups": l[5]}
				p, err := kerneltest.NewProductCall("conv2d", at, in, 1, 2)
				if err != nil {
					b.Fatal(err)
				}
				p.BenchImpl(b, map[tensor.MemoryFormat]string{tensor.ChannelsLast: "direct_nhwc",
					tensor.Contiguous: "direct_planes"}[f], far)
			})
		}
	}
}
