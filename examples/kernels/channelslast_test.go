package kernels

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// A kernel with three operands, x*scale + shift, on two goroutines. x and the result are channels-last. scale and shift
// are broadcast over the rows and columns of x. The kernel computes in float32, and its results are rounded once, to
// bfloat16.
func Example_channelsLast() {
	m, err := tensor.NewFormat(tensor.Float32, []int{2, 3, 4, 5}, tensor.ChannelsLast)
	check(err)
	x := tensor.Empty(m)
	for n := range 2 {
		for c := range 3 {
			x.Set(tensor.FloatScalar(float64(n+c)+0.001), n, c, 3, 4)
		}
	}
	scale := tensor.Must(tensor.FromSlice([]float32{1, 10, 100}, 3, 1, 1))
	shift := tensor.Must(tensor.FromSlice([]float32{0.5}, 1))

	it, err := iter.New().Output(iter.UndefinedOutputOf(tensor.BFloat16)).
		Inputs(iter.OperandOfTensor(x), iter.OperandOfTensor(scale), iter.OperandOfTensor(shift)).
		PromoteInputsToCommonDType(true).OpMath(true).Build()
	check(err)
	out, err := it.Apply(iter.Map3(func(x, scale, shift float32) float32 { return x*scale + shift }),
		iter.Workers(2), iter.Grain(16), iter.Context(context.Background()))
	check(err)
	y := out[0]
	fmt.Println(y.Meta, y.Is(tensor.ChannelsLast))
	fmt.Println(y.At(1, 0, 3, 4), y.At(1, 1, 3, 4), y.At(1, 2, 3, 4), y.At(0, 0, 0, 0))
	// Output:
	// bfloat16[2,3,4,5]@(60,1,15,3) true
	// 1.5 20.5 300 0.5
}
