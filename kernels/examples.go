package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// i64 returns a row-major int64 meta for examples.
func i64(shape ...int) tensor.Meta { return tensor.New(tensor.Int64, shape...) }

// Operands that examples use.
var (
	exMatrix   = tensor.New(tensor.Float32, 2, 3)
	exRow      = tensor.New(tensor.Float32, 3)
	exTurned   = tensor.Meta{DType: tensor.Float32, Shape: []int{2, 3}, Strides: []int{1, 2}}
	exInts     = tensor.New(tensor.Int32, 2, 3)
	exBools    = tensor.New(tensor.Bool, 2, 3)
	exComplex  = tensor.New(tensor.Complex64, 2, 3)
	exUnary    = example(nil, exTurned)
	exBinary   = example(nil, exTurned, exRow)
	exIntegers = example(nil, exInts, tensor.New(tensor.Int32, 3))
)

func example(a graph.Attrs, in ...tensor.Meta) graph.Example { return graph.Example{In: in, Attrs: a} }

// f32 returns a row-major float32 meta for examples.
func f32(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }

// nhwc returns a channels-last float32 meta for examples.
func nhwc(n, c, h, w int) tensor.Meta {
	m, err := tensor.NewFormat(tensor.Float32, []int{n, c, h, w}, tensor.ChannelsLast)
	if err != nil {
		panic(err)
	}
	return m
}

// oneExample returns the example of a call with one operand.
func oneExample(m tensor.Meta, a graph.Attrs) []graph.Example {
	return []graph.Example{{In: []tensor.Meta{m}, Attrs: a}}
}
