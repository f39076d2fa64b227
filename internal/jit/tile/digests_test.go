//go:build linux || darwin

package tile_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
)

// TestDigests compares the code of random specs with the committed digests.
func TestDigests(t *testing.T) {
	testsize.Long(t)
	d := jittest.NewDigests(t, "testdata/amd64.sum")
	for _, cpu := range jittest.AMD64Sets() {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 30))
			specs := map[string]*tile.Spec{}
			if cpu.HasByteDot() {
				specs["bytes"] = random[int32](rng, cpu).spec
			} else { // their code does not use dot products
				specs["float32"], specs["float64"] = random[float32](rng, cpu).spec, random[float64](rng, cpu).spec
				specs["words"] = random[uint32](rng, cpu).spec
			}
			if cpu.Has(machine.Vector512) && cpu.HasByteDot() {
				specs["unit"] = randomUnit(rng).spec
			}
			for _, name := range []string{"float32", "float64", "words", "bytes", "unit"} {
				if specs[name] == nil {
					continue
				}
				f, err := tile.Compile(specs[name], cpu)
				if err != nil {
					t.Fatal(name, err)
				}
				d.Add(fmt.Sprintf("%v %s %d", cpu, name, seed), f)
			}
		}
	}
	d.Compare()
}

// TestDigestsARM64 compares the code of random specs for arm64 with the committed digests.
func TestDigestsARM64(t *testing.T) {
	testsize.Long(t)
	d := jittest.NewDigests(t, "testdata/arm64.sum")
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 31))
		const dots = machine.NEON | machine.DotBytes128
		for _, piece := range []struct {
			name string
			cpu  machine.Features
			spec *tile.Spec
		}{
			{"float32", machine.NEON, random[float32](rng, machine.NEON).spec},
			{"float64", machine.NEON, random[float64](rng, machine.NEON).spec},
			{"bytes", dots, random[int32](rng, dots).spec},
			{"bytes i8mm", dots | machine.MatrixBytes, random[int32](rng, dots|machine.MatrixBytes).spec},
			{"byte matrices", dots | machine.MatrixBytes, randomMatrix(rng, dots|machine.MatrixBytes).spec},
		} {
			name := piece.name
			f, err := tile.Compile(piece.spec, piece.cpu)
			if err != nil {
				t.Fatal(name, err)
			}
			d.Add(fmt.Sprintf("%s %d", name, seed), f)
		}
	}
	d.Compare()
}
