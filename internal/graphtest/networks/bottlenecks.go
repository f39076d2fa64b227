// Package networks builds networks for tests of packages that plan and run graphs.
package networks

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// Bottlenecks returns a network of residual bottlenecks such as resnet50. The symbols N, H and W are the batch, the
// height and the width. blocks[i] is the number of blocks of stage i. width is the number of channels inside the blocks
// of the first stage.
func Bottlenecks(width int, blocks ...int) *graph.Graph {
	network := graph.New("bottlenecks", kernels.Lookup)
	x := network.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3},
		graph.Dim{Symbol: "H"}, graph.Dim{Symbol: "W"})
	weights := 0
	// conv adds a convolution with a square kernel. It divides height and width by stride, rounded up.
	conv := func(x *graph.Value, outChannels, kernel, stride int) *graph.Value {
		weights++
		weight := network.Constant(fmt.Sprint("w", weights),
			tensor.Zeros(tensor.Float32, outChannels, x.Meta.Shape[1], kernel, kernel))
		bias := network.Constant(fmt.Sprint("b", weights), tensor.Zeros(tensor.Float32, outChannels))
		return op.Conv2d(x, weight, bias, op.Conv2dAttrs{Stride: []int{stride, stride},
			Padding: []int{kernel / 2, kernel / 2}})
	}
	current := op.Relu(conv(x, width, 7, 2))
	current = op.MaxPool2d(current, []int{3, 3}, op.MaxPool2dAttrs{Stride: []int{2, 2}, Padding: []int{1, 1}})
	for stage, blockCount := range blocks {
		for block := range blockCount {
			stride := 1
			if block == 0 && stage > 0 {
				stride = 2
			}
			skip := current
			inner := op.Relu(conv(current, width<<stage, 1, 1))
			inner = op.Relu(conv(inner, width<<stage, 3, stride))
			inner = conv(inner, 4*width<<stage, 1, 1)
			if block == 0 {
				skip = conv(current, 4*width<<stage, 1, stride)
			}
			current = op.Relu(op.Add(inner, skip))
		}
	}
	current = op.Flatten(op.Mean(current, op.MeanAttrs{Dim: []int{2, 3}, Keepdim: true}),
		op.FlattenAttrs{StartDim: 1})
	weight := network.Constant("fc", tensor.Zeros(tensor.Float32, 1000, current.Meta.Shape[1]))
	return network.Output("y", op.Linear(current, weight,
		network.Constant("fcb", tensor.Zeros(tensor.Float32, 1000))))
}
