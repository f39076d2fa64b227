//go:build linux || darwin

package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRepeat computes products twice as recorded calls, the second time with another operand, and compares the bits
// with runs of the plan.
func TestRepeat(t *testing.T) {
	eachKernel[float32](t, testRepeat[float32])
	eachKernel[float64](t, testRepeat[float64])
}

func testRepeat[T float](t *testing.T, set *kernelSet) {
	r := rand.New(rand.NewPCG(12, 3))
	w := set.nr
	for _, d := range []struct {
		m, n, k int
		packed  bool
		few     bool // calls of machine code
	}{{1, 4 * w, 64, true, true}, {1, 5 * w, 40, false, true}, {4, 2 * w, 33, true, true},
		{1, 3*w + 1, 16, true, true},
		{1, 2 * w, 3000, true, false}, {40, 2 * w, 16, true, true}, {w, w, w, false, true},
		{97, w + 3, 40, false, true},
		{150, 3*w - 2, 100, false, true}, {97, 2*w + 5, 40, true, true}, {300, 300, 300, true, false}} {
		for _, bias := range []Bias{NoBias, BiasRows, BiasCols} {
			p := newProblem[T](r, d.m, d.n, d.k, rowMajor, rowMajor, rowMajor)
			p.spec.Algorithm, p.spec.BInCache, p.spec.Bias, p.spec.BiasStride = Tiled, true, bias, 1
			if d.packed {
				p.spec.B.Source = Prepacked
			}
			if got := repeats(t, r, set, p); got != (d.few && set.hasMachineCode()) {
				t.Errorf("%+v: prepared: %v", d, got)
			}
		}
	}
	for _, la := range []int{rowMajor, colMajor, rowPadded} { // others are packed, or transposed
		for _, lb := range []int{rowMajor, colMajor, rowPadded} {
			for _, lc := range []int{rowMajor, colMajor, rowPadded} {
				p := newProblem[T](r, 37, w+9, 50, la, lb, lc)
				p.spec.Algorithm, p.spec.Accumulate = Tiled, true
				repeats(t, r, set, p)
			}
		}
	}
}

// repeats compares a recorded product with runs of the plan. It reports false if the product cannot be recorded.
func repeats[T float](t *testing.T, r *rand.Rand, set *kernelSet, p *problem[T]) bool {
	pl, err := newPlan(set, p.spec, sharedElems)
	if err != nil {
		t.Fatal(err)
	}
	args, work := p.args(pl), make([]byte, pl.WorkerBytes())
	times := func() (covered func(i0, i1, j0, j1 int), whole func() bool) {
		n := make([]int, p.spec.M*p.spec.N)
		return func(i0, i1, j0, j1 int) {
				for i := i0; i < i1; i++ {
					for j := j0; j < j1; j++ {
						n[i*p.spec.N+j]++
					}
				}
			}, func() bool {
				return !slices.ContainsFunc(n, func(n int) bool { return n != 1 })
			}
	}
	var again Replay
	defer again.Release()
	for range 2 {
		if !pl.PrepareReplay(&again, args) {
			return false
		}
		before := slices.Clone(p.c.buf)
		again.Run()
		got := slices.Clone(p.c.buf)
		copy(p.c.buf, before)
		if pl.RunAll(args, work); !slices.Equal(got, p.c.buf) {
			t.Errorf("%+v: a prepared call computes %v, a run %v", p.spec, got, p.c.buf)
		}
		copy(p.c.buf, before)
		var whole func() bool
		args.Epilogue, whole = times()
		for i := range pl.Tiles(0) {
			pl.RunReplay(&again, i, args)
		}
		if !slices.Equal(got, p.c.buf) || !whole() {
			t.Errorf("%+v: tile by tile it is %v, a run %v", p.spec, p.c.buf, got)
		}
		args.Epilogue = nil
		for i := range p.a.buf {
			p.a.buf[i] = T(r.Float64())
		}
	}
	return true
}
