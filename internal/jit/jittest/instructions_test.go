//go:build linux || darwin

package jittest_test

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/jittest"
)

// TestMaxInstructions counts a listing with a loop over 8 elements and one over 2, which contains a loop that copies 4
// elements in halves and one that reduces remainders.
func TestMaxInstructions(t *testing.T) {
	const listing = "\tMOVQ\t8(DI), R11\nL1:\n\tXORL\tCX, CX\n" +
		"L3:\n\tVADDPD\tZ1, Z0, Z0\n\tADDQ\t$8, CX\n\tJLE\tL3\n" +
		"L4:\n\tJLE\tL5\n\tMOVL\t$4, AX\n\tADDQ\tAX, AX\nL7:\n\tVMOVQ\t-8(SI)(AX*8), X0\n\tDECL\tAX\n\tJNE\tL7\n" +
		"L6:\n\tVDIVPD\tZ1, Z0, Z0\n\tJMP\tL6\n\tADDQ\t$2, CX\n\tJMP\tL4\n" +
		"L5:\n\tDECQ\tR11\n\tJNE\tL1\n\tVZEROUPPER\n\tRET\n"
	// A row has 6 instructions, an iteration of 8 elements 3, and one of 2 elements 5 + 8*3 + 42*2.
	for _, c := range []struct{ n0, rows, want int }{{8, 1, 6 + 3}, {17, 1, 6 + 2*3 + 113}, {3, 5, 5 * (6 + 2*113)}} {
		if n, err := jittest.MaxInstructions(listing, c.n0, c.rows); err != nil || n != c.want {
			t.Errorf("%d rows of %d: %d instructions (%v), want %d", c.rows, c.n0, n, err, c.want)
		}
	}
	if _, err := jittest.MaxInstructions(strings.ReplaceAll(listing, ", CX", ", DX"), 8, 1); err == nil {
		t.Error("a listing without a loop over elements was counted")
	}
}
