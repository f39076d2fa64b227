package experiment

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

func TestDiffer(t *testing.T) {
	one := tensor.Must(tensor.FromSlice([]float32{1, 2, 3}, 3))
	near := tensor.Must(tensor.FromSlice([]float32{1, 2, 3.00001}, 3))
	far := tensor.Must(tensor.FromSlice([]float32{1, 2, 3.1}, 3))
	ints := tensor.Must(tensor.FromSlice([]int32{1, 2, 3}, 3))
	others := tensor.Must(tensor.FromSlice([]int32{1, 2, 4}, 3))
	small := tensor.Must(tensor.FromSlice([]float32{1.00006, 2, 3}, 3)) // beyond 2e-5 of the 1, not of the 3
	endless := tensor.Must(tensor.FromSlice([]float32{1, 2, float32(math.Inf(1))}, 3))
	other := tensor.Must(tensor.FromSlice([]float32{1.1, 2, float32(math.Inf(1))}, 3))
	for _, c := range []struct {
		a, b         *tensor.Tensor
		equal, exact bool
	}{{one, one, true, true}, {one, near, true, true}, {one, far, false, false}, {ints, ints, true, true},
		{ints, others, false, false}, {one, ints, false, false}, {one, small, true, false}, {endless, endless, true, true},
		{one, endless, false, false}, {other, endless, false, false}} {
		for _, exact := range []bool{false, true} {
			want := c.equal && !exact || c.exact && exact
			if got := difference(c.a, c.b, exact); (got == "") != want {
				t.Errorf("differ(%v, %v, %v) = %q", c.a, c.b, exact, got)
			}
		}
	}
}
