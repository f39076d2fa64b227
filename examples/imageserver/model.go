package main

import (
	"math/rand/v2"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

const (
	modelName = "classifier"
	imageSize = 32 // height and width of the network's images, in pixels
	classes   = 5
)

// classifier returns a graph that classifies images of any size: [N, H, W, 3], RGB bytes as image decoders return them.
// The results are the greatest probability of each image and its class, both [N, 1].
func classifier() (*graph.Graph, error) {
	g := graphrun.New(modelName)
	pixels := g.InputDims("image", tensor.Uint8, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Symbol: "H"},
		graph.Dim{Symbol: "W"}, graph.Dim{Size: 3})
	// The same steps as torchvision's transforms: scale to 0..1, resize, subtract the mean, divide by the deviation.
	x := op.Div(op.To(pixels, op.ToAttrs{DType: tensor.Float32}), 255.0)
	x = op.UpsampleBilinear2d(op.Permute(x, []int{0, 3, 1, 2}),
		op.UpsampleBilinear2dAttrs{OutputSize: []int{imageSize, imageSize}})
	mean := constant(g, "mean", []float32{0.485, 0.456, 0.406}, 3, 1, 1)
	deviation := constant(g, "deviation", []float32{0.229, 0.224, 0.225}, 3, 1, 1)
	probabilities := op.Softmax(network(g, op.Div(op.Sub(x, mean), deviation)), -1)
	probability, class := op.Topk(probabilities, 1)
	g.Output("probability", probability).Output("class", class)
	return g, g.Err()
}

// network returns the scores of normalized images [N, 3, 32, 32]. The weights are random: put a trained network here.
func network(g *graph.Graph, x *graph.Value) *graph.Value {
	rng := rand.New(rand.NewPCG(1, 2)) // any fixed seed
	weights := func(name string, shape ...int) *graph.Value {
		data := make([]float32, tensor.Numel(shape))
		for i := range data {
			data[i] = float32(rng.NormFloat64()) / 4
		}
		return constant(g, name, data, shape...)
	}
	var noBias *graph.Value
	x = op.Relu(op.Conv2d(x, weights("conv.weight", 8, 3, 3, 3), noBias, op.Conv2dAttrs{Stride: []int{2, 2}}))
	x = op.Flatten(op.AdaptiveAvgPool2d(x, []int{2, 2}), op.FlattenAttrs{StartDim: 1})
	return op.Linear(x, weights("linear.weight", classes, 8*2*2), noBias)
}

func constant(g *graph.Graph, name string, data []float32, shape ...int) *graph.Value {
	return g.Constant(name, tensor.Must(tensor.FromSlice(data, shape...)))
}
