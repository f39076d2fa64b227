package product_test

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// TestEinsumRepeated sums over dimensions one of which has a stride of 0 in an operand.
func TestEinsumRepeated(t *testing.T) {
	for equation, metas := range map[string][]tensor.Meta{
		"ij->":      {kit.F32(4, 3).WithStrides([]int{1, 0})},
		"ij,ij->":   {kit.F32(2, 4), kit.F32(2, 4).WithStrides([]int{1, 0})},
		"ijk,k->ij": {kit.F32(4, 2, 4).WithStrides([]int{1, 0, 0}), kit.F32(4)},
	} {
		c, err := kerneltest.CallOf(kernels.Lookup("einsum"), graph.Attrs{"equation": equation}, metas)
		if err != nil {
			t.Fatal(err)
		}
		var in []*tensor.Tensor
		for i, m := range metas {
			x := tensor.Empty(m)
			kit.EachIndex(m.Shape, func(at []int) {
				v := i + 1
				for d, k := range at {
					v += k * m.Strides[d]
				}
				x.Set(tensor.IntScalar(int64(v)), at...)
			})
			in = append(in, x)
		}
		if err := kerneltest.CheckCall(kernels.Lookup("einsum"), c, in); err != nil {
			t.Errorf("%s: %v", equation, err)
		}
	}
}
