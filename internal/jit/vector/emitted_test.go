//go:build linux || darwin

package vector_test

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/machine"
)

// TestEmittedForms holds every form of instruction that is made of random loops against Go's assembler, and the code
// to the rules for what the runtime does not know.
func TestEmittedForms(t *testing.T) {
	var forms jittest.Forms
	for seed := range uint64(1500) {
		l, err := vector.RandomLoop(rand.New(rand.NewPCG(seed, 7)), 40)
		if err != nil {
			t.Fatal(err)
		}
		for _, isa := range []machine.ISA{machine.AVX2, machine.AVX512} {
			c, err := vector.Compile(l, isa, vector.Options{NonTemporal: seed%4 == 0})
			if err != nil {
				continue
			}
			listing := c.Listing()
			if err := jittest.Rules(listing); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			forms.Add(listing)
		}
	}
	if n := forms.Check(t); n < 2000 {
		t.Errorf("only %d forms were compared", n)
	}
}
