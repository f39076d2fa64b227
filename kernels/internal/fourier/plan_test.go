package fourier

import (
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

// TestFlops checks the number of operations of lengths with small and with great prime factors.
func TestFlops(t *testing.T) {
	for n, want := range map[int]float64{1: 0, 8: 5 * 8 * 3, 1024: 5 * 1024 * 10, 127: 2 * 5 * 256 * 8} {
		if got := flops(n); got != want {
			t.Errorf("length %d: %g operations, want %g", n, got, want)
		}
	}
}
