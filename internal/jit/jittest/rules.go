//go:build linux || darwin

package jittest

import (
	"fmt"
	"regexp"
	"strings"
)

// forbidden matches instructions that generated code must not execute: calls, accesses to the stack, and changes of
// state on which the Go runtime relies. It also matches the operands SP and BP.
var forbidden = regexp.MustCompile(`(?m)^\t(CALL|PUSH|POP|INT|SYSCALL|LDMXCSR|VLDMXCSR|STD|CLI|XCHG|LOCK)|\b(SP|BP)\b`)

// CheckRules returns an error if a listing violates the rules of package jit: no calls, SP, BP and MXCSR are preserved,
// and the only exit is VZEROUPPER and RET at the end.
func CheckRules(listing string) error {
	if m := forbidden.FindString(listing); m != "" {
		return fmt.Errorf("the code has %q", strings.TrimSpace(m))
	}
	code, _, _ := strings.Cut(listing, "DATA ")
	if n := strings.Count(code, "RET"); n != 1 || !strings.HasSuffix(code, "\tVZEROUPPER\n\tRET\n") {
		return fmt.Errorf("the code returns %d times and ends in %q", n, code[max(0, len(code)-40):])
	}
	return nil
}
