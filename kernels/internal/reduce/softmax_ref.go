package reduce

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

func softmaxReference(self *tensor.Tensor, dim int, d tensor.DType, isLog bool) *tensor.Tensor {
	self = self.CopyTo(tensor.New(d, self.Shape...))
	out := tensor.Zeros(d, self.Shape...)
	kit.EachIndex(self.Shape, func(index []int) {
		at := append([]int(nil), index...)
		n := 1
		if len(at) > 0 {
			n = self.Shape[dim]
		}
		x := make([]float64, n)
		maximum, sum := math.Inf(-1), 0.0
		for k := range n {
			if len(at) > 0 {
				at[dim] = k
			}
			x[k] = self.At(at...).Float()
			maximum = max(maximum, x[k])
		}
		for _, v := range x {
			sum += math.Exp(v - maximum)
		}
		y := self.At(index...).Float() - maximum
		if y = math.Exp(y) / sum; isLog {
			y = self.At(index...).Float() - maximum - math.Log(sum)
		}
		out.Set(tensor.FloatScalar(y), index...)
	})
	return out
}
