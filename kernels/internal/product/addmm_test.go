package product_test

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestProductLeftOut checks whether an alpha of 0 hides the NaNs of a product, as in PyTorch. Its library for floats
// and complex numbers does not compute the product; its loops for 16-bit floats and small batches do.
func TestProductLeftOut(t *testing.T) {
	for _, c := range []struct {
		op     string
		d      tensor.DType
		m      int // of m by 10 by 10 products
		hidden bool
	}{
		{"addmm", tensor.Float32, 1, true}, {"addmm", tensor.Complex128, 4, true}, {"addmm", tensor.BFloat16, 4, false},
		{"baddbmm", tensor.Float64, 3, false}, {"baddbmm", tensor.Float64, 4, true}, {"baddbmm", tensor.Complex64, 4, true},
		{"baddbmm", tensor.BFloat16, 4, false},
	} {
		shapes := [][]int{{c.m, 10}, {c.m, 10}, {10, 10}}
		if c.op == "baddbmm" {
			shapes = [][]int{{2, c.m, 10}, {2, c.m, 10}, {2, 10, 10}}
		}
		var in []*tensor.Tensor
		var metas []tensor.Meta
		for _, s := range shapes {
			metas = append(metas, tensor.New(c.d, s...))
			in = append(in, kerneltest.Filled(metas[len(metas)-1], func(tensor.DType) tensor.Scalar {
				return tensor.FloatScalar(3)
			}))
		}
		in[1].SetFlat(0, tensor.FloatScalar(math.NaN()))
		op := kernels.Lookup(c.op)
		call, err := kerneltest.CallOf(op, graph.Attrs{"alpha": 0, "beta": 2}, metas)
		if err != nil {
			t.Fatal(err)
		}
		got, err := kerneltest.RunCall(op, call, in)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := op.Ref(call, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []*tensor.Tensor{got[0], ref[0]} {
			v := tensor.Must(x.View(tensor.New(c.d, x.Numel()))).At(0).Complex()
			if c.hidden && v != 6 || !c.hidden && !cmplx.IsNaN(v) {
				t.Errorf("%s of %v, %d rows: got %v", c.op, c.d, c.m, v)
			}
		}
	}
}

// TestFactorsOfOne adds an infinity. A multiplication by 1+0i would make its imaginary part a NaN.
func TestFactorsOfOne(t *testing.T) {
	for _, name := range []string{"addmm", "baddbmm"} {
		shape := []int{3, 3}
		if name == "baddbmm" {
			shape = []int{8, 8, 8}
		}
		m := tensor.New(tensor.Complex64, shape...)
		fill := func(v float64) *tensor.Tensor {
			return kerneltest.Filled(m, func(tensor.DType) tensor.Scalar { return tensor.FloatScalar(v) })
		}
		in := []*tensor.Tensor{fill(math.Inf(1)), fill(1), fill(1)}
		op := kernels.Lookup(name)
		call, err := kerneltest.CallOf(op, nil, []tensor.Meta{m, m, m})
		if err != nil {
			t.Fatal(err)
		}
		got, err := kerneltest.RunCall(op, call, in)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := op.Ref(call, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []*tensor.Tensor{got[0], ref[0]} {
			if v := tensor.Must(x.View(tensor.New(tensor.Complex64, x.Numel()))).At(0).Complex(); v != complex(math.Inf(1), 0) {
				t.Errorf("%s: got %v", name, v)
			}
		}
	}
}
