//go:build linux || darwin

package jittest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/graphrun/graphrun/internal/machine"
)

// rules are the rules of package jit for the listings of an architecture.
type rules struct {
	// forbidden matches instructions that generated code must not execute: calls, accesses to the stack, and changes of
	// state on which the Go runtime relies. It also matches registers that the code must not use.
	forbidden *regexp.Regexp
	data      string // the text with which the constants begin
	end       string // the last instructions
	returns   string
}

var (
	amd64Rules = rules{regexp.MustCompile(
		`(?m)^\t(CALL|PUSH|POP|INT|SYSCALL|LDMXCSR|VLDMXCSR|STD|CLI|XCHG|LOCK)|\b(SP|BP)\b`),
		"DATA ", "\tVZEROUPPER\n\tRET\n", "RET"}
	arm64Rules = rules{regexp.MustCompile(
		`(?m)^\t(bl|blr|br|svc|msr|mrs|hlt|brk|dc|ic)\b|\b([xw](18|28|29|30)|w?sp)\b`),
		"constants:\n", "\tret\n", "\tret\n"}
)

// CheckRules returns an error if a listing for an instruction set violates the rules of package jit: no calls, reserved
// registers are preserved, and the only exit is at the end.
func CheckRules(cpu machine.Features, listing string) error {
	r := &amd64Rules
	if cpu.Has(machine.NEON) {
		r = &arm64Rules
	}
	if m := r.forbidden.FindString(listing); m != "" {
		return fmt.Errorf("the code has %q", strings.TrimSpace(m))
	}
	code, _, _ := strings.Cut(listing, r.data)
	if n := strings.Count(code, r.returns); n != 1 || !strings.HasSuffix(code, r.end) {
		return fmt.Errorf("the code returns %d times and ends in %q", n, code[max(0, len(code)-40):])
	}
	return nil
}
