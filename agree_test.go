package graphrun

import (
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

func TestDiffer(t *testing.T) {
	one := tensor.Must(tensor.FromSlice([]float32{1, 2, 3}, 3))
	near := tensor.Must(tensor.FromSlice([]float32{1, 2, 3.00001}, 3))
	far := tensor.Must(tensor.FromSlice([]float32{1, 2, 3.1}, 3))
	ints := tensor.Must(tensor.FromSlice([]int32{1, 2, 3}, 3))
	others := tensor.Must(tensor.FromSlice([]int32{1, 2, 4}, 3))
	for _, c := range []struct {
		a, b  *tensor.Tensor
		equal bool
	}{{one, one, true}, {one, near, true}, {one, far, false}, {ints, ints, true}, {ints, others, false},
		{one, ints, false}} {
		if got := differ(c.a, c.b); (got == "") != c.equal {
			t.Errorf("differ(%v, %v) = %q", c.a, c.b, got)
		}
	}
}
