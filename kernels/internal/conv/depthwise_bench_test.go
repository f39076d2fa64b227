package conv_test

import (
	"fmt"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// windowLayers are distinct depthwise layers of MobileNet-V2, EfficientNet-B0, ShuffleNet-V2 and ConvNeXt: channels,
// size, window, stride.
var windowLayers = [][4]int{
	{32, 112, 3, 1}, {144, 56, 3, 1}, {192, 28, 3, 1}, {384, 14, 3, 1}, {576, 14, 3, 1}, {960, 7, 3, 1},
	{32, 112, 3, 2}, {96, 112, 3, 2}, {144, 56, 3, 2}, {192, 28, 3, 2}, {576, 14, 3, 2},
	{144, 56, 5, 1}, {240, 28, 5, 1}, {576, 14, 5, 1}, {672, 14, 5, 1}, {1152, 7, 5, 1},
	{144, 56, 5, 2}, {672, 14, 5, 2}, {24, 56, 3, 2}, {58, 28, 3, 1}, {116, 14, 3, 1}, {232, 7, 3, 1},
	{96, 56, 7, 1}, {192, 28, 7, 1}, {384, 14, 7, 1}, {768, 7, 7, 1}, {64, 28, 31, 1},
}

// BenchmarkDepthwisePixels measures depthwise convolutions by pixels, layer by layer.
func BenchmarkDepthwisePixels(b *testing.B) {
	for _, l := range windowLayers {
		b.Run(fmt.Sprintf("%dx%d-%ds%d", l[0], l[1], l[2], l[3]), func(b *testing.B) {
			m, err := tensor.NewFormat(tensor.Float32, []int{1, l[0], l[1], l[1]}, tensor.ChannelsLast)
			if err != nil {
				b.Fatal(err)
			}
			in := []*tensor.Tensor{kerneltest.BenchTensor(m),
				kerneltest.BenchTensor(tensor.New(tensor.Float32, l[0], 1, l[2], l[2])),
				kerneltest.BenchTensor(tensor.New(tensor.Float32, l[0]))}
			p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"stride": l[3], "padding": l[2] / 2, "groups": l[0]},
				in, 1, 2)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(m.Bytes() + p.Call.Out[0].Bytes()))
			p.BenchImpl(b, "depthwise_nhwc", false)
		})
	}
}
