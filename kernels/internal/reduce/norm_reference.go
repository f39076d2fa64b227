package reduce

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// normReference computes y = (x-mean)/sqrt(var+eps)*weight+bias for the elements x of input. Elements belong to groups,
// and the elements of a group have the same mean and variance. groupOf maps an index of input to the number of the
// group. paramOf maps an index of input to a row-major index of weight and bias, and of mean and variance if these are
// given. If mean and variance are nil, the statistics of each group are computed from input. For group_norm of [2, 6,
// 4, 4] in 3 groups, groupOf maps the index [1, 4, 0, 0] to 1*3 + 4/2 = 5, and paramOf maps it to channel 4.
func normReference(input *tensor.Tensor, eps float64, groupOf, paramOf func(index []int) int, weight, bias, mean,
	variance *tensor.Tensor) *tensor.Tensor {
	sum, squares, count := map[int]float64{}, map[int]float64{}, map[int]float64{} // by group; squares of deviations
	forEach := func(visit func(index []int, group int, x float64)) {
		kit.EachIndex(input.Shape, func(index []int) { visit(index, groupOf(index), input.At(index...).Float()) })
	}
	forEach(func(_ []int, group int, x float64) {
		sum[group] += x
		count[group]++
	})
	forEach(func(_ []int, group int, x float64) {
		deviation := x - sum[group]/count[group]
		squares[group] += float64(deviation * deviation)
	})
	out := tensor.Zeros(input.DType, input.Shape...)
	// valueOf returns the element of a parameter for an index of input, or omitted if the parameter is not given.
	valueOf := func(param *tensor.Tensor, index []int, omitted float64) float64 {
		if param == nil {
			return omitted
		}
		paramIndex := kit.Unravel(paramOf(index), param.Shape)
		return param.CopyTo(tensor.New(tensor.Float64, param.Shape...)).At(paramIndex...).Float()
	}
	forEach(func(index []int, group int, x float64) {
		groupMean := valueOf(mean, index, sum[group]/count[group])
		groupVariance := valueOf(variance, index, squares[group]/count[group])
		standardDeviation, factor, offset := math.Sqrt(groupVariance+eps), valueOf(weight, index, 1), valueOf(bias, index, 0)
		y := float64((x-groupMean)/standardDeviation*factor) + offset
		if mean != nil { // PyTorch's formula differs from the line above for infinite weights and means
			scale := factor / standardDeviation
			y = float64(x*scale) + (offset - float64(groupMean*scale))
		}
		out.Set(tensor.FloatScalar(y), index...)
	})
	return out
}
