//go:build linux || darwin

package vector_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
)

// TestEmittedForms compares the instructions of random loops with Go's assembler.
func TestEmittedForms(t *testing.T) {
	testsize.Long(t)
	seeds, forms := testsize.Of[uint64](500, 1500), testsize.Of(1300, 2000)
	jittest.CheckListings(t, seeds, forms, func(seed uint64, cpu machine.Features) (string, error) {
		l, err := vector.RandomLoop(rand.New(rand.NewPCG(seed, 7)), 40)
		if err != nil {
			return "", err
		}
		c, err := vector.Compile(l, cpu, vector.Options{NonTemporal: seed%4 == 0})
		switch {
		case errors.Is(err, vector.ErrUnsupported):
			return "", nil
		case err != nil:
			return "", err
		}
		return c.Listing(), nil
	})
}

// TestRulesNEON checks the listings of random loops for arm64 against the rules of package jit.
func TestRulesNEON(t *testing.T) {
	testsize.Long(t)
	for seed := range testsize.Of[uint64](150, 500) {
		l, err := vector.RandomLoop(rand.New(rand.NewPCG(seed, 7)), 40)
		if err != nil {
			t.Fatal(err)
		}
		c, err := vector.Compile(l, machine.NEON, vector.Options{})
		if errors.Is(err, vector.ErrUnsupported) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := jittest.CheckRules(machine.NEON, c.Listing()); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestWork compares the instruction counts of Loop.Work with the listings. Divisions in reductions count as several.
func TestWork(t *testing.T) {
	testsize.Long(t)
	counted := 0
	for seed := range testsize.Of[uint64](130, 400) {
		l, err := vector.RandomLoop(rand.New(rand.NewPCG(seed, 9)), 20)
		if err != nil {
			t.Fatal(err)
		}
		for _, cpu := range []machine.Features{machine.AVX2, machine.AVX512, machine.NEON} {
			c, err := vector.Compile(l, cpu, vector.Options{NonTemporal: seed%4 == 0})
			if err != nil {
				continue
			}
			listing := c.Listing()
			instructions, err := jittest.CountInstructions(cpu, listing)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 7, 64, 1000} {
				got, want := c.Work().RowInstructions(n), instructions.Max(n, 1)
				less := got < want && !l.CombinesLanes   // the count of a listing has all tails of such a loop, or none
				short := cpu == machine.NEON && n < 1000 // the bound counts all pieces of the end of a row
				if less || got > want*5/4+10 && !short && !strings.Contains(strings.ToLower(listing), "div") {
					t.Errorf("seed %d, %v: %d instructions for %d elements, the listing has %d\n%v", seed, cpu, got, n, want, l.Code)
				}
				counted++
			}
		}
	}
	if counted < testsize.Of(300, 1000) {
		t.Errorf("only %d rows were counted", counted)
	}
}
