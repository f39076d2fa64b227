//go:build linux || darwin

package jittest

import (
	"fmt"
	"regexp"
	"strings"
)

// forbidden are what code that the runtime knows nothing of must not do: call, use the stack, or change what the
// runtime relies on. SP and BP are no operands at all.
var forbidden = regexp.MustCompile(`(?m)^\t(CALL|PUSH|POP|INT|SYSCALL|LDMXCSR|VLDMXCSR|STD|CLI|XCHG|LOCK)|\b(SP|BP)\b`)

// Rules says what of the rules of package jit the listing of a loop breaks: it calls nothing, leaves SP, BP and MXCSR
// alone, has one way out, and leaves no upper halves of vectors behind.
func Rules(listing string) error {
	if m := forbidden.FindString(listing); m != "" {
		return fmt.Errorf("code with %q", strings.TrimSpace(m))
	}
	code, _, _ := strings.Cut(listing, "DATA ")
	if n := strings.Count(code, "RET"); n != 1 || !strings.HasSuffix(code, "\tVZEROUPPER\n\tRET\n") {
		return fmt.Errorf("code that returns %d times and ends in %q", n, code[max(0, len(code)-40):])
	}
	return nil
}
