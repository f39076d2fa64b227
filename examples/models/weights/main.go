// Command weights writes the .npz files of the example graphs. Every run writes the same bytes. "go generate ./..."
// calls it.
package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

//go:generate go run . ..

// weight describes an array of numbers that are uniform in ±1/sqrt(fan), as in PyTorch's initialization of layers.
type weight struct {
	name  string
	fan   int // the number of inputs of a unit of the layer
	shape []int
}

var files = map[string][]weight{
	"residual.npz": {
		{"conv1.weight", 72, []int{8, 8, 3, 3}},
		{"conv1.bias", 72, []int{8}},
		{"conv2.weight", 72, []int{8, 8, 3, 3}},
		{"conv2.bias", 72, []int{8}},
	},
	"mlp.npz": {
		{"fc1.weight", 16, []int{32, 16}},
		{"fc1.bias", 16, []int{32}},
		{"fc2.weight", 32, []int{10, 32}},
		{"fc2.bias", 32, []int{10}},
	},
	"attention.npz": {
		{"query.weight", 32, []int{32, 32}},
		{"key.weight", 32, []int{32, 32}},
		{"value.weight", 32, []int{32, 32}},
		{"out.weight", 32, []int{32, 32}},
		{"out.bias", 32, []int{32}},
	},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: weights FOLDER")
		os.Exit(2)
	}
	for file, weights := range files {
		if err := write(os.Args[1]+"/"+file, weights); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func write(path string, weights []weight) error {
	var list []npz.Entry
	for i, described := range weights {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		bound := 1 / math.Sqrt(float64(described.fan))
		data := make([]float32, tensor.Numel(described.shape))
		for k := range data {
			data[k] = float32((2*random.Float64() - 1) * bound)
		}
		array, err := tensor.FromSlice(data, described.shape...)
		if err != nil {
			return err
		}
		list = append(list, npz.Entry{Name: described.name, Tensor: array})
	}
	return npz.WriteFile(path, list)
}
