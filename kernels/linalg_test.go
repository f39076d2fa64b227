package kernels_test

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestLongMatrixMemory checks that the worker memory is a multiple of the size of a matrix, not the square of its
// longer side.
func TestLongMatrixMemory(t *testing.T) {
	const rows, cols = 20000, 3
	for name, attrs := range map[string]graph.Attrs{"linalg_svd": {"full_matrices": false}, "linalg_svdvals": nil,
		"svd": nil, "linalg_qr": nil, "geqrf": nil, "linalg_lu_factor": nil} {
		g := graph.New("g", kernels.Lookup)
		x := g.Input("x", tensor.Float32, rows, cols)
		results := g.Apply(name, attrs, x)
		require.NoError(t, g.Err(), name)
		for _, v := range results {
			g.Output(v.Name, v)
		}
		p, err := exec.Compile(g, exec.Options{Threads: 1, MemoryLimit: 16 * 8 * rows * cols})
		require.NoError(t, err, name)
		in := tensor.Zeros(tensor.Float32, rows, cols) // of ones, the columns have 6667, 6667 and 6666
		for i := range rows {
			in.Set(tensor.FloatScalar(1), i, i%cols)
		}
		out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": in})
		require.NoError(t, err, name)
		for _, y := range out {
			if y.Rank() == 1 && y.Shape[0] == cols && y.DType == tensor.Float32 && name != "geqrf" {
				assert.InDelta(t, math.Sqrt(6667), y.At(0).Float(), 1e-4, name)
				assert.InDelta(t, math.Sqrt(6666), y.At(2).Float(), 1e-4, name)
			}
		}
	}
}

// TestDeterminants compares determinants that are 0, infinite or NaN with PyTorch's.
func TestDeterminants(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		matrix            []complex128
		sign              complex128
		logabsdet, logdet float64
	}{
		{[]complex128{0}, 0, -inf, -inf},
		{[]complex128{complex(inf, 0)}, 1, inf, inf},
		{[]complex128{complex(-inf, 0)}, -1, inf, nan},
		{[]complex128{complex(nan, 0)}, 0, nan, nan},
		{[]complex128{0, 1, complex(inf, 0), 0}, -1, inf, nan},
		{[]complex128{0, 1, complex(-inf, 0), 0}, 1, inf, inf},
		{[]complex128{0, 0, 0, complex(-inf, 0)}, 0, nan, nan},
		{[]complex128{0, 0, 0, -1}, 0, -inf, -inf},
		{[]complex128{complex(inf, 1)}, cmplx.NaN(), inf, nan},
		{[]complex128{complex(0, nan)}, cmplx.NaN(), nan, nan},
	} {
		n := int(math.Sqrt(float64(len(c.matrix))))
		d := tensor.Float64
		if imag(c.matrix[0]) != 0 {
			d = tensor.Complex128
		}
		a := tensor.Zeros(d, n, n)
		for i, v := range c.matrix {
			a.Set(tensor.ComplexScalar(v), i/n, i%n)
		}
		run := func(name string) []*tensor.Tensor {
			op := kernels.Lookup(name)
			call, err := kerneltest.CallOf(op, nil, []tensor.Meta{a.Meta})
			require.NoError(t, err)
			out, err := kerneltest.RunCall(op, call, []*tensor.Tensor{a})
			require.NoError(t, err)
			return out
		}
		same := func(want, got complex128) {
			t.Helper()
			assert.True(t, want == got || cmplx.IsNaN(want) && cmplx.IsNaN(got), "%v: want %v, got %v", c.matrix, want, got)
		}
		out := run("slogdet")
		same(c.sign, out[0].At().Complex())
		same(complex(c.logabsdet, 0), out[1].At().Complex())
		same(complex(c.logdet, 0), run("logdet")[0].At().Complex())
	}
}

// TestNonFiniteOperands checks that singular values and eigenvalues of matrices with NaN or infinities are errors that
// name the matrix of the batch, as PyTorch's.
func TestNonFiniteOperands(t *testing.T) {
	for _, name := range []string{"linalg_svdvals", "linalg_svd", "svd", "linalg_eigvalsh"} {
		for _, d := range []tensor.DType{tensor.Float32, tensor.Complex64} {
			for _, x := range []complex128{complex(math.NaN(), 0), complex(math.Inf(-1), 0)} {
				a := tensor.Zeros(d, 2, 3, 3)
				a.Set(tensor.ComplexScalar(x), 1, 2, 0)
				op := kernels.Lookup(name)
				call, err := kerneltest.CallOf(op, nil, []tensor.Meta{a.Meta})
				require.NoError(t, err, name)
				_, err = kerneltest.RunCall(op, call, []*tensor.Tensor{a})
				assert.ErrorContains(t, err, "(Batch element 1): The algorithm failed to converge because the input matrix", name)
				_, err = op.Ref(call, []*tensor.Tensor{a})
				assert.ErrorContains(t, err, "(Batch element 1)", name)
			}
		}
	}
}

// TestNegativeTolerances checks that a negative absolute tolerance counts as 0, as PyTorch's.
func TestNegativeTolerances(t *testing.T) {
	a := tensor.Zeros(tensor.Float32, 3, 3)
	for i, v := range []float64{1, 1e-9, 0} {
		a.Set(tensor.FloatScalar(v), i, i)
	}
	for _, c := range []struct {
		attrs graph.Attrs
		rank  int64
	}{
		{graph.Attrs{"atol": -1.0}, 1},
		{graph.Attrs{"atol": -1.0, "rtol": 0.0}, 2},
		{graph.Attrs{"tol": -1.0}, 2},
		{graph.Attrs{"atol": 1e-12}, 2},
	} {
		op := kernels.Lookup("linalg_matrix_rank")
		call, err := kerneltest.CallOf(op, c.attrs, []tensor.Meta{a.Meta, {}, {}, {}})
		require.NoError(t, err)
		out, err := kerneltest.RunCall(op, call, []*tensor.Tensor{a, nil, nil, nil})
		require.NoError(t, err)
		assert.Equal(t, c.rank, out[0].At().Int(), "%v", c.attrs)
	}
}

// TestAdjointConjugates checks the elements and the layout of adjoints of complex matrices.
func TestAdjointConjugates(t *testing.T) {
	for _, name := range []string{"mH", "matrix_H"} {
		in := tensor.Zeros(tensor.Complex64, 2, 3)
		in.Set(tensor.ComplexScalar(1+2i), 0, 2)
		op := kernels.Lookup(name)
		call, err := kerneltest.CallOf(op, nil, []tensor.Meta{in.Meta})
		require.NoError(t, err, name)
		out, err := kerneltest.RunCall(op, call, []*tensor.Tensor{in})
		require.NoError(t, err, name)
		assert.Equal(t, []int{1, 3}, out[0].Strides, name)
		assert.Equal(t, complex128(1-2i), out[0].At(2, 0).Complex(), name)
	}
}

// TestEigenvaluesNotFinite compares eigenvalues and eigenvectors of matrices with NaNs or infinities with PyTorch's.
func TestEigenvaluesNotFinite(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		matrix, values, vectors []float64 // without values, PyTorch fails
	}{
		{[]float64{inf}, []float64{inf}, []float64{1}},
		{[]float64{nan}, []float64{nan}, []float64{1}},
		{[]float64{inf, 2, 2, 1}, []float64{nan, nan}, []float64{1, 0, 0, 1}},
		{[]float64{1, inf, inf, 1}, []float64{nan, nan}, []float64{nan, nan, nan, nan}},
		{[]float64{1, 2, 3, 2, inf, 4, 3, 4, 5}, []float64{nan, nan, nan}, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1}},
		{[]float64{1, 2, inf, 2, 1, 4, inf, 4, 5}, nil, nil},
		{[]float64{nan, 2, 3, 2, 1, 4, 3, 4, 5}, nil, nil},
	} {
		n := int(math.Sqrt(float64(len(c.matrix))))
		x := tensor.Must(tensor.FromSlice(c.matrix, n, n))
		op := kernels.Lookup("linalg_eigh")
		call, err := kerneltest.CallOf(op, nil, []tensor.Meta{x.Meta})
		require.NoError(t, err)
		out, err := kerneltest.RunCall(op, call, []*tensor.Tensor{x})
		if c.values == nil {
			require.ErrorContains(t, err, "linalg.eigh: The algorithm failed to converge", c.matrix)
			continue
		}
		require.NoError(t, err, c.matrix)
		assert.NoError(t, kerneltest.CompareTensors(out[0], tensor.Must(tensor.FromSlice(c.values, n))), c.matrix)
		assert.NoError(t, kerneltest.CompareTensors(out[1], tensor.Must(tensor.FromSlice(c.vectors, n, n))), c.matrix)
	}
}

// TestPairsOfRows compares pdist with the upper triangle of cdist, for even, odd and small numbers of rows.
func TestPairsOfRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, rows := range []int{0, 1, 2, 3, 8, 9} {
		x := kerneltest.Filled(tensor.New(tensor.Float32, rows, 5), kerneltest.NonzeroValues(rng))
		distances, err := kerneltest.RunParts(kernels.Lookup("pdist"), nil, []*tensor.Tensor{x})
		require.NoError(t, err)
		matrix, err := kerneltest.RunParts(kernels.Lookup("cdist"), nil, []*tensor.Tensor{x, x})
		require.NoError(t, err)
		require.Equal(t, []int{rows * (rows - 1) / 2}, distances[0].Shape)
		pair := 0
		for i := range rows {
			for j := i + 1; j < rows; j++ {
				require.Equal(t, matrix[0].At(i, j), distances[0].At(pair), "rows %d and %d of %d", i, j, rows)
				pair++
			}
		}
	}
}
