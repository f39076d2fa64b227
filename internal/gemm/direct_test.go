package gemm

import (
	"fmt"
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
			colGroups := 1 + n%3
			columns, ld := 4*colGroups, n+3
			x, y := newMatrix[T](r, 1, max(n, 1), rowMajor), newMatrix[T](r, columns, ld, rowMajor)
			want, got := make([]T, columns+1), make([]T, columns+1)
			want[columns], got[columns] = 7, 7
			for j := range columns {
				set.dot(n, x.ptr(), unsafe.Pointer(&y.buf[j*ld]), unsafe.Pointer(&want[j]))
			}
			set.dots(n, x.ptr(), y.ptr(), ld*int(unsafe.Sizeof(T(0))), unsafe.Pointer(&got[0]), colGroups)
			require.InDeltaSlice(t, want, got, bound*float64(n), "%s, %d terms", set.name, n)
			require.Equal(t, T(7), got[columns])
		}
	}
}

// TestJoinedTiles: adjacent tiles give the same bits together as one by one, and are then all that is written.
func TestJoinedTiles(t *testing.T) {
	t.Run("float32", func(t *testing.T) { compareJoined[float32](t) })
	t.Run("float64", func(t *testing.T) { compareJoined[float64](t) })
}

func compareJoined[T float](t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, size := range [][3]int{{1, 700, 1100}, {3, 515, 1027}, {1, 30, 17003}, {1100, 600, 2}} { // rows, terms, columns
		for _, bias := range []Bias{NoBias, BiasRows, BiasCols} {
			m, k, n := size[0], size[1], size[2]
			a, b := newMatrix[T](r, m, k, rowMajor), newMatrix[T](r, k, n, rowMajor)
			spec := Spec{DType: tensor.DTypeOf[T](), M: m, N: n, K: k, A: Operand{RowStride: k, ColStride: 1},
				B: Operand{RowStride: n, ColStride: 1}, CRowStride: n, CColStride: 1, Bias: bias, BiasStride: 1}
			if m > n { // exchanged: the large operand is A, whose columns are contiguous
				spec.A = Operand{RowStride: 1, ColStride: m}
			}
			p, err := NewPlan(spec)
			require.NoError(t, err)
			require.True(t, p.JoinsTiles(), size)
			added, worker := newMatrix[T](r, 1, max(m, n), rowMajor), make([]byte, p.WorkerBytes())
			want, got := make([]T, m*n), make([]T, m*n)
			args := &Args{A: a.ptr(), B: b.ptr(), C: unsafe.Pointer(&want[0]), Bias: added.ptr()}
			p.RunAll(args, worker)
			tiles := p.Tiles(0)
			for _, cuts := range [][]int{{0, tiles}, {0, tiles / 2, tiles}, {0, 1, tiles - 1, tiles}} {
				clear(got)
				stored := 0
				args.C, args.Epilogue = unsafe.Pointer(&got[0]), func(i0, i1, j0, j1 int) { stored += (i1 - i0) * (j1 - j0) }
				for i := range len(cuts) - 1 {
					p.RunRange(cuts[i], cuts[i+1], args, worker)
				}
				require.Equal(t, want, got, fmt.Sprint(size, bias, cuts))
				require.Equal(t, m*n, stored)
			}
		}
	}
}

// TestTinyProductsRoundOnce compares plain loops over float32 with sums in float64. The shapes have groups of four
// columns and single columns.
func TestTinyProductsRoundOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	const m, n, k = 3, 6, 9
	var a [m * k]float32
	var b [k * n]float32
	for i := range a {
		a[i] = r.Float32() - 0.5
	}
	for i := range b {
		b[i] = r.Float32() - 0.5
	}
	var c [m * n]float32
	portable[tensor.Float32].product(m, n, k, matrix{unsafe.Pointer(&a), k, 1}, matrix{unsafe.Pointer(&b), n, 1},
		matrix{unsafe.Pointer(&c), n, 1}, matrix{}, false)
	for i, got := range c {
		sum := 0.0
		for term := range k {
			sum += float64(float64(a[i/n*k+term]) * float64(b[term*n+i%n]))
		}
		if got != float32(sum) {
			t.Errorf("element %d: %v, want %v", i, got, float32(sum))
		}
	}
}
