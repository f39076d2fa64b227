//go:build linux || darwin

package gemm

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/tensor"
)

// guarded copies elements next to a page that must not be accessed: before it if atEnd, else after it.
func guarded[T number](t *testing.T, x []T, atEnd bool) []T {
	bytes := len(bytesOf(x))
	room := jittest.Guarded(t, max(bytes, 1))
	if atEnd {
		room = room[len(room)-bytes:]
	}
	to := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(room))), len(x))
	copy(to, x)
	return to
}

// TestGuarded multiplies operands between inaccessible pages, because tiles read them in place.
func TestGuarded(t *testing.T) {
	eachKernel[float32](t, testGuarded[float32])
	eachKernel[float64](t, testGuarded[float64])
}

func testGuarded[T float](t *testing.T, set *kernelSet) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, d := range [][3]int{{1, 7, 3}, {5, 15, 4}, {6, 16, 9}, {13, 33, 5}, {25, 63, 8}, {50, 65, 31},
		{7, 100, 1}} {
		for _, la := range []int{rowMajor, colMajor, rowPadded} {
			for _, lb := range []int{rowMajor, colMajor, rowPadded} {
				for _, atEnd := range []bool{false, true} {
					p := newProblem[T](r, d[0], d[1], d[2], la, lb, rowMajor)
					p.spec.Algorithm, p.spec.Bias, p.spec.Accumulate = Tiled, Bias(d[1]%3), la == lb
					p.a.buf, p.b.buf = guarded(t, p.a.buf, atEnd), guarded(t, p.b.buf, atEnd)
					p.c.buf = guarded(t, p.c.buf, atEnd)
					p.check(t, set, sharedElems)
				}
			}
		}
	}
}

// TestPlaces checks which operands are read in place.
func TestPlaces(t *testing.T) {
	if len(machineCodeSets(tensor.Float32)) == 0 {
		t.Skip("there is no machine code here")
	}
	for _, c := range []struct {
		what           string
		m, n, k        int
		la, lb         int
		packsA, packsB bool
	}{
		{"rows of both", 64, 64, 64, rowMajor, rowMajor, false, false},
		{"columns of A", 64, 64, 64, colMajor, rowMajor, false, false},
		{"columns of B", 64, 64, 64, rowMajor, colMajor, false, true},
		{"neither", 64, 64, 64, scattered, scattered, true, true},
		{"a large B", 1000, 1000, 1000, rowMajor, rowMajor, false, true},
		{"a large B of few rows of A", 50, 1000, 1000, rowMajor, rowMajor, false, false},
		{"a stride that crowds B", 50, 1024, 1024, rowMajor, rowMajor, false, true},
		{"a stride that crowds A", 1024, 64, 1024, colMajor, rowMajor, true, false},
	} {
		p := newProblem[float32](rand.New(rand.NewPCG(1, 1)), c.m, c.n, c.k, c.la, c.lb, rowMajor)
		a, b := Packs(p.spec)
		if a != c.packsA || b != c.packsB {
			t.Errorf("%s: A is packed: %v, B: %v; want %v, %v", c.what, a, b, c.packsA, c.packsB)
		}
	}
}

// TestAcross multiplies few rows by many panels of B in one call.
func TestAcross(t *testing.T) {
	eachKernel[float32](t, testAcross[float32])
	eachKernel[float64](t, testAcross[float64])
}

func testAcross[T float](t *testing.T, set *kernelSet) {
	if !set.hasMachineCode() {
		t.Skip("panels are multiplied one by one in Go")
	}
	r := rand.New(rand.NewPCG(10, 3))
	for _, d := range [][3]int{{1, 128, 64}, {1, 200, 1500}, {2, 640, 33}, {3, 129, 5}, {6, 500, 128},
		{1, 5000, 700}} {
		for _, lb := range []int{rowMajor, rowPadded} {
			p := newProblem[T](r, d[0], d[1], d[2], rowMajor, lb, rowPadded)
			p.spec.Algorithm, p.spec.BInCache, p.spec.Accumulate = Tiled, true, lb == rowPadded
			if lb == rowPadded {
				p.spec.B.Source = Prepacked
			}
			pl, err := newPlan(set, p.spec, sharedElems)
			if err != nil {
				t.Fatal(err)
			}
			if fits := d[0] <= set.maxHeights[set.vectors(set.nr)]; pl.callsSpanPanels != fits {
				t.Errorf("%v: several panels in a call: %v", d, pl.callsSpanPanels)
			}
			p.check(t, set, sharedElems)
		}
	}
}

// TestCallMACs checks the number of panels of a call, which arm64 bounds to a quarter of the multiplications of amd64.
func TestCallMACs(t *testing.T) {
	most, ok := map[string]int{"amd64": 1_572_864, "arm64": 393_216}[runtime.GOARCH]
	if !ok || len(machineCodeSets(tensor.Float32)) == 0 {
		t.Skip("there is no machine code here")
	}
	const rows, terms = 4, 60
	p, err := NewPlan(Spec{DType: tensor.Float32, M: rows, N: 1 << 16, K: terms, Algorithm: Tiled, BInCache: true,
		A: Operand{RowStride: terms, ColStride: 1}, B: Operand{RowStride: 1 << 16, ColStride: 1}, CRowStride: 1 << 16,
		CColStride: 1})
	if err != nil {
		t.Fatal(err)
	}
	panel := rows * terms * p.b.panelWidth
	if n := (&tileState{execution: &execution{Plan: p}, kc: terms}).panelsPerCall(0, 1<<16); n != most/panel {
		t.Errorf("%d panels of %d multiplications in a call, want at most %d multiplications", n, panel, most)
	}
}

// TestListings checks that every piece of code of a plan is listed, those for the last columns and for later terms
// too.
func TestListings(t *testing.T) {
	pl, err := NewPlan(Spec{DType: tensor.Float32, M: 13, N: 70, K: 2000, A: Operand{RowStride: 2000, ColStride: 1},
		B: Operand{RowStride: 70, ColStride: 1}, CRowStride: 70, CColStride: 1})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	pl.Listings(func(name string, list func() string) {
		assembly := list()
		names = append(names, name)
		if !strings.Contains(assembly, "VFMADD231PS") && !strings.Contains(assembly, "fmla") {
			t.Errorf("%s multiplies nothing: %s", name, assembly)
		}
	})
	if all := fmt.Sprint(names); pl.codes != nil && (!strings.Contains(all, "later terms") ||
		!strings.Contains(all, "last columns")) {
		t.Errorf("only %s", all)
	}
	if pl.codes == nil && len(names) > 0 {
		t.Errorf("a plan without code lists %v", names)
	}
}

// TestBits compares the bits of products with digests, which are the same for all instruction sets.
func TestBits(t *testing.T) {
	eachKernel[float32](t, func(t *testing.T, set *kernelSet) {
		testBits[float32](t, set, "629419e65aa3d5c6050d3b4ea3883d161e03e4e52f14bec08a893d5d9f4f965e")
	})
	eachKernel[float64](t, func(t *testing.T, set *kernelSet) {
		testBits[float64](t, set, "618bd6ae02f555cba263b41e04d2265d37aa461c65ba94bebd00a020a16fce9e")
	})
}

func testBits[T float](t *testing.T, set *kernelSet, want string) {
	if !set.hasMachineCode() {
		t.Skip("the depth of blocks in Go differs")
	}
	r, hash := rand.New(rand.NewPCG(11, 30)), sha256.New()
	for i, d := range [][3]int{{1, 7, 3}, {5, 35, 40}, {13, 63, 1025}, {30, 18, 2100}, {64, 130, 70}} {
		for _, la := range []int{rowMajor, colMajor, scattered} {
			for _, lb := range []int{rowMajor, colMajor} {
				p := newProblem[T](r, d[0], d[1], d[2], la, lb, rowPadded)
				p.spec.Algorithm, p.spec.Bias, p.spec.Accumulate = Tiled, Bias(i%3), la == lb
				p.check(t, set, sharedElems)
				hash.Write(bytesOf(p.c.buf))
			}
		}
	}
	if got := fmt.Sprintf("%x", hash.Sum(nil)); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}
