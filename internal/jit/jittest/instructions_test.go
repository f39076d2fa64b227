//go:build linux || darwin

package jittest_test

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/machine"
)

// TestInstructionCount counts a listing with a loop over 8 elements and one over 2, which contains a loop that copies 4
// elements in halves and one that reduces remainders.
func TestInstructionCount(t *testing.T) {
	const listing = "\tMOVQ\t8(DI), R11\nL1:\n\tXORL\tCX, CX\n" +
		"L3:\n\tVADDPD\tZ1, Z0, Z0\n\tADDQ\t$8, CX\n\tJLE\tL3\n" +
		"L4:\n\tJLE\tL5\n\tMOVL\t$4, AX\n\tADDQ\tAX, AX\nL7:\n\tVMOVQ\t-8(SI)(AX*8), X0\n\tDECL\tAX\n\tJNE\tL7\n" +
		"L6:\n\tVDIVPD\tZ1, Z0, Z0\n\tJMP\tL6\n\tADDQ\t$2, CX\n\tJMP\tL4\n" +
		"L5:\n\tDECQ\tR11\n\tJNE\tL1\n\tVZEROUPPER\n\tRET\n"
	// A row has 6 instructions, an iteration of 8 elements 3, and one of 2 elements 5 + 8*3 + 42*2.
	count, err := jittest.CountInstructions(machine.AVX512, listing)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ n0, rows, want int }{{8, 1, 6 + 3}, {17, 1, 6 + 2*3 + 113}, {3, 5, 5 * (6 + 2*113)}} {
		if n := count.Max(c.n0, c.rows); n != c.want {
			t.Errorf("%d rows of %d: %d instructions, want %d", c.rows, c.n0, n, c.want)
		}
	}
	if _, err := jittest.CountInstructions(machine.AVX512, strings.ReplaceAll(listing, ", CX", ", DX")); err == nil {
		t.Error("a listing without a loop over elements was counted")
	}
}

// TestInstructionCountARM64 counts a listing with a loop over 8 elements and one over 2, which contains a loop that
// reduces remainders, and a piece of one element.
func TestInstructionCountARM64(t *testing.T) {
	const listing = "\tldr\tx1, [x0, #24]\nL1:\n\tldr\tx25, [x0]\n\tsubs\tx25, x25, #8\n\tb.lt\tL2\n" +
		"L3:\n\tfadd\tv0.4s, v1.4s, v0.4s\n\tsubs\tx25, x25, #8\n\tb.ge\tL3\n" +
		"L2:\n\tadds\tx25, x25, #6\n\tb.lt\tL5\n" +
		"L4:\n\tnop\nL6:\n\tfdiv\tv0.4s, v1.4s, v0.4s\n\tcbnz\tw16, L6\n\tsubs\tx25, x25, #2\n\tb.ge\tL4\n" +
		"L5:\n\ttbz\tx25, #0, L7\n\tstr\ts0, [x1]\nL7:\n\tsubs\tx5, x5, #1\n\tb.ne\tL1\n\tret\nconstants:\n\t.word\t0x0\n"
	// A row has 10 instructions, an iteration of 8 elements 3, one of 2 elements 3 + 42*2, and the last element 1.
	count, err := jittest.CountInstructions(machine.NEON, listing)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ n0, rows, want int }{{8, 1, 10 + 3}, {17, 1, 10 + 2*3 + 1}, {3, 5, 5 * (10 + 87 + 1)}} {
		if n := count.Max(c.n0, c.rows); n != c.want {
			t.Errorf("%d rows of %d: %d instructions, want %d", c.rows, c.n0, n, c.want)
		}
	}
}
