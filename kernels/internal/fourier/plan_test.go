package fourier

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLengths compares transforms of all short lengths with the definition: those of complex lines, of real lines, and
// of lines with real transforms.
func TestLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 250; n++ {
		x, realX := make([]complex128, n), make([]complex128, n)
		for i := range x {
			x[i], realX[i] = complex(rng.NormFloat64(), rng.NormFloat64()), complex(rng.NormFloat64(), 0)
		}
		f := newFourier(n)
		compareWithDefinition(t, "complex", x, n, f.forward, f.workLen())
		if n%2 == 0 {
			half := newRealFourier(n)
			compareWithDefinition(t, "real", realX, n/2+1, half.forwardReal, half.half.workLen())
			hermitian := refDFT(realX, n, false)
			compareWithDefinition(t, "to real", hermitian, n, half.forwardToReal, half.half.workLen())
		}
	}
}

// compareWithDefinition compares the first count frequencies of forward with refDFT.
func compareWithDefinition(t *testing.T, name string, x []complex128, count int,
	forward func(x, scratch []complex128), workLen int) {
	t.Helper()
	want, got := refDFT(x, len(x), false), slices.Clone(x)
	forward(got, make([]complex128, workLen))
	for k, value := range got[:count] {
		if !(cmplx.Abs(value-want[k]) <= 1e-11) {
			t.Errorf("%s, length %d: frequency %d is %v, want %v", name, len(x), k, value, want[k])
			return
		}
	}
}

// TestRealFirstFrequency checks the first and the last frequency of real lines whose sums are infinite or almost so.
func TestRealFirstFrequency(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct{ line, want []complex128 }{
		{line: []complex128{1.5e308, 1e307}, want: []complex128{1.6e308, 1.4e308}},
		{line: []complex128{complex(inf, 0), 1, 2, 3}, want: []complex128{complex(inf, 0), complex(inf, 0)}},
	} {
		f, m := newRealFourier(len(c.line)), len(c.line)/2
		f.forwardReal(c.line, make([]complex128, f.half.workLen()))
		if got := []complex128{c.line[0], c.line[m]}; !slices.Equal(got, c.want) {
			t.Errorf("length %d: frequencies %v, want %v", 2*m, got, c.want)
		}
	}
}

// TestFlops checks the number of operations of lengths with small and with great prime factors.
func TestFlops(t *testing.T) {
	for n, want := range map[int]float64{1: 0, 8: 5 * 8 * 3, 1024: 5 * 1024 * 10, 127: 2 * 5 * 256 * 8} {
		if got := flops(n); got != want {
			t.Errorf("length %d: %g operations, want %g", n, got, want)
		}
	}
}
