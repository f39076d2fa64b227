package view_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestPhilox compares the generator with the numbers of the Random123 library, through rand, which uses two words, and
// randn, which uses all four.
func TestPhilox(t *testing.T) {
	w := [4]uint64{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}
	u, v := float64((w[0]<<32|w[1])>>11)*0x1p-53, float64((w[2]<<32|w[3])>>11)*0x1p-53
	for name, want := range map[string]float64{
		"rand": u, "randn": math.Sqrt(-2*math.Log(u+0x1p-53)) * math.Cos(2*math.Pi*v)} {
		op := kernels.Lookup(name)
		c, err := kerneltest.CallOf(op, graph.Attrs{"size": []int{1}, "dtype": tensor.Float64, "seed": 0}, nil)
		require.NoError(t, err)
		out, err := kerneltest.RunCall(op, c, nil)
		require.NoError(t, err)
		require.InEpsilon(t, want, out[0].At(0).Float(), 1e-15, name)
	}
}

// TestRandomTypes checks that the parts of complex numbers differ and have PyTorch's variances, that results have the
// layout of self, and that randint rejects bounds beyond its dtype.
func TestRandomTypes(t *testing.T) {
	for name, want := range map[string]float64{"rand": 1. / 12, "randn": 0.5} {
		op := kernels.Lookup(name)
		c, err := kerneltest.CallOf(op, graph.Attrs{"size": []int{4096}, "dtype": tensor.Complex128}, nil)
		require.NoError(t, err)
		out, err := kerneltest.RunCall(op, c, nil)
		require.NoError(t, err)
		var sums, squares [2]float64
		product := 0.0
		for i := range 4096 {
			x := out[0].At(i).Complex()
			for k, part := range []float64{real(x), imag(x)} {
				sums[k] += part / 4096
				squares[k] += part * part / 4096
			}
			product += real(x) * imag(x) / 4096
		}
		for k := range sums {
			require.InEpsilon(t, want, squares[k]-sums[k]*sums[k], 0.1, name)
		}
		require.Less(t, math.Abs(product-sums[0]*sums[1]), want/10, name)
	}
	infer := func(name string, attrs graph.Attrs, in ...tensor.Meta) ([]graph.Result, error) {
		op := kernels.Lookup(name)
		c, err := kerneltest.CallOf(op, attrs, in)
		require.NoError(t, err)
		return kerneltest.Infer(op, c)
	}
	for _, name := range []string{"rand_like", "randn_like"} {
		in := tensor.New(tensor.Float32, 2, 3, 4).WithStrides([]int{12, 1, 3})
		for format, strides := range map[string][]int{"preserve": in.Strides, "contiguous": {12, 4, 1}} {
			r, err := infer(name, graph.Attrs{"memory_format": format}, in)
			require.NoError(t, err)
			require.Equal(t, strides, r[0].Meta().Strides, name)
		}
	}
	for message, attrs := range map[string]graph.Attrs{
		"to - 1 is out of bounds for unsigned char": {"high": 257, "dtype": tensor.Uint8},
		"from is out of bounds for bool":            {"low": -1, "high": 1, "dtype": tensor.Bool},
		"check_random_bounds handles only":          {"high": 2, "dtype": tensor.Complex64},
		"":                                          {"low": -128, "high": 128, "dtype": tensor.Int8},
	} {
		attrs["size"] = []int{1}
		_, err := infer("randint", attrs)
		if message == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, message)
		}
	}
}
