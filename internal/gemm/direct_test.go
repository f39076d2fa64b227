package gemm

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
	"github.com/stretchr/testify/require"
)

// TestDots compares four columns at once with single columns, and checks that only their sums are written.
func TestDots(t *testing.T) {
	t.Run("float32", func(t *testing.T) { compareDots[float32](t, 1e-5) })
	t.Run("float64", func(t *testing.T) { compareDots[float64](t, 1e-14) })
}

func compareDots[T float](t *testing.T, bound float64) {
	r := rand.New(rand.NewPCG(5, 6))
	sets := candidateSets(tensor.DTypeOf[T]())
	if assembly, ok := thinKernelsOf(tensor.DTypeOf[T]()); ok {
		sets = append(sets, &kernelSet{name: "assembly", thinKernels: assembly})
	}
	for _, set := range sets {
		for n := range 300 {
			quads := 1 + n%3
			columns, ld := 4*quads, n+3
			x, y := newMatrix[T](r, 1, max(n, 1), rowMajor), newMatrix[T](r, columns, ld, rowMajor)
			want, got := make([]T, columns+1), make([]T, columns+1)
			want[columns], got[columns] = 7, 7
			for j := range columns {
				set.dot(n, x.ptr(), unsafe.Pointer(&y.buf[j*ld]), unsafe.Pointer(&want[j]))
			}
			set.dots(n, x.ptr(), y.ptr(), ld*int(unsafe.Sizeof(T(0))), unsafe.Pointer(&got[0]), quads)
			require.InDeltaSlice(t, want, got, bound*float64(n), "%s, %d terms", set.name, n)
			require.Equal(t, T(7), got[columns])
		}
	}
}
