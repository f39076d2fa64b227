package kerneltest_test

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestSmallResults checks that an element must be close to the reference's relative to its magnitude: 0 is wrong for a
// small result of a pointwise op. log(cosh(x)) is about x^2/2.
func TestSmallResults(t *testing.T) {
	number := func(dtype tensor.DType, x float64) *tensor.Tensor { return tensor.FloatScalar(x).Tensor(dtype) }
	for _, c := range []struct {
		op          string
		attrs       graph.Attrs
		x, got, ref float64
		isClose     bool
	}{
		{"expm1", nil, 1e-4, 0, 1.00005e-4, false},
		{"log1p", nil, 5e-9, 0, 5e-9, false},
		{"square", nil, 1e-20, 0, 1e-40, false},
		{"sin", nil, 1e-30, 1.00001e-30, 1e-30, false},
		{"sin", nil, 1e-30, 1.0000001e-30, 1e-30, true},
		{"exp", nil, 100, math.MaxFloat32, math.Inf(1), false},
		{"log", nil, -1, math.NaN(), math.NaN(), true},
		{"log", nil, -1, 0, math.NaN(), false},
	} {
		op, x := kernels.Lookup(c.op), number(tensor.Float32, c.x)
		call, err := kerneltest.CallOf(op, c.attrs, []tensor.Meta{x.Meta})
		if err != nil {
			t.Fatal(err)
		}
		got, want := number(tensor.Float32, c.got), number(tensor.Float32, c.ref)
		err = kerneltest.CompareResults(op, call, []*tensor.Tensor{x}, []*tensor.Tensor{got}, []*tensor.Tensor{want})
		if (err == nil) != c.isClose {
			t.Errorf("%s: %v for %v: %v", c.op, c.got, c.ref, err)
		}
	}
	const logCosh = 4.99999999166667e-9
	if kerneltest.CompareTensors(number(tensor.Float32, 0), number(tensor.Float32, logCosh)) == nil {
		t.Error("0 is accepted for log(cosh(1e-4))")
	}
}

// TestCondition checks that the error of a sum is relative to its terms, and that of a transform to its greatest
// result.
func TestCondition(t *testing.T) {
	op := kernels.Lookup("sum")
	x := tensor.Must(tensor.FromSlice([]float32{1e4, 1, -1e4, 1e-6}, 2, 2))
	call, err := kerneltest.CallOf(op, graph.Attrs{"dim": []int{0}}, []tensor.Meta{x.Meta})
	if err != nil {
		t.Fatal(err)
	}
	want := tensor.Must(tensor.FromSlice([]float32{0, 1.000001}, 2))
	for _, c := range []struct {
		got     []float32
		isClose bool
	}{
		{[]float32{0, 1.000001}, true}, {[]float32{5e-4, 1.000001}, true}, {[]float32{0, 1.0000011}, true},
		{[]float32{0.1, 1.000001}, false}, {[]float32{0, 1.00001}, false},
	} {
		got := tensor.Must(tensor.FromSlice(c.got, 2))
		err := kerneltest.CompareResults(op, call, []*tensor.Tensor{x}, []*tensor.Tensor{got}, []*tensor.Tensor{want})
		if (err == nil) != c.isClose {
			t.Errorf("%v: %v", c.got, err)
		}
	}
}
