package kernels

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// moments has the number of some elements, their mean, and the sum of the squares of their deviations from the mean
// (Welford's algorithm).
type moments struct{ n, mean, squares float64 }

func (a moments) with(x float32, _ int) moments {
	d := float64(x) - a.mean
	mean := a.mean + d/(a.n+1)
	return moments{a.n + 1, mean, a.squares + d*(float64(x)-mean)}
}

func merged(a, b moments) moments {
	n := a.n + b.n
	if n == 0 {
		return a
	}
	d := b.mean - a.mean
	return moments{n, a.mean + d*b.n/n, a.squares + b.squares + d*d*a.n*b.n/n}
}

// varMean is torch.var_mean, a fold that computes two results in one pass.
func varMean() *iter.Fold {
	variance := iter.FoldOf(moments{}, moments.with, merged,
		func(a moments) float32 { return float32(a.squares / (a.n - 1)) })
	return iter.WithResult(variance, func(dst []float32, a []moments) {
		for i := range dst {
			dst[i] = float32(a[i].mean)
		}
	})
}

// A kernel with two results of different dtypes, mantissa and exponent; and a fold with two results, along the rows and
// along the columns of the same tensor.
func Example_twoResults() {
	x := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 10, 20, 60}, 2, 3))

	it, err := iter.New().Output(iter.UndefinedOutputOf(tensor.Float32)).Output(iter.UndefinedOutputOf(tensor.Int32)).
		Input(iter.OperandOfTensor(x)).Build()
	check(err)
	out, err := it.Apply(iter.Map1Out2(func(x float32) (mantissa float32, exponent int32) {
		m, e := math.Frexp(float64(x))
		return float32(m), int32(e)
	}))
	check(err)
	fmt.Println(tensor.ToSlice[float32](out[0]))
	fmt.Println(tensor.ToSlice[int32](out[1]))

	for dim := range 2 {
		out, err := varMean().Over(x, false, dim)
		check(err)
		variance, err := tensor.ToSlice[float32](out[0])
		check(err)
		mean, err := tensor.ToSlice[float32](out[1])
		check(err)
		fmt.Println("over dimension", dim, "variance", variance, "mean", mean)
	}
	// Output:
	// [0.5 0.5 0.75 0.625 0.625 0.9375] <nil>
	// [1 2 2 4 5 6] <nil>
	// over dimension 0 variance [40.5 162 1624.5] mean [5.5 11 31.5]
	// over dimension 1 variance [1 700] mean [2 30]
}
