package reduce

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

func softmaxReference(t *tensor.Tensor, dim int, d tensor.DType, isLog bool) *tensor.Tensor {
	t = t.CopyTo(tensor.New(d, t.Shape...))
	out := tensor.Zeros(d, t.Shape...)
	kit.EachIndex(t.Shape, func(index []int) {
		at := append([]int(nil), index...)
		n := 1
		if len(at) > 0 {
			n = t.Shape[dim]
		}
		x := make([]float64, n)
		maximum, sum := math.Inf(-1), 0.0
		for k := range n {
			if len(at) > 0 {
				at[dim] = k
			}
			x[k] = t.At(at...).Float()
			maximum = max(maximum, x[k])
		}
		for _, v := range x {
			sum += math.Exp(v - maximum)
		}
		y := t.At(index...).Float() - maximum
		if y = math.Exp(y) / sum; isLog {
			y = t.At(index...).Float() - maximum - math.Log(sum)
		}
		out.Set(tensor.FloatScalar(y), index...)
	})
	return out
}
