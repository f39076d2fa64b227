package gemm

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestDots compares columns that are multiplied at once with the same ones by themselves: they have the same bits.
func TestDots(t *testing.T) {
	t.Run("float32", func(t *testing.T) { compareDots[float32](t) })
	t.Run("float64", func(t *testing.T) { compareDots[float64](t) })
}

func compareDots[T Float](t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	sets := candidates[T]()
	if assembly, ok := thinOf(reflect.TypeFor[T]().Kind()); ok {
		sets = append(sets, &kernelSet{name: "assembly", thin: assembly})
	}
	for _, set := range sets {
		for n := range 150 {
			ld := n + 3
			x, y := newMatrix[T](r, 1, n, rowMajor), newMatrix[T](r, set.columns, ld, rowMajor)
			if n == 0 {
				x.buf = make([]T, 1)
			}
			got, want := make([]T, set.columns+1), make([]T, set.columns+1)
			for j := range set.columns {
				set.dot(n, x.ptr(), unsafe.Pointer(&y.buf[j*ld]), unsafe.Pointer(&want[j]))
			}
			got[set.columns], want[set.columns] = 7, 7
			set.dots(n, x.ptr(), y.ptr(), ld*int(unsafe.Sizeof(T(0))), unsafe.Pointer(&got[0]))
			require.Equal(t, want, got, "%s, %d terms", set.name, n)
		}
	}
}
