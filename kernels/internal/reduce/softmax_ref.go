package reduce

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// softmaxReference computes the softmax of self, or its logarithm if isLog is set, in float64. The result has dtype d.
func softmaxReference(self *tensor.Tensor, dim int, d tensor.DType, isLog bool) *tensor.Tensor {
	self = self.CopyTo(tensor.New(d, self.Shape...))
	out := tensor.Zeros(d, self.Shape...)
	kit.EachIndex(self.Shape, func(index []int) {
		coords := append([]int(nil), index...)
		n := 1
		if len(coords) > 0 {
			n = self.Shape[dim]
		}
		line := make([]float64, n)
		maximum, sum := math.Inf(-1), 0.0
		for k := range n {
			if len(coords) > 0 {
				coords[dim] = k
			}
			line[k] = self.At(coords...).Float()
			maximum = max(maximum, line[k])
		}
		for _, x := range line {
			sum += math.Exp(x - maximum)
		}
		x := self.At(index...).Float()
		y := math.Exp(x-maximum) / sum
		if isLog {
			y = x - maximum - math.Log(sum)
		}
		out.Set(tensor.FloatScalar(y), index...)
	})
	return out
}
