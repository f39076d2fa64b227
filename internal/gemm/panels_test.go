package gemm

import (
	"math/rand/v2"
	"testing"
)

// TestPanels multiplies by packed panels of every width that a kernel set accepts: the sums have the same bits.
func TestPanels(t *testing.T) {
	eachKernel[float32](t, testPanels[float32])
	eachKernel[float64](t, testPanels[float64])
}

func testPanels[T float](t *testing.T, set *kernelSet) {
	r := rand.New(rand.NewPCG(4, 4))
	widths := []int{set.nr}
	if set.hasMachineCode() {
		widths = append(widths, set.narrowPanel)
	}
	for _, d := range [][3]int{{1, 7, 3}, {7, 33, 9}, {14, 64, 20}, {50, 97, 65}, {128, 200, 31}, {30, 70, 1100}} {
		for _, bias := range []Bias{NoBias, BiasRows, BiasCols} {
			p := newProblem[T](r, d[0], d[1], d[2], rowMajor, rowMajor, rowMajor)
			p.spec.B.Source, p.spec.Bias, p.spec.BiasStride = Prepacked, bias, 1
			var want []T
			for _, p.spec.B.Panel = range widths {
				pl, err := newPlan(set, p.spec, sharedElems)
				if err != nil {
					t.Fatal(err)
				}
				run(pl, p.args(pl), false)
				if want == nil {
					want = append(want, p.c.buf...)
				}
				for i, v := range p.c.buf {
					if v != want[i] {
						t.Fatalf("%v, bias %d, panels of %d: element %d is %v, not %v", d, bias, p.spec.B.Panel, i, v, want[i])
					}
				}
			}
		}
	}
	p := newProblem[T](r, 3, 4, 5, rowMajor, rowMajor, rowMajor)
	p.spec.B = Operand{Source: Prepacked, Panel: 7}
	if _, err := newPlan(set, p.spec, sharedElems); err == nil {
		t.Error("panels of 7 columns are taken")
	}
}
