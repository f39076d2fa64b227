package gemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// candidateSets lists the kernel sets for a dtype on this machine, best first.
func candidateSets(dtype tensor.DType) []*kernelSet {
	return append(machineCodeSets(dtype), portable[dtype])
}

// TestGrids covers schedules with shared, local and mixed packing.
func TestGrids(t *testing.T) {
	set := candidateSets(tensor.Float32)[0]
	r := rand.New(rand.NewPCG(4, 4))
	for _, d := range [][3]int{{300, 310, 200}, {1500, 40, 70}, {40, 1500, 70}, {61, 75, 3000}} {
		for src := range Custom + 1 {
			p := newProblem[float32](r, d[0], d[1], d[2], rowMajor, colMajor, rowMajor)
			p.spec.A.Source, p.spec.B.Source = src, (src+1)%(Custom+1)
			p.spec.Bias = BiasCols
			p.check(t, set, sharedElems)
		}
	}
}

// TestSuperBlocks bounds the shared panels so that K needs several packing
// phases, and checks that this changes no bit.
func TestSuperBlocks(t *testing.T) {
	const limit = 1 << 15
	set := candidateSets(tensor.Float32)[0]
	p := newProblem[float32](rand.New(rand.NewPCG(5, 5)), 150, 140, 3000, rowMajor, rowMajor, rowMajor)
	p.spec.Bias, p.spec.Accumulate = BiasRows, true
	before := append([]float32(nil), p.c.buf...)
	var got [2][]float32
	for i, maxShared := range []int{limit, sharedElems} {
		pl, err := newPlan(set, p.spec, maxShared)
		if err != nil {
			t.Fatal(err)
		}
		if maxShared == limit && pl.Phases() < 4 {
			t.Fatalf("%d phases, want at least 4", pl.Phases())
		}
		copy(p.c.buf, before)
		run(pl, p.args(pl), false)
		got[i] = append(got[i], p.c.buf...)
	}
	for i, v := range got[0] {
		if v != got[1][i] {
			t.Fatalf("element %d: %g in super-blocks, %g in one", i, v, got[1][i])
		}
	}
	copy(p.c.buf, before)
	p.check(t, set, limit)
}

// TestParallel runs tiles in many goroutines; the bits must match one worker.
func TestParallel(t *testing.T) {
	p := newProblem[float32](rand.New(rand.NewPCG(6, 6)), 200, 300, 400, colMajor, rowMajor, rowMajor)
	pl, err := NewPlan(p.spec)
	if err != nil {
		t.Fatal(err)
	}
	args := p.args(pl)
	run(pl, args, false)
	want := append([]float32(nil), p.c.buf...)
	clear(p.c.buf)
	for ph := range pl.Phases() {
		var wg sync.WaitGroup
		for tile := range pl.Tiles(ph) {
			wg.Go(func() { pl.Run(ph, tile, args, make([]byte, pl.WorkerBytes())) })
		}
		wg.Wait()
	}
	for i, v := range p.c.buf {
		if v != want[i] {
			t.Fatalf("element %d: %g, want %g", i, v, want[i])
		}
	}
}

func TestNonFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, d := range [][3]int{{2, 3, 4}, {1, 200, 30}, {200, 1, 30}, {30, 70, 40}} {
		p := newProblem[float32](rand.New(rand.NewPCG(7, 7)), d[0], d[1], d[2], rowMajor, rowMajor, rowMajor)
		clear(p.a.buf)
		p.b.buf[0] = inf
		for _, set := range candidateSets(tensor.Float32) {
			pl, err := newPlan(set, p.spec, sharedElems)
			if err != nil {
				t.Fatal(err)
			}
			run(pl, p.args(pl), false)
			for i := range d[0] {
				if v := p.c.at(i, 0); v == v {
					t.Errorf("%s %v: 0·Inf in row %d gave %g", set.name, d, i, v)
				}
				for j := 1; j < d[1]; j++ {
					if v := p.c.at(i, j); v != 0 {
						t.Errorf("%s %v: [%d,%d] = %g, want 0", set.name, d, i, j, v)
					}
				}
			}
		}
	}
}

// dense computes c = a @ b for row-major matrices.
func dense[T number](t *testing.T, c, a, b []T, m, n, k int) {
	p, err := NewPlan(Spec{DType: tensor.DTypeOf[T](), M: m, N: n, K: k, A: Operand{RowStride: k, ColStride: 1},
		B: Operand{RowStride: n, ColStride: 1}, CRowStride: n, CColStride: 1})
	if err != nil {
		t.Fatal(err)
	}
	p.RunAll(&Args{A: unsafe.Pointer(&a[0]), B: unsafe.Pointer(&b[0]), C: unsafe.Pointer(&c[0]),
		Shared: make([]byte, p.SharedBytes())}, make([]byte, p.WorkerBytes()))
}

func testIntegers[T int8 | uint8 | int64 | uint16](t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, d := range [][3]int{{3, 4, 5}, {1, 40, 33}, {70, 33, 300}} {
		m, n, k := d[0], d[1], d[2]
		a, b, c := make([]T, m*k), make([]T, k*n), make([]T, m*n)
		for i := range a {
			a[i] = T(r.Uint32())
		}
		for i := range b {
			b[i] = T(r.Uint32())
		}
		dense(t, c, a, b, m, n, k)
		for i := range m {
			for j := range n {
				var want T
				for q := range k {
					want += a[i*k+q] * b[q*n+j]
				}
				if c[i*n+j] != want {
					t.Fatalf("%T %v [%d,%d] = %d, want %d", want, d, i, j, c[i*n+j], want)
				}
			}
		}
	}
}

func TestPortable(t *testing.T) {
	testIntegers[int8](t)
	testIntegers[uint8](t)
	testIntegers[uint16](t)
	testIntegers[int64](t)
	const m, n, k = 9, 40, 50
	a, b, c := make([]complex128, m*k), make([]complex128, k*n), make([]complex128, m*n)
	for i := range a {
		a[i] = complex(float64(i%7), float64(i%5))
	}
	for i := range b {
		b[i] = complex(float64(i%11), -float64(i%3))
	}
	dense(t, c, a, b, m, n, k)
	for i := range m {
		for j := range n {
			var want complex128 // small integers: exact in any order
			for q := range k {
				want += a[i*k+q] * b[q*n+j]
			}
			if c[i*n+j] != want {
				t.Fatalf("[%d,%d] = %v, want %v", i, j, c[i*n+j], want)
			}
		}
	}
}

// TestPublicPacking checks PackA and PackB against the strided result.
func TestPublicPacking(t *testing.T) {
	const m, n, k = 30, 50, 70
	p := newProblem[float64](rand.New(rand.NewPCG(9, 9)), m, n, k, colMajor, rowPadded, rowMajor)
	pa, pb := make([]byte, PackedABytes(tensor.Float64, m, k)), make([]byte, PackedBBytes(tensor.Float64, k, n))
	PackA(tensor.Float64, pa, p.a.ptr(), m, k, p.a.rs, p.a.cs)
	PackB(tensor.Float64, pb, p.b.ptr(), k, n, p.b.rs, p.b.cs)
	var got [2][]float64
	for i, src := range []Source{Strided, Prepacked} {
		p.spec.A.Source, p.spec.B.Source = src, src
		pl, err := NewPlan(p.spec)
		if err != nil {
			t.Fatal(err)
		}
		args := p.args(pl)
		if src == Prepacked {
			args.A, args.B = unsafe.Pointer(&pa[0]), unsafe.Pointer(&pb[0])
		}
		run(pl, args, false)
		got[i] = append(got[i], p.c.buf...)
	}
	for i, v := range got[0] {
		if v != got[1][i] {
			t.Fatalf("element %d: strided %g, prepacked %g", i, v, got[1][i])
		}
	}
}

func TestNoAllocation(t *testing.T) {
	for _, d := range [][3]int{{2, 3, 4}, {1, 300, 100}, {100, 120, 90}} {
		p := newProblem[float32](rand.New(rand.NewPCG(10, 1)), d[0], d[1], d[2], rowMajor, rowMajor, rowMajor)
		pl, err := NewPlan(p.spec)
		if err != nil {
			t.Fatal(err)
		}
		args, worker := p.args(pl), make([]byte, pl.WorkerBytes())
		if n := testing.AllocsPerRun(5, func() { pl.RunAll(args, worker) }); n != 0 {
			t.Errorf("%v: %v allocations per run", d, n)
		}
	}
}

func TestBadSpec(t *testing.T) {
	for _, s := range []Spec{{M: -1}, {K: -2}, {A: Operand{Source: 9}}, {Bias: 7}, {Algorithm: 9},
		{M: 9, N: 9, K: 9, Algorithm: Thin}, {M: 2, N: 2, K: 2, Algorithm: Loops, A: Operand{Source: Prepacked}}} {
		s.DType = tensor.Float32
		if _, err := NewPlan(s); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	for _, d := range []tensor.DType{tensor.Invalid, tensor.Bool, tensor.Float16, tensor.BFloat16} {
		if _, err := NewPlan(Spec{DType: d}); err == nil || Multiplies(d) {
			t.Errorf("%v: no error", d)
		}
	}
}

// TestInterleave checks partial panels and nil runs.
func TestInterleave(t *testing.T) {
	for runs := 0; runs <= 12; runs++ {
		for _, depth := range []int{0, 1, 3, 4, 13} {
			src := make([]float64, 12*depth+1)
			for i := range src {
				src[i] = float64(i + 1)
			}
			ptrs := make([]unsafe.Pointer, runs)
			for l := range ptrs {
				if l%5 != 2 {
					ptrs[l] = unsafe.Pointer(&src[l*depth])
				}
			}
			dst := make([]float64, 12*depth)
			for i := range dst {
				dst[i] = -1
			}
			Interleave(8, bytesOf(dst), 12, ptrs, depth)
			for i, v := range dst {
				want := -1.0
				if l := i % 12; l < runs && l%5 == 2 {
					want = 0
				} else if l < runs {
					want = src[l*depth+i/12]
				}
				if v != want {
					t.Fatalf("%d runs of %d: dst[%d] = %g, want %g", runs, depth, i, v, want)
				}
			}
		}
	}
}

// TestProfileDecidesNoBits plans with the costs and caches of a different machine.
func TestProfileDecidesNoBits(t *testing.T) {
	oldCosts, oldBytes := costs, blockBytes
	defer func() { costs, blockBytes = oldCosts, oldBytes }()
	r := rand.New(rand.NewPCG(8, 8))
	others := 0
	for _, set := range candidateSets(tensor.Float32) {
		for _, n := range [][3]int{{150, 333, 700}, {61, 1000, 300}, {700, 70, 1100}, {33, 33, 2000}} {
			p := newProblem[float32](r, n[0], n[1], n[2], rowMajor, colMajor, rowMajor)
			before := append([]float32(nil), p.c.buf...)
			var got [2][]float32
			var grids [2]grid
			for i := range got {
				costs, blockBytes = oldCosts, oldBytes
				if i == 1 {
					costs.tile, costs.phase, costs.pack, blockBytes = 1e-3, 1e6, 1e-3, 20<<10
				}
				pl, err := newPlan(set, p.spec, sharedElems)
				if err != nil {
					t.Fatal(err)
				}
				copy(p.c.buf, before)
				run(pl, p.args(pl), false)
				got[i] = append(got[i], p.c.buf...)
				grids[i] = grid{pl.tileRows, pl.tileCols, pl.mTiles, pl.nTiles, pl.a.packedOnce, pl.b.packedOnce}
			}
			if grids[0] != grids[1] {
				others++
			}
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("%s %v: grids %v and %v give other bits", set.name, n, grids[0], grids[1])
			}
		}
	}
	if others == 0 {
		t.Error("the other machine has the same grids")
	}
}
