//go:build linux || darwin

package gemm

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// thinSets returns the kernel sets with assembly routines, and the portable set combined with these routines.
func thinSets[T float]() []*kernelSet {
	sets := candidateSets(tensor.DTypeOf[T]())
	if assembly, ok := thinKernelsOf(tensor.DTypeOf[T]()); ok {
		set := *goKernels[T]()
		set.name, set.thinKernels = "go, assembly", assembly
		sets = append(sets, &set)
	}
	return sets
}

// TestGuardedThin multiplies few rows, or few columns, by operands between inaccessible pages.
func TestGuardedThin(t *testing.T) {
	guardedThin[float32](t)
	guardedThin[float64](t)
}

func guardedThin[T float](t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	sizes := []int{1, 3, 4, 5, 7, 8, 15, 16, 17, 31, 63, 65, 97, 127, 128, 129, 131, 200, 259, 517}
	for _, set := range thinSets[T]() {
		ran := map[path]int{}
		for range 250 {
			d := [3]int{1 + r.IntN(directRows), sizes[r.IntN(len(sizes))], sizes[r.IntN(len(sizes))]}
			if r.IntN(3) == 0 {
				d[0], d[1] = d[1], d[0]
			}
			p := newProblem[T](r, d[0], d[1], d[2], r.IntN(rowPadded+1), r.IntN(rowPadded+1), r.IntN(rowPadded+1))
			if p.spec.Algorithm = Thin; !Supports(p.spec, Thin) {
				continue
			}
			p.spec.Bias, p.spec.Accumulate = Bias(r.IntN(2)*r.IntN(3)), r.IntN(4) == 0
			atEnd := r.IntN(2) == 0
			p.a.buf, p.b.buf = guarded(t, p.a.buf, atEnd), guarded(t, p.b.buf, atEnd)
			p.c.buf = guarded(t, p.c.buf, atEnd)
			p.check(t, set, sharedElems)
			pl, err := newPlan(set, p.spec, sharedElems)
			if err != nil {
				t.Fatal(err)
			}
			ran[pl.path]++
		}
		if ran[pathDot] < 20 || ran[pathAxpy] < 20 {
			t.Errorf("%s: %d products by columns, %d by rows; the test is to have more", set.name, ran[pathDot],
				ran[pathAxpy])
		}
	}
}

// TestSpecialThin puts one infinity or NaN into one column of B: only the sum of that column may contain it.
func TestSpecialThin(t *testing.T) {
	specialThin[float32](t)
	specialThin[float64](t)
}

func specialThin[T float](t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, set := range thinSets[T]() {
		for n := 1; n < 300; n += 1 + n/40 {
			special := T(math.Inf(1))
			if r.IntN(2) == 0 {
				special = T(math.NaN())
			}
			const columns = 8
			x, y := make([]T, n), make([]T, n*columns)
			for i := range x {
				x[i] = 1 + T(i)
			}
			at, term := r.IntN(columns), r.IntN(n)
			size := int(unsafe.Sizeof(special))
			y[at*n+term] = special
			var dots [columns]T
			set.dots(n, unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0]), n*size, unsafe.Pointer(&dots[0]), columns/4)
			alone(t, set.name+" dots", dots[:], at, special)
			// The same matrix by rows: n columns.
			axpys := make([]T, n)
			set.axpys(n, unsafe.Pointer(&axpys[0]), unsafe.Pointer(&y[0]), n*size, unsafe.Pointer(&x[0]), min(n, columns))
			if at < min(n, columns) {
				alone(t, set.name+" axpys", axpys, term, special)
			}
		}
	}
}

// alone fails unless the value is at index at and all others are zero.
func alone[T float](t *testing.T, name string, got []T, at int, want T) {
	t.Helper()
	for i, v := range got {
		if i != at && v != 0 || i == at && v != want && !(v != v && want != want) {
			t.Fatalf("%s: element %d of %d is %v; %v is in %d alone", name, i, len(got), v, want, at)
		}
	}
}
