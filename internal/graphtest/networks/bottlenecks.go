// Package networks builds networks for tests of packages that plan and run graphs.
package networks

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// Bottlenecks returns a network of residual bottlenecks such as resnet50, with open batch N, height H and width W.
// blocks[i] is the number of blocks of stage i. width is the number of channels inside the blocks of the first stage.
func Bottlenecks(width int, blocks ...int) *graph.Graph {
	g := graph.New("bottlenecks", kernels.Lookup)
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3},
		graph.Dim{Symbol: "H"}, graph.Dim{Symbol: "W"})
	weights, channels := 0, 3
	conv := func(x *graph.Value, out, kernel, stride int) *graph.Value {
		weights++
		w := g.Constant(fmt.Sprint("w", weights), tensor.Zeros(tensor.Float32, out, channels, kernel, kernel))
		b := g.Constant(fmt.Sprint("b", weights), tensor.Zeros(tensor.Float32, out))
		channels = out
		return op.Conv2d(x, w, b, op.Conv2dAttrs{Stride: []int{stride, stride}, Padding: []int{kernel / 2, kernel / 2}})
	}
	v := op.Relu(conv(x, width, 7, 2))
	v = op.MaxPool2d(v, []int{3, 3}, op.MaxPool2dAttrs{Stride: []int{2, 2}, Padding: []int{1, 1}})
	for stage, n := range blocks {
		for block := range n {
			stride := 1
			if block == 0 && stage > 0 {
				stride = 2
			}
			in, skip := channels, v
			u := op.Relu(conv(v, width<<stage, 1, 1))
			u = op.Relu(conv(u, width<<stage, 3, stride))
			u = conv(u, 4*width<<stage, 1, 1)
			if block == 0 {
				channels = in
				skip = conv(v, 4*width<<stage, 1, stride)
			}
			v = op.Relu(op.Add(u, skip))
		}
	}
	v = op.Flatten(op.Mean(v, op.MeanAttrs{Dim: []int{2, 3}, Keepdim: true}), op.FlattenAttrs{StartDim: 1})
	w := g.Constant("fc", tensor.Zeros(tensor.Float32, 1000, channels))
	return g.Output("y", op.Linear(v, w, g.Constant("fcb", tensor.Zeros(tensor.Float32, 1000))))
}
