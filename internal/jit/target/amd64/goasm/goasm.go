// Package goasm runs Go's assembler, so that tests can compare its encodings of amd64 instructions with package asm.
package goasm

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// perSymbol is the number of lines in one function of the assembler's input file. If a line has at most 13 bytes
// on average, offsets in a function have four hex digits, as splitSymbol expects.
const perSymbol = 5000

// Assemble returns, for each line, the bytes of the instruction as Go's assembler encodes it.
func Assemble(t testing.TB, lines []string) [][]byte {
	t.Helper()
	var src strings.Builder
	for i, line := range lines {
		if i%perSymbol == 0 {
			// No newline: instruction i is on line i+1. 4 is NOSPLIT: Go adds no check of the stack.
			fmt.Fprintf(&src, "TEXT ·f%d(SB), 4, $0; ", i)
		}
		src.WriteString(line)
		src.WriteByte('\n')
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "lines.s")
	if err := os.WriteFile(file, []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "tool", "asm", "-e", "-S", "-o", filepath.Join(dir, "lines.o"), file)
	cmd.Env = append(os.Environ(), "GOARCH=amd64", "GOOS=linux")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go tool asm: %v\n%s", err, out[:min(len(out), 4000)])
	}
	encodings := make([][]byte, len(lines))
	for _, symbol := range strings.Split(string(out), " STEXT ")[1:] {
		splitSymbol(t, symbol, encodings)
	}
	return encodings
}

// splitSymbol divides the bytes of one function by source line, and appends them to encodings. The listing has lines
// such as
//
//	0x0006 00006 (/tmp/lines.s:3)	VADDPS.BCST.Z	4(AX)(BX*4), Z2, K1, Z3
//	0x0000 62 f1 6c 49 58 d9 62 f1 6c d9 58 5c 98 01 62 f1  b.lIX.b.l.X\..b.
func splitSymbol(t testing.TB, symbol string, encodings [][]byte) {
	t.Helper()
	type begin struct{ line, pc int } // index of a line, and the offset of its instruction
	var begins []begin
	var code []byte
	for listingLine := range strings.SplitSeq(symbol, "\n") {
		listingLine = strings.TrimPrefix(listingLine, "\t")
		if !strings.HasPrefix(listingLine, "0x") {
			continue
		}
		const position = len("0x0006 00006 ")
		if strings.Index(listingLine, "(/") == position { // the first of the two kinds of lines
			end := strings.Index(listingLine, ")")
			pc, err1 := strconv.ParseInt(listingLine[2:6], 16, 64)
			line, err2 := strconv.Atoi(listingLine[strings.LastIndex(listingLine[:end], ":")+1 : end])
			if err1 != nil || err2 != nil {
				t.Fatalf("%q: %v, %v", listingLine, err1, err2)
			}
			begins = append(begins, begin{line - 1, int(pc)})
			continue
		}
		_, text, _ := strings.Cut(listingLine, " ")
		text, _, _ = strings.Cut(text, "  ") // the bytes end before two spaces
		encoding, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			t.Fatalf("%q: %v", listingLine, err)
		}
		code = append(code, encoding...)
	}
	for i, start := range begins { // an instruction ends where the next one begins
		end := len(code)
		if i+1 < len(begins) {
			end = begins[i+1].pc
		}
		encodings[start.line] = append(encodings[start.line], code[start.pc:end]...)
	}
}
