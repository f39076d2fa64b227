package gemm

import (
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// lookedAt has products whose tiles have much work: many terms, rows or columns. Rows of operands are repeated.
var lookedAt = map[string]Spec{
	"dot":       {M: 1, N: 1, K: 5*directDepth + 5, B: Operand{RowStride: 1, ColStride: 1}},
	"dots":      {M: 3, N: 6, K: 2*directDepth + 3, B: Operand{RowStride: 1, ColStride: 3}},
	"one row":   {M: 1, N: 4001, K: 2048, B: Operand{RowStride: 1, ColStride: 0}},
	"axpy":      {M: 1, N: 64, K: 2*directDepth + 7, B: Operand{RowStride: 0, ColStride: 1}},
	"axpy rows": {M: 4, N: 999, K: 1 << 14, B: Operand{RowStride: 0, ColStride: 1}},
	"tiled":     {M: 64, N: 96, K: 1<<13 + 1, B: Operand{RowStride: 0, ColStride: 1}},
	"deep":      {M: 5, N: 7, K: 1 << 20, B: Operand{RowStride: 0, ColStride: 1}, Algorithm: Tiled},
	"loops":     {M: 3, N: 5, K: 5<<19 + 1, B: Operand{RowStride: 0, ColStride: 1}, Algorithm: Loops},
	"many rows": {M: 1 << 20, N: 5, K: 3, B: Operand{RowStride: 0, ColStride: 1}, Algorithm: Tiled},
	"wide":      {M: 5, N: 1 << 20, K: 3, B: Operand{RowStride: 0, ColStride: 1}, Algorithm: Loops},
}

// TestLooks checks that tiles call Args.Check in proportion to their work, that its panic ends them, and that the sums
// are right.
func TestLooks(t *testing.T) {
	for name, s := range lookedAt {
		for _, step := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				s.A, s.CRowStride, s.CColStride = Operand{ColStride: step}, s.N, 1
				if step == 1 || testsize.All() {
					testLooks[int64](t, tensor.Int64, s)
				}
				testLooks[float32](t, tensor.Float32, s)
			})
		}
	}
}

func testLooks[T int64 | float32](t *testing.T, d tensor.DType, s Spec) {
	a := make([]T, s.K*s.A.ColStride)
	b := make([]T, s.K*s.B.RowStride+s.N*max(s.B.ColStride, 1))
	for i := range a {
		a[i] = T(i%5 - 2)
	}
	for i := range b {
		b[i] = T(i % 3)
	}
	s.DType = d
	p, err := NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	c, looks, last := make([]T, s.M*s.N), 0, 0
	args := &Args{A: unsafe.Pointer(&a[0]), B: unsafe.Pointer(&b[0]), C: unsafe.Pointer(&c[0]),
		Shared: make([]byte, p.SharedBytes()), Check: func() {
			if looks++; looks == last {
				panic("looked")
			}
		}}
	worker := make([]byte, p.WorkerBytes())
	p.RunAll(args, worker)
	tiles := 0
	for ph := range p.Phases() {
		tiles += p.Tiles(ph)
	}
	if macs := s.M * s.N * s.K; looks < macs/checkMACs/3-tiles {
		t.Errorf("%v: %d looks for %d multiplications in %d tiles", d, looks, macs, tiles)
	}
	for _, at := range [][2]int{{0, 0}, {s.M - 1, s.N - 1}, {s.M / 2, s.N / 3}} {
		var want int64
		for k := range s.K {
			want += int64((k*s.A.ColStride)%5-2) * int64((k*s.B.RowStride+at[1]*s.B.ColStride)%3)
		}
		if got := c[at[0]*s.N+at[1]]; got != T(want) { // all sums are exact in float32
			t.Fatalf("%v at %v: %v, want %d", d, at, got, want)
		}
	}
	if last = looks / 2; last == 0 {
		return
	}
	looks = 0
	defer func() {
		if x := recover(); x != "looked" {
			t.Errorf("recovered %v", x)
		}
	}()
	p.RunAll(args, worker)
	t.Error("it did not end")
}
