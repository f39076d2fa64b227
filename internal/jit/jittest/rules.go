//go:build linux || darwin

package jittest

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/machine"
)

// CheckRules returns an error if a listing for an instruction set violates the rules of package jit. There must be no
// calls, reserved registers are preserved, and the only exit is at the end.
func CheckRules(cpu machine.Features, listing string) error {
	architecture := &amd64Rules
	if cpu.Has(machine.NEON) {
		architecture = &arm64Rules
	}
	if name := architecture.findForbidden(listing); name != "" {
		return fmt.Errorf("the code uses %q, which the rules of package jit forbid", name)
	}
	code, _, _ := strings.Cut(listing, architecture.constantsMarker)
	if n := strings.Count(code, architecture.returns); n != 1 || !strings.HasSuffix(code, architecture.end) {
		return fmt.Errorf("the code has %d returns and ends in %q: want one return, at the end", n,
			code[max(0, len(code)-40):])
	}
	return nil
}

// rules are the rules of package jit for the listings of an architecture.
type rules struct {
	// forbiddenInstructions has the beginnings of instructions that generated code must not execute. These are calls,
	// accesses to the stack, and changes of state on which the Go runtime relies.
	forbiddenInstructions []string
	forbiddenRegisters    []string // registers that the code must not use
	constantsMarker       string   // the text with which the constants begin
	end                   string   // the text of the last instructions
	returns               string   // the text of the instruction that returns, which the code must have once
}

var (
	amd64Rules = rules{
		forbiddenInstructions: strings.Fields("CALL PUSH POP INT SYSCALL LDMXCSR VLDMXCSR STD CLI XCHG LOCK"),
		forbiddenRegisters:    []string{"SP", "BP"},
		constantsMarker:       "DATA ",
		end:                   "\tVZEROUPPER\n\tRET\n",
		returns:               "RET",
	}
	arm64Rules = rules{
		forbiddenInstructions: []string{"bl\t", "blr\t", "br\t", "svc\t", "msr\t", "mrs\t", "hlt\t", "brk\t", "dc\t",
			"ic\t"},
		forbiddenRegisters: strings.Fields("x18 w18 x28 w28 x29 w29 x30 w30 sp wsp"),
		constantsMarker:    "constants:\n",
		end:                "\tret\n",
		returns:            "\tret\n",
	}
)

// findForbidden returns an instruction or a register that the listing must not have, or "".
func (r *rules) findForbidden(listing string) string {
	listing = "\n" + listing
	for _, name := range r.forbiddenInstructions {
		if strings.Contains(listing, "\n\t"+name) {
			return strings.TrimSpace(name)
		}
	}
	for _, name := range r.forbiddenRegisters {
		if hasWord(listing, name) {
			return name
		}
	}
	return ""
}

// hasWord reports whether a text has a word between characters that are neither letters nor digits.
func hasWord(text, word string) bool {
	isAlphanumeric := func(index int) bool {
		if index < 0 || index >= len(text) {
			return false
		}
		char := text[index] | 0x20 // lower case
		return text[index] >= '0' && text[index] <= '9' || char >= 'a' && char <= 'z'
	}
	for start := 0; ; start += len(word) {
		distance := strings.Index(text[start:], word)
		if distance < 0 {
			return false
		}
		start += distance
		if !isAlphanumeric(start-1) && !isAlphanumeric(start+len(word)) {
			return true
		}
	}
}
