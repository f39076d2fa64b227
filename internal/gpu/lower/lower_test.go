package lower_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// compareAll interprets the kernels of expressions and compares the results with those of Code.Eval. Short tests use
// one walk for each expression, and others all walks.
func compareAll(t *testing.T, codes []conform.Code, target lower.Target) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(len(codes))))
	results, kernels := 0, 0
	for k, c := range codes {
		for w := range testsize.Of(1, len(conform.Walks)) {
			walk := conform.Walks[(k+w)%len(conform.Walks)]
			it, err := conform.Iterate(c.Code, walk, conform.WalkShape(walk)...)
			require.NoError(t, err, "%s, %s", c.Name, walk)
			diff, err := conform.Compare(c.Code, it, target, rng, conform.Interpret)
			require.NoError(t, err, "%s, %s", c.Name, walk)
			if diff.Differing > 0 {
				t.Errorf("%s, %s: %d of %d results differ: %s", c.Name, walk, diff.Differing, diff.Results, diff.First)
			}
			results += diff.Results
			kernels++
		}
	}
	t.Logf("%d expressions, %d kernels, %d results", len(codes), kernels, results)
	require.Greater(t, kernels, 100)
}

// TestPrimitives compares all primitive operations.
func TestPrimitives(t *testing.T) { compareAll(t, conform.Primitives(), lower.IEEE) }

// TestFunctions compares the functions of the language.
func TestFunctions(t *testing.T) {
	compareAll(t, conform.Functions(tensor.Float32, tensor.Float64, tensor.Int32, tensor.BFloat16, tensor.Complex64),
		lower.IEEE)
}

// TestCatalogue compares the expressions of the catalogue of ops.
func TestCatalogue(t *testing.T) {
	codes := conform.Catalogue(kernels.All(), tensor.DTypes()...)
	if !testsize.All() { // every fifth
		few := codes[:0]
		for k := 0; k < len(codes); k += 5 {
			few = append(few, codes[k])
		}
		codes = few
	}
	compareAll(t, codes, lower.IEEE)
}

// TestEmulated compares results of a device that rounds quotients, roots and fused products of float32 wrongly, that
// does not round float64 to integers exactly, and that does not compute with constant zeros.
func TestEmulated(t *testing.T) {
	target := lower.IEEE
	target.FMA32, target.Div32, target.Sqrt32, target.KeepsConstantZeros = false, false, false, false
	target.Round64 = false
	compareAll(t, conform.Functions(tensor.Float32, tensor.Float16, tensor.Float64), target)
}

// TestUnsupported checks that a kernel is an error if it needs a feature that the device lacks.
func TestUnsupported(t *testing.T) {
	for text, target := range map[string]lower.Target{
		"x + float64(x)": {MaxParams: 2, FMA32: true, Div32: true, Sqrt32: true},
		"1 / x":          {MaxParams: 2},
		"float64(x) / 3": {MaxParams: 2, Float64: true},
		"x + 1":          {MaxParams: 1},
	} {
		f, err := expr.Parse(text, "x")
		require.NoError(t, err)
		code, err := f.Code([]tensor.DType{tensor.Float32}, expr.Typing{})
		require.NoError(t, err)
		it, err := conform.Iterate(code, "contiguous", 4)
		require.NoError(t, err)
		_, err = lower.Pointwise(code, it, []int{16, 16}, target)
		require.ErrorIs(t, err, lower.ErrUnsupported, text)
	}
}

// TestLaunches checks the number of launches and their offsets, and runs iterations whose sizes do not fit vectors.
func TestLaunches(t *testing.T) {
	code := conform.Primitives()[0]
	require.Equal(t, "add of uint8", code.Name)
	for _, c := range []struct {
		shape                    []int
		launches, groups, offset int
	}{
		{[]int{16 * 256}, 1, 1, 0}, {[]int{100}, 1, 1, 0}, {[]int{16*256*8 + 3}, 2, 8, 16 * 256 * 8},
		{[]int{0}, 0, 0, 0}, {nil, 1, 1, 0},
	} {
		it, err := conform.Iterate(code.Code, "contiguous", c.shape...)
		require.NoError(t, err)
		program, err := lower.Pointwise(code.Code, it, []int{16, 16, 16}, lower.IEEE)
		require.NoError(t, err)
		launches := program.Launches
		require.Len(t, launches, c.launches, c.shape)
		if c.launches > 0 {
			require.Equal(t, c.groups, launches[0].Groups, c.shape)
			require.Equal(t, c.offset, launches[len(launches)-1].Args[1].Offset, c.shape)
		}
		diff, err := conform.Compare(code.Code, it, lower.IEEE, rand.New(rand.NewPCG(1, 1)), conform.Interpret)
		require.NoError(t, err)
		require.Zero(t, diff.Differing, c.shape)
	}
}

// TestTiles checks copies, conversions and sums whose first operand is transposed: elements of all sizes, tiles that
// are full or not, and sizes that do not fit vectors.
func TestTiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	bool8, half, single, double := tensor.Bool, tensor.BFloat16, tensor.Float32, tensor.Float64
	kernels := 0
	for _, c := range []struct {
		formula string
		in      []tensor.DType // of x and y
		side    int            // of a tile
	}{
		{"x", []tensor.DType{tensor.Uint8}, 64}, {"x", []tensor.DType{bool8}, 64}, {"x", []tensor.DType{half}, 64},
		{"x", []tensor.DType{single}, 32}, {"x", []tensor.DType{tensor.Int64}, 32},
		{"x", []tensor.DType{tensor.Complex64}, 32}, {"x", []tensor.DType{tensor.Complex128}, 32},
		{"float32(x)", []tensor.DType{tensor.Int8}, 32}, {"int16(x)", []tensor.DType{half}, 64},
		{"x + y", []tensor.DType{single, single}, 32}, {"x + y", []tensor.DType{half, half}, 64},
		{"x * y", []tensor.DType{double, tensor.Complex64}, 32},
	} {
		f, err := expr.Parse(c.formula, []string{"x", "y"}[:len(c.in)]...)
		require.NoError(t, err)
		code, err := f.Code(c.in, expr.Typing{})
		require.NoError(t, err)
		for _, shape := range [][]int{{64, 128}, {2, 68, 36}, {33, 35}, {3, 2, 16, 18}} {
			it, err := conform.Iterate(code, "matrices", shape...)
			require.NoError(t, err)
			diff, err := conform.Compare(code, it, lower.IEEE, rng, conform.Interpret)
			require.NoError(t, err, "%s of %v, %v", c.formula, c.in, shape)
			require.Zero(t, diff.Differing, "%s of %v, %v: %s", c.formula, c.in, shape, diff.First)
			program, err := lower.Pointwise(code, it, slices.Repeat([]int{16}, 3), lower.IEEE)
			require.NoError(t, err)
			require.Len(t, program.Launches, 1)
			kernel := program.Launches[0].Kernel
			require.NotEmpty(t, kernel.Shared)
			if len(shape) == 2 && shape[0] == 64 {
				require.Equal(t, c.side*c.side, kernel.Shared[0].Length, "%s of %v", c.formula, c.in)
				require.Equal(t, shape[0]*shape[1]/(c.side*c.side), program.Launches[0].Groups)
			}
			kernels++
		}
	}
	t.Log(kernels, "kernels")
}

// TestFarOffsets checks that an iteration over more than 2^31 bytes is cut into launches whose offsets fit 32 bits.
func TestFarOffsets(t *testing.T) {
	code := conform.Primitives()[0].Code
	it, err := conform.Iterate(code, "contiguous", 5, 1<<30)
	require.NoError(t, err)
	program, err := lower.Pointwise(code, it, []int{16, 16, 16}, lower.IEEE)
	require.NoError(t, err)
	threads := 0
	for _, l := range program.Launches {
		require.Equal(t, threads*16, l.Args[0].Offset)
		threads += l.Groups * l.Kernel.GroupSize
	}
	require.Len(t, program.Launches, 4)
	require.Equal(t, 5<<30/16, threads)
}
