package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Operands of the examples of ops ([graph.Example]), and calls with these operands. Tests run the examples, and the
// documentation shows them.
var (
	FloatMatrix      = tensor.New(tensor.Float32, 2, 3)
	FloatRow         = tensor.New(tensor.Float32, 3)
	TransposedMatrix = tensor.Meta{DType: tensor.Float32, Shape: []int{2, 3}, Strides: []int{1, 2}}
	IntMatrix        = tensor.New(tensor.Int32, 2, 3)
	BoolMatrix       = tensor.New(tensor.Bool, 2, 3)
	ComplexMatrix    = tensor.New(tensor.Complex64, 2, 3)
	UnaryExample     = Example(nil, TransposedMatrix)
	BinaryExample    = Example(nil, TransposedMatrix, FloatRow)
	IntegersExample  = Example(nil, IntMatrix, tensor.New(tensor.Int32, 3))
)

// I64 returns a row-major int64 meta for examples.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func I64(shape ...int) tensor.Meta { return tensor.New(tensor.Int64, shape...) }

// F32 returns a row-major float32 meta for examples.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func F32(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }

// NHWC returns a channels-last float32 meta for examples.
func NHWC(n, c, h, w int) tensor.Meta {
	meta, err := tensor.NewFormat(tensor.Float32, []int{n, c, h, w}, tensor.ChannelsLast)
	if err != nil {
		panic(err)
	}
	return meta
}

// Example returns an example of a call with the given attributes, which may be nil, and operands.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func Example(attrs graph.Attrs, in ...tensor.Meta) graph.Example {
	return graph.Example{In: in, Attrs: attrs}
}

// OneExample returns a list of one example: a call with one operand.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func OneExample(operand tensor.Meta, attrs graph.Attrs) []graph.Example {
	return []graph.Example{{In: []tensor.Meta{operand}, Attrs: attrs}}
}
