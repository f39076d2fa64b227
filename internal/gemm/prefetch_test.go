//go:build linux || darwin

package gemm

import (
	"math/rand/v2"
	"testing"
)

// TestKept multiplies by matrices B that the first tiles copy into panels: with one and several rows of tiles, last
// columns, blocks of K, super-blocks and results of any strides. Nothing beside B is read. Prepacked panels give the
// same bits.
func TestKept(t *testing.T) {
	eachKernel[float32](t, testKept[float32])
	eachKernel[float64](t, testKept[float64])
}

func testKept[T float](t *testing.T, set *kernelSet) {
	if !set.hasMachineCode() {
		t.Skip("panels are packed before they are multiplied in Go")
	}
	r := rand.New(rand.NewPCG(17, 5))
	for i, d := range [][3]int{{31, 512, 1100}, {140, 197, 1500}, {150, 1021, 270}} {
		for _, lc := range []int{rowMajor, rowPadded, scattered} {
			p := newProblem[T](r, d[0], d[1], d[2], rowMajor, rowMajor, lc)
			p.spec.Algorithm, p.spec.Bias, p.spec.Accumulate = Tiled, Bias(i%3), lc == rowPadded
			p.b.buf = guarded(t, p.b.buf, true)
			pl, err := newPlan(set, p.spec, sharedElems)
			if err != nil {
				t.Fatal(err)
			}
			if !pl.b.packedByFirstRow {
				t.Fatalf("%v: B is not kept", d)
			}
			before := append([]T(nil), p.c.buf...)
			if i == 0 && lc == rowPadded { // the others have the same bits as this one, or as panels, which other tests check
				p.check(t, set, sharedElems)
			}
			copy(p.c.buf, before)
			run(pl, p.args(pl), false)
			kept := append([]T(nil), p.c.buf...)
			copy(p.c.buf, before)
			p.rerun(t, set, 1<<16, kept)
			p.spec.B.Source = Prepacked
			copy(p.c.buf, before)
			p.rerun(t, set, sharedElems, kept)
		}
	}
}

// TestKeptBias multiplies deep matrices by narrow ones that the first tiles copy into panels, with a worker buffer next
// to an inaccessible page. These small tiles need no more of the bias than others.
func TestKeptBias(t *testing.T) { eachKernel[float64](t, testKeptBias) }

func testKeptBias(t *testing.T, set *kernelSet) {
	r := rand.New(rand.NewPCG(18, 5))
	p := newProblem[float64](r, 131, 62, 2125, rowMajor, rowMajor, rowMajor)
	p.spec.Algorithm, p.spec.Bias = Tiled, BiasCols
	pl, err := newPlan(set, p.spec, sharedElems)
	if err != nil {
		t.Fatal(err)
	}
	if set.hasMachineCode() && !pl.b.packedByFirstRow {
		t.Fatal("B is not kept")
	}
	args, before := p.args(pl), append([]float64(nil), p.c.buf...)
	pl.RunAll(args, guarded(t, make([]byte, pl.WorkerBytes()), true))
	want := append([]float64(nil), p.c.buf...)
	copy(p.c.buf, before)
	run(pl, args, true)
	for i, v := range p.c.buf {
		if v != want[i] {
			t.Fatalf("element %d is %g, not %g", i, v, want[i])
		}
	}
}

// rerun runs another plan of the problem, backwards, and compares the results bit by bit with want.
func (p *problem[T]) rerun(t *testing.T, set *kernelSet, maxShared int, want []T) {
	t.Helper()
	pl, err := newPlan(set, p.spec, maxShared)
	if err != nil {
		t.Fatal(err)
	}
	run(pl, p.args(pl), true)
	for i, v := range p.c.buf {
		if v != want[i] {
			t.Fatalf("%+v: element %d is %g, not %g", p.spec, i, v, want[i])
		}
	}
}
