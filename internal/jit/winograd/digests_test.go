//go:build linux || darwin

package winograd

import (
	"testing"

	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
)

// TestDigests compares the code of transforms with the committed digests.
func TestDigests(t *testing.T) {
	testsize.Long(t)
	checkDigests(t, "testdata/amd64.sum", machine.AVX2, machine.AVX512)
	checkDigests(t, "testdata/arm64.sum", machine.NEON)
}

func checkDigests(t *testing.T, path string, sets ...machine.Features) {
	d := jittest.NewDigests(t, path)
	add := func(c *Transform, err error) {
		if err != nil {
			t.Fatal(err)
		}
		d.Add(c.Name(), c.fn)
		if err := jittest.CheckRules(c.cpu, c.Listing()); err != nil {
			t.Errorf("%s: %v", c.Name(), err)
		}
	}
	for _, cpu := range sets {
		for _, f := range forms() {
			n := f.N()
			for i, p := range []Part{{0, 0, n, n}, {1, 1, n, n}, {0, 1, n - 1, n}, {1, 0, 2, 3}} {
				add(f.CompileInput(cpu, p, 3*i%Lanes(cpu)))
			}
			add(f.CompileWeights(cpu))
			for i, epilogue := range epilogues {
				add(f.CompileOutput(cpu, f.M, f.M-i%2, i%3 > 0, epilogue, i%Lanes(cpu)))
			}
		}
	}
	for _, cpu := range sets {
		for tiles := 1; tiles <= ProductTiles && SupportsProducts(cpu); tiles++ {
			p, err := CompileProducts(cpu, tiles)
			if err != nil {
				t.Fatal(err)
			}
			d.Add(p.Name(), p.fn)
			if err := jittest.CheckRules(cpu, p.Listing()); err != nil {
				t.Errorf("%s: %v", p.Name(), err)
			}
		}
	}
	d.Compare()
}
