package compile_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/compile"
	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// TestCatalogue interprets the programs of examples of the catalogue, and compares the results with the references.
func TestCatalogue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var n conform.Counts
	for k, op := range kernels.All() {
		if k%testsize.Of(3, 1) != 0 {
			continue
		}
		for _, c := range conform.Examples(op, rng) {
			require.NoError(t, n.Check(c, lower.IEEE, conform.Interpret))
		}
	}
	t.Log(n.String())
	require.Zero(t, n.Differing, n.First)
	require.Greater(t, n.Equal, 50)
}

// TestShapes interprets programs of calls with other shapes and layouts than the examples: rows that are short, long or
// cut, that are not contiguous, and whose lengths do not fit vectors.
func TestShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var n conform.Counts
	for _, c := range conform.ExtraSignatures() {
		call, err := conform.NewCall(kernels.Lookup(c.Op), c.Attrs, c.In, rng)
		require.NoError(t, err, c.Op)
		require.NoError(t, n.Check(call, lower.IEEE, conform.Interpret))
		require.Zero(t, n.Differing, n.First)
	}
	t.Log(n.String())
	require.Zero(t, n.Unsupported)
}

// TestFused interprets products and convolutions with epilogues, which have one kernel unless the epilogue is too long.
func TestFused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	calls, err := conform.Fused(kernels.Lookup, rng)
	require.NoError(t, err)
	var n conform.Counts
	for i, call := range calls {
		program, err := compile.Call(call.Op, call.Call, nil, lower.IEEE)
		require.NoError(t, err, call.Op.Name)
		require.Equal(t, i == len(calls)-1, len(program.Launches) > 1, call.Op.Name)
		require.NoError(t, n.Check(call, lower.IEEE, conform.Interpret))
		require.Zero(t, n.Differing, n.First)
	}
	t.Log(n.String())
	require.Zero(t, n.Unsupported)
}

// TestTree checks that the order of sums depends on the shape only: equal elements in different layouts have sums with
// equal bits.
func TestTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][]int{{3, 1030}, {40, 50}, {2, 1<<14 + 6}, {5, 6, 70}} {
		meta := tensor.New(tensor.Float32, shape...)
		reversed, padded := meta, meta
		reversed.Strides, padded.Strides = slices.Clone(meta.Strides), slices.Clone(meta.Strides)
		step := 1
		for dim, size := range shape {
			reversed.Strides[dim], padded.Strides[dim] = step, 2*meta.Strides[dim]
			step *= size
		}
		elements, want := (*tensor.Tensor)(nil), []byte(nil)
		for _, layout := range []tensor.Meta{meta, reversed, padded} {
			c, err := conform.NewCall(kernels.Lookup("sum"), graph.Attrs{"dim": []int{len(shape) - 1}},
				[]tensor.Meta{layout}, rng)
			require.NoError(t, err)
			if want == nil {
				elements = c.Operands[0]
			}
			program, err := compile.Call(c.Op, c.Call, nil, lower.IEEE)
			require.NoError(t, err)
			result := tensor.Empty(c.Out[0])
			require.NoError(t, conform.Interpret(program, [][]byte{result.Storage().Bytes(),
				elements.CopyTo(layout).Storage().Bytes()}))
			if want == nil {
				want = result.Storage().Bytes()
			}
			require.Equal(t, want, result.Storage().Bytes(), layout)
		}
	}
}

// TestFault checks the error for an index that is out of bounds.
func TestFault(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := []tensor.Meta{tensor.New(tensor.Float32, 3, 4), tensor.New(tensor.Int64, 2)}
	const fault = "an index is out of bounds"
	for index, fault := range map[int64]string{2: "", 0: "", 3: fault, -1: fault} {
		c, err := conform.NewCall(kernels.Lookup("embedding"), nil, in, rng)
		require.NoError(t, err)
		c.Operands[1].Set(tensor.IntScalar(index), 1)
		var n conform.Counts
		if err = n.Check(c, lower.IEEE, conform.Interpret); fault != "" {
			require.ErrorContains(t, err, fault)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n.Equal)
	}
}

// TestUnsupported checks that a call without a program has the error that placement expects.
func TestUnsupported(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ints := tensor.New(tensor.Int64, 3, 3)
	c, err := conform.NewCall(kernels.Lookup("matmul"), nil, []tensor.Meta{ints, ints}, rng)
	require.NoError(t, err)
	_, err = compile.Call(c.Op, c.Call, nil, lower.IEEE)
	require.ErrorIs(t, err, lower.ErrUnsupported)
	c, err = conform.NewCall(kernels.Lookup("cumsum"), graph.Attrs{"dim": 0}, []tensor.Meta{ints}, rng)
	require.NoError(t, err)
	_, err = compile.Call(c.Op, c.Call, nil, lower.IEEE)
	require.ErrorIs(t, err, lower.ErrUnsupported)
}
