package view_test

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestFills checks the ops that make filled values.
func TestFills(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, d := range tensor.DTypes() {
		m := kerneltest.RandomStrides(rng, d, []int{3, 4, 5}, true)
		for op, a := range map[string]graph.Attrs{
			"full_like": {"fill_value": 3}, "zeros_like": nil, "ones_like": {"dtype": "float64"},
		} {
			if !kerneltest.CheckAgainstRef(t, rng, op, a, m) {
				t.Errorf("%s of %v is rejected", op, d)
			}
		}
		for op, a := range map[string]graph.Attrs{
			"full": {"size": []int{3, 200}, "fill_value": 2}, "zeros": {"size": []int{2, 3}}, "ones": {"size": []int{0, 3}},
			"eye":    {"n": 5, "m": 3},
			"arange": {"end": 20, "step": 3}, "linspace": {"start": 0, "end": 10, "steps": 7},
		} {
			a["dtype"] = d
			supported := op != "arange" && op != "linspace" || d != tensor.Bool && (op == "linspace" || !d.IsComplex())
			if kerneltest.CheckAgainstRef(t, rng, op, a) != supported {
				t.Errorf("%s of %v: supported is not %v", op, d, supported)
			}
		}
	}
}

// TestRejectedNumbers checks PyTorch's errors for numbers that overflow the dtype.
func TestRejectedNumbers(t *testing.T) {
	for _, tc := range []struct {
		v    any
		d    tensor.DType
		want string
	}{
		{300, tensor.Uint8, "value cannot be converted to type uint8_t without overflow"},
		{-1, tensor.Uint8, ""},
		{-1.0, tensor.Uint8, "value cannot be converted to type uint8_t without overflow"},
		{2.7, tensor.Int32, ""},
		{2i, tensor.Float32, "value cannot be converted to type float without overflow"},
		{1e9, tensor.Float16, "value cannot be converted to type at::Half without overflow"},
		{1e9, tensor.Bool, ""},
	} {
		g := graph.New("", kernels.Lookup)
		g.Apply("full", graph.Attrs{"size": []int{2}, "fill_value": tc.v, "dtype": tc.d})
		got := ""
		if err := g.Err(); err != nil {
			got = err.(interface{ Unwrap() []error }).Unwrap()[0].(*graph.Error).Err.Error()
		}
		if got != tc.want {
			t.Errorf("full of %v %v: %q, want %q", tc.d, tc.v, got, tc.want)
		}
	}
}
