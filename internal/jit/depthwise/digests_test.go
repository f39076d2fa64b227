//go:build linux || darwin

package depthwise_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/depthwise"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
)

// TestDigests compares the code of random specs with the committed digests.
func TestDigests(t *testing.T) {
	testsize.Long(t)
	d := jittest.NewDigests(t, "testdata/amd64.sum")
	add := func(name string, f *jit.Func, err error) {
		if err != nil {
			t.Fatal(name, err)
		}
		d.Add(name, f)
	}
	for _, cpu := range jittest.AMD64Sets() {
		words := !cpu.HasByteDot()
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, 30))
			if words { // the code for floats does not use dot products
				f, err := depthwise.Compile(random[float32](rng, cpu).spec, cpu)
				add(fmt.Sprintf("%v float32 %d", cpu, seed), f, err)
				f, err = depthwise.Compile(random[float64](rng, cpu).spec, cpu)
				add(fmt.Sprintf("%v float64 %d", cpu, seed), f, err)
			}
			if !words || !cpu.Has(machine.Vector512) {
				f, err := depthwise.CompileBytes(drawBytes(rng, cpu, words).spec, cpu)
				add(fmt.Sprintf("%v bytes %d", cpu, seed), f, err)
			}
		}
	}
	d.Compare()
}

// TestDigestsARM64 compares the code of random specs for arm64 with the committed digests, and checks the rules of
// package jit.
func TestDigestsARM64(t *testing.T) {
	testsize.Long(t)
	d := jittest.NewDigests(t, "testdata/arm64.sum")
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 31))
		floats := []*depthwise.Spec{random[float32](rng, machine.NEON).spec, random[float64](rng, machine.NEON).spec}
		for i, name := range []string{"float32", "float64", "bytes", "bytes i8mm"} {
			cpu := []machine.Features{machine.DotBytes128, machine.DotBytes128 | machine.MatrixBytes}[i%2] | machine.NEON
			var f *jit.Func
			var err error
			if i < len(floats) {
				f, err = depthwise.Compile(floats[i], machine.NEON)
			} else {
				f, err = depthwise.CompileBytes(drawBytes(rng, cpu, false).spec, cpu)
			}
			if err != nil {
				t.Fatal(name, err)
			}
			d.Add(fmt.Sprintf("%s %d", name, seed), f)
			if err := jittest.CheckRules(machine.NEON, f.Listing()); err != nil {
				t.Errorf("%s %d: %v", name, seed, err)
			}
		}
	}
	d.Compare()
}
