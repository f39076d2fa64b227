//go:build linux || darwin

package jittest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// Sets returns the instruction sets whose code can be called here. It skips a test for which there are none.
func Sets(t testing.TB) []machine.ISA {
	t.Helper()
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	if machine.Instructions() == machine.AVX512 {
		return []machine.ISA{machine.AVX2, machine.AVX512}
	}
	return []machine.ISA{machine.AVX2}
}

// Drawn is a call of code that computes tiles, drawn at random.
type Drawn interface {
	Compile(isa machine.ISA) (*jit.Func, error)
	// Place fills memory with the operands, directly before or behind what must not be touched. It returns where they
	// begin, and nil where they have no room.
	Place(rng *rand.Rand, mem [][]byte, behind bool) []int
	// Fill sets what is told but the places of operands.
	Fill(a *jit.Args)
	// Reference computes in Go what the call computes, over memory of its own.
	Reference(mem [][]byte)
}

// operandBytes is what each operand of a call that is drawn has room for.
const operandBytes = 64 << 10

// CheckDrawn compares calls with Go, to the bit, between pages that must not be touched. Each operand's place is partly
// in its pointer, partly in a number. Elements have some bytes, and of a number of seeds at least three quarters must
// find room.
func CheckDrawn(t *testing.T, operands, size int, seeds uint64, draw func(rng *rand.Rand, isa machine.ISA) Drawn) {
	t.Helper()
	for _, isa := range Sets(t) {
		CheckDrawnFor(t, isa, operands, size, seeds, draw)
	}
}

// CheckDrawnFor is [CheckDrawn] for one instruction set, which the processor must have.
func CheckDrawnFor(t *testing.T, isa machine.ISA, operands, size int, seeds uint64,
	draw func(rng *rand.Rand, isa machine.ISA) Drawn) {
	t.Helper()
	mem, want := make([][]byte, operands), make([][]byte, operands)
	for k := range mem {
		mem[k], want[k] = Guarded(t, operandBytes), make([]byte, operandBytes)
	}
	called := uint64(0)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, uint64(isa)))
		c := draw(rng, isa)
		at := c.Place(rng, mem, seed%2 == 0)
		if at == nil {
			continue
		}
		called++
		for k := range mem {
			copy(want[k], mem[k])
		}
		code, err := c.Compile(isa)
		if err != nil {
			t.Fatalf("%v, seed %d: %v", isa, seed, err)
		}
		c.Reference(want)
		if why := callAt(rng, code, c, mem, want, at, size); why != "" {
			t.Fatalf("%v, seed %d: %s\n%+v\n%s", isa, seed, why, c, code.Listing())
		}
	}
	if called < seeds*3/4 {
		t.Errorf("%v: only %d of %d calls had room", isa, called, seeds)
	}
}

// callAt says what a call leaves otherwise than it should.
func callAt(rng *rand.Rand, code *jit.Func, c Drawn, mem, want [][]byte, at []int, size int) string {
	a := new(jit.Args)
	for k, at := range at {
		p := rng.IntN(len(mem[k]))
		a.Ptr[k], a.Row[k] = unsafe.Pointer(&mem[k][p]), at-p
	}
	c.Fill(a)
	before := *a
	if err := code.Call(a); err != nil {
		return err.Error()
	}
	before.Spill = a.Spill
	if *a != before {
		return "the arguments were changed"
	}
	for k := range mem {
		if bytes.Equal(mem[k], want[k]) {
			continue
		}
		for i := range mem[k] {
			if mem[k][i] != want[k][i] {
				e := at[k] + (i-at[k])&^(size-1)
				return fmt.Sprintf("operand %d differs %d bytes behind its place: % x, want % x", k, e-at[k], mem[k][e:e+size],
					want[k][e:e+size])
			}
		}
	}
	return ""
}

// Tail is an operation of a tail on an element and, where there is one, that of its operand.
func Tail[T float32 | float64 | int32 | uint32](t tile.Tail, x, operand T) T {
	switch t.Op {
	case tile.AddTile, tile.AddResult, tile.AddLanes, tile.AddRows:
		return x + operand
	case tile.MulTile, tile.MulLanes, tile.MulRows:
		return x * operand
	case tile.AtLeast:
		return max(x, T(t.Lo))
	case tile.AtMost:
		return min(x, T(t.Hi))
	}
	return x * T(t.Lo)
}

// CheckListings holds every form of instruction of listings against Go's assembler, and the code to the rules for
// what the runtime does not know. There are at least so many forms. A listing may be empty.
func CheckListings(t *testing.T, seeds uint64, least int, list func(seed uint64, isa machine.ISA) (string, error)) {
	t.Helper()
	var forms Forms
	for seed := range seeds {
		for _, isa := range []machine.ISA{machine.AVX2, machine.AVX512} {
			listing, err := list(seed, isa)
			if err != nil {
				t.Fatalf("%v, seed %d: %v", isa, seed, err)
			}
			if err := Rules(listing); err != nil && listing != "" {
				t.Errorf("%v, seed %d: %v", isa, seed, err)
			}
			forms.Add(listing)
		}
	}
	if n := forms.Check(t); n < least {
		t.Errorf("only %d forms were compared", n)
	}
}
