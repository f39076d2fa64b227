package reduce

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// softmaxReference computes the softmax of self, or its logarithm if isLog is set, in float64. The result has the given
// dtype.
func softmaxReference(self *tensor.Tensor, dim int, dtype tensor.DType, isLog bool) *tensor.Tensor {
	self = self.CopyTo(tensor.New(dtype, self.Shape...))
	out := tensor.Zeros(dtype, self.Shape...)
	kit.EachIndex(self.Shape, func(index []int) {
		elementIndex := append([]int(nil), index...)
		lineLength := 1
		if len(elementIndex) > 0 {
			lineLength = self.Shape[dim]
		}
		line := make([]float64, lineLength)
		maximum, sum := math.Inf(-1), 0.0
		for position := range lineLength {
			if len(elementIndex) > 0 {
				elementIndex[dim] = position
			}
			line[position] = self.At(elementIndex...).Float()
			maximum = max(maximum, line[position])
		}
		for _, x := range line {
			sum += math.Exp(x - maximum)
		}
		x := self.At(index...).Float()
		result := math.Exp(x-maximum) / sum
		if isLog {
			result = x - maximum - math.Log(sum)
		}
		out.Set(tensor.FloatScalar(result), index...)
	})
	return out
}
