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
	"github.com/graphrun/graphrun/internal/testsize"
)

// InstructionSets returns the instruction sets to test on this processor: its own, and subsets for which generators
// emit other code. It skips the test if the processor lacks the required features or cannot call machine code.
func InstructionSets(t testing.TB, required machine.Features) []machine.Features {
	t.Helper()
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	host := machine.HostFeatures()
	if !host.Has(required) {
		t.Skipf("%v has no %v", host, required)
	}
	sets := []machine.Features{host}
	switch {
	case host.Has(machine.Vector512):
		sets = []machine.Features{host.Vectors256(), host}
	case host.Has(machine.NEON | machine.MatrixBytes):
		sets = []machine.Features{machine.NEON, host &^ machine.MatrixBytes, host}
	case host.Has(machine.NEON) && host != machine.NEON:
		sets = []machine.Features{machine.NEON, host}
	}
	return sets
}

// Call is a randomly drawn call of generated code. Operand k has memory of its own, mem[k].
type Call interface {
	Compile(cpu machine.Features) (*jit.Func, error)
	// Place writes operand k to the start of mem[k] if atStart is true, and otherwise to its end. It returns the offset
	// of each operand in its memory, or nil if an operand does not fit.
	Place(rng *rand.Rand, mem [][]byte, atStart bool) []int
	// Fill sets the arguments of the call except for the addresses of the operands.
	Fill(args *jit.Args)
	// Reference computes the call in Go, in mem, which is a copy of the memory of the operands.
	Reference(mem [][]byte)
}

// operandBytes is the size of an operand's memory.
const operandBytes = 64 << 10

// CheckCalls tests a generator on random calls. For each seed it draws a call, places its operands in memory, compiles
// and runs the code, and compares all bytes of the memory with those of the reference. operandCount is the number of
// operands, whose memory is next to guard pages. The address of an operand is the sum of its entries in Ptr and Row of
// jit.Args. elemBytes is the number of bytes of an element, for messages. At least three quarters of the calls must fit
// into the memory.
func CheckCalls(t *testing.T, operandCount, elemBytes int, seeds uint64,
	draw func(rng *rand.Rand, cpu machine.Features) Call) {
	t.Helper()
	for _, cpu := range InstructionSets(t, machine.Portable) {
		CheckCallsFor(t, cpu, operandCount, elemBytes, seeds, draw)
	}
}

// CheckCallsFor is [CheckCalls] for one instruction set, which the processor must support. It draws an eighth of the
// calls, or a sixteenth under an emulator, unless all tests were requested (package testsize).
func CheckCallsFor(t *testing.T, cpu machine.Features, operandCount, elemBytes int, seeds uint64,
	draw func(rng *rand.Rand, cpu machine.Features) Call) {
	t.Helper()
	seeds = testsize.Of(seeds/testsize.Short[uint64](16, 8), seeds)
	mem, want := make([][]byte, operandCount), make([][]byte, operandCount)
	for k := range mem {
		mem[k], want[k] = Guarded(t, operandBytes), make([]byte, operandBytes)
	}
	called := uint64(0)
	stream := uint64(1) // selects the random numbers of an instruction set
	if cpu.Has(machine.Vector512) {
		stream = 2
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, stream))
		call := draw(rng, cpu)
		atStart := seed%2 == 0
		offsets := call.Place(rng, mem, atStart)
		if offsets == nil {
			continue
		}
		called++
		for k := range mem {
			copy(want[k], mem[k])
		}
		code, err := call.Compile(cpu)
		if err != nil {
			t.Fatalf("%v, seed %d: %v", cpu, seed, err)
		}
		call.Reference(want)
		if difference := callAt(rng, code, call, mem, want, offsets, elemBytes); difference != "" {
			t.Fatalf("%v, seed %d: %s\n%+v\n%s", cpu, seed, difference, call, code.Listing())
		}
	}
	if called < seeds*3/4 {
		t.Errorf("%v: %d of %d calls fit into the memory: want at least three quarters", cpu, called, seeds)
	}
}

// callAt calls the code and returns the first difference to the reference, or an empty string.
func callAt(rng *rand.Rand, code *jit.Func, call Call, mem, want [][]byte, offsets []int, elemBytes int) string {
	args := new(jit.Args)
	for k, offset := range offsets {
		position := rng.IntN(len(mem[k])) // divides the address between Ptr and Row
		args.Ptr[k], args.Row[k] = unsafe.Pointer(&mem[k][position]), offset-position
	}
	call.Fill(args)
	before := *args
	if err := code.Call(args); err != nil {
		return err.Error()
	}
	before.Spill = args.Spill // scratch memory of the code
	if *args != before {
		return "the call changed its arguments"
	}
	return firstDifference(mem, want, offsets, elemBytes)
}

// firstDifference describes the first element that differs, or returns an empty string.
func firstDifference(mem, want [][]byte, offsets []int, elemBytes int) string {
	for k := range mem {
		if bytes.Equal(mem[k], want[k]) {
			continue
		}
		for i := range mem[k] {
			if mem[k][i] != want[k][i] {
				element := offsets[k] + (i-offsets[k])&^(elemBytes-1) // start of the element with byte i
				return fmt.Sprintf("operand %d differs at offset %d: % x, want % x", k, element-offsets[k],
					mem[k][element:element+elemBytes], want[k][element:element+elemBytes])
			}
		}
	}
	return ""
}

// Epilogue applies an operation of a tile's epilogue to an element x. operand is the element of the operation's other
// operand, if it has one.
func Epilogue[T float32 | float64 | int32 | uint32](step tile.EpilogueStep, x, operand T) T {
	switch step.Op {
	case tile.AddTile, tile.AddResult, tile.AddLanes, tile.AddRows:
		return x + operand
	case tile.MulTile, tile.MulLanes, tile.MulRows:
		return x * operand
	case tile.AtLeast:
		return max(x, T(step.Lower))
	case tile.AtMost:
		return min(x, T(step.Upper))
	}
	return x * T(step.Lower) // tile.Scale
}

// CheckListings draws listings, checks the rules of package jit, and compares instructions of each form (see [Forms])
// with Go's assembler. There must be at least minForms forms. A listing may be empty.
func CheckListings(t *testing.T, seeds uint64, minForms int,
	list func(seed uint64, cpu machine.Features) (string, error)) {
	t.Helper()
	var forms Forms
	for seed := range seeds {
		for _, cpu := range []machine.Features{machine.AVX2, machine.AVX512} {
			listing, err := list(seed, cpu)
			if err != nil {
				t.Fatalf("%v, seed %d: %v", cpu, seed, err)
			}
			if err := CheckRules(cpu, listing); err != nil && listing != "" {
				t.Errorf("%v, seed %d: %v", cpu, seed, err)
			}
			forms.Add(listing)
		}
	}
	if n := forms.Check(t); n < minForms {
		t.Errorf("the listings have %d forms of instructions: want at least %d", n, minForms)
	}
}
