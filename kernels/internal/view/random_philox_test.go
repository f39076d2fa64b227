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
