//go:build linux || darwin

package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRepeat computes products twice as prepared calls, with another operand the second time, and compares them with
// runs of the plan to the bit.
func TestRepeat(t *testing.T) {
	eachKernel[float32](t, testRepeat[float32])
	eachKernel[float64](t, testRepeat[float64])
}

func testRepeat[T Float](t *testing.T, set *kernelSet) {
	r := rand.New(rand.NewPCG(12, 3))
	w := set.nr
	for _, d := range []struct {
		m, n, k int
		packed  bool
		one     bool // call of machine code
	}{{1, 4 * w, 64, true, true}, {1, 5 * w, 40, false, true}, {4, 2 * w, 33, true, true}, {1, 3*w + 1, 16, true, false},
		{1, 2 * w, 3000, true, false}, {40, 2 * w, 16, true, false}} {
		p := newProblem[T](r, d.m, d.n, d.k, rowMajor, rowMajor, rowMajor)
		p.spec.Way, p.spec.Near = Tiled, true
		if d.packed {
			p.spec.B.Source = Prepacked
		}
		pl, err := newPlan[T](set, p.spec, sharedElems)
		if err != nil {
			t.Fatal(err)
		}
		args, work := p.args(pl), make([]T, pl.WorkerScratchLen())
		var again Repeated
		if ok := pl.Repeat(&again, args); ok != (d.one && set.coded()) {
			t.Errorf("%+v: prepared: %v", d, ok)
		} else if !ok {
			continue
		}
		for range 2 {
			again.Run()
			got := slices.Clone(p.c.buf)
			clear(p.c.buf)
			if pl.RunAll(args, work); !slices.Equal(got, p.c.buf) {
				t.Errorf("%+v: a prepared call computes %v, a run %v", d, got, p.c.buf)
			}
			for i := range p.a.buf {
				p.a.buf[i] = T(r.Float64())
			}
		}
		again.Release()
	}
}
